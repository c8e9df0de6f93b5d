"""The configuration of a REST catalog: the client's properties, then the server's (``GET /v1/config``).

The client's own properties override the server's ``defaults``; the server's ``overrides`` override them. A server may not set some
properties: the client's authentication, the address, and the access to files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.errors import OptionError
from iceberg_ops.io.changing_files import FILES_MAY_CHANGE
from iceberg_ops.io.load import IO_IMPL
from iceberg_ops.io.mapped import LOCATION_MAPPING
from iceberg_ops.io.read_only import READ_ONLY
from iceberg_ops.serde.json.json_objects import JsonObject, as_text, as_text_map

UNIT_SEPARATOR = "\x1f"
PAGE_SIZE = "rest-page-size"
CONNECT_TIMEOUT = "rest.client.connection-timeout-ms"
ANSWER_TIMEOUT = "rest.client.socket-timeout-ms"
HEADER_PREFIX = "header."
DELEGATION = "X-Iceberg-Access-Delegation"
"""How the server is to give access to a table's files; ``none`` here: it is not asked."""

_OWN = frozenset({IO_IMPL, LOCATION_MAPPING, READ_ONLY, FILES_MAY_CHANGE})
"""The access to files is defined by this package: a server's ``io-impl`` is a class of another language."""
_ASKING = frozenset({"uri", "credential", "token", "scope", "audience", "resource", "prefix", "namespace-separator"})
_ASKING_PREFIXES = ("header.", "rest.", "rest-", "oauth2-", "token-")
"""Properties for requests to the server, some of them secret: a FileIO does not get them, because it is sent to other
processes."""

_ENDPOINTS_OF_OLD = frozenset(
    {
        "GET /v1/{prefix}/namespaces",
        "POST /v1/{prefix}/namespaces",
        "GET /v1/{prefix}/namespaces/{namespace}",
        "DELETE /v1/{prefix}/namespaces/{namespace}",
        "POST /v1/{prefix}/namespaces/{namespace}/properties",
        "GET /v1/{prefix}/namespaces/{namespace}/tables",
        "POST /v1/{prefix}/namespaces/{namespace}/tables",
        "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "POST /v1/{prefix}/namespaces/{namespace}/register",
        "POST /v1/{prefix}/tables/rename",
    }
)
"""The endpoints of a server that does not list its endpoints."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The answer of ``GET /v1/config``."""

    defaults: Mapping[str, str]
    overrides: Mapping[str, str]
    endpoints: frozenset[str]

    @classmethod
    def of(cls, document: Any) -> ServerConfig:
        """Raises CorruptTableError for an invalid answer."""
        answer = JsonObject(document, "the answer")
        listed = answer.optional_array("endpoints", lambda v: as_text(v, "endpoints"))
        return cls(
            {k: v for k, v in (answer.maybe("defaults", as_text_map) or {}).items() if k not in _OWN},
            {k: v for k, v in (answer.maybe("overrides", as_text_map) or {}).items() if k not in _OWN},
            frozenset(listed) or _ENDPOINTS_OF_OLD,
        )

    def merged(self, client_properties: Mapping[str, str]) -> dict[str, str]:
        """Defaults, then the client's, then overrides."""
        return {**self.defaults, **client_properties, **self.overrides}


@dataclass(frozen=True, slots=True)
class Settings:
    """The effective properties, and values derived from them. ``properties`` may hold secrets, and is not shown."""

    properties: Mapping[str, str] = field(repr=False)
    endpoints: frozenset[str] = _ENDPOINTS_OF_OLD

    @property
    def prefix(self) -> str:
        """The prefix of every path except that of the configuration, as it is sent."""
        return self.properties.get("prefix", "").strip("/")

    @property
    def separator(self) -> str:
        """The separator of namespace levels. The server gives it percent-encoded."""
        return unquote(self.properties.get("namespace-separator", "")) or UNIT_SEPARATOR

    @property
    def page_size(self) -> int | None:
        """None: the server is not asked for pages. Raises OptionError."""
        return None if PAGE_SIZE not in self.properties else _positive(self.properties, PAGE_SIZE, 0)

    @property
    def is_nessie(self) -> bool:
        """Whether the server says that it is Nessie, which keeps one snapshot of a table."""
        return self.properties.get("nessie.is-nessie-catalog", "").lower() == "true"

    def has(self, endpoint: str) -> bool:
        """Whether the server has ``endpoint`` (``GET /v1/{prefix}/namespaces``)."""
        return endpoint in self.endpoints

    @property
    def of_files(self) -> dict[str, str]:
        """The properties that a FileIO may need."""
        return files_only(self.properties)


def is_about_asking(name: str) -> bool:
    """Whether a property concerns requests to the server, and not files."""
    return name in _ASKING or name.startswith(_ASKING_PREFIXES)


def files_only(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties without those for requests to the server."""
    return {name: value for name, value in properties.items() if not is_about_asking(name)}


def from_server(properties: Mapping[str, str]) -> dict[str, str]:
    """A server's properties for a table's files, without those that it may not set."""
    return {name: value for name, value in files_only(properties).items() if name not in _OWN}


def timeouts_s(properties: Mapping[str, str]) -> tuple[float, float]:
    """Time limits in seconds for connecting and for an answer. Raises OptionError."""
    return _positive(properties, CONNECT_TIMEOUT, 10_000) / 1000, _positive(properties, ANSWER_TIMEOUT, 120_000) / 1000


def request_headers(properties: Mapping[str, str]) -> dict[str, str]:
    """Headers of every request: the properties ``header.NAME``. Raises OptionError for an invalid header."""
    headers = {name[len(HEADER_PREFIX) :]: value for name, value in properties.items() if name.startswith(HEADER_PREFIX)}
    if headers.get(DELEGATION) == "none":
        del headers[DELEGATION]
    for name, value in headers.items():
        if not name or not name.isascii() or not name.isprintable() or " " in name or ":" in name:
            raise OptionError(f"catalog property {HEADER_PREFIX}{name}: {name!r} is not a name of a header")
        if not value.isascii() or not all(c.isprintable() or c == "\t" for c in value):
            raise OptionError(f"catalog property {HEADER_PREFIX}{name}: its value (not shown) must be printable ASCII")
    return headers


def checked_uri(name: str, uri: str) -> str:
    """An address without a slash at its end. Raises OptionError, without the address: it may hold a password."""
    try:
        parts = urlsplit(uri)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_address = False
    if not is_address or parts.query or parts.fragment:
        raise OptionError(f"catalog property {name} must be an address that begins with http:// or https://, without ? and #")
    if parts.username is not None or parts.password is not None:
        raise OptionError(f"catalog property {name} must not hold a user or a password: use token, credential or header.*")
    return uri.rstrip("/")


def _positive(properties: Mapping[str, str], name: str, default: int) -> int:
    number = parse_count(properties[name]) if name in properties else default
    if not number:
        raise OptionError(f"catalog property {name} is {properties[name]!r}: must be a whole number above 0")
    return number
