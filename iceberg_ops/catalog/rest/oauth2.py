"""Tokens for a credential (OAuth2's client credentials grant): fetched before the first request, before a token expires, and after
a 401."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import httpx

from iceberg_ops.catalog.rest.answers import Answer, NoAnswerError
from iceberg_ops.catalog.rest.known_secrets import KnownSecrets
from iceberg_ops.errors import CatalogUnavailableError, CorruptTableError, IcebergOpsError, TerminalError
from iceberg_ops.serde.json.json_objects import JsonObject, as_text

DEFAULT_SCOPE = "catalog"
_AHEAD_S = 60.0
"""A token is renewed this long before it expires, or after nine tenths of its lifetime if that is later."""

AskForToken = Callable[[str, Mapping[str, str]], Answer]
"""Posts a form to an address. Raises NotSentError, NoAnswerError."""


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """``credential`` is ``id:secret``, or only the secret."""

    address: str
    credential: str = field(repr=False)
    scope: str = DEFAULT_SCOPE
    audience: str | None = None
    resource: str | None = None

    def form(self) -> dict[str, str]:
        client, separator, secret = self.credential.partition(":")
        given = {
            "client_id": client if separator else None,
            "client_secret": secret if separator else self.credential,
            "scope": self.scope or None,
            "audience": self.audience,
            "resource": self.resource,
        }
        return {"grant_type": "client_credentials", **{name: value for name, value in given.items() if value}}


class ClientCredentials:
    """A bearer token, fetched when it is first needed."""

    def __init__(self, request: TokenRequest, ask: AskForToken, secrets: KnownSecrets, clock: Callable[[], float]) -> None:
        self._request, self._ask, self._secrets, self._clock = request, ask, secrets, clock
        self._lock = threading.Lock()
        self._token: str | None = None
        self._renew_at: float | None = None

    def sign(self, request: httpx.Request) -> None:
        request.headers["Authorization"] = f"Bearer {self._current()}"

    def renew(self, refused: httpx.Request) -> bool:
        """If several threads are refused with one token, the first discards it."""
        with self._lock:
            if refused.headers.get("Authorization") == f"Bearer {self._token}":
                self._token = None
        return True

    def _current(self) -> str:
        with self._lock:
            if self._token is None or (self._renew_at is not None and self._clock() >= self._renew_at):
                self._token, self._renew_at = self._fetched()
            return self._token

    def _fetched(self) -> tuple[str, float | None]:
        asked_at = self._clock()
        answer = self._ask(self._request.address, self._request.form())
        if not answer.is_success:
            raise _refused(self._request.address, answer)
        try:
            document = JsonObject(answer.document("a request for a token"), "the token server's answer")
            token, seconds = document.get("access_token", as_text), document.maybe("expires_in", _seconds)
        except (CorruptTableError, NoAnswerError) as e:
            raise TerminalError(f"the token server at {self._request.address} gives no token: {e}") from None
        self._secrets.add("token", token)
        return token, None if seconds is None else asked_at + max(seconds - _AHEAD_S, seconds * 0.9)


def _seconds(value: object, what: str) -> float:
    """Some servers send text."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise CorruptTableError(f"{what} must be a number of seconds") from None


def _refused(address: str, answer: Answer) -> IcebergOpsError:
    message = f"the token server at {address} refuses a token ({answer})"
    if answer.status == 429 or answer.status >= 500:
        return CatalogUnavailableError(message)
    return TerminalError(f"{message}: check the properties credential, scope and oauth2-server-uri")
