"""Notes: what jobs write down for each other beside a table's metadata (``places``), and for themselves after a crash.

No table metadata refers to a note, so a note goes when its writer or its reader says so. A deletion note says that files of the
table, or files beside it, are being deleted right now. An import takes its lease first and then looks for such notes; a deletion
writes its note first and then looks for leases. So one of the two always sees the other, and no file is committed while it is being
deleted. A note lasts for a time, so that a job that died keeps nobody waiting for ever; a living one renews it between batches."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from iceberg_ops.deletion.own_files import discard_own
from iceberg_ops.deletion.places import FOLDER, noted, notes_folder
from iceberg_ops.errors import CatalogUnavailableError, CorruptTableError, IcebergOpsError
from iceberg_ops.io.file_io import FileInfo, FileIO
from iceberg_ops.serde.json_objects import JsonObject, as_long, parse_json
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

DELETIONS = f"{FOLDER}/deletions"
DELETION_NOTE_MS = 2 * 3600 * 1000
"""How long the note of a deletion that died keeps imports waiting. A living deletion renews it long before."""
_RENEWED_AFTER_MS = DELETION_NOTE_MS // 8


def delete_note(io: FileIO, location: str | None) -> None:
    """Take a note away; None, and one that is gone, are no error."""
    if location is None:
        return
    assert f"/{FOLDER}/" in location, f"{location} is no note"
    discard_own(io, [location])


@dataclass(slots=True)
class DeletionNote:
    """The note of one deletion, in the hands of the job that deletes. Not for several threads at once."""

    table: Table
    location: str
    until_ms: int = 0

    def write(self) -> None:
        """Write it, or write it again for another ``DELETION_NOTE_MS``."""
        self.until_ms = time.time_ns() // 1_000_000 + DELETION_NOTE_MS
        self.table.io.write(self.location, json.dumps({"expires-at-ms": self.until_ms}).encode(), overwrite=True)

    def renew(self) -> bool:
        """To be called before each batch of files: whether the note has been there all the time. If not, an import may have taken
        in files meanwhile, and what was proven before no longer holds. The note is in force afterwards."""
        now = time.time_ns() // 1_000_000
        held = now < self.until_ms and self.table.io.exists(self.location)
        if not held or self.until_ms - now < DELETION_NOTE_MS - _RENEWED_AFTER_MS:
            self.write()
        return held


@contextmanager
def deletion_noted(table: Table) -> Iterator[DeletionNote]:
    """Within, files may be deleted that an import might want to commit. A note that cannot be taken away is no error: what was
    deleted is to be reported, and the note runs out by itself."""
    with _noted_in(table, notes_folder(table, DELETIONS)) as note:
        yield note


@contextmanager
def purge_noted(table: Table, folder: str) -> Iterator[DeletionNote]:
    """Within, a table that lies in ``folder`` is dropped with its files. The note is there before the table is forgotten, so an
    import that no longer finds the table as the folder's owner finds the note (``forbid_running_purge``)."""
    with _noted_in(table, f"{folder.rstrip('/')}/metadata/{DELETIONS}") as note:
        yield note


@contextmanager
def _noted_in(table: Table, folder: str) -> Iterator[DeletionNote]:
    note = DeletionNote(table, f"{folder}/{uuid.uuid4()}.json")
    note.write()
    try:
        yield note
    finally:
        try:
            delete_note(table.io, note.location)
        except (IcebergOpsError, OSError) as e:
            log.warning("deletion note %s stays until it runs out, imports wait for it: %s", note.location, e)


def note_has_run_out(table: Table, location: str, now_ms: int) -> bool:
    """Whether the file is the note of a deletion that died: its time is over."""
    if f"/{DELETIONS}/" not in location:
        return False
    until = _until(table.io, location, None)
    return until is not None and now_ms >= until


def forbid_running_deletion(table: Table) -> None:
    """Raise CatalogUnavailableError while files of the table are being deleted. To be called with a lease on the files in hand, and
    with the table as it is then: its notes may lie elsewhere by now."""
    for info in noted(table, DELETIONS):
        if _is_in_force(table.io, info):
            raise CatalogUnavailableError(
                f"table {table.name}: a job is deleting files right now (note {info.location}), and files to be imported could be "
                f"among them: try again when it has ended"
            )


def forbid_running_purge(io: FileIO, source: str) -> None:
    """Raise CatalogUnavailableError while a dropped table's files are being deleted that lie in the folder ``source``, or around
    it. To be called when it is known that the folder is no table's: the drop writes its note first."""
    folder, place = "", source.rstrip("/")
    while place and place != folder and not place.endswith(":/"):
        for info in io.list_prefix(f"{place}/metadata/{DELETIONS}"):
            if _is_in_force(io, info):
                raise CatalogUnavailableError(
                    f"a job is deleting files at {place} right now, of a table that may be dropped (note {info.location}), and "
                    f"files to be imported from {source} could be among them: try again when it has ended"
                )
        folder, place = place, place.rpartition("/")[0]


def running_deletion_at(io: FileIO, folder: str) -> FileInfo | None:
    """A note in force of a deletion of files of the table at ``folder``, or of one that was there and is dropped."""
    return next((info for info in io.list_prefix(f"{folder.rstrip('/')}/metadata/{DELETIONS}") if _is_in_force(io, info)), None)


def _is_in_force(io: FileIO, note: FileInfo) -> bool:
    now = time.time_ns() // 1_000_000
    until = _until(io, note.location, (note.modified_ms or now) + DELETION_NOTE_MS)
    return until is not None and now < until


def _until(io: FileIO, location: str, unreadable: int | None) -> int | None:
    """When the note's time is over; None where it is gone, ``unreadable`` where it cannot be read."""
    try:
        return JsonObject(parse_json(io.read(location), "deletion note"), "deletion note").get("expires-at-ms", as_long)
    except FileNotFoundError:
        return None
    except CorruptTableError:
        return unreadable
