"""Checks whether the content of a table that is being created still exists.

In a filesystem catalog a table is its folder. If a table is created with content, its files lie in the folder before its first
version, and a drop deletes everything in the folder. If another process creates and drops a table of the same name in between, the
content is gone, or is about to be deleted, although the name is free again.

A drop writes its note before its mark, and no first version is accepted before the mark (``filesystem``). So a check after the
first version is accepted sees the note, or the drop has ended and its deleted files are missing."""

from __future__ import annotations

from iceberg_ops.deletion.notes import running_deletion_at
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.locations import folder_identity, identity_under, is_within
from iceberg_ops.table.own_folders import folders_of
from iceberg_ops.table.reachable import recorded_locations
from iceberg_ops.table.table import Table


def running_drop(created: Table) -> str | None:
    """Why the content may be deleted at any moment; None if it cannot be."""
    if (note := running_deletion_at(created.io, created.location)) is None:
        return None
    return f"another table of the name is being dropped, with all files in {created.location} (note {note.location})"


def lost_content(created: Table) -> str | None:
    """Which of the files that ``created`` refers to in its own folders are missing; None if all exist. Each file is looked up in
    the store: an earlier read of a manifest proves nothing."""
    io, identity = created.io, identity_under(created.io)
    folder_ids = [folder_identity(identity, folder) for folder in folders_of(created)]
    try:
        for location in recorded_locations(created):
            if location and any(is_within(identity(location), folder) for folder in folder_ids) and not io.exists(location):
                return f"{location} was deleted"
    except CorruptTableError as e:
        return f"it cannot be read any more: {e}"
    return None
