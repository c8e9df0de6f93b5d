"""The URL of a JDBC catalog as a URL of SQLAlchemy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, unquote_plus, urlencode

from iceberg_ops.catalog.foreign.taken import UnusableCatalog

_POSTGRESQL = "jdbc:postgresql:"
_SQLITE = "jdbc:sqlite:"
_OF_LIBPQ = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "connectTimeout": "connect_timeout",
    "ApplicationName": "application_name",
    "options": "options",
}
"""Parameters of the JDBC driver -> those of libpq."""


def sqlalchemy_url(url: str, properties: Mapping[str, str], notes: list[str]) -> str:
    """``properties``: of the connection, such as ``user`` and ``password``, which apply if the URL does not have them, as in the
    JDBC driver. Raises Unusable, without the URL."""
    if url.startswith(_SQLITE):
        path = url.removeprefix(_SQLITE).removeprefix("file:").partition("?")[0]
        return f"sqlite:///{path}"
    if not url.startswith(_POSTGRESQL):
        raise UnusableCatalog(
            "its uri (not shown) is neither a jdbc:postgresql: nor a jdbc:sqlite: URL: configure it in the catalogs file"
        )
    address, _, query = url.removeprefix(_POSTGRESQL).partition("?")
    host, database = ("", address) if not address.startswith("//") else _split(address[2:])
    given = {**properties, **dict(parse_qsl(query, keep_blank_values=True))}
    user, password, encrypted = given.pop("user", ""), given.pop("password", ""), given.pop("ssl", "false").lower() in ("", "true")
    if encrypted:
        given.setdefault("sslmode", "verify-full")
    if schema := given.pop("currentSchema", ""):
        path = re.sub(r"([\\\s])", r"\\\1", schema)
        given["options"] = f"{given.get('options', '')} -c search_path={path}".strip()
    notes += [f"{name} of its JDBC connection has no effect here" for name in sorted(given) if name not in _OF_LIBPQ]
    kept = urlencode({_OF_LIBPQ[name]: value for name, value in given.items() if name in _OF_LIBPQ}, quote_via=quote)
    who = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    place = f"{f'{who}@' if who else ''}{host or 'localhost'}/{quote(database, safe='')}"
    return f"postgresql+psycopg2://{place}{f'?{kept}' if kept else ''}"


def _split(address: str) -> tuple[str, str]:
    host, _, database = address.partition("/")
    if "," in host:
        raise UnusableCatalog("its uri names several servers: configure it in the catalogs file")
    return host, unquote_plus(database)
