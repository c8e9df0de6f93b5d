"""Notes: small files beside a table's metadata (``places``) that jobs write for other jobs, and for themselves after a crash.

No table metadata refers to a note, so only its writer or its reader decides when it is deleted. A deletion note says that files of
the table, or files beside it, are being deleted right now. An import takes its lease first and then looks for such notes; a
deletion writes its note first and then reads the leases. So at least one of the two sees the other, and no file is committed while
it is being deleted. In the same way no table is registered while a drop deletes its files. A note expires, so that a dead job does
not block others for ever; a running job renews it between batches."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from iceberg_ops.deletion.own_files import discard_own
from iceberg_ops.deletion.places import FOLDER, noted, notes_folder
from iceberg_ops.errors import CatalogUnavailableError, CorruptTableError, TerminalError, UnsupportedError
from iceberg_ops.io.file_io import FileInfo, FileIO
from iceberg_ops.io.local import remove_empty_folders
from iceberg_ops.io.locations import folder_identity, identity_under, is_within
from iceberg_ops.io.machine_limits import limit_error
from iceberg_ops.serde.json.json_objects import JsonObject, as_long, parse_json
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

DELETIONS = f"{FOLDER}/deletions"
DELETION_NOTE_MS = 2 * 3600 * 1000
"""How long the note of a dead deletion blocks imports. A running deletion renews it much earlier."""
_RENEWED_AFTER_MS = DELETION_NOTE_MS // 8


def delete_note(io: FileIO, location: str | None) -> None:
    """Delete a note. None, or a note that is already gone, is not an error."""
    if location is None:
        return
    assert f"/{FOLDER}/" in location, f"{location} is not a note"
    discard_own(io, [location])


@dataclass(slots=True)
class DeletionNote:
    """The note of one deletion, used by the job that deletes. Not thread-safe."""

    table: Table
    location: str
    copies: tuple[str, ...] = ()
    """Copies of the note in other folders of the table, for jobs that look only there."""
    until_ms: int = 0

    def write(self) -> None:
        """Write the note, or write it again for another ``DELETION_NOTE_MS``."""
        self.until_ms = time.time_ns() // 1_000_000 + DELETION_NOTE_MS
        data = json.dumps({"expires-at-ms": self.until_ms}).encode()
        for location in (self.location, *self.copies):
            self.table.io.write(location, data, overwrite=True)

    def renew(self) -> bool:
        """Call this before each batch of files. Returns whether the note existed all the time. If not, an import may have committed
        files meanwhile, and the earlier proof is no longer valid. The note is in force afterwards."""
        now = time.time_ns() // 1_000_000
        held = now < self.until_ms and all(self.table.io.exists(location) for location in (self.location, *self.copies))
        if not held or self.until_ms - now < DELETION_NOTE_MS - _RENEWED_AFTER_MS:
            self.write()
        return held

    def withdraw(self) -> None:
        """Delete the note. If that fails, the note expires by itself: the error must not hide the report of deleted files."""
        for location in (self.location, *self.copies):
            try:
                delete_note(self.table.io, location)
                if location in self.copies:
                    remove_empty_folders(self.table.io, location.rpartition(f"/{DELETIONS}/")[0])
            except Exception as e:  # noqa: BLE001 - what the note was written for is done
                log.warning("deletion note %s remains until it expires, and imports wait for it: %s", location, e)


@contextmanager
def deletion_noted(table: Table) -> Iterator[DeletionNote]:
    """Within this context, files may be deleted that an import might want to commit. It is not an error if the note cannot be
    deleted afterwards: the deleted files must be reported, and the note expires by itself."""
    with _in_force(DeletionNote(table, f"{notes_folder(table, DELETIONS)}/{uuid.uuid4()}.json")) as note:
        yield note


@contextmanager
def purge_noted(table: Table, folders: Sequence[str]) -> Iterator[DeletionNote]:
    """Within this context, a table is dropped with its files in ``folders``; the first one is the table's own location. The note
    exists before the table is dropped, in each folder that does not lie in another one. So an import that no longer finds the table
    as the owner of the folder finds the note (``forbid_running_purge``)."""
    identity = identity_under(table.io)
    outer: dict[str, str] = {}
    for folder in folders:
        name = folder_identity(identity, folder)
        if not any(is_within(name, other) for other in outer) and (not outer or _is_served(table.io, folder)):
            outer[name] = folder
    at = [f"{folder.rstrip('/')}/metadata/{DELETIONS}/{uuid.uuid4()}.json" for folder in outer.values()]
    with _in_force(DeletionNote(table, at[0], tuple(at[1:]))) as note:
        yield note


def _is_served(io: FileIO, folder: str) -> bool:
    """Whether the store can read the folder. It deletes nothing in a folder that it does not serve."""
    try:
        next(iter(io.list_prefix(f"{folder.rstrip('/')}/metadata/{DELETIONS}")), None)
    except UnsupportedError:
        return False
    return True


@contextmanager
def _in_force(note: DeletionNote) -> Iterator[DeletionNote]:
    try:
        try:
            note.write()
        except OSError as e:
            raise limit_error(e) or TerminalError(
                f"table {note.table.name}: nothing was deleted, because the note that warns imports of it cannot be written: {e}. "
                f"Let the job write there, or give the table another folder to write to"
            ) from e
        yield note
    finally:
        note.withdraw()


def note_has_run_out(table: Table, location: str, now_ms: int) -> bool:
    """Whether the file is the expired note of a dead deletion."""
    if f"/{DELETIONS}/" not in location:
        return False
    until = _until(table.io, location, None)
    return until is not None and now_ms >= until


def forbid_running_deletion(table: Table) -> None:
    """Raise CatalogUnavailableError while files of the table are being deleted. Call this while holding a lease on the files, and
    with the table as it is then: its notes may have moved."""
    if (note := _running_deletion(table)) is not None:
        raise CatalogUnavailableError(
            f"table {table.name}: a job is deleting files right now (note {note.location}), and files to be imported could be "
            f"among them: try again when it has ended"
        )


def forbid_registration_while_deleting(table: Table, reached: Table) -> None:
    """Raise CatalogUnavailableError while other jobs may delete files of a ``table`` that is to be registered. These are jobs of
    the table ``reached``: the table itself (by its drop, or by a job that began before), or a table in whose folder the files lie.
    Call this when the catalog has no other name for the table (a drop writes its note before it removes the name), and while
    holding a lease at the other table."""
    if (note := _running_deletion(reached)) is not None:
        whose = "its files are being deleted right now, by a drop or another job"
        if reached is not table:
            whose = (
                f"a job is deleting files of table {reached.name} right now, and the new table's own files are in or around a "
                "folder of that table"
            )
        raise CatalogUnavailableError(
            f"table {table.name} was not registered: {whose} (note {note.location}): check which files are left when that has "
            f"ended, or when the note expires, at most {DELETION_NOTE_MS // 3_600_000} hours after the job died"
        )


def _running_deletion(table: Table) -> FileInfo | None:
    return next((info for info in noted(table, DELETIONS) if _is_in_force(table.io, info)), None)


def forbid_running_purge(io: FileIO, source: str) -> None:
    """Raise CatalogUnavailableError while files of a dropped table are being deleted in the folder ``source`` or in a folder around
    it, also if a symbolic link leads there. Call this when it is known that the folder belongs to no table: the drop writes its
    note first."""
    around = _folders_around(source)
    if io.local_path(source) is not None:
        around |= _folders_around(folder_identity(identity_under(io), source))
    note = next((note for folder in around if (note := running_deletion_at(io, folder)) is not None), None)
    if note is None:
        below = (info for info in io.list_prefix(source) if f"/metadata/{DELETIONS}/" in info.location)
        note = next((info for info in below if _is_in_force(io, info)), None)
    if note is not None:
        place = note.location.rpartition(f"/metadata/{DELETIONS}/")[0]
        raise CatalogUnavailableError(
            f"a job is deleting files at {place} right now, of a table that may be dropped (note {note.location}), and files to be "
            f"imported from {source} could be among them: try again when it has ended"
        )


def _folders_around(folder: str) -> dict[str, None]:
    """The folder and all its parent folders."""
    folders: dict[str, None] = {}
    below, place = "", folder.rstrip("/")
    while place and place != below and not place.endswith(":/"):
        folders[place] = None
        below, place = place, place.rpartition("/")[0]
    return folders


def running_deletion_at(io: FileIO, folder: str) -> FileInfo | None:
    """A note in force of a deletion of files of the table at ``folder``, or of a dropped table that was there."""
    return next((info for info in io.list_prefix(f"{folder.rstrip('/')}/metadata/{DELETIONS}") if _is_in_force(io, info)), None)


def _is_in_force(io: FileIO, note: FileInfo) -> bool:
    now = time.time_ns() // 1_000_000
    until = _until(io, note.location, (note.modified_ms or now) + DELETION_NOTE_MS)
    return until is not None and now < until


def _until(io: FileIO, location: str, unreadable: int | None) -> int | None:
    """When the note expires; None if it is gone, ``unreadable`` if it cannot be read."""
    try:
        return JsonObject(parse_json(io.read(location), "deletion note"), "deletion note").get("expires-at-ms", as_long)
    except FileNotFoundError:
        return None
    except CorruptTableError:
        return unreadable
