"""The stack, checked without Docker: schema, images, variables, health, start order, ports, settings that Airflow knows."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest
import yaml

from iceberg_airflow.work import read_policy
from tests.deploy.documents import (
    ROOT,
    VARIABLE,
    compose,
    compose_text,
    example_variables,
    services,
    spark_defaults,
    substituted,
)

ONE_SHOT = {"airflow-init"}
ALLOWED_IMAGES = {"iceberg-ops", "postgres", "versity/versitygw"}
NAMES = sorted(services())


def test_the_file_fits_the_compose_schema() -> None:
    schema = json.loads((Path(__file__).parent / "compose_schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(compose())


def test_every_part_of_the_platform_is_there() -> None:
    airflow = {"airflow-apiserver", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer", "airflow-init"}
    assert airflow | {"postgres", "s3", "spark-master", "spark-worker"} == set(NAMES)
    assert services()["spark-worker"]["deploy"]["replicas"] >= 2


@pytest.mark.parametrize("name", NAMES)
def test_an_image_is_known_and_pinned(name: str) -> None:
    image, _, tag = services()[name]["image"].partition(":")
    assert image in ALLOWED_IMAGES
    assert re.search(r"\d+\.\d+", tag), f"{name}: {tag!r} is not a version"


@pytest.mark.parametrize("name", NAMES)
def test_a_service_has_a_health_check_or_ends(name: str) -> None:
    service = services()[name]
    if name in ONE_SHOT:
        assert service["restart"] == "no"
    else:
        assert service["healthcheck"]
        assert service["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", NAMES)
def test_what_a_service_waits_for_exists_and_can_come_true(name: str) -> None:
    for target, wait in services()[name].get("depends_on", {}).items():
        assert target in services()
        if wait["condition"] == "service_healthy":
            assert "healthcheck" in services()[target]
        if wait["condition"] == "service_completed_successfully":
            assert target in ONE_SHOT


def test_nothing_waits_for_itself_in_a_circle() -> None:
    waits = {name: set(service.get("depends_on", {})) for name, service in services().items()}
    while ready := [name for name, targets in waits.items() if not targets]:
        for name in ready:
            del waits[name]
        for targets in waits.values():
            targets.difference_update(ready)
    assert waits == {}


def test_every_variable_has_a_value_in_the_example() -> None:
    used = {found["name"] for found in VARIABLE.finditer(compose_text())}
    assert used - set(example_variables()) == set()
    assert set(example_variables()) - used == set()


def test_secrets_have_no_default() -> None:
    for found in VARIABLE.finditer(compose_text()):
        if re.search(r"PASSWORD|SECRET|FERNET", found["name"]):
            assert found["rest"].startswith(":?"), found["name"]


def test_no_two_services_share_a_host_port() -> None:
    ports = [substituted(port).rsplit(":", 1)[0] for service in services().values() for port in service.get("ports", [])]
    assert [port for port, count in Counter(ports).items() if count > 1] == []


def test_every_volume_is_declared_and_every_mounted_file_exists() -> None:
    declared = set(compose()["volumes"])
    sources = {volume.split(":")[0] for service in services().values() for volume in service.get("volumes", [])}
    assert {s for s in sources if not s.startswith((".", "/"))} == declared
    assert [s for s in sources if s.startswith(".") and not (ROOT / s).exists()] == []


def airflow_settings() -> set[tuple[str, str]]:
    """(section, option) of every setting the installed Airflow knows."""
    found = find_spec("airflow")
    assert found is not None
    assert found.submodule_search_locations
    path = Path(next(iter(found.submodule_search_locations))) / "config_templates" / "config.yml"
    sections = yaml.safe_load(path.read_text())
    return {(section, option) for section, body in sections.items() for option in body["options"]}


def test_airflow_knows_every_setting() -> None:
    keys = {key for service in services().values() for key in service.get("environment", {}) if key.startswith("AIRFLOW__")}
    keys |= set(re.findall(r"AIRFLOW__[A-Z_]+", (ROOT / "Dockerfile").read_text()))
    keys |= set(re.findall(r"AIRFLOW__[A-Z_]+", (ROOT / "demo" / "settings.py").read_text()))
    known = airflow_settings()
    unknown = [key for key in keys if tuple(part.lower() for part in key.removeprefix("AIRFLOW__").split("__")) not in known]
    assert keys
    assert unknown == []


@pytest.mark.parametrize("key", ["AIRFLOW_CONN_SPARK_DEFAULT", "AIRFLOW_CONN_ICEBERG_DEFAULT"])
def test_a_connection_is_json_that_airflow_takes(key: str) -> None:
    for name in ("airflow-scheduler", "airflow-dag-processor", "airflow-apiserver", "airflow-triggerer"):
        document = json.loads(substituted(services()[name]["environment"][key]))
        assert document["conn_type"] in ("spark", "iceberg_ops")


def test_no_command_line_shows_a_secret() -> None:
    secrets = {found["name"] for found in VARIABLE.finditer(compose_text()) if re.search(r"PASSWORD|SECRET|FERNET", found["name"])}
    assert secrets
    for name, service in services().items():
        words = [service.get("entrypoint"), service.get("command"), service.get("healthcheck", {}).get("test")]
        assert not [secret for secret in secrets if secret in json.dumps(words)], name


def test_every_airflow_component_has_the_same_environment() -> None:
    same = [services()[name]["environment"] for name in NAMES if name.startswith("airflow-")]
    assert all(environment == same[0] for environment in same)


def test_the_catalog_connection_is_a_catalog() -> None:
    extra = json.loads(substituted(services()["airflow-scheduler"]["environment"]["AIRFLOW_CONN_ICEBERG_DEFAULT"]))["extra"]
    assert extra["name"] in read_policy(ROOT / "dags" / "policies" / "maintenance.yml").catalogs
    assert extra["type"] == "sql"
    assert "/iceberg" in extra["uri"]
    assert "CREATE DATABASE iceberg" in (ROOT / "docker" / "postgres-init.sql").read_text()


def test_the_driver_is_where_executors_look_for_it() -> None:
    assert spark_defaults()["spark.driver.host"] in services()


def test_health_checks_ask_ports_that_the_services_listen_on() -> None:
    ports = {"airflow-apiserver": "8080", "airflow-scheduler": "8974", "spark-master": "8080", "s3": "7070"}
    for name, port in ports.items():
        assert any(f":{port}/" in word for word in services()[name]["healthcheck"]["test"]), name
