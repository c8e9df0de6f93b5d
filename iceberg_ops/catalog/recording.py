"""Catalogs whose store records more about a table than the location of its metadata: properties, columns, statistics.

Only the pointer defines the table. A subclass gets the values to record from ``_published``.
"""

from __future__ import annotations

import threading
from abc import ABC
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.catalog.outcomes import Tried
from iceberg_ops.catalog.pointer import PointerCatalog
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.metadata_files import read_metadata


@dataclass(frozen=True, slots=True)
class Published:
    """``metadata`` is about to be published after ``former``; None: the table is new in the catalog."""

    metadata: TableMetadata
    former: TableMetadata | None = None

    @property
    def before(self) -> Mapping[str, str]:
        """The table's properties until now."""
        return {} if self.former is None else self.former.properties


class _OfThread(threading.local):
    published: Published | None = None


class RecordingCatalog(PointerCatalog, ABC):
    """A catalog that records what it publishes. Several threads may commit at once."""

    _in_this_thread = _OfThread()

    def _published(self, location: str) -> Published:
        """The values to record with the pointer to ``location``. The metadata is read if only the location is known
        (``register``)."""
        return self._in_this_thread.published or Published(read_metadata(self.io, location))

    def _publish_first(self, identifier: Identifier, metadata: TableMetadata, tried: Tried) -> str:
        with self._publishing(Published(metadata)):
            return super()._publish_first(identifier, metadata, tried)

    def _publish_next(
        self, identifier: Identifier, current_location: str, current: TableMetadata, metadata: TableMetadata, tried: Tried
    ) -> str:
        with self._publishing(Published(metadata, current)):
            return super()._publish_next(identifier, current_location, current, metadata, tried)

    @contextmanager
    def _publishing(self, what: Published) -> Iterator[None]:
        self._in_this_thread.published = what
        try:
            yield
        finally:
            self._in_this_thread.published = None
