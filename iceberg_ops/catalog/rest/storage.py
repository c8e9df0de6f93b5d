"""Access to a table's files: by the catalog's properties, the server's properties of the table, and credentials that it vends.

Of several ``storage-credentials`` the one with the longest prefix of the table's location is used, and overrides ``config``.
Credentials expire: a table that is loaded less than ``RENEWED_BEFORE_MS`` before their expiry gets new ones (see ``rest_catalog``),
and a FileIO that is in use then requests new ones (``RenewedCredentials``). A FileIO in another process keeps the credentials that
it was sent.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from iceberg_ops.catalog.base import now_ms
from iceberg_ops.catalog.rest.known_secrets import KnownSecrets
from iceberg_ops.catalog.rest.settings import from_server
from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.locations import is_within

log = logging.getLogger(__name__)

RENEWED_BEFORE_MS = 5 * 60 * 1000
_MOST_KEPT = 64
_ASKED_AGAIN_MS = 10_000
_KEY_OF_S3 = "s3.access-key-id"
_OTHER_IDENTITIES = re.compile(r"(s3|client)\.(role-|profile-name)|client\.assume-role\.")
"""Of the catalog's own properties: keys that the server lends are used as they are."""
_REMOTE_SIGNING = "s3.remote-signing-enabled"
_EXPIRES = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "adls.sas-token-expires-at-ms")
"""Prefixes of the names of properties that hold the expiry of credentials, in milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class VendedConfig:
    """The answer of a load besides the metadata: ``config`` of the table, and credentials by their prefix."""

    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: Sequence[tuple[str, Mapping[str, str]]] = field(default=(), repr=False)

    def for_location(self, location: str) -> dict[str, str]:
        """The properties for files of a table at the location."""
        fitting = [(prefix, config) for prefix, config in self.credentials if _covers(prefix, location)]
        _, best = max(fitting, key=lambda entry: len(entry[0]), default=("", {}))
        return from_server({**self.config, **best})


def _covers(prefix: str, location: str) -> bool:
    """A prefix may be only a scheme (``s3``). A folder is not a prefix of ``folder2``."""
    if "://" not in prefix or prefix.endswith("/"):
        return location.startswith(prefix)
    return is_within(location, prefix)


def expires_at_ms(properties: Mapping[str, str]) -> int | None:
    """When the first of the credentials among the properties expires; None: no property shows it."""
    times = (parse_count(value) for name, value in properties.items() if name.startswith(_EXPIRES))
    return min((at for at in times if at is not None), default=None)


class TableStorage:
    """FileIOs of a catalog's tables; tables with the same properties share one. ``io``: use this one for all."""

    def __init__(
        self, properties: Mapping[str, str], secrets: KnownSecrets, io: FileIO | None = None, clock: Callable[[], int] = now_ms
    ) -> None:
        self._properties, self._secrets, self._clock = properties, secrets, clock
        self._is_given = io is not None
        self.of_catalog: FileIO = load_file_io(properties) if io is None else io
        self._lock = threading.Lock()
        self._made: OrderedDict[frozenset[tuple[str, str]], FileIO] = OrderedDict()

    def of_table(self, lent: Mapping[str, str], again: Callable[[], Mapping[str, str]]) -> FileIO:
        """``lent``: see ``VendedConfig.for_location``; ``again`` asks the server for it. Raises OptionError, UnsupportedError."""
        new = self._new(lent)
        if self._is_given or not new:
            return self.of_catalog
        first = self._with(new)
        if expires_at_ms(new) is not None:
            return load_file_io(first, RenewedCredentials(first, lambda: self._with(self._new(again())), self._clock))
        key = frozenset(new.items())
        with self._lock:
            if key not in self._made:
                self._made[key] = load_file_io(first)
            self._made.move_to_end(key)
            while len(self._made) > _MOST_KEPT:
                self._made.popitem(last=False)
            return self._made[key]

    def _new(self, lent: Mapping[str, str]) -> dict[str, str]:
        """The properties that the catalog's own ones do not set. A server that offers to sign requests is not used for that if
        there are keys."""
        has_keys = _KEY_OF_S3 in {**self._properties, **lent} or self._properties.get(_REMOTE_SIGNING) == "false"
        return {
            name: value
            for name, value in lent.items()
            if self._properties.get(name) != value and not (has_keys and name == _REMOTE_SIGNING)
        }

    def _with(self, new: Mapping[str, str]) -> dict[str, str]:
        self._secrets.add_properties(new)
        catalog_properties = {k: v for k, v in self._properties.items() if _KEY_OF_S3 not in new or not _OTHER_IDENTITIES.match(k)}
        return {**catalog_properties, **new}


class RenewedCredentials:
    """Properties with credentials of a server, requested again before they expire; if that fails, the old ones are used until then.
    ``clock``: milliseconds since the epoch."""

    def __init__(self, first: Mapping[str, str], again: Callable[[], Mapping[str, str]], clock: Callable[[], int]) -> None:
        self._again, self._clock = again, clock
        self._lock = threading.Lock()
        self._current: Mapping[str, str] = first
        self._renewed_from: int | None = None
        self._take(first)

    def __call__(self) -> Mapping[str, str]:
        with self._lock:
            at = self._clock()
            if self._renewed_from is None or at < self._renewed_from:
                return self._current
            try:
                self._take(self._again())
            except IcebergOpsError as e:
                ends = expires_at_ms(self._current)
                if ends is None or at >= ends:
                    raise
                log.warning("credentials of the catalog were not renewed, and are used until they expire: %s", e)
                self._renewed_from = at + _ASKED_AGAIN_MS
            return self._current

    def _take(self, properties: Mapping[str, str]) -> None:
        ends = expires_at_ms(properties)
        self._current = properties
        self._renewed_from = None if ends is None else ends - min(RENEWED_BEFORE_MS, max(0, ends - self._clock()) // 4)
