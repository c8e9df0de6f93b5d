"""Converts an Airflow connection to the settings of a catalog or of a store.  Login and password become part of a database's
``uri``; for ``rest`` and ``nessie`` catalogs they are the credential, and a password without login is the token; for other types
``connection_types`` names the properties. An empty field of the form counts as not set. Two fields with different values for one
setting are an OptionError.

Every secret is masked in the log of this process in each form in which it may be printed: Airflow itself masks the password only as
written in the connection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from airflow.sdk import Connection
from airflow.sdk._shared.secrets_masker import should_hide_value_for_key

from iceberg_airflow.connection_types import DEPLOYMENT, NAME, STORES, TEST_FOLDER, TYPES, ConnectionType
from iceberg_airflow.masking import mask
from iceberg_ops.config.catalog_properties import check_names, relative_place, unread
from iceberg_ops.config.given_text import check_text
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.config.secrets import is_secret_setting, secrets_in_properties
from iceberg_ops.errors import OptionError

_FILES = ("sqlite", "duckdb")
"""Dialects whose databases are files, or in memory: they have no login."""
_ENCRYPTED_FILES = ("sqlite+pysqlcipher",)
"""Drivers whose files have a passphrase."""
_DROPPED = re.compile(r"^[\x00-\x20]|[\t\r\n]")
"""Characters that ``urlsplit`` silently drops."""
_NOT_PROPERTIES = (NAME, "type", DEPLOYMENT, STORES, TEST_FOLDER)
_TYPE_OF_STORES = "filesystem"
"""The catalog type whose properties are only those of its files, as for a store."""
_WITH_LOGIN = ("sql", "hive", "nessie", "rest")
"""Types of catalogs that use login and password even if the connection's type is not in ``TYPES``."""
_KEYS_OF_SIGNATURE = ("rest.access-key-id", "rest.secret-access-key")


def catalog_config(connection: Connection, stores: Sequence[Connection] = ()) -> CatalogConfig:
    """A connection as catalog settings, with the properties of its ``stores``. Raises OptionError."""
    where, kind, extra = _where(connection), TYPES.get(connection.conn_type or ""), _given(connection)
    if kind is not None and kind.is_store:
        raise OptionError(f"{where} is a store ({kind.name}): name it under {STORES!r} in the connection of a catalog")
    if kind is not None and extra.setdefault("type", kind.type) != kind.type:
        raise OptionError(f"{where}: extra 'type' is {extra['type']!r}, and a connection of type {kind.name} is {kind.type!r}")
    for key in (NAME, "type"):
        if not isinstance(extra.get(key), str) or not extra[key]:
            raise OptionError(f"{where}: extra must hold {key!r}, the catalog's {key}")
    if "." in extra[NAME]:
        raise OptionError(f"{where}: extra 'name' must have no dot: it is the first part of every table's name")
    properties = _properties(where, extra["type"], extra)
    if kind is not None:
        properties = _joined(where, properties, _of_own_fields(kind, connection))
    if extra["type"] == "nessie":
        properties |= _proof_of_nessie(properties, connection.login, connection.password, where)
    elif extra["type"] == "rest":
        properties |= _proof(properties, connection.login, connection.password, where)
    elif (connection.login or connection.password) and "uri" in properties and (kind is None or kind.type == "sql"):
        properties["uri"] = _with_login(properties["uri"], connection.login, connection.password, where)
    for store in stores:
        properties = _joined(_where(store), properties, store_properties(store))
    mask(secrets_in_properties({**properties, "password": connection.password or ""}))
    return CatalogConfig(name=extra[NAME], type=extra["type"], properties=properties)


def store_properties(connection: Connection) -> dict[str, str]:
    """A connection as the properties of a store. Raises OptionError."""
    where, kind = _where(connection), TYPES.get(connection.conn_type or "")
    if kind is None or not kind.is_store:
        known = ", ".join(name for name, kind in TYPES.items() if kind.is_store)
        raise OptionError(f"{where} is of type {connection.conn_type!r}, and no store: its type must be one of {known}")
    properties = _joined(where, _properties(where, _TYPE_OF_STORES, _given(connection)), _of_own_fields(kind, connection))
    mask(secrets_in_properties({**properties, "password": connection.password or ""}))
    return properties


def store_ids(connection: Connection) -> list[str]:
    """The connections of stores that a catalog's connection names. Raises OptionError."""
    text = _given(connection).get(STORES, "")
    if not isinstance(text, str):
        raise OptionError(f"{_where(connection)}: extra {STORES!r} must be ids of connections, separated by commas")
    return [part.strip() for part in text.split(",") if part.strip()]


def test_folder(connection: Connection) -> str | None:
    """The folder in which Test writes a file, if the connection names one. Raises OptionError."""
    folder = _given(connection).get(TEST_FOLDER)
    if folder is not None and not isinstance(folder, str):
        raise OptionError(f"{_where(connection)}: extra {TEST_FOLDER!r} must be a location")
    return folder or None


def deployment_of(connection: Connection) -> str | None:
    """The extra's ``deployment``. Raises OptionError for one that is not text."""
    name = _given(connection).get(DEPLOYMENT)
    if name is not None and (not isinstance(name, str) or not name.strip() or "/" in name):
        raise OptionError(f"{_where(connection)}: extra 'deployment' must be a name without a slash")
    return name


def advice(connection: Connection) -> list[str]:
    """What is wrong with a connection that can be used: secrets that Airflow shows, and fields that have no effect."""
    kind, where = TYPES.get(connection.conn_type or ""), _where(connection)
    shown = [k for k, v in _given(connection).items() if is_secret_setting(k, str(v)) and not should_hide_value_for_key(k)]  # type: ignore[no-untyped-call]
    lines = [
        f"{where}: Airflow shows extra {key!r}, a secret, to everyone who may see connections: put it into the password, or its "
        f"name into [core] sensitive_var_conn_names"
        for key in shown
        if key != "s3.sse.key" or "custom" in str(_given(connection).get("s3.sse.type", "")).lower()
    ]
    named = _TYPE_OF_STORES if kind is not None and kind.is_store else kind.type if kind else str(_given(connection).get("type"))
    used = (
        {*kind.own_fields, *(("port", "schema") if kind.scheme else ())}
        if kind
        else {"login", "password"}
        if named in _WITH_LOGIN
        else set()
    )
    unused = [name for name in ("host", "port", "schema", "login", "password") if name not in used and getattr(connection, name)]
    what = (
        f"a connection of type {kind.name}"
        if kind
        else f"a connection of type {connection.conn_type} for a catalog of type {named}"
    )
    lines += [f"{where}: its {name} has no effect, because {what} has none" for name in unused]
    lines += [
        f"{where}: extra {key!r} has no effect here" for key in unread(named, _given(connection)) if key not in _NOT_PROPERTIES
    ]
    if (
        (kind.type if kind else _given(connection).get("type")) in ("nessie", "rest")
        and connection.login
        and not connection.password
    ):
        lines.append(f"{where}: its login has no effect without a password")
    return lines


def _where(connection: Connection) -> str:
    return f"connection {connection.conn_id}"


def _given(connection: Connection) -> dict[str, Any]:
    """The extra, without empty fields of the form. Raises OptionError."""
    extra = connection.extra_dejson
    if not isinstance(extra, Mapping):
        raise OptionError(f"{_where(connection)}: extra must be a JSON object, not a {type(extra).__name__}")
    has_form = (connection.conn_type or "") in TYPES
    return {key: value for key, value in extra.items() if not (has_form and value in (None, ""))}


def _properties(where: str, kind: str, extra: Mapping[str, Any]) -> dict[str, str]:
    """The properties in the extra of a catalog of type ``kind``. Raises OptionError, also for a misspelt one."""
    if wrong := sorted(k for k, v in extra.items() if not isinstance(v, (str, int, float))):
        raise OptionError(f"{where}: extra {wrong[0]!r} must be text, a number, true or false")
    for key, value in extra.items():
        check_text(f"{where}: extra {key!r}", _text(value))
    properties = {k: _text(v) for k, v in extra.items() if k not in _NOT_PROPERTIES}
    check_names(where, kind, properties, _NOT_PROPERTIES)
    if problem := relative_place(kind, properties):
        raise OptionError(f"{where}: {problem}")
    return properties


def _joined(where: str, known: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Both together. Raises OptionError, without the values, for a property that has different values in them."""
    if differing := sorted(key for key in known.keys() & more.keys() if known[key] != more[key]):
        raise OptionError(f"{where}: property {differing[0]!r} is given twice, with different values: leave one of them out")
    return {**known, **more}


def _of_own_fields(kind: ConnectionType, connection: Connection) -> dict[str, str]:
    """The properties in Airflow's own fields (host, login, password and so on). Raises OptionError."""
    properties = {kind.login: connection.login, kind.password: connection.password}
    if kind.scheme and (connection.host or connection.port or connection.schema):
        properties["uri"] = _address(kind, connection)
    return {name: value for name, value in properties.items() if name and value}


def _address(kind: ConnectionType, connection: Connection) -> str:
    """The URI of host, port and schema; the host may begin with a scheme of its own, or name several Hive Metastores. Raises
    OptionError for a port or schema without a host, for a host that contradicts them, and for a database server without a
    database: its driver would choose one."""
    where, host, schema = _where(connection), (connection.host or "").strip(), connection.schema
    if not host:
        other = "port" if connection.port else "schema"
        raise OptionError(f"{where}: its {other} has no effect without a host: give it a host, or leave the {other} out")
    if _DROPPED.search(host):
        raise OptionError(f"{where}: its host has a tab or a line break: remove it")
    if kind.type == "hive" and "," in host:
        if connection.port or schema:
            raise OptionError(f"{where}: its host names several servers, each with its own port: leave port and schema out")
        servers = [server for part in host.split(",") if (server := part.strip())]
        return ",".join(server if "://" in server else f"{kind.scheme}://{server}" for server in servers)
    if "://" not in host:
        host = f"{kind.scheme}://{f'[{host}]' if host.count(':') > 1 and not host.startswith('[') else host}"
    try:
        parts = urlsplit(host)
        port = parts.port
    except ValueError:
        raise OptionError(f"{where}: its host (not shown) must be a name, or scheme://name:port") from None
    if port is not None and connection.port not in (None, port):
        raise OptionError(f"{where}: its host names another port than its port {connection.port}: leave one of them out")
    of_host = parts.path.strip("/")
    if kind.type == "sql" and bool(of_host) == bool(schema):
        what = "both name a database: leave one of them out" if schema else "name no database: give it one, as its schema"
        raise OptionError(f"{where}: its host and its schema {what}")
    ending = f":{connection.port}" if connection.port is not None and port is None else ""
    path = f"{parts.path.rstrip('/')}/{quote(schema, safe='')}" if schema else parts.path
    return urlunsplit(parts._replace(netloc=f"{parts.netloc}{ending}", path=path))


def _proof(properties: Mapping[str, str], login: str | None, password: str | None, where: str) -> dict[str, str]:
    """The credentials of a REST catalog. Raises OptionError if the extra has them too."""
    if not password:
        return {}
    kind = properties.get("rest.auth.type", "sigv4" if properties.get("rest.sigv4-enabled", "").lower() == "true" else "")
    if kind == "basic":
        credentials = {"rest.auth.basic.username": login or "", "rest.auth.basic.password": password}
    elif kind == "sigv4":
        credentials = dict(zip(_KEYS_OF_SIGNATURE, (login or "", password), strict=True))
    else:
        credentials = {"credential": f"{login}:{password}"} if login else {"token": password}
    if named := sorted({"credential", "token", *credentials} & properties.keys()):
        raise OptionError(
            f"{where}: extra {named[0]!r} and the connection's password both authenticate the client: leave one of them out"
        )
    return credentials


def _proof_of_nessie(properties: Mapping[str, str], login: str | None, password: str | None, where: str) -> dict[str, str]:
    """The credentials of Nessie, under Iceberg Java's names. Raises OptionError if the extra has other ones."""
    if not password:
        return {}
    begun = "authentication."
    kind = properties.get(f"{begun}type", "BASIC" if login else "BEARER").upper()
    names = {"BASIC": ("username", "password"), "OAUTH2": ("oauth2.client-id", "oauth2.client-secret"), "BEARER": ("", "token")}
    if kind not in names:
        raise OptionError(f"{where}: it has a password, and extra {begun}type is {kind!r}: must be one of {', '.join(names)}")
    given = {
        f"{begun}type": kind,
        **{f"{begun}{name}": value or "" for name, value in zip(names[kind], (login, password), strict=True) if name},
    }
    return _joined(where, given, {key: value for key, value in properties.items() if key in given and key != f"{begun}type"})


def _text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _with_login(uri: str, login: str | None, password: str | None, where: str) -> str:
    """``uri`` with user and password, also for a server without a host (a socket); a file has none. Raises OptionError if it has
    another user or password."""
    if _DROPPED.search(uri):
        raise OptionError(
            f"{where}: extra 'uri' (not shown) must begin with its dialect and have no tab or line break: remove them"
        )
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise OptionError(f"{where}: extra 'uri' (not shown) must be dialect+driver://host:port/database") from None
    named, _, host = parts.netloc.rpartition("@")
    if "://" not in uri or _is_file(parts):
        return uri
    user, has_password, known = named.partition(":")
    if user and login and unquote(user) != login:
        raise OptionError(f"{where}: extra 'uri' names another user than the connection's login: leave one of them out")
    if has_password:
        if password and unquote(known) != password:
            raise OptionError(f"{where}: extra 'uri' has another password than the connection: leave one of them out")
        return uri
    user = (named or quote(login or "", safe="")) + (f":{quote(password, safe='')}" if password else "")
    return f"{parts.scheme}://{user}@{host}{uri.partition('://')[2][len(parts.netloc) :]}"


def _is_file(parts: SplitResult) -> bool:
    """Whether the URI names a database file: by its dialect, or because it has no host and an absolute path."""
    if parts.scheme in _ENCRYPTED_FILES:
        return False
    return parts.scheme.partition("+")[0] in _FILES or (not parts.netloc and parts.path.startswith("//"))
