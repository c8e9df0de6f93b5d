"""Deletes the files of a table that its catalog no longer has (DROP TABLE ... PURGE).

Call this after the table is removed from the catalog, so that no reader opens a half-deleted table. A file is deleted only if it
lies in one of the table's own folders and no other table of the catalog claims it. Files that were imported from elsewhere stay,
because another table may use them too. Data files are deleted first and metadata last, so that an interrupted purge can still be
seen."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from iceberg_ops.deletion.bulk import DELETED_AT_ONCE
from iceberg_ops.deletion.gate import Deletion, KeptFile
from iceberg_ops.deletion.notes import DeletionNote
from iceberg_ops.io.file_io import DeleteFailure
from iceberg_ops.io.locations import folder_identity, identity_under, is_within
from iceberg_ops.table.own_folders import only_imported
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

Claimed = Callable[[str], str | None]
"""Location -> the table that claims it; None if no table does."""


def purge(table: Table, files: Iterable[str], folders: Iterable[str], claimed: Claimed, note: DeletionNote) -> Deletion:
    """Delete ``files`` of the dropped table, which owns ``folders``. Files that stay are logged and returned. ``note`` is in
    force."""
    io, name = table.io, table.name
    identity = identity_under(io)
    is_imported = only_imported(table, identity)
    folder_ids = [folder_identity(identity, folder) for folder in folders]
    going: list[str] = []
    kept: list[KeptFile] = []
    for location in dict.fromkeys(files):
        if not any(is_within(identity(location), folder) for folder in folder_ids):
            kept.append(KeptFile(location, "it lies outside the table's folders"))
        elif is_imported(identity(location)):
            kept.append(KeptFile(location, "it was imported from outside the table's folders"))
        elif (owner := claimed(location)) is not None:
            kept.append(KeptFile(location, f"it is stored with the files of table {owner}"))
        else:
            going.append(location)
    failures: list[DeleteFailure] = []
    for start in range(0, len(going), DELETED_AT_ONCE):
        note.renew()
        failures += io.delete_many(going[start : start + DELETED_AT_ONCE])
    for location, reason in [*((k.location, k.reason) for k in kept), *((f.location, f.reason) for f in failures)]:
        log.warning("table %s was dropped, but %s stays: %s", name, location, reason)
    failed = {failure.location for failure in failures}
    return Deletion(
        deleted=tuple(location for location in going if location not in failed), kept=tuple(kept), failures=tuple(failures)
    )
