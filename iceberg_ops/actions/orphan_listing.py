"""Checks whether the listing of a table's folder contains the files that the table's metadata records there.

If it does not, listing and metadata describe different files: an unknown spelling of the location, a folder that is a link and
therefore not listed, another store behind the location. Then an apparent orphan may be a live file, and nothing may be deleted. The
listing need not contain files that were committed while it ran, nor metadata files that the log still names and that were
deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from iceberg_ops.errors import FilesNotListedError
from iceberg_ops.io.locations import identity_under
from iceberg_ops.table.reachable import metadata_files, recorded_locations
from iceberg_ops.table.table import Table


def check_listing(before: Table, current: Table, location: str, unmet: Mapping[str, str]) -> None:
    """Raise FilesNotListedError if the listing of ``location`` lacks a file that both ``before`` and ``current``, the table before
    and after the listing, record. ``unmet``: identity -> location of the files that ``current`` records there and the listing
    lacks."""
    if not unmet:
        return
    logged = metadata_files(current) - {current.metadata_location}
    identity = identity_under(current.io)
    for recorded in recorded_locations(_retained(before, current)):
        missing = unmet.get(identity(recorded))
        if missing is None:
            continue
        there = current.io.exists(missing)
        if there or missing not in logged:
            raise FilesNotListedError(
                f"cannot identify orphan files of {current.name}: its metadata records {missing}, which the listing of {location} "
                f"lacks; {_IS_THERE if there else _IS_GONE}. No file was deleted",
                file_path=missing,
            )


def _retained(before: Table, current: Table) -> Table:
    """The table before the listing, without the snapshots that expired in the meantime: their files may be gone."""
    known = current.metadata.snapshots_by_id
    return replace(
        before, metadata=replace(before.metadata, snapshots=tuple(s for s in before.metadata.snapshots if s.snapshot_id in known))
    )


_IS_THERE = "it exists, so the listing and the metadata spell its location differently, or a folder in its path is a symbolic link"
_IS_GONE = "it does not exist: the table is damaged (see iceberg-ops check)"
