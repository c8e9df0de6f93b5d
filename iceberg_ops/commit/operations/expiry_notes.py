"""The note that an expiry writes before its swap, so that a later run can finish it if it dies.

It names the snapshots that may be removed, with everything needed to find their files after the metadata no longer has them. A note
is used only if all of it is valid, because it leads to the deletion of files. A copy of the table may have the note in its folder,
or find it in the original's folder: the snapshots that the copy lacks belong to the original. So the note also records its table's
location and history (``table.same_table``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.serde.json.json_objects import JsonObject, as_list, as_long, as_text, parse_json
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.table.same_table import TableTrace, difference_of_traces, ids_by_sequence_number, logged, table_trace
from iceberg_ops.table.stored_files import named_failures
from iceberg_ops.table.table import Table

_WHAT = "expiry note"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryNote:
    """``metadata_location``, ``last_updated_ms`` and ``last_sequence_number`` are those of the table that the note's writer saw,
    and so are ``table_location`` and ``metadata_log`` (pairs of a location and a time); notes of earlier releases lack these two.
    ``statistics`` are pairs of a snapshot id and a location. A snapshot has only the fields that lead to its files."""

    created_at_ms: int
    table_uuid: str
    metadata_location: str
    last_updated_ms: int
    last_sequence_number: int
    snapshots: tuple[Snapshot, ...]
    statistics: tuple[tuple[int, str], ...]
    table_location: str | None = None
    metadata_log: tuple[tuple[str, int], ...] = ()

    def belongs_to(self, table: Table) -> bool:
        """Whether the note belongs to the table. Another table may share the location: a rename keeps it. A note without a table
        location is accepted if the metadata log contains the file that its writer saw."""
        if not (self.table_uuid and table.metadata.table_uuid):
            return logged(table, self.metadata_location, self.last_updated_ms)
        return difference_of_traces(self._trace, table_trace(table), table.io) is None

    @property
    def _trace(self) -> TableTrace:
        current_file = ((self.metadata_location, self.last_updated_ms),) if self.metadata_location else ()
        return TableTrace(
            uuid=self.table_uuid,
            location=self.table_location,
            files=(*self.metadata_log, *current_file),
            snapshots=ids_by_sequence_number((s.sequence_number, s.snapshot_id) for s in self.snapshots),
        )

    def to_json(self) -> bytes:
        snapshots = [
            {
                "snapshot-id": s.snapshot_id,
                "sequence-number": s.sequence_number,
                "timestamp-ms": s.timestamp_ms,
                "manifest-list": s.manifest_list,
                "manifests": s.manifests,
            }
            for s in self.snapshots
        ]
        document: Mapping[str, Any] = {
            "created-at-ms": self.created_at_ms,
            "table-uuid": self.table_uuid,
            "table-location": self.table_location,
            "metadata-log": [{"metadata-file": location, "timestamp-ms": at} for location, at in self.metadata_log],
            "metadata-location": self.metadata_location,
            "last-updated-ms": self.last_updated_ms,
            "last-sequence-number": self.last_sequence_number,
            "snapshots": snapshots,
            "statistics": self.statistics,
        }
        return json.dumps(document).encode()


def read_expiry_note(io: FileIO, location: str) -> ExpiryNote | None:
    """None if the note is gone. Raises CorruptTableError if it is damaged."""
    if not io.exists(location):
        return None
    with named_failures(location, _WHAT):
        try:
            data = io.read(location)
        except FileNotFoundError:  # Another expiry has just finished it.
            return None
    try:
        note = JsonObject(parse_json(data, _WHAT), _WHAT)
        snapshots = tuple(_snapshot(item) for item in note.get("snapshots", as_list))
        return ExpiryNote(
            created_at_ms=note.get("created-at-ms", as_long),
            table_uuid=note.get("table-uuid", as_text),
            # Notes of earlier releases have only the times of their snapshots.
            metadata_location=note.maybe("metadata-location", as_text) or "",
            last_updated_ms=_or(note.maybe("last-updated-ms", as_long), max((s.timestamp_ms for s in snapshots), default=0)),
            last_sequence_number=_or(note.maybe("last-sequence-number", as_long), 0),
            snapshots=snapshots,
            statistics=tuple(_statistics(item) for item in note.get("statistics", as_list)),
            table_location=note.maybe("table-location", as_text),
            metadata_log=tuple(_logged(item) for item in note.maybe("metadata-log", as_list) or ()),
        )
    except CorruptTableError as e:
        raise CorruptTableError(f"{location}: {e}") from None


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _snapshot(item: Any) -> Snapshot:
    document = JsonObject(item, f"snapshot of an {_WHAT}")
    manifests = document.maybe("manifests", as_list)
    return Snapshot(
        snapshot_id=document.get("snapshot-id", as_long),
        sequence_number=_or(document.maybe("sequence-number", as_long), 0),
        timestamp_ms=document.get("timestamp-ms", as_long),
        manifest_list=document.maybe("manifest-list", as_text),
        manifests=None if manifests is None else tuple(as_text(m, f"{document.what}.manifests") for m in manifests),
    )


def _logged(item: Any) -> tuple[str, int]:
    document = JsonObject(item, f"metadata log of an {_WHAT}")
    return document.get("metadata-file", as_text), document.get("timestamp-ms", as_long)


def _statistics(item: Any) -> tuple[int, str]:
    pair: Sequence[Any] = as_list(item, f"statistics of an {_WHAT}")
    if len(pair) != 2:
        raise CorruptTableError(f"statistics of an {_WHAT}: must be pairs of a snapshot id and a location")
    return as_long(pair[0], f"statistics of an {_WHAT}"), as_text(pair[1], f"statistics of an {_WHAT}")
