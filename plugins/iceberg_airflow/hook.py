"""Hooks: an Airflow connection as a catalog, or as the store of its tables.

A catalog's connection is of a type in ``connection_types``, or of type ``iceberg_ops``, whose ``extra`` holds everything:
``name`` (the catalog's, first part of every table name), ``type`` (``sql``, ``filesystem``, ...) and the catalog's properties.
``deployment`` in the extra names this Airflow; it becomes part of default run keys. Example::

    AIRFLOW_CONN_ICEBERG_DEFAULT='{"conn_type": "iceberg_ops", "extra": {"name": "lake", "type": "sql",
                                   "uri": "sqlite:////data/catalog.db", "warehouse": "/data/warehouse"}}'

The engine opens the catalog in the job's own process: a worker never does. ``connection_settings`` says what the fields mean.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from iceberg_airflow.connection_settings import advice, catalog_config, deployment_of, store_ids, store_properties, test_folder
from iceberg_airflow.connection_types import ANY_CATALOG, TYPES, ConnectionType
from iceberg_airflow.processes import Processes, run_module
from iceberg_airflow.work import ConnectionTest, ConnectionTestResult
from iceberg_ops.config.document import from_json, to_json
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.config.secrets import hide, secrets_in_properties
from iceberg_ops.errors import IcebergOpsError, OptionError

DEFAULT_CONNECTION = "iceberg_default"


class _TestedHook(BaseHook):
    """A hook whose Test button tries what ``iceberg-ops catalog test`` tries, in a separate process."""

    def trial(self) -> tuple[ConnectionTest, list[str]]:
        """What to try, and advice about the connection. Raises OptionError."""
        raise NotImplementedError

    def test_connection(self) -> tuple[bool, str]:
        """Whether every step worked, and a line about them."""
        secrets: tuple[str, ...] = ()
        try:
            trial, notes = self.trial()
            secrets = secrets_in_properties(trial.properties)
            with tempfile.TemporaryDirectory(prefix="iceberg-ops-") as folder:
                path, answer = Path(folder) / "trial.json", Path(folder) / "answer.json"
                run_module(Processes(), "iceberg_airflow.connection_test", [str(path), str(answer)], {path: to_json(trial)})
                tried = from_json(answer.read_bytes(), ConnectionTestResult, answer.name)
                return tried.works, hide(". ".join([tried.said, *notes]), secrets)
        except IcebergOpsError as e:
            return False, hide(f"{e.code}: {e}", secrets)

    def _connection(self, what: str, conn_id: str) -> Connection:
        """Raises OptionError if it is not defined: a retry would not find it either."""
        try:
            return self.get_connection(conn_id)
        except AirflowNotFoundException:
            types = ", ".join(name for name, kind in TYPES.items() if kind.is_store == (what == "store"))
            other = "" if what == "store" else f", or {ANY_CATALOG} and an extra with the catalog's name, type and properties"
            raise OptionError(f"{what} connection {conn_id!r} is not defined: it needs a conn_type of {types}{other}") from None


class IcebergCatalogHook(_TestedHook):
    """Reads catalog settings from a connection."""

    conn_name_attr = "catalog_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = ANY_CATALOG
    hook_name = "Iceberg catalog"

    def __init__(self, catalog_conn_id: str = DEFAULT_CONNECTION) -> None:
        super().__init__()
        self.catalog_conn_id = catalog_conn_id

    def get_conn(self) -> CatalogConfig:
        """The catalog's settings, with those of its stores. Raises OptionError that names the connection and the problem."""
        config, notes = self._read()
        for line in notes:
            self.log.warning("%s", line)
        return config

    def deployment(self) -> str | None:
        """The name of this Airflow if several work on one catalog. Raises OptionError."""
        return deployment_of(self._connection("catalog", self.catalog_conn_id))

    def trial(self) -> tuple[ConnectionTest, list[str]]:
        config, notes = self._read()
        return ConnectionTest(catalog=config, folder=test_folder(self._connection("catalog", self.catalog_conn_id))), notes

    def _read(self) -> tuple[CatalogConfig, list[str]]:
        connection = self._connection("catalog", self.catalog_conn_id)
        stores = [self._connection("store", conn_id) for conn_id in store_ids(connection)]
        return catalog_config(connection, stores), [line for each in (connection, *stores) for line in advice(each)]


class IcebergStoreHook(_TestedHook):
    """Reads a store's settings from a connection, which catalog connections name."""

    conn_name_attr = "store_conn_id"
    default_conn_name = "iceberg_store_default"

    def __init__(self, store_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.store_conn_id = store_conn_id

    def get_conn(self) -> dict[str, str]:
        """The store's properties. Raises OptionError."""
        return store_properties(self._connection("store", self.store_conn_id))

    def trial(self) -> tuple[ConnectionTest, list[str]]:
        connection = self._connection("store", self.store_conn_id)
        return ConnectionTest(store=store_properties(connection), folder=test_folder(connection)), advice(connection)


def _make_hook(kind: ConnectionType) -> type[_TestedHook]:
    """Airflow finds the type of a connection in a class of its own."""
    base = IcebergStoreHook if kind.is_store else IcebergCatalogHook
    named = {"conn_type": kind.name, "hook_name": kind.title, "__module__": __name__, "__doc__": kind.title}
    return type(kind.hook, (base,), named)


_HOOKS = {kind.hook: _make_hook(kind) for kind in TYPES.values()}


def __getattr__(name: str) -> Any:
    if name not in _HOOKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _HOOKS[name]
