"""All secrets that a REST catalog has used, so that no message shows one: configured, fetched, or vended by the server."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from iceberg_ops.config.secrets import hide, longest_first, secrets_in_properties


class KnownSecrets:
    """Safe to use from several threads."""

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        self._lock = threading.Lock()
        self._known: tuple[str, ...] = ()
        self.add_properties(properties or {})

    def add_properties(self, properties: Mapping[str, str]) -> None:
        """The secrets among a catalog's or a table's properties."""
        self._add(secrets_in_properties(properties))

    def add(self, name: str, secret: str) -> None:
        """A secret with the property name ``name``."""
        self._add(secrets_in_properties({name: secret}))

    def _add(self, secrets: Iterable[str]) -> None:
        new = set(secrets).difference(self._known)
        if new:
            with self._lock:
                self._known = longest_first((*self._known, *new))

    def hide(self, text: str) -> str:
        """``text`` without the secrets."""
        return hide(text, self._known)
