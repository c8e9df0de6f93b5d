"""Metadata files that no table needs: one that its catalog refused, those that fell out of the metadata log, pointers of a dropped
one.

A metadata log only ever loses entries. So what the log of a published state lacks, no later state of the table refers to; entries
that lie outside the table's own metadata folder are another table's (a table registered from a copied metadata file names those of
its origin)."""

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
    """Delete the metadata file of a commit that the catalog certainly refused. Never to be called while that is in doubt."""
    discard_own(io, [location])


def delete_pointers(io: FileIO, locations: Sequence[str]) -> list[DeleteFailure]:
    """Delete the files by which a catalog finds a table, or a namespace, that it is told to forget; what could not be deleted."""
    return io.delete_many(locations)


def delete_outlived_metadata(published: Table, before: TableMetadata, before_location: str) -> None:
    """Delete what the commit from ``before`` to ``published`` pushed off the metadata log, where the table asks for it
    (``write.metadata.delete-after-commit.enabled``). What cannot be deleted is left to the orphan job."""
    if not METADATA_DELETE_AFTER_COMMIT.of(published.properties):
        return
    identity = identity_under(published.io)
    own = folder_identity(identity, metadata_folder(published.metadata))
    kept = {identity(entry.metadata_file) for entry in published.metadata.metadata_log}
    kept |= {identity(before_location), identity(published.metadata_location)}
    logged = [(identity(entry.metadata_file), entry.metadata_file) for entry in before.metadata_log]
    gone = [location for name, location in logged if name not in kept and name.rpartition("/")[0] == own]
    for failure in published.io.delete_many(gone):
        log.warning("old metadata file %s is left to the orphan job: %s", failure.location, failure.reason)
