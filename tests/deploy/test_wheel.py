"""The wheel, built from committed files and used without a checkout: it contains everything a user needs, and nothing of demo,
tests and benchmarks."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator, Sequence
from configparser import ConfigParser
from importlib.metadata import version
from pathlib import Path
from shutil import copytree, ignore_patterns

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from packaging.version import Version

from tests.deploy.documents import ROOT

SOURCES = ("iceberg_ops", "spark_jobs", "plugins", "dags")
SITE = Path(sysconfig.get_path("purelib"))

USE = """
import importlib.metadata, sys
from pathlib import Path
import iceberg_ops, spark_jobs
from airflow import settings
from airflow.plugins_manager import _get_plugins
assert Path(iceberg_ops.__file__).is_relative_to(sys.prefix), iceberg_ops.__file__
assert (Path(spark_jobs.__file__).parent / "log4j2.properties").is_file()
for group in ("apache_airflow_provider", "airflow.plugins"):
    for point in importlib.metadata.distribution("iceberg-ops").entry_points.select(group=group):
        print(group, point.load().__module__)
from iceberg_airflow.lanes import application
print("application", application().relative_to(Path(iceberg_ops.__file__).parents[1]))
for settings.PLUGINS_FOLDER in sys.argv[1:]:
    _get_plugins.cache_clear()
    plugins, errors = _get_plugins()
    print("plugins", [plugin.name for plugin in plugins if plugin.name == "iceberg_ops"], errors)
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(str(Path(sys.prefix) / "share" / "iceberg-ops" / "dags"))
print("dags", sorted(bag.dags), bag.import_errors)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, because a build leaves folders behind."""
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        copytree(ROOT / name, source / name, ignore=ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    # Otherwise pip gets the build's own setuptools.
    isolation = ["--no-build-isolation"] if Version(version("setuptools")) >= Version("77") else []
    called(sys.executable, "-m", "pip", "wheel", *isolation, "--no-deps", "--wheel-dir", str(source / "out"), str(source))
    (made,) = (source / "out").glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, which sees the packages of this one, but not this checkout."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages")
    scheme = ["--no-deps", "--no-index", "--no-compile", "--force-reinstall"]
    called(sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", *scheme, str(wheel))
    # Its packages without its .pth files, one of which leads to the checkout, and without the checkout's own entry points.
    pinned = home / "pinned"
    pinned.mkdir()
    for path in SITE.iterdir():
        if path.suffix != ".pth" and not path.name.startswith(("iceberg_ops-", "__editable___iceberg_ops")):
            (pinned / path.name).symlink_to(path)
    (site / "pinned.pth").write_text(f"{pinned}\n")
    return home


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def called(*command: str, cwd: Path | None = None, ok: Sequence[int] = (0,), **environment: str) -> str:
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" and not k.startswith(("PIP_", "AIRFLOW"))}
    pip = {k: v for k, v in os.environ.items() if k.startswith("PIP_")} if "pip" in command else {}
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", **pip}
    done = subprocess.run(command, cwd=cwd, env={**inherited, **quiet, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode in ok, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def of_the_checkout() -> Iterator[str]:
    """What the wheel has to have: every module and data file of the packages."""
    for name, folder in (("iceberg_ops", ROOT), ("spark_jobs", ROOT), ("iceberg_airflow", ROOT / "plugins")):
        for path in (folder / name).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(folder).as_posix()


def test_every_module_and_data_file_of_the_packages_is_in_the_wheel(names: list[str]) -> None:
    assert set(of_the_checkout()) - set(names) == set()
    assert "spark_jobs/log4j2.properties" in names


def test_demo_tests_and_benchmarks_are_not(names: list[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.startswith("iceberg_ops-")} == {"iceberg_ops", "spark_jobs", "iceberg_airflow"}


def test_the_deployed_dags_and_the_sample_policy_come_along(names: list[str]) -> None:
    shared = {name.split("/data/share/iceberg-ops/")[1] for name in names if "/data/share/iceberg-ops/" in name}
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "dags").rglob("*") if path.suffix in (".py", ".yml")}
    assert shared == files


def test_its_entry_points_are_the_command_the_provider_and_the_plugin(wheel: Path) -> None:
    parser = ConfigParser()
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/entry_points.txt"))
        parser.read_string(archive.read(name).decode())
    assert {group: list(parser[group]) for group in parser.sections()} == {
        "console_scripts": ["iceberg-ops"],
        "apache_airflow_provider": ["iceberg-ops"],
        "airflow.plugins": ["iceberg_ops"],
    }


def test_the_command_line_works_without_a_checkout(installed: Path, tmp_path: Path) -> None:
    command = str(installed / "bin" / "iceberg-ops")
    assert "maintenance" in called(command, "--help", cwd=tmp_path)
    (tmp_path / "catalogs.yml").write_text(
        f"catalogs:\n  - {{name: lake, type: filesystem, properties: {{warehouse: '{tmp_path}/warehouse'}}}}\n"
    )
    pq.write_table(pa.table({"id": [1, 2], "word": ["one", "two"]}), tmp_path / "rows.parquet")
    called(command, "create", "lake.a.b", "id bigint, word string", "--create-namespace", cwd=tmp_path)
    called(command, "append", "lake.a.b", "--lane", "local", "--from", "rows.parquet", cwd=tmp_path)
    assert called(command, "scan", "lake.a.b", "--format", "jsonl", cwd=tmp_path).splitlines() == [
        '{"id": 1, "word": "one"}',
        '{"id": 2, "word": "two"}',
    ]


@pytest.mark.airflow
def test_airflow_finds_provider_plugin_and_dags_once(installed: Path, tmp_path: Path) -> None:
    """Also where the plugins folder is mounted as well."""
    folders = [str(tmp_path / "plugins"), str(ROOT / "plugins")]
    home = {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "False", "PYTHONDONTWRITEBYTECODE": "1"}
    said = called(str(installed / "bin" / "python"), "-c", USE, *folders, cwd=tmp_path, **home).splitlines()
    assert [line for line in said if line.startswith(("apache_", "airflow.", "application", "plugins", "dags"))] == [
        "apache_airflow_provider iceberg_airflow.provider_info",
        "airflow.plugins iceberg_airflow.plugin",
        "application spark_jobs/main.py",
        "plugins ['iceberg_ops'] {}",
        "plugins ['iceberg_ops'] {}",
        "dags ['iceberg_maintenance', 'table_maintenance'] {}",
    ]
