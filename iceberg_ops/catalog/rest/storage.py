"""Access to a table's files: by the catalog's properties, the server's properties of the table, and credentials that it lends.

Of several ``storage-credentials`` the one with the longest prefix of the table's location is used, and overrides ``config``.
Credentials expire: a table that is loaded less than ``RENEWED_BEFORE_MS`` before their expiry gets new ones (see
``rest_catalog``). A FileIO keeps the credentials that it was created with.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from iceberg_ops.catalog.rest.known_secrets import KnownSecrets
from iceberg_ops.catalog.rest.settings import from_server
from iceberg_ops.config.whole_numbers import count_of
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.locations import is_within

RENEWED_BEFORE_MS = 5 * 60 * 1000
_MOST_KEPT = 64
_REMOTE_SIGNING = "s3.remote-signing-enabled"
_EXPIRES = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "adls.sas-token-expires-at-ms")
"""Prefixes of the names of properties that hold the expiry of credentials, in milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Lent:
    """The answer of a load beside the metadata: ``config`` of the table, and credentials by their prefix."""

    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: Sequence[tuple[str, Mapping[str, str]]] = field(default=(), repr=False)

    def for_location(self, location: str) -> dict[str, str]:
        """The properties for files of a table at the location."""
        fitting = [(prefix, config) for prefix, config in self.credentials if _covers(prefix, location)]
        _, best = max(fitting, key=lambda found: len(found[0]), default=("", {}))
        return from_server({**self.config, **best})


def _covers(prefix: str, location: str) -> bool:
    """A prefix may be only a scheme (``s3``). A folder is not a prefix of ``folder2``."""
    if "://" not in prefix or prefix.endswith("/"):
        return location.startswith(prefix)
    return is_within(location, prefix)


def expires_at_ms(properties: Mapping[str, str]) -> int | None:
    """When the first of the credentials among the properties expires; None: no property shows it."""
    found = (count_of(value) for name, value in properties.items() if name.startswith(_EXPIRES))
    return min((at for at in found if at is not None), default=None)


class TableStorage:
    """FileIOs of a catalog's tables; tables with the same properties share one. ``io``: use this one for all."""

    def __init__(self, properties: Mapping[str, str], secrets: KnownSecrets, io: FileIO | None = None) -> None:
        self._properties, self._secrets = properties, secrets
        self._is_given = io is not None
        self.of_catalog: FileIO = load_file_io(properties) if io is None else io
        self._lock = threading.Lock()
        self._made: OrderedDict[frozenset[tuple[str, str]], FileIO] = OrderedDict()

    def of_table(self, lent: Mapping[str, str]) -> FileIO:
        """``lent``: see ``Lent.for_location``. A server that offers to sign requests is not asked to where there are keys. Raises
        OptionError, UnsupportedError."""
        has_keys = "s3.access-key-id" in {**self._properties, **lent} or self._properties.get(_REMOTE_SIGNING) == "false"
        new = {
            name: value
            for name, value in lent.items()
            if self._properties.get(name) != value and not (has_keys and name == _REMOTE_SIGNING)
        }
        if self._is_given or not new:
            return self.of_catalog
        self._secrets.add_properties(new)
        key = frozenset(new.items())
        with self._lock:
            if key not in self._made:
                self._made[key] = load_file_io({**self._properties, **new})
            self._made.move_to_end(key)
            while len(self._made) > _MOST_KEPT:
                self._made.popitem(last=False)
            return self._made[key]
