"""Keys of AWS that may expire, and a source that renews them before they do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from iceberg_ops.errors import IcebergOpsError, OptionError

log = logging.getLogger(__name__)

_AHEAD = timedelta(minutes=5)
LONGEST_KNOWN = timedelta(minutes=5)
"""How long keys without an expiry are used before their source is looked at again: files may hold newer ones."""


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """``session_token`` None: permanent keys. ``expires_at`` None: nothing shows when they expire. Raises OptionError, which shows
    no value, for what no request can be signed with: a line break at the end of a variable, for example."""

    key_id: str
    secret: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        for name, text in (("access key id", self.key_id), ("session token", self.session_token or "")):
            if not text.isascii() or not text.isprintable() or " " in text:
                raise _unusable(name)
        if self.secret != self.secret.strip() or any(ord(c) < ord(" ") for c in self.secret):
            raise _unusable("secret access key")


def _unusable(name: str) -> OptionError:
    return OptionError(f"the {name} for AWS (not shown) has a space, a line break or another character that no key has: correct it")


KeySource = Callable[[], AwsKeys]
"""Gives keys that can be used now. Safe to use from several threads. Raises TerminalError, CatalogUnavailableError."""


def now() -> datetime:
    """The time in UTC."""
    return datetime.now(UTC)


class RenewedKeys:
    """Temporary keys from ``fetch``: requested when they are first needed, and again five minutes before they expire, or a quarter
    of their lifetime if that is shorter. If that fails, the old ones are used until they expire."""

    def __init__(self, fetch: KeySource, clock: Callable[[], datetime] = now) -> None:
        self._fetch, self._clock = fetch, clock
        self._lock = threading.Lock()
        self._keys: AwsKeys | None = None
        self._renewed_from: datetime | None = None

    def __call__(self) -> AwsKeys:
        with self._lock:
            at = self._clock()
            if self._keys is not None and (self._renewed_from is None or at < self._renewed_from):
                return self._keys
            try:
                return self._taken(self._fetch(), at)
            except IcebergOpsError as e:
                if self._keys is None or self._keys.expires_at is None or at >= self._keys.expires_at:
                    raise
                log.warning("AWS credentials were not renewed, and are used until they expire: %s", e)
                self._renewed_from = at + timedelta(seconds=10)
                return self._keys

    def _taken(self, keys: AwsKeys, at: datetime) -> AwsKeys:
        ends = keys.expires_at
        self._keys, self._renewed_from = keys, None if ends is None else ends - min(_AHEAD, (ends - at) / 4)
        return keys
