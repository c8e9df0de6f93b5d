"""Whether the content with which a table is to be created is still there.

In a filesystem catalog a table is its folder. The files of one that is created with content lie there before its first version, and
a drop deletes whatever lies in the folder. If somebody else makes a table of the same name in between and drops it, that content is
gone, or is about to go, though the name is free again.

A drop leaves its note before its mark, and no first version is accepted before the mark (``filesystem``). So whoever looks after
its first version is accepted sees the note, or the drop has ended and what it deleted is missing."""

from __future__ import annotations

from iceberg_ops.deletion.notes import running_deletion_at
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.locations import folder_identity, identity_under, is_within
from iceberg_ops.table.own_folders import folders_of
from iceberg_ops.table.reachable import recorded_locations
from iceberg_ops.table.table import Table


def running_drop(created: Table) -> str | None:
    """Why the content may be deleted any moment; None where it may not."""
    if (note := running_deletion_at(created.io, created.location)) is None:
        return None
    return f"another table of the name is being dropped, with all files in {created.location} (note {note.location})"


def lost_content(created: Table) -> str | None:
    """What is missing of the files that ``created`` refers to in its own folders; None where all are there. Each is looked at in
    the store: that a manifest was read before proves nothing."""
    io, identity = created.io, identity_under(created.io)
    own = [folder_identity(identity, folder) for folder in folders_of(created)]
    try:
        for location in recorded_locations(created):
            if location and any(is_within(identity(location), folder) for folder in own) and not io.exists(location):
                return f"{location} was deleted"
    except CorruptTableError as e:
        return f"it cannot be read any more: {e}"
    return None
