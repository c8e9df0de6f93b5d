"""A connection as a catalog."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection
from sqlalchemy import make_url

from iceberg_airflow.connection_settings import catalog_config
from iceberg_airflow.hook import IcebergCatalogHook
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.errors import OptionError

pytestmark = pytest.mark.airflow


def connection(extra: dict[str, Any], login: str | None = None, password: str | None = None) -> Connection:
    return Connection(conn_id="lake_conn", conn_type="iceberg_ops", login=login, password=password, extra=json.dumps(extra))


def test_extra_gives_name_type_and_properties() -> None:
    config = catalog_config(connection({"name": "lake", "type": "sql", "uri": "sqlite:////x.db", "pool": 3, "echo": False}))
    assert (config.name, config.type) == ("lake", "sql")
    assert config.properties == {"uri": "sqlite:////x.db", "pool": "3", "echo": "false"}


def test_login_and_password_are_put_into_the_uri_escaped() -> None:
    extra = {"name": "lake", "type": "sql", "uri": "postgresql+psycopg2://db:5432/iceberg"}
    assert (
        catalog_config(connection(extra, "me", "p@ss/word")).properties["uri"]
        == "postgresql+psycopg2://me:p%40ss%2Fword@db:5432/iceberg"
    )


@pytest.mark.parametrize(
    ("uri", "login", "whole"),
    [
        ("postgresql:///ice?host=/run/postgresql", "me", "postgresql://me:p%40ss@/ice?host=/run/postgresql"),
        ("postgresql+psycopg2:///ice", "me", "postgresql+psycopg2://me:p%40ss@/ice"),
        ("postgresql://me@db:5432/ice", "me", "postgresql://me:p%40ss@db:5432/ice"),
        ("postgresql://m%20e@db/ice", "m e", "postgresql://m%20e:p%40ss@db/ice"),
        ("postgresql://me@db/ice", None, "postgresql://me:p%40ss@db/ice"),
        ("postgresql://db/ice", None, "postgresql://:p%40ss@db/ice"),
        ("postgresql://@db/ice", "me", "postgresql://me:p%40ss@db/ice"),  # names no user, so no other one
    ],
)
def test_no_login_or_password_is_left_out(uri: str, login: str | None, whole: str) -> None:
    """They were dropped in silence where the uri has no host, or names the user alone."""
    config = catalog_config(connection({"name": "lake", "type": "sql", "uri": uri}, login, "p@ss"))
    assert config.properties["uri"] == whole
    url = make_url(whole)
    assert (url.username or None, url.password) == (login or make_url(uri).username, "p@ss")


def test_a_login_that_is_not_the_uris_user_is_refused() -> None:
    with pytest.raises(OptionError, match="names another user than the connection's login") as caught:
        catalog_config(connection({"name": "lake", "type": "sql", "uri": "postgresql://you@db/iceberg"}, "me", "secret"))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("postgresql://you:geheim@db/iceberg", "names another user than the connection's login"),
        ("postgresql://me:geheim@db/iceberg", "has another password than the connection"),
    ],
)
def test_a_uri_with_a_password_says_the_same_as_the_connection(uri: str, said: str) -> None:
    """The connection's own fields were passed over in silence."""
    with pytest.raises(OptionError, match=said) as caught:
        catalog_config(connection({"name": "lake", "type": "sql", "uri": uri}, "me", "secret"))
    assert "secret" not in str(caught.value)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "login", "password", "expected"),
    [
        ({}, None, None, {}),
        ({}, "id", "p@ss/1", {"credential": "id:p@ss/1"}),
        ({}, None, "p@ss", {"token": "p@ss"}),
        ({"token": "own"}, "id", None, {"token": "own"}),
        (
            {"rest.auth.type": "basic"},
            "me",
            "p@ss",
            {"rest.auth.type": "basic", "rest.auth.basic.username": "me", "rest.auth.basic.password": "p@ss"},
        ),
    ],
)
def test_login_and_password_prove_to_a_rest_catalog_who_asks(
    more: dict[str, str], login: str | None, password: str | None, expected: dict[str, str]
) -> None:
    extra = {"name": "lake", "type": "rest", "uri": "https://catalog/api", **more}
    assert catalog_config(connection(extra, login, password)).properties == {"uri": "https://catalog/api", **expected}


@pytest.mark.parametrize("named", ["token", "credential"])
def test_a_rest_catalog_has_one_proof(named: str) -> None:
    extra = {"name": "lake", "type": "rest", "uri": "https://catalog", named: "own"}
    with pytest.raises(OptionError, match=f"lake_conn: extra '{named}' and the connection's password"):
        catalog_config(connection(extra, "id", "geheim"))


def test_a_connection_that_is_not_defined_is_the_authors_mistake() -> None:
    """Airflow's own error was tried again, like an outage, and the Test button showed a traceback."""
    with pytest.raises(OptionError, match="catalog connection 'nosuch' is not defined"):
        IcebergCatalogHook("nosuch").get_conn()
    with pytest.raises(OptionError, match="catalog connection 'nosuch' is not defined"):
        IcebergCatalogHook("nosuch").deployment()
    works, said = IcebergCatalogHook("nosuch").test_connection()
    assert not works
    assert "is not defined" in said


@pytest.mark.parametrize(
    "uri",
    [
        "sqlite:////data/catalog.db",
        "SQLite:////data/catalog.db",
        "sqlite+aiosqlite:////data/catalog.db",
        "duckdb:////data/catalog.db",
        "duckdb:///catalog.db",
        "other:////data/catalog.db",
        "postgresql://me:secret@db/iceberg",
        "postgresql://:s%65cret@db/iceberg",
        "no uri",
    ],
)
def test_a_uri_of_a_file_or_with_the_same_password_is_left_alone(uri: str) -> None:
    assert catalog_config(connection({"name": "lake", "type": "sql", "uri": uri}, "me", "secret")).properties["uri"] == uri


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"type": "sql"}, "connection lake_conn: extra must hold 'name'"),
        (
            {"name": "lake", "type": "sql", "warehouse": " "},
            "connection lake_conn: extra 'warehouse' is blank: leave it out, or give it a value",
        ),
        ({"name": "lake"}, "connection lake_conn: extra must hold 'type'"),
        ({"name": "la.ke", "type": "sql"}, "connection lake_conn: extra 'name' must have no dot"),
        ({"name": "lake", "type": "sql", "uri": ["a"]}, "connection lake_conn: extra 'uri' must be text"),
    ],
)
def test_what_is_missing_or_wrong_is_named(extra: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        catalog_config(connection(extra))


def test_the_hook_reads_the_connection_of_its_id() -> None:
    assert IcebergCatalogHook().get_conn().name == "lake"


def test_extra_that_is_no_object_is_named() -> None:
    for extra in ('["a"]', '"a"', "3"):
        with pytest.raises(OptionError, match="connection lake_conn: extra must be a JSON object, not a"):
            catalog_config(Connection(conn_id="lake_conn", conn_type="iceberg_ops", extra=extra))


@pytest.mark.parametrize("uri", ["postgresql://geheim\t1/d", "postgresql://geheim/d\n", " postgresql://geheim/d"])
def test_a_uri_with_characters_that_would_be_lost_is_refused(uri: str) -> None:
    """The host was another one without its tab, or the rest of the uri was cut in the wrong place."""
    with pytest.raises(OptionError, match="must begin with its dialect and have no tab or line break") as caught:
        catalog_config(connection({"name": "lake", "type": "sql", "uri": uri}, "me", "secret"))
    assert "geheim" not in str(caught.value)


def test_an_encrypted_file_gets_its_passphrase() -> None:
    extra = {"name": "lake", "type": "sql", "uri": "sqlite+pysqlcipher:////data/c.db"}
    assert catalog_config(connection(extra, None, "p@ss")).properties["uri"] == "sqlite+pysqlcipher://:p%40ss@//data/c.db"


def test_a_uri_that_cannot_be_split_is_named_and_not_shown() -> None:
    with pytest.raises(OptionError, match=r"connection lake_conn: extra 'uri' \(not shown\)") as caught:
        catalog_config(connection({"name": "lake", "type": "sql", "uri": "postgresql://[geheim/x"}, "me", "secret"))
    assert "geheim" not in str(caught.value)


# the Test button


def use(monkeypatch: pytest.MonkeyPatch, **extra: str) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_ICEBERG_DEFAULT", json.dumps({"conn_type": "iceberg_ops", "extra": {"name": "lake", **extra}}))


def test_a_connection_that_works_says_what_each_step_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    properties = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": str(tmp_path)}
    load_catalog(CatalogConfig(name="lake", type="sql", properties=properties)).create_namespace(("nyc",))
    use(monkeypatch, type="sql", **properties)
    works, said = IcebergCatalogHook().test_connection()
    assert works
    assert said.startswith("catalog lake (sql) works, as far as it was tried: reach and authenticate: catalog lake answers;")
    assert "list namespaces: nyc; load a table: no table is in the first 50 namespaces" in said


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({}, "extra must hold 'type'"),
        ({"type": "nonsense"}, "fails to reach and authenticate (BAD_OPTION): catalog lake: type 'nonsense' is not known"),
        ({"type": "sql", "uri": "postgresql://me:geheim@db:54x2/x"}, "(BAD_OPTION): catalog property uri"),
        ({"type": "sql", "uri": "sqlite:////nowhere/c.db"}, "(CATALOG_UNAVAILABLE): catalog lake: unable to open database file"),
    ],
)
def test_a_connection_that_does_not_work_says_why(extra: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, **extra)
    works, why = IcebergCatalogHook().test_connection()
    assert not works
    assert said in why
    assert "geheim" not in why
