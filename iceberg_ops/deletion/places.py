"""The folders where jobs leave notes for each other: leases, running deletions, unfinished expiries.

Notes are in one folder below the table's location, whatever ``write.metadata.path`` is: that property may change while a job runs,
and nothing records its former value. The location may change as well; a commit of this package then records the former one in the
table's properties (``own_folders``). Other engines do not, and earlier releases wrote notes beside the metadata. So notes are also
searched in every former metadata folder that the table shows: the folders of the current metadata file, of the files of the
metadata log, and of the manifest lists of all retained snapshots.
"""

from __future__ import annotations

from collections.abc import Iterator

from iceberg_ops.errors import UnsupportedError
from iceberg_ops.io.file_io import FileInfo
from iceberg_ops.io.locations import folder_identity, identity_under
from iceberg_ops.table.metadata_files import metadata_folder
from iceberg_ops.table.own_folders import former_locations
from iceberg_ops.table.table import Table

FOLDER = "iceberg-ops"
"""The subfolder, in a folder of notes, for the notes of all jobs."""


def notes_folder(table: Table, kind: str = FOLDER) -> str:
    """The folder where a note of this kind is written."""
    return _below(table.location, kind)


def notes_folders(table: Table, kind: str = FOLDER) -> list[str]:
    """Every folder in which a note of this kind may lie; the first is the one where notes are written now."""
    metadata = table.metadata
    files = [table.metadata_location, *(entry.metadata_file for entry in reversed(metadata.metadata_log))]
    files += [snapshot.manifest_list for snapshot in metadata.snapshots if snapshot.manifest_list is not None]
    beside = dict.fromkeys(folder for location in files if (folder := location.rpartition("/")[0]))
    identity = identity_under(table.io)
    folders = (
        notes_folder(table, kind),
        *(_below(location, kind) for location in former_locations(table)),
        *(f"{folder}/{kind}" for folder in (metadata_folder(metadata), *beside)),
    )
    by_identity: dict[str, str] = {}
    for folder in folders:
        by_identity.setdefault(folder_identity(identity, folder), folder)
    return list(by_identity.values())


def noted(table: Table, kind: str) -> Iterator[FileInfo]:
    """Every note of a kind. A former folder in a store that the table's FileIO does not serve holds no notes of these jobs."""
    now, *former = notes_folders(table, kind)
    yield from table.io.list_prefix(now)
    for folder in former:
        try:
            yield from table.io.list_prefix(folder)
        except UnsupportedError:
            continue


def _below(location: str, kind: str) -> str:
    return f"{location.rstrip('/')}/metadata/{kind}"
