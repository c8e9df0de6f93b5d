"""Authentication of requests: none, a token, a credential that is exchanged for tokens, a password, or a signature."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Protocol

import httpx

from iceberg_ops.catalog.rest.known_secrets import KnownSecrets
from iceberg_ops.catalog.rest.oauth2 import DEFAULT_SCOPE, AskForToken, ClientCredentials, TokenRequest
from iceberg_ops.catalog.rest.settings import checked_uri
from iceberg_ops.catalog.rest.sigv4 import SigV4
from iceberg_ops.errors import OptionError
from iceberg_ops.io.aws.key_selection import select_keys
from iceberg_ops.io.stores.settings import flag

AUTH_TYPE = "rest.auth.type"
SIGV4_ENABLED = "rest.sigv4-enabled"
DEFAULT_TOKEN_SERVER = "v1/oauth/tokens"
_TYPES = ("none", "basic", "oauth2", "sigv4")


class Authorization(Protocol):
    """Safe to use from several threads."""

    def sign(self, request: httpx.Request) -> None:
        """Add the authentication. Raises CatalogUnavailableError and TerminalError if it cannot be obtained: nothing is sent."""
        ...

    def renew(self, refused: httpx.Request) -> bool:
        """After a 401: whether ``sign`` has another authentication than the one of ``refused``."""
        ...


class Anonymous:
    """Adds nothing; configured headers are sent with every request in any case."""

    def sign(self, request: httpx.Request) -> None:
        """Nothing."""

    def renew(self, refused: httpx.Request) -> bool:
        return False


class FixedHeader:
    """The same ``Authorization`` every time: a token that another program renews, or a password."""

    def __init__(self, value: str) -> None:
        self._value = value

    def sign(self, request: httpx.Request) -> None:
        request.headers["Authorization"] = self._value

    def renew(self, refused: httpx.Request) -> bool:
        return False


def make_authorization(
    properties: Mapping[str, str],
    uri: str,
    secrets: KnownSecrets,
    ask_for_token: AskForToken,
    environment: Mapping[str, str],
    clock: Callable[[], float],
) -> Authorization:
    """The authentication for a catalog's properties. ``clock`` gives seconds. Raises OptionError."""
    match kind := _authorization_type(properties):
        case "none":
            return Anonymous()
        case "basic":
            user, password = _given(properties, "rest.auth.basic.username"), _given(properties, "rest.auth.basic.password")
            proof = base64.b64encode(f"{user}:{password}".encode()).decode()
            secrets.add("password", proof)
            return FixedHeader(f"Basic {proof}")
        case "sigv4":
            aws_keys = select_keys(properties, "rest", environment)
            return SigV4(
                aws_keys.keys,
                service=properties.get("rest.signing-name", "execute-api"),
                region=_region(properties, environment, aws_keys.region),
                secrets=secrets,
            )
    if credential := properties.get("credential"):
        request = TokenRequest(
            address=_token_server(properties.get("oauth2-server-uri") or DEFAULT_TOKEN_SERVER, uri),
            credential=credential,
            scope=properties.get("scope", DEFAULT_SCOPE),
            audience=properties.get("audience"),
            resource=properties.get("resource"),
        )
        return ClientCredentials(request, ask_for_token, secrets, clock)
    if token := properties.get("token"):
        return FixedHeader(f"Bearer {token}")
    raise OptionError(f"catalog property {AUTH_TYPE} is {kind!r}: it needs the property token or credential")


def _authorization_type(properties: Mapping[str, str]) -> str:
    has_signature = flag(properties, SIGV4_ENABLED, False)
    has_token = any(properties.get(name) for name in ("token", "credential"))
    if has_signature and has_token:
        raise OptionError(f"catalog properties {SIGV4_ENABLED} and token or credential were given: choose one")
    kind = properties.get(AUTH_TYPE, "sigv4" if has_signature else "oauth2" if has_token else "none")
    if kind not in _TYPES:
        raise OptionError(f"catalog property {AUTH_TYPE} is {kind!r}: must be one of {', '.join(_TYPES)}")
    return kind


def _token_server(address: str, uri: str) -> str:
    """A path is relative to the catalog's server."""
    return checked_uri("oauth2-server-uri", address if ":" in address else f"{uri}/{address.lstrip('/')}")


def _given(properties: Mapping[str, str], name: str) -> str:
    if value := properties.get(name):
        return value
    raise OptionError(f"catalog property {AUTH_TYPE} is 'basic': it needs the property {name}")


def _region(properties: Mapping[str, str], environment: Mapping[str, str], of_profile: str | None) -> str:
    named = (properties.get("rest.signing-region"), properties.get("client.region"))
    region = next(filter(None, (*named, environment.get("AWS_REGION"), environment.get("AWS_DEFAULT_REGION"), of_profile)), None)
    if region is None:
        raise OptionError(
            f"catalog property {SIGV4_ENABLED} needs a region: set rest.signing-region, or AWS_REGION in the environment"
        )
    return region
