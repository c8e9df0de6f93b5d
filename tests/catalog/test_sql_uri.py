"""Valid URIs of a SQL catalog; no error shows the URI, because it may hold a password."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import pytest

from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.catalog.sql_schema import open_engine
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.errors import OptionError, RuntimeMissingError

SECRET = "geheim"
WRONG = {
    "port": f"postgresql://me:{SECRET}@db:54x2/ice",
    "no URI": SECRET,
    "password with an @": f"postgresql://me:{SECRET}@{SECRET}@db:5432/ice",
    "password with @ and slash": f"postgresql://me:{SECRET}@x/{SECRET}@db:5432/ice",
    "dialect": f"foo://me:{SECRET}@db/ice",
    "host of a file": f"sqlite://me:{SECRET}@host/x.db",
    "address": f"postgresql://me:{SECRET}@[::1/ice",
}


@pytest.mark.parametrize("uri", WRONG.values(), ids=WRONG)
def test_a_wrong_uri_is_named_and_not_shown(uri: str) -> None:
    with pytest.raises(OptionError, match="catalog property uri") as caught:
        open_engine(uri)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("dialect", "module", "package"),
    [
        ("mysql+pymysql", "pymysql", "PyMySQL"),
        ("mysql", "MySQLdb", "mysqlclient"),
        ("postgresql+psycopg2", "psycopg2", "psycopg2-binary"),
        ("postgresql+psycopg", "psycopg", r"'psycopg\[binary\]'"),
        ("postgresql+asyncpg", "asyncpg", "asyncpg"),
        ("oracle+oracledb", "oracledb", "oracledb"),
    ],
)
def test_a_missing_driver_says_which_package_to_install(
    dialect: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    message = rf"the database driver of {dialect.replace('+', '[+]')} is not installed: pip install {package}$"
    with pytest.raises(RuntimeMissingError, match=message) as caught:
        open_engine(f"{dialect}://me:{SECRET}@db/ice")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("uri", ["sqlite:////data/a:b@c/x.db", "sqlite:///x.db"])
def test_a_path_may_have_any_characters(uri: str) -> None:
    assert open_engine(uri).url.get_backend_name() == "sqlite"


def test_the_file_io_that_goes_to_workers_does_not_have_the_uri(tmp_path: Path) -> None:
    properties = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": str(tmp_path), "s3.region": "eu"}
    catalog = load_catalog(CatalogConfig(name="c", type="sql", properties=properties))
    assert "uri" not in catalog.io.properties
    assert catalog.io.properties["s3.region"] == "eu"
