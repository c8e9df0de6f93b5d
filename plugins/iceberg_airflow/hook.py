"""An Airflow connection of type ``iceberg_ops`` as a catalog.

The connection's ``extra`` holds ``name`` (the catalog's, first part of every table name), ``type`` (``sql``, ``filesystem``,
...) and the catalog's properties. Login and password, where given, are put into the ``uri`` property, so that secrets stay in
the connection. Example::

    AIRFLOW_CONN_ICEBERG_DEFAULT='{"conn_type": "iceberg_ops", "extra": {"name": "lake", "type": "sql", "uri":
    "sqlite:////data/catalog.db",
                                   "warehouse": "/data/warehouse"}}'

Opening the catalog is the engine's work, in the job's own process: a worker never holds one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from airflow.sdk import BaseHook, Connection

from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.errors import OptionError

DEFAULT_CONNECTION = "iceberg_default"


class IcebergCatalogHook(BaseHook):
    """Reads catalog settings from a connection."""

    conn_name_attr = "catalog_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = "iceberg_ops"
    hook_name = "Iceberg catalog"

    def __init__(self, catalog_conn_id: str = DEFAULT_CONNECTION) -> None:
        super().__init__()
        self.catalog_conn_id = catalog_conn_id

    def get_conn(self) -> CatalogConfig:
        """The catalog's settings. Raises OptionError that names the connection and what is wrong with it."""
        return catalog_config(self.get_connection(self.catalog_conn_id))

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        return {
            "hidden_fields": ["port", "schema", "host"],
            "relabeling": {"login": "Catalog user", "password": "Catalog password"},
            "placeholders": {
                "extra": '{"name": "lake", "type": "sql", "uri": "postgresql://db/iceberg", "warehouse": "s3://lake/"}'
            },
        }


def catalog_config(connection: Connection) -> CatalogConfig:
    """A connection as catalog settings. Raises OptionError."""
    extra: Mapping[str, Any] = connection.extra_dejson
    where = f"connection {connection.conn_id}"
    for key in ("name", "type"):
        if not isinstance(extra.get(key), str) or not extra[key]:
            raise OptionError(f"{where}: extra must hold {key!r}, the catalog's {key}")
    wrong = sorted(k for k, v in extra.items() if not isinstance(v, (str, int, float)))
    if wrong:
        raise OptionError(f"{where}: extra {wrong[0]!r} must be text, a number, true or false")
    properties = {k: _text(v) for k, v in extra.items() if k not in ("name", "type")}
    if connection.login and "uri" in properties:
        properties["uri"] = _with_login(properties["uri"], connection.login, connection.password)
    return CatalogConfig(name=extra["name"], type=extra["type"], properties=properties)


def _text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _with_login(uri: str, login: str, password: str | None) -> str:
    """``uri`` with user and password before the host, unless it names a user already."""
    parts = urlsplit(uri)
    if not parts.netloc or "@" in parts.netloc:
        return uri
    user = quote(login, safe="") + (f":{quote(password, safe='')}" if password else "")
    return urlunsplit(parts._replace(netloc=f"{user}@{parts.netloc}"))
