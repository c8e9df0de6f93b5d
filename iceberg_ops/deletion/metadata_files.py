"""Deletes metadata files that no table needs: one that its catalog refused, those that dropped out of the metadata log, and
pointers of a dropped table.

A metadata log only loses entries. So no later state of the table refers to a file that is missing in the log of a published state.
Entries outside the table's own metadata folder belong to another table (a table registered from a copied metadata file names those
of its origin)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from iceberg_ops.config.properties import METADATA_DELETE_AFTER_COMMIT
from iceberg_ops.deletion.own_files import discard_own
from iceberg_ops.io.file_io import DeleteFailure, FileIO
from iceberg_ops.io.locations import folder_identity, identity_under
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.metadata_files import metadata_folder
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)


def discard_refused_metadata(io: FileIO, location: str) -> None:
    """Delete the metadata file of a commit that the catalog certainly refused. Never call this while the outcome is in doubt."""
    discard_own(io, [location])


def delete_pointers(io: FileIO, locations: Sequence[str]) -> list[DeleteFailure]:
    """Delete the files by which a catalog finds a table or namespace that is being dropped; returns the failures."""
    return io.delete_many(locations)


def delete_outlived_metadata(published: Table, before: TableMetadata, before_location: str) -> None:
    """Delete the files that the commit from ``before`` to ``published`` removed from the metadata log, if the table asks for it
    (``write.metadata.delete-after-commit.enabled``). Files that cannot be deleted are left for remove_orphan_files."""
    if not METADATA_DELETE_AFTER_COMMIT.of(published.properties):
        return
    identity = identity_under(published.io)
    metadata_folder_id = folder_identity(identity, metadata_folder(published.metadata))
    kept = {identity(entry.metadata_file) for entry in published.metadata.metadata_log}
    kept |= {identity(before_location), identity(published.metadata_location)}
    logged = [(identity(entry.metadata_file), entry.metadata_file) for entry in before.metadata_log]
    gone = [location for name, location in logged if name not in kept and name.rpartition("/")[0] == metadata_folder_id]
    for failure in published.io.delete_many(gone):
        log.warning("old metadata file %s is left for remove_orphan_files: %s", failure.location, failure.reason)
