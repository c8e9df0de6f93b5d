"""A connection as a catalog."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection

from iceberg_airflow.hook import IcebergCatalogHook, catalog_config
from iceberg_ops.errors import OptionError

pytestmark = pytest.mark.airflow


def connection(extra: dict[str, Any], login: str | None = None, password: str | None = None) -> Connection:
    return Connection(conn_id="lake_conn", conn_type="iceberg_ops", login=login, password=password, extra=json.dumps(extra))


def test_extra_gives_name_type_and_properties() -> None:
    config = catalog_config(connection({"name": "lake", "type": "sql", "uri": "sqlite:///x.db", "pool": 3, "echo": False}))
    assert (config.name, config.type) == ("lake", "sql")
    assert config.properties == {"uri": "sqlite:///x.db", "pool": "3", "echo": "false"}


def test_login_and_password_are_put_into_the_uri_escaped() -> None:
    extra = {"name": "lake", "type": "sql", "uri": "postgresql+psycopg2://db:5432/iceberg"}
    assert (
        catalog_config(connection(extra, "me", "p@ss/word")).properties["uri"]
        == "postgresql+psycopg2://me:p%40ss%2Fword@db:5432/iceberg"
    )


@pytest.mark.parametrize("uri", ["sqlite:////data/catalog.db", "postgresql://you@db/iceberg"])
def test_a_uri_without_host_or_with_a_user_is_left_alone(uri: str) -> None:
    assert catalog_config(connection({"name": "lake", "type": "sql", "uri": uri}, "me", "secret")).properties["uri"] == uri


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"type": "sql"}, "connection lake_conn: extra must hold 'name'"),
        ({"name": "lake"}, "connection lake_conn: extra must hold 'type'"),
        ({"name": "lake", "type": "sql", "uri": ["a"]}, "connection lake_conn: extra 'uri' must be text"),
    ],
)
def test_what_is_missing_or_wrong_is_named(extra: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        catalog_config(connection(extra))


def test_the_hook_reads_the_connection_of_its_id() -> None:
    assert IcebergCatalogHook().get_conn().name == "lake"
