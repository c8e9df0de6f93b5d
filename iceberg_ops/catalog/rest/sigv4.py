"""AWS Signature Version 4 of a request (AWS: "Create a signed AWS API request"), for services other than S3.

Signed headers are ``host``, ``content-type`` and all that begin with ``x-amz-``; the signature protects only these, others may be
changed on the way. The signature percent-encodes paths once more than the request.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote, unquote

import httpx

from iceberg_ops.errors import OptionError

_ALGORITHM = "AWS4-HMAC-SHA256"
_NAMES = (
    ("rest.access-key-id", "rest.secret-access-key", "rest.session-token"),
    ("client.access-key-id", "client.secret-access-key", "client.session-token"),
)
_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """``session_token`` None: permanent keys."""

    key_id: str
    secret: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, properties: Mapping[str, str], environment: Mapping[str, str]) -> AwsKeys:
        """Keys in a catalog's properties, else in the environment. Raises OptionError."""
        for names, given in ((_NAMES[0], properties), (_NAMES[1], properties), (_VARIABLES, environment)):
            if (key_id := given.get(names[0])) and (secret := given.get(names[1])):
                return cls(key_id, secret, given.get(names[2]) or None)
        raise OptionError(
            f"catalog property rest.sigv4-enabled needs keys: set {_NAMES[0][0]} and {_NAMES[0][1]}, or {_VARIABLES[0]} and "
            f"{_VARIABLES[1]} in the environment; profiles and instance roles are not looked up"
        )


def _now() -> datetime:
    return datetime.now(UTC)


class SigV4:
    """Signs each request separately."""

    def __init__(self, keys: AwsKeys, *, service: str, region: str, now: Callable[[], datetime] = _now) -> None:
        self._keys, self._service, self._region, self._now = keys, service, region, now

    def renew(self, refused: httpx.Request) -> bool:
        return False

    def sign(self, request: httpx.Request) -> None:
        at = self._now().strftime("%Y%m%dT%H%M%SZ")
        request.headers["X-Amz-Date"] = at
        if self._keys.session_token:
            request.headers["X-Amz-Security-Token"] = self._keys.session_token
        signed = {name.lower(): " ".join(value.split()) for name, value in request.headers.items() if _is_signed(name.lower())}
        names = ";".join(sorted(signed))
        canonical = "\n".join(
            (
                request.method,
                quote(request.url.raw_path.decode().partition("?")[0], safe="/~"),
                _canonical_query(request.url.query.decode()),
                *(f"{name}:{signed[name]}" for name in sorted(signed)),
                "",
                names,
                hashlib.sha256(request.content).hexdigest(),
            )
        )
        scope = f"{at[:8]}/{self._region}/{self._service}/aws4_request"
        text = "\n".join((_ALGORITHM, at, scope, hashlib.sha256(canonical.encode()).hexdigest()))
        signature = hmac.new(self._key(at[:8]), text.encode(), hashlib.sha256).hexdigest()
        request.headers["Authorization"] = (
            f"{_ALGORITHM} Credential={self._keys.key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
        )

    def _key(self, day: str) -> bytes:
        key = f"AWS4{self._keys.secret}".encode()
        for part in (day, self._region, self._service, "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return key


def _is_signed(name: str) -> bool:
    return name in ("host", "content-type") or name.startswith("x-amz-")


def _canonical_query(query: str) -> str:
    pairs = (part.partition("=") for part in query.split("&") if part)
    encoded = sorted((quote(unquote(name), safe="~"), quote(unquote(value), safe="~")) for name, _, value in pairs)
    return "&".join(f"{name}={value}" for name, value in encoded)
