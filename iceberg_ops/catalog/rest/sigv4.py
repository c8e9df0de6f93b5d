"""Requests of a catalog, signed with AWS Signature Version 4 by keys that are renewed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import httpx

from iceberg_ops.catalog.rest.known_secrets import KnownSecrets
from iceberg_ops.io.aws.keys import KeySource, now
from iceberg_ops.io.aws.signature import signing_headers


class SigV4:
    """Signs each request separately. ``secrets``: no message shows the keys."""

    def __init__(
        self, keys: KeySource, *, service: str, region: str, secrets: KnownSecrets, clock: Callable[[], datetime] = now
    ) -> None:
        self._keys, self._service, self._region, self._secrets, self._clock = keys, service, region, secrets, clock

    def renew(self, refused: httpx.Request) -> bool:
        return False

    def sign(self, request: httpx.Request) -> None:
        """Raises TerminalError, CatalogUnavailableError if no keys are available."""
        keys = self._keys()
        self._secrets.add("client.secret-access-key", keys.secret)
        self._secrets.add("client.session-token", keys.session_token or "")
        request.headers.update(
            signing_headers(
                request.method,
                request.url.raw_path.decode().partition("?")[0],
                request.url.query.decode(),
                dict(request.headers),
                request.content,
                keys=keys,
                service=self._service,
                region=self._region,
                at=self._clock(),
            )
        )
