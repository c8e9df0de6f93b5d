"""The connection types of the form: what Airflow knows of each, and what a connection of it means."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest
from airflow.models.connection import Connection as Stored
from airflow.sdk import Connection
from airflow.sdk._shared.secrets_masker import redact, should_hide_value_for_key

from iceberg_airflow import hook as hooks
from iceberg_airflow.connection_settings import advice, catalog_config, store_properties
from iceberg_airflow.connection_types import NAME, STORES, TEST_FOLDER, TYPES, ConnectionType
from iceberg_airflow.operators import IcebergOpsOperator
from iceberg_airflow.provider_info import get_provider_info
from iceberg_ops.config.catalog_properties import is_known
from iceberg_ops.config.job_spec import CATALOG_TYPES
from iceberg_ops.config.secrets import is_secret_setting
from iceberg_ops.errors import OptionError
from tests.airflow.conftest import ROOT
from tests.airflow.fakes import FakeLane, a_context, a_report, with_lane

pytestmark = pytest.mark.airflow
CATALOGS = {name: kind for name, kind in TYPES.items() if not kind.is_store}
STORE_TYPES = {name: kind for name, kind in TYPES.items() if kind.is_store}
CANARY = "C4nary/of:b-config"


def connection(conn_type: str, *, conn_id: str = "lake_conn", extra: dict[str, Any] | None = None, **own: Any) -> Connection:
    return Connection(conn_id=conn_id, conn_type=conn_type, extra=json.dumps(extra or {}), **own)


# the form


@pytest.fixture(scope="module")
def forms(installed_path: str) -> dict[str, Any]:
    """What the API gives to the form, and the hooks that Airflow finds."""
    program = """
import json
from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService
from airflow.providers_manager import ProvidersManager
manager = ProvidersManager()
shown = {m.connection_type: m.model_dump(mode="json") for m in HookMetaService.hook_meta_data()}
hooks = {name: [h.hook_name, h.connection_testable, h.connection_id_attribute_name] for name, h in manager.hooks.items() if h}
print(json.dumps({name: [shown[name], hooks.get(name)] for name in shown if name.startswith("iceberg")}))
"""
    environment = {**os.environ, "PYTHONPATH": installed_path}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("name", TYPES)
def test_airflow_shows_the_type_with_its_fields_and_a_test_button(name: str, forms: dict[str, Any]) -> None:
    kind, (shown, hook) = TYPES[name], forms[name]
    assert shown["hook_name"] == kind.title
    assert hook == [kind.title, True, "store_conn_id" if kind.is_store else "catalog_conn_id"]
    fields = shown["extra_fields"]
    assert list(fields) == [*kind.fields, *([TEST_FOLDER] if kind.is_store else [STORES, TEST_FOLDER])]
    for key, field in kind.fields.items():
        assert fields[key]["schema"]["title"] == field.label
        assert (fields[key]["schema"].get("format") == "password") == (field.kind == "secret")
        assert fields[key]["description"] == (field.help or None)
        assert fields[key]["value"] is None, "what nobody filled in must not become a property"
    own = shown["standard_fields"]
    for key, title in (("host", "host"), ("port", "port"), ("url_schema", "schema"), ("login", "login"), ("password", "password")):
        assert own[key]["hidden"] == (title not in kind.own_fields)
        assert own[key]["title"] == kind.own_fields.get(title)


def test_the_type_whose_settings_are_all_in_the_extra_is_there_too(forms: dict[str, Any]) -> None:
    shown, hook = forms["iceberg_ops"]
    assert hook == [hooks.IcebergCatalogHook.hook_name, True, "catalog_conn_id"]
    assert shown["hook_class_name"] == "iceberg_airflow.hook.IcebergCatalogHook"
    assert shown["standard_fields"]["password"]["title"] == "Catalog password"


def test_the_metadata_is_as_airflow_defines_it() -> None:
    schema = json.loads((Path(airflow.__file__).parent / "provider.yaml.schema.json").read_text())
    found = get_provider_info()["connection-types"]
    jsonschema.validate(found, schema["properties"]["connection-types"] | {"definitions": schema.get("definitions", {})})
    assert len({form["connection-type"] for form in found}) == len(found)


def test_each_kind_of_catalog_has_a_type() -> None:
    assert {kind.type for kind in CATALOGS.values()} == set(CATALOG_TYPES) - {"memory"}


def test_the_documentation_names_every_type() -> None:
    text = (ROOT / "docs" / "airflow.md").read_text()
    assert [name for name in TYPES if f"`{name}`" not in text] == []


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
def test_a_field_is_a_property_that_is_read(kind: ConnectionType) -> None:
    named = [name for name in (*kind.fields, kind.login, kind.password) if name and name != NAME]
    assert [name for name in named if not is_known(kind.type or "filesystem", name)] == []


NO_SECRETS = ("s3.sse.key", "authentication.oauth2.token-endpoint")
"""The id of a key (``advice`` tells of a key itself), and an address, whose names are hidden all the same."""


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
def test_a_secret_is_where_airflow_hides_it(kind: ConnectionType) -> None:
    for name, field in kind.fields.items():
        secret = is_secret_setting(name, "some text") and name not in NO_SECRETS
        assert (field.kind == "secret") == secret, name
        assert not secret or should_hide_value_for_key(name), f"{name} would be shown to everyone who may see connections"


# what a connection means

GIVEN: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, str]]] = {
    "iceberg_sql": (
        {"host": "db", "port": 5432, "schema": "ice/berg", "login": "me", "password": "p@ss"},
        {"warehouse": "/wh", "uri": ""},
        {"uri": "postgresql+psycopg2://me:p%40ss@db:5432/ice%2Fberg", "warehouse": "/wh"},
    ),
    "iceberg_hive": (
        {"host": "metastore", "port": 9083},
        {"engine.hive.lock-enabled": False, "ugi": None},
        {"uri": "thrift://metastore:9083", "engine.hive.lock-enabled": "false"},
    ),
    "iceberg_rest": (
        {"host": "https://Catalog.example.com/api/Catalog", "port": 8443, "login": "id", "password": "p@ss"},
        {"warehouse": "prod"},
        {"uri": "https://catalog.example.com:8443/api/Catalog", "warehouse": "prod", "credential": "id:p@ss"},
    ),
    "iceberg_glue": (
        {"login": "AKIA", "password": "p@ss"},
        {"client.region": "eu-west-1", "glue.id": "1"},
        {"glue.access-key-id": "AKIA", "glue.secret-access-key": "p@ss", "client.region": "eu-west-1", "glue.id": "1"},
    ),
    "iceberg_nessie": (
        {"host": "https://nessie/api/v2", "login": "me", "password": "p@ss"},
        {"ref": "dev", "authentication.type": None},
        {
            "uri": "https://nessie/api/v2",
            "ref": "dev",
            "authentication.type": "BASIC",
            "authentication.username": "me",
            "authentication.password": "p@ss",
        },
    ),
    "iceberg_hdfs": ({}, {"hdfs.conf-dir": "/etc/hadoop", "hdfs.kerberos-keytab": ""}, {"hdfs.conf-dir": "/etc/hadoop"}),
    "iceberg_filesystem": ({}, {"warehouse": "s3://b/wh"}, {"warehouse": "s3://b/wh"}),
    "iceberg_s3": (
        {"login": "AKIA", "password": "p@ss"},
        {"s3.path-style-access": True},
        {"s3.access-key-id": "AKIA", "s3.secret-access-key": "p@ss", "s3.path-style-access": "true"},
    ),
    "iceberg_gcs": ({"password": "t0ken"}, {"gcs.no-auth": None}, {"gcs.oauth2.token": "t0ken"}),
    "iceberg_azure": (
        {"login": "acc", "password": "a2V5"},
        {"adls.sas-token": ""},
        {"adls.account-name": "acc", "adls.account-key": "a2V5"},
    ),
}


def read(found: Connection) -> dict[str, str]:
    kind = TYPES[found.conn_type or ""]
    if kind.is_store:
        return store_properties(found)
    config = catalog_config(found)
    assert (config.name, config.type) == ("lake", kind.type)
    return config.properties


def lower(uri: dict[str, str]) -> dict[str, str]:
    """Airflow, like urllib, may spell a host name in lower case."""
    return {key: value.replace("Catalog.example", "catalog.example") for key, value in uri.items()}


@pytest.mark.parametrize("conn_type", TYPES)
def test_a_filled_in_form_gives_these_properties(conn_type: str) -> None:
    own, extra, expected = GIVEN[conn_type]
    name = {} if TYPES[conn_type].is_store else {NAME: "lake"}
    found = connection(conn_type, extra={**name, **extra, STORES: "", TEST_FOLDER: None}, **own)
    assert lower(read(found)) == expected


@pytest.mark.parametrize("conn_type", TYPES)
def test_the_test_button_hands_the_same_connection_over(conn_type: str) -> None:
    """Airflow writes it as a URI into the environment, where the hook finds it."""
    own, extra, expected = GIVEN[conn_type]
    name = {} if TYPES[conn_type].is_store else {NAME: "lake"}
    stored = Stored(conn_id="lake_conn", conn_type=conn_type, extra=json.dumps({**name, **extra}), **own)
    found = Connection.from_uri(stored.get_uri(), conn_id="lake_conn")
    assert found.conn_type == conn_type
    assert lower(read(found)) == expected


@pytest.mark.parametrize(
    ("conn_type", "own", "extra", "expected"),
    [
        ("iceberg_sql", {"login": "me", "password": "p"}, {"uri": "mysql://db/x"}, {"uri": "mysql://me:p@db/x"}),
        ("iceberg_sql", {}, {"uri": "sqlite:////c.db"}, {"uri": "sqlite:////c.db"}),
        ("iceberg_sql", {"host": "::1", "schema": "x"}, {}, {"uri": "postgresql+psycopg2://[::1]/x"}),
        ("iceberg_sql", {"host": "postgresql+psycopg://db:1/x", "port": 1}, {}, {"uri": "postgresql+psycopg://db:1/x"}),
        ("iceberg_hive", {}, {"uri": "thrift://a:1,thrift://b:2"}, {"uri": "thrift://a:1,thrift://b:2"}),
        ("iceberg_hive", {"host": "thrift://a:1,thrift://b:2"}, {}, {"uri": "thrift://a:1,thrift://b:2"}),
        ("iceberg_hive", {"host": "a:1, b:2"}, {}, {"uri": "thrift://a:1,thrift://b:2"}),
        ("iceberg_rest", {"host": "http://h:8181"}, {"token": "t"}, {"uri": "http://h:8181", "token": "t"}),
        ("iceberg_rest", {"host": "h"}, {}, {"uri": "https://h"}),
        (
            "iceberg_nessie",
            {"host": "h", "password": "t0ken"},
            {},
            {"uri": "https://h", "authentication.type": "BEARER", "authentication.token": "t0ken"},
        ),
        (
            "iceberg_nessie",
            {"host": "h", "login": "id", "password": "s3cret"},
            {"authentication.type": "OAUTH2"},
            {
                "uri": "https://h",
                "authentication.type": "OAUTH2",
                "authentication.oauth2.client-id": "id",
                "authentication.oauth2.client-secret": "s3cret",
            },
        ),
        (
            "iceberg_rest",
            {"host": "h", "login": "AKIA", "password": "s3cret"},
            {"rest.auth.type": "sigv4"},
            {"uri": "https://h", "rest.auth.type": "sigv4", "rest.access-key-id": "AKIA", "rest.secret-access-key": "s3cret"},
        ),
    ],
)
def test_other_ways_to_fill_it_in(conn_type: str, own: dict[str, Any], extra: dict[str, Any], expected: dict[str, str]) -> None:
    assert read(connection(conn_type, extra={NAME: "lake", **extra}, **own)) == expected


@pytest.mark.parametrize(
    ("conn_type", "own", "extra", "said"),
    [
        ("iceberg_sql", {}, {}, "extra must hold 'name'"),
        (
            "iceberg_sql",
            {},
            {NAME: "lake", "type": "rest"},
            "extra 'type' is 'rest', and a connection of type iceberg_sql is 'sql'",
        ),
        (
            "iceberg_sql",
            {"host": "db", "schema": "x"},
            {NAME: "lake", "uri": "postgresql://p4ssw0rd"},
            "property 'uri' is given twice",
        ),
        (
            "iceberg_sql",
            {"schema": "x"},
            {NAME: "lake", "uri": "postgresql://p4ssw0rd/y"},
            "its schema has no effect without a host",
        ),
        ("iceberg_sql", {"port": 5433}, {NAME: "lake", "uri": "postgresql://p4ssw0rd/y"}, "its port has no effect without a host"),
        (
            "iceberg_sql",
            {"host": "p4ssw0rd:5433", "port": 5432, "schema": "x"},
            {NAME: "lake"},
            "names another port than its port 5432",
        ),
        ("iceberg_rest", {"host": "https://p4ssw0rd:1", "port": 2}, {NAME: "lake"}, "names another port than its port 2"),
        ("iceberg_hive", {"host": "p4ssw0rd,b", "port": 1}, {NAME: "lake"}, "its host names several servers"),
        ("iceberg_sql", {"host": "db", "login": "me"}, {NAME: "lake"}, "its host and its schema name no database"),
        ("iceberg_sql", {"host": "db/p4ssw0rd", "schema": "x"}, {NAME: "lake"}, "its host and its schema both name a database"),
        ("iceberg_glue", {"password": "p4ssw0rd"}, {NAME: "lake", "glue.secret-access-key": "other"}, "is given twice"),
        ("iceberg_rest", {"password": "p4ssw0rd"}, {NAME: "lake", "token": "t"}, "extra 'token' and the connection's password"),
        ("iceberg_nessie", {"host": "h", "password": "p4ssw0rd"}, {NAME: "lake", "authentication.token": "x"}, "is given twice"),
        ("iceberg_nessie", {"host": "h", "password": "p4ssw0rd"}, {NAME: "lake", "authentication.type": "NONE"}, "must be one of"),
        ("iceberg_rest", {"host": "https://[p4ssw0rd"}, {NAME: "lake"}, "its host (not shown)"),
        ("iceberg_sql", {"host": "d\tb"}, {NAME: "lake"}, "its host has a tab"),
        ("iceberg_s3", {}, {NAME: "lake"}, "is a store (iceberg_s3): name it under 'store_conn_id'"),
        ("iceberg_nessie", {"host": "h"}, {NAME: "lake", "Ref": "p4ssw0rd"}, "no property 'Ref' (did you mean 'ref'?)"),
        ("iceberg_glue", {}, {NAME: "lake", "glue-id": "1"}, "no property 'glue-id' (did you mean 'glue.id'?)"),
        ("iceberg_filesystem", {}, {NAME: "lake", "warehouse": "data/wh"}, "warehouse 'data/wh' is relative to the working folder"),
        ("iceberg_filesystem", {}, {NAME: "lake", "warehouse": "file:wh"}, "warehouse 'file:wh' is relative"),
        ("iceberg_sql", {}, {NAME: "lake", "uri": "sqlite:///p4ssw0rd.db"}, "the database file of its uri (not shown) is relative"),
        ("iceberg_ops", {}, {NAME: "lake", "type": "sql", "uri": "sqlite:///p4ssw0rd.db"}, "is relative to the working folder"),
        ("iceberg_sql", {}, {NAME: "lake", "aws_conn_id": "x"}, "'aws_conn_id' (did you mean 'store_conn_id'?)"),
        ("iceberg_sql", {}, {NAME: "lake", "store-conn-id": "x"}, "'store-conn-id' (did you mean 'store_conn_id'?)"),
        ("iceberg_ops", {}, {NAME: "lake", "type": "rest", "warehous": "x"}, "'warehous' (did you mean 'warehouse'?)"),
    ],
)
def test_what_cannot_be_meant_is_refused(conn_type: str, own: dict[str, Any], extra: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        catalog_config(connection(conn_type, extra=extra, **own))
    assert said in str(caught.value)
    assert "p4ssw0rd" not in str(caught.value)


@pytest.mark.parametrize(
    ("conn_type", "own", "extra", "said"),
    [
        ("iceberg_hive", {"login": "me", "password": "p"}, {}, ["its login has no effect", "its password has no effect"]),
        ("iceberg_rest", {"login": "me"}, {}, ["its login has no effect without a password"]),
        ("iceberg_rest", {}, {"credential": "id:s3cret"}, ["Airflow shows extra 'credential', a secret"]),
        ("iceberg_azure", {}, {"adls.account-key": "s3cret"}, ["Airflow shows extra 'adls.account-key', a secret"]),
        ("iceberg_s3", {}, {"s3.sse.type": "custom", "s3.sse.key": "s3cret"}, ["Airflow shows extra 's3.sse.key', a secret"]),
        ("iceberg_s3", {}, {"s3.sse.type": "kms", "s3.sse.key": "an id", "s3.session-token": "t"}, []),
        ("iceberg_ops", {}, {"type": "rest", "credential": "id:s3cret"}, ["Airflow shows extra 'credential', a secret"]),
        ("iceberg_rest", {"host": "h", "port": 1, "login": "me", "password": "p"}, {"scope": "all"}, []),
        ("iceberg_rest", {"host": "h"}, {"token-refresh-enabled": "true"}, ["extra 'token-refresh-enabled' has no effect here"]),
        ("iceberg_s3", {}, {"comment": "s3cret", "test-folder": "s3://b"}, ["extra 'comment' has no effect here"]),
        (
            "iceberg_ops",
            {"host": "other", "schema": "prod", "login": "me", "password": "s3cret"},
            {"type": "sql", "uri": "postgresql://db/dev"},
            [
                "its host has no effect",
                "its schema has no effect, because a connection of type iceberg_ops for a catalog of type sql",
            ],
        ),
        (
            "iceberg_ops",
            {"login": "AKIA", "password": "s3cret"},
            {"type": "glue", "client.region": "eu-west-1"},
            ["its login has no effect", "its password has no effect"],
        ),
        ("iceberg_ops", {}, {"type": "sql", "uri": "sqlite:////x", "pool": "5"}, ["extra 'pool' has no effect here"]),
    ],
)
def test_what_has_no_effect_or_is_shown_is_told(
    conn_type: str, own: dict[str, Any], extra: dict[str, Any], said: list[str]
) -> None:
    found = advice(connection(conn_type, extra={NAME: "lake", **extra}, **own))
    assert len(found) == len(said), found
    assert all(part in line for part, line in zip(said, found, strict=True)), found
    assert "s3cret" not in str(found)


# stores


def connect(monkeypatch: pytest.MonkeyPatch, conn_id: str, conn_type: str, extra: dict[str, Any], **own: Any) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": conn_type, "extra": extra, **own}))


def test_a_catalog_gets_the_properties_of_its_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "lake", "iceberg_filesystem", {NAME: "lake", "warehouse": "s3://b/wh", STORES: "minio, azure"})
    connect(monkeypatch, "minio", "iceberg_s3", {"s3.endpoint": "http://h:1"}, login="me", password="p@ss")
    connect(monkeypatch, "azure", "iceberg_azure", {"adls.sas-token": "sig"}, login="acc")
    assert hooks.IcebergCatalogHook("lake").get_conn().properties == {
        "warehouse": "s3://b/wh",
        "s3.endpoint": "http://h:1",
        "s3.access-key-id": "me",
        "s3.secret-access-key": "p@ss",
        "adls.sas-token": "sig",
        "adls.account-name": "acc",
    }


@pytest.mark.parametrize(
    ("stores", "said"),
    [
        ("nowhere", "store connection 'nowhere' is not defined"),
        ("lake", "connection lake is of type 'iceberg_filesystem', and no store"),
        ("one,two", "connection two: property 's3.endpoint' is given twice"),
    ],
)
def test_stores_that_cannot_be_used_are_named(stores: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "lake", "iceberg_filesystem", {NAME: "lake", "warehouse": "s3://b/wh", STORES: stores})
    connect(monkeypatch, "one", "iceberg_s3", {"s3.endpoint": "http://one"})
    connect(monkeypatch, "two", "iceberg_s3", {"s3.endpoint": "http://two"})
    with pytest.raises(OptionError, match=said):
        hooks.IcebergCatalogHook("lake").get_conn()


def test_the_test_of_a_store_needs_a_folder_in_a_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder in ({}, {TEST_FOLDER: str(tmp_path)}, {TEST_FOLDER: f"file:{tmp_path}"}):
        connect(monkeypatch, "minio", "iceberg_s3", folder)
        works, said = hooks._HOOKS["S3StoreHook"]("minio").test_connection()  # type: ignore[call-arg]
        assert (works, "nothing was tried: name a folder in the store" in said) == (False, True), said
    assert list(tmp_path.iterdir()) == []


# secrets


@pytest.mark.parametrize("conn_type", TYPES)
def test_no_secret_of_a_form_is_in_what_a_task_leaves(
    conn_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Every field that may hold a secret holds the canary; the job is shown, logged, and answered to XCom."""
    kind = TYPES[conn_type]
    secret = {name: CANARY for name, field in kind.fields.items() if field.kind == "secret"}
    extra = {**({} if kind.is_store else {NAME: "lake"}), **secret}
    connect(
        monkeypatch,
        "asked",
        conn_type,
        extra,
        host="h",
        schema="x" if conn_type == "iceberg_sql" else None,
        login="AKIA",
        password=CANARY,
    )
    connect(monkeypatch, "above", "iceberg_filesystem", {NAME: "lake", "warehouse": "/wh", STORES: "asked"})
    operator = IcebergOpsOperator(
        task_id="t", job="rewrite_data_files", table="a.b", lane="local", catalog_conn_id="above" if kind.is_store else "asked"
    )
    lane = FakeLane(a_report)
    with caplog.at_level(logging.DEBUG):
        answer = with_lane(operator, lane).execute(a_context())
    config = lane.seen[0].catalog
    assert (
        CANARY in str(config.properties)
        or "C4nary%2Fof%3Ab-config" in str(config.properties)
        or not kind.own_fields.get("password")
    )
    left = "".join(path.read_text() for path in (tmp_path / "jobs").rglob("*.json"))
    for text in (repr(config), left, str(answer), str(redact(config.properties, "x"))):
        assert "C4nary" not in text
    assert "C4nary" not in str(redact(caplog.text))


def test_a_source_names_the_connection_of_its_catalog(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So that its password is in no DAG file, and in no rendered field."""
    connect(
        monkeypatch, "far", "iceberg_sql", {NAME: "other", "warehouse": "/wh"}, host="db", schema="x", login="me", password=CANARY
    )
    connect(monkeypatch, "near", "iceberg_filesystem", {NAME: "lake", "warehouse": "/wh"})
    source = {"format": "table", "table": "other.x.y", "catalog": "far"}
    operator = IcebergOpsOperator(task_id="t", job="append", table="a.b", source=source, lane="local", catalog_conn_id="near")
    lane = FakeLane(a_report)
    with_lane(operator, lane).execute(a_context())
    found = lane.seen[0].source
    assert found is not None
    assert found.catalog is not None
    assert (found.catalog.name, found.catalog.type) == ("other", "sql")
    assert CANARY.replace("/", "%2F").replace(":", "%3A") in found.catalog.properties["uri"]
    assert operator.source == source
    assert "C4nary" not in "".join(path.read_text() for path in (tmp_path / "jobs").rglob("*.json"))
    assert "C4nary" not in str(redact(found.catalog.properties, "x"))
