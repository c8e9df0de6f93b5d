"""An Airflow connection of type ``iceberg_ops`` as a catalog.

The connection's ``extra`` holds ``name`` (the catalog's, first part of every table name), ``type`` (``sql``, ``filesystem``,
...) and the catalog's properties. Given login and password are put into the ``uri`` property, so that secrets stay in
the connection; for a ``rest`` catalog they are its credential, and a password alone is its token. ``deployment`` in the extra names
this Airflow; it becomes part of default run keys. Example::

    AIRFLOW_CONN_ICEBERG_DEFAULT='{"conn_type": "iceberg_ops", "extra": {"name": "lake", "type": "sql",
                                   "uri": "sqlite:////data/catalog.db", "warehouse": "/data/warehouse"}}'

Every secret is masked in the task's log in each form in which it may be printed: Airflow itself masks the password only as written
in the connection. The engine opens the catalog in the job's own process: a worker never does.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from iceberg_airflow.masking import mask
from iceberg_airflow.processes import Processes, run_module
from iceberg_ops.config.document import to_json
from iceberg_ops.config.given_text import check_text
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.config.secrets import hide, secrets_of
from iceberg_ops.errors import IcebergOpsError, OptionError

DEFAULT_CONNECTION = "iceberg_default"
CONNECTION_TYPE = "iceberg_ops"
HOOK_NAME = "Iceberg catalog"
_FILES = ("sqlite", "duckdb")
"""Dialects whose databases are files, or in memory: they have no login."""
_ENCRYPTED_FILES = ("sqlite+pysqlcipher",)
"""Drivers whose files have a passphrase."""
_DROPPED = re.compile(r"^[\x00-\x20]|[\t\r\n]")
"""Characters that ``urlsplit`` silently drops."""
_NOT_PROPERTIES = ("name", "type", "deployment")


class IcebergCatalogHook(BaseHook):
    """Reads catalog settings from a connection."""

    conn_name_attr = "catalog_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = CONNECTION_TYPE
    hook_name = HOOK_NAME

    def __init__(self, catalog_conn_id: str = DEFAULT_CONNECTION) -> None:
        super().__init__()
        self.catalog_conn_id = catalog_conn_id

    def get_conn(self) -> CatalogConfig:
        """The catalog's settings. Raises OptionError that names the connection and the problem."""
        return catalog_config(self._connection())

    def deployment(self) -> str | None:
        """The name of this Airflow if several work on one catalog. Raises OptionError."""
        return deployment_of(self._connection())

    def _connection(self) -> Connection:
        """Raises OptionError if it is not defined: a retry would not find it either."""
        try:
            return self.get_connection(self.catalog_conn_id)
        except AirflowNotFoundException:
            rule = f"it needs conn_type {CONNECTION_TYPE}, and an extra with the catalog's name, type and properties"
            raise OptionError(f"catalog connection {self.catalog_conn_id!r} is not defined: {rule}") from None

    def test_connection(self) -> tuple[bool, str]:
        """Open the catalog and list its namespaces, in a separate process; returns whether that worked, and a line about it."""
        try:
            config = self.get_conn()
        except IcebergOpsError as e:
            return False, str(e)
        try:
            with tempfile.TemporaryDirectory(prefix="iceberg-ops-") as folder:
                path, answer = Path(folder) / "catalog.json", Path(folder) / "answer.txt"
                run_module(Processes(), "iceberg_airflow.connection_test", [str(path), str(answer)], {path: to_json(config)})
                return True, answer.read_text()
        except IcebergOpsError as e:
            return False, hide(f"{e.code}: {e}", secrets_of(config.properties))


def catalog_config(connection: Connection) -> CatalogConfig:
    """A connection as catalog settings, its secrets masked in the log from now on. Raises OptionError."""
    extra = _extra(connection)
    where = f"connection {connection.conn_id}"
    for key in ("name", "type"):
        if not isinstance(extra.get(key), str) or not extra[key]:
            raise OptionError(f"{where}: extra must hold {key!r}, the catalog's {key}")
    if "." in extra["name"]:
        raise OptionError(f"{where}: extra 'name' must have no dot: it is the first part of every table's name")
    wrong = sorted(k for k, v in extra.items() if not isinstance(v, (str, int, float)))
    if wrong:
        raise OptionError(f"{where}: extra {wrong[0]!r} must be text, a number, true or false")
    for key, value in extra.items():
        check_text(f"{where}: extra {key!r}", _text(value))
    properties = {k: _text(v) for k, v in extra.items() if k not in _NOT_PROPERTIES}
    if extra["type"] == "rest":
        properties |= _proof(properties, connection.login, connection.password, where)
    elif (connection.login or connection.password) and "uri" in properties:
        properties["uri"] = _with_login(properties["uri"], connection.login, connection.password, where)
    mask(secrets_of({**properties, "password": connection.password or ""}))
    return CatalogConfig(name=extra["name"], type=extra["type"], properties=properties)


def deployment_of(connection: Connection) -> str | None:
    """The extra's ``deployment``. Raises OptionError for one that is not text."""
    found = _extra(connection).get("deployment")
    if found is not None and (not isinstance(found, str) or not found.strip() or "/" in found):
        raise OptionError(f"connection {connection.conn_id}: extra 'deployment' must be a name without a slash")
    return found


def _extra(connection: Connection) -> Mapping[str, Any]:
    extra = connection.extra_dejson
    if not isinstance(extra, Mapping):
        raise OptionError(f"connection {connection.conn_id}: extra must be a JSON object, not a {type(extra).__name__}")
    return extra


def _text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _proof(properties: Mapping[str, str], login: str | None, password: str | None, where: str) -> dict[str, str]:
    """What proves to a REST catalog who asks. Raises OptionError where the extra names it, too."""
    if not password:
        return {}
    if properties.get("rest.auth.type") == "basic":
        found = {"rest.auth.basic.username": login or "", "rest.auth.basic.password": password}
    else:
        found = {"credential": f"{login}:{password}"} if login else {"token": password}
    if named := sorted({"credential", "token", *found} & properties.keys()):
        raise OptionError(f"{where}: extra {named[0]!r} and the connection's password prove who asks: leave one of them out")
    return found


def _with_login(uri: str, login: str | None, password: str | None, where: str) -> str:
    """``uri`` with user and password, also for a server without a host (a socket). A URI that has both keeps them, and a file has
    none. Raises OptionError if it names another user: then the owner of the password is unknown."""
    if _DROPPED.search(uri):
        raise OptionError(
            f"{where}: extra 'uri' (not shown) must begin with its dialect and have no tab or line break: remove them"
        )
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise OptionError(f"{where}: extra 'uri' (not shown) must be dialect+driver://host:port/database") from None
    named, _, host = parts.netloc.rpartition("@")
    if "://" not in uri or _is_file(parts) or ":" in named:
        return uri
    if named and login and unquote(named) != login:
        raise OptionError(f"{where}: extra 'uri' names another user than the connection's login: leave one of them out")
    user = (named or quote(login or "", safe="")) + (f":{quote(password, safe='')}" if password else "")
    return f"{parts.scheme}://{user}@{host}{uri.partition('://')[2][len(parts.netloc) :]}"


def _is_file(parts: SplitResult) -> bool:
    """Whether the URI names a database file: by its dialect, or because it has no host and an absolute path."""
    if parts.scheme in _ENCRYPTED_FILES:
        return False
    return parts.scheme.partition("+")[0] in _FILES or (not parts.netloc and parts.path.startswith("//"))
