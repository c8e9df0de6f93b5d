"""A table from the server, and a cache of tables that the server need not send again (ETag, 304)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.catalog.rest.storage import VendedConfig
from iceberg_ops.serde.json.json_objects import JsonObject, as_list, as_text, as_text_map
from iceberg_ops.serde.json.metadata_json import metadata_from_dict
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.table import Table

_MOST_KEPT = 16


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """``location`` is empty for a table that is staged."""

    metadata: TableMetadata
    location: str
    lent: VendedConfig = field(repr=False)

    @classmethod
    def of(cls, document: Any, what: str) -> LoadedTable:
        """The table of an answer (LoadTableResult, CommitTableResponse) to ``what``. Raises CorruptTableError, UnsupportedError."""
        answer = JsonObject(document, f"the answer of the server to {what}")
        metadata = answer.get("metadata", lambda v, _: metadata_from_dict(v))
        credentials = tuple(_credential(c) for c in answer.maybe("storage-credentials", as_list) or ())
        return cls(
            metadata,
            answer.maybe("metadata-location", as_text) or "",
            VendedConfig(answer.maybe("config", as_text_map) or {}, credentials),
        )


def _credential(value: Any) -> tuple[str, dict[str, str]]:
    entry = JsonObject(value, "an entry of storage-credentials")
    return entry.get("prefix", as_text), entry.get("config", as_text_map)


@dataclass(frozen=True, slots=True)
class CachedTable:
    """``expires_at_ms``: when the credentials of its FileIO expire."""

    etag: str
    table: Table
    expires_at_ms: int | None = None


class TableCache:
    """The most recently loaded tables. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Identifier, CachedTable] = OrderedDict()

    def get(self, identifier: Identifier) -> CachedTable | None:
        with self._lock:
            return self._kept.get(identifier)

    def keep(self, identifier: Identifier, kept: CachedTable) -> None:
        with self._lock:
            self._kept[identifier] = kept
            self._kept.move_to_end(identifier)
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)

    def forget(self, identifier: Identifier) -> None:
        with self._lock:
            self._kept.pop(identifier, None)
