"""The properties of Iceberg Java's NessieCatalog. Each may begin with ``nessie.``, as in Java.

Authentication works as for REST catalogs, with Nessie's property names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from iceberg_ops.catalog.nessie.references import Reference, is_hash
from iceberg_ops.catalog.rest.settings import HEADER_PREFIX, checked_uri
from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.errors import OptionError

_PREFIX = "nessie."
_V2 = re.compile(r"/v2/?")
_AUTH = "authentication."
_OAUTH2 = "authentication.oauth2."
_ASKING = ("authentication.", "transport.", "nessie.", HEADER_PREFIX)
_OF_THE_CATALOG = frozenset({"uri", "ref", "ref.hash", "client-api-version", "user"})
_TIMEOUTS_MS = {"connect": 5_000, "read": 25_000}


class NessieSettings:
    """Raises OptionError for a property that is wrong or is not supported."""

    def __init__(self, catalog: str, properties: Mapping[str, str]) -> None:
        self._catalog, self._properties = catalog, properties
        self.uri = self._checked_uri()
        self.reference = self._reference()
        connect, answer = (self._seconds(f"transport.{name}-timeout", ms) for name, ms in _TIMEOUTS_MS.items())
        self.timeouts_s = (connect, answer)
        self.user = self.get("user")
        self.proof = self._proof()
        """Properties of the REST catalogs' authentication."""

    def get(self, name: str) -> str | None:
        """The property, with or without ``nessie.`` before its name. Raises OptionError for both with different values."""
        one, other = self._properties.get(_PREFIX + name), self._properties.get(name)
        if one and other and one != other:
            raise OptionError(f"catalog properties {name} and {_PREFIX}{name} have different values: leave one of them out")
        return one or other or None

    def _checked_uri(self) -> str:
        given = self.get("uri")
        if not given:
            raise OptionError(f"catalog {self._catalog} (type nessie) needs the property uri")
        uri = checked_uri("uri", given)
        if _V2.fullmatch("/" + uri.rpartition("/")[2]) is None and self.get("client-api-version") != "2":
            raise OptionError(
                f"catalog {self._catalog} (type nessie): the property uri must be the address of Nessie's API of version 2, which "
                f"ends with /api/v2 (its address that ends with /iceberg is a catalog of type rest)"
            )
        return uri

    def _reference(self) -> Reference:
        reference = Reference(self.get("ref"), self.get("ref.hash"))
        if reference.hash is not None and not is_hash(reference.hash):
            raise OptionError(f"catalog property ref.hash is {reference.hash!r}: must be 8 to 64 hexadecimal digits")
        return reference

    def _seconds(self, name: str, default_ms: int) -> float:
        text = self.get(name)
        milliseconds = default_ms if text is None else parse_count(text)
        if not milliseconds:
            raise OptionError(f"catalog property {name} is {text!r}: must be a whole number above 0 (milliseconds)")
        return milliseconds / 1000

    def _proof(self) -> dict[str, str]:
        for name in (_AUTH + "token", _AUTH + "username", _OAUTH2 + "client-id"):
            if self.get(name) and not self.get(_AUTH + "type"):
                raise OptionError(f"catalog property {name} has no effect without {_AUTH}type: BEARER, BASIC or OAUTH2")
        match kind := (self.get(_AUTH + "type") or "NONE").upper():
            case "NONE":
                return {}
            case "BEARER":
                return {"token": self._needed(_AUTH + "token", kind)}
            case "BASIC":
                return {
                    "rest.auth.type": "basic",
                    "rest.auth.basic.username": self._needed(_AUTH + "username", kind),
                    "rest.auth.basic.password": self._needed(_AUTH + "password", kind),
                }
            case "OAUTH2":
                return self._oauth2()
        raise OptionError(f"catalog property {_AUTH}type is {kind!r}: must be NONE, BEARER, BASIC or OAUTH2")

    def _oauth2(self) -> dict[str, str]:
        grant = self.get(_OAUTH2 + "grant-type") or "client_credentials"
        if grant != "client_credentials":
            raise OptionError(f"catalog property {_OAUTH2}grant-type is {grant!r}: only client_credentials is supported")
        if not self.get(_OAUTH2 + "token-endpoint") and self.get(_OAUTH2 + "issuer-url"):
            raise OptionError(
                f"catalog property {_OAUTH2}issuer-url is not supported: set {_OAUTH2}token-endpoint to the address for tokens"
            )
        if self.get(_OAUTH2 + "extra-params"):
            raise OptionError(f"catalog property {_OAUTH2}extra-params is not supported")
        if (self.get(impersonation := _OAUTH2 + "impersonation.enabled") or "").lower() == "true":
            raise OptionError(f"catalog property {impersonation} is not supported: jobs would act as the client itself")
        client = self._needed(_OAUTH2 + "client-id", "OAUTH2")
        if ":" in client:
            raise OptionError(
                f"catalog property {_OAUTH2}client-id (not shown, it may hold the secret): must not have a colon: the secret is "
                f"{_OAUTH2}client-secret"
            )
        return {
            "oauth2-server-uri": self._needed(_OAUTH2 + "token-endpoint", "OAUTH2"),
            "credential": f"{client}:{self._needed(_OAUTH2 + 'client-secret', 'OAUTH2')}",
            "scope": self.get(_OAUTH2 + "client-scopes") or "",
        }

    def _needed(self, name: str, kind: str) -> str:
        if value := self.get(name):
            return value
        raise OptionError(f"catalog property {_AUTH}type is {kind!r}: it needs the property {name}")


def files_only(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties for a FileIO, which are sent to other processes: without those for requests to Nessie, some of them secret."""
    return {k: v for k, v in properties.items() if not k.startswith(_ASKING) and k not in _OF_THE_CATALOG}
