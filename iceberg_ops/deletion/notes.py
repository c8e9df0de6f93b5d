"""Notes: what jobs write down for each other below a table's metadata folder, and for themselves after a crash.

No table metadata refers to a note, so a note goes when its writer or its reader says so. A deletion note says that files of the
table, or files beside it, are being deleted right now. An import takes its lease first and then looks for such notes; a deletion
writes its note first and then looks for leases. So one of the two always sees the other, and no file is committed while it is being
deleted."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from iceberg_ops.deletion.own_files import discard_own
from iceberg_ops.errors import CatalogUnavailableError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.metadata_files import metadata_folder
from iceberg_ops.table.table import Table

FOLDER = "iceberg-ops"
"""Below the metadata folder: everything that jobs note."""
DELETIONS = f"{FOLDER}/deletions"
DELETION_NOTE_MS = 3600 * 1000
"""How long the note of a deletion that died keeps imports waiting."""


def notes_folder(metadata: TableMetadata, kind: str = FOLDER) -> str:
    """Where notes of a kind lie."""
    return f"{metadata_folder(metadata)}/{kind}"


def delete_note(io: FileIO, location: str | None) -> None:
    """Take a note away; None, and one that is gone, are no error."""
    if location is None:
        return
    assert f"/{FOLDER}/" in location, f"{location} is no note"
    discard_own(io, [location])


@contextmanager
def deletion_noted(table: Table) -> Iterator[None]:
    """Within, files may be deleted that an import might want to commit."""
    location = f"{notes_folder(table.metadata, DELETIONS)}/{uuid.uuid4()}.json"
    until = time.time_ns() // 1_000_000 + DELETION_NOTE_MS
    table.io.write(location, json.dumps({"expires-at-ms": until}).encode())
    try:
        yield
    finally:
        delete_note(table.io, location)


def note_has_run_out(table: Table, location: str, now_ms: int) -> bool:
    """Whether the file is the note of a deletion that died: its time is over."""
    if f"/{DELETIONS}/" not in location:
        return False
    until = _until(table.io, location, None)
    return until is not None and now_ms >= until


def forbid_running_deletion(table: Table) -> None:
    """Raise CatalogUnavailableError while files of the table are being deleted. To be called with a lease on the files in hand."""
    now = time.time_ns() // 1_000_000
    for info in table.io.list_prefix(notes_folder(table.metadata, DELETIONS)):
        until = _until(table.io, info.location, (info.modified_ms or now) + DELETION_NOTE_MS)
        if until is not None and now < until:
            raise CatalogUnavailableError(
                f"table {table.name}: a job is deleting files right now (note {info.location}), and files to be imported could be "
                f"among them: try again when it has ended"
            )


def _until(io: FileIO, location: str, unreadable: int | None) -> int | None:
    """When the note's time is over; None where it is gone, ``unreadable`` where it cannot be read."""
    try:
        return int(json.loads(io.read(location))["expires-at-ms"])
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError):
        return unreadable
