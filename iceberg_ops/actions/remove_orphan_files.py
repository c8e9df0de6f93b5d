"""Remove files below a table's location that belong to nothing.

Order matters and is the guard against running writers: list first, then read the table anew, so that whatever was committed during
the listing counts as reachable; only what is older than the cut-off can go at all. Which files are orphans is decided in
``iceberg_ops.planning.remove_orphan_files``; here they are listed, deleted in bulk or moved to a quarantine, and every result is
reported.

The rule upheld: any doubt about ownership (gc.enabled false, another table's metadata, a manifest or another table of the catalog
that does not read) ends the job before a file is deleted.
"""

from __future__ import annotations

import json
import shutil

from iceberg_ops.actions.context import Run
from iceberg_ops.actions.neighbours import owned_by_others
from iceberg_ops.config.options import remove_orphan_files_options
from iceberg_ops.config.properties import GC_ENABLED
from iceberg_ops.config.report import SkippedFile
from iceberg_ops.errors import RetryableError, ValidationError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.locations import identity_under
from iceberg_ops.planning.file_groups import Skipped
from iceberg_ops.planning.remove_orphan_files import (
    OrphanFiles,
    Ownership,
    check_quarantine,
    find_orphans,
    foreign_metadata,
    partition_names,
    quarantine_places,
    quarantine_root,
    search_location,
)
from iceberg_ops.table.leases import active_leases, has_run_out
from iceberg_ops.table.metadata_files import metadata_folder
from iceberg_ops.table.reachable import reachable_files
from iceberg_ops.table.table import Table

_COPIED_AT_ONCE = 1 << 20


def remove_orphan_files(run: Run) -> None:
    """Fill ``run.outcome``. Raises ValidationError (gc.enabled is false), UnsupportedError (a shared location), OptionError."""
    table = run.table
    if not GC_ENABLED.of(table.properties):
        raise ValidationError(
            f"can not remove orphan files of {table.name}: gc.enabled is false (deleting files may corrupt other tables)"
        )
    options = remove_orphan_files_options(run.job.options, now_ms=run.now_ms())
    location = search_location(table.location, table.properties, options.location)
    check_quarantine(table.location, options.quarantine_path)
    with run.step("list") as detail:
        listing = list(table.io.list_prefix(location))
        detail.append(f"{len(listing)} files below {location}")
    with run.step("plan") as detail:
        current = run.catalog.load_table(table.identifier[1:])
        owned = ownership(current)
        unreadable = foreign_metadata(listing, owned, table.io)
        found = find_orphans(listing, owned, options, location, table.io)
        found = _without(found, (*unreadable, *_leased(found, current, run.now_ms())))
        others = owned_by_others(run.catalog, current, found.orphans, location, lambda other: ownership(other).reachable)
        found = _without(found, tuple(others))
        detail.append(f"{len(found.orphans)} orphans")
    _report_plan(run, found)
    if not found.orphans:
        return
    if run.job.dry_run:
        run.outcome.status = "planned"
        run.outcome.files.extend(info.location for info in found.orphans)
        return
    with run.step("clean") as detail:
        if options.quarantine_path is None:
            detail.append(f"{_delete(run, found)} files deleted")
        else:
            detail.append(f"{_move(run, found, options.quarantine_path)} files moved")
    run.outcome.status = "committed"


def ownership(table: Table) -> Ownership:
    """Everything the table owns at this moment. Raises CorruptTableError where a manifest does not read."""
    metadata = table.metadata
    found = reachable_files(table, metadata.snapshots)
    reachable = {
        *found.data,
        *found.deletes,
        *found.manifests,
        *found.manifest_lists,
        *found.statistics,
        *found.metadata_files,
        table.metadata_location,
        *(entry.metadata_file for entry in metadata.metadata_log),
        *(s.statistics_path for s in metadata.statistics),
        *(s.statistics_path for s in metadata.partition_statistics),
    }
    return Ownership(table_uuid=metadata.table_uuid, reachable=reachable, partition_names=partition_names(metadata))


def _leased(found: OrphanFiles, table: Table, now_ms: int) -> list[Skipped]:
    """Files that a running job is writing, and what jobs note down for each other, but for the leases of jobs that died."""
    leases = active_leases(table, now_ms)
    notes = f"{metadata_folder(table.metadata)}/iceberg-ops/"
    identity = identity_under(table.io)
    kept = []
    for info in found.orphans:
        if holder := next((lease.holder for lease in leases if lease.covers(info.location)), None):
            kept.append(Skipped(info.location, f"run {holder} is writing it"))
        elif identity(info.location).startswith(identity(notes)) and not has_run_out(table, info.location, now_ms):
            kept.append(Skipped(info.location, "a note of a running or interrupted job"))
    return kept


def _without(found: OrphanFiles, unreadable: tuple[Skipped, ...]) -> OrphanFiles:
    paths = {skipped.file_path for skipped in unreadable}
    orphans = tuple(info for info in found.orphans if info.location not in paths)
    return OrphanFiles(orphans, (*(s for s in found.kept if s.file_path not in paths), *unreadable), found.listed)


def _report_plan(run: Run, found: OrphanFiles) -> None:
    outcome = run.outcome
    outcome.metrics["listed-files-count"] = found.listed
    outcome.metrics["orphan-files-count"] = len(found.orphans)
    outcome.metrics["orphan-files-bytes"] = sum(info.size for info in found.orphans)
    outcome.metrics["kept-files-count"] = len(found.kept)
    outcome.skipped.extend(SkippedFile(file_path=skipped.file_path, reason=skipped.reason) for skipped in found.kept)


def _move(run: Run, found: OrphanFiles, folder: str) -> int:
    """Move orphans into the quarantine; how many. A list of where each came from is there before the first is moved."""
    moves = [
        (info.location, quarantined) for info, quarantined in quarantine_places(found, run.table.location, folder, run.run_key)
    ]
    table_io, outcome = run.table.io, run.outcome
    record = f"{quarantine_root(folder, run.run_key)}/moved.jsonl"
    table_io.write(record, b"".join(json.dumps({"from": a, "to": b}).encode() + b"\n" for a, b in moves), overwrite=True)
    moved = []
    for origin, place in moves:
        try:
            _copy(table_io, origin, place)
        except FileNotFoundError:
            continue
        except (FileExistsError, RetryableError) as e:
            outcome.failures.append(SkippedFile(file_path=origin, reason=f"not moved: {e}"))
            continue
        moved.append(origin)
    failures = {f.location: f.reason for f in table_io.delete_many(moved)}
    outcome.failures.extend(SkippedFile(file_path=path, reason=reason) for path, reason in failures.items())
    outcome.files.extend(path for path in moved if path not in failures)
    outcome.metrics["moved-orphan-files-count"] = len(moved) - len(failures)
    outcome.metrics["failed-deletes-count"] = len(outcome.failures)
    return len(moved) - len(failures)


def _copy(io: FileIO, origin: str, place: str) -> None:
    with io.open_input(origin) as source, io.open_output(place) as sink:
        shutil.copyfileobj(source, sink, _COPIED_AT_ONCE)


def _delete(run: Run, found: OrphanFiles) -> int:
    locations = [info.location for info in found.orphans]
    failures = {f.location: f.reason for f in run.table.io.delete_many(locations)}
    outcome = run.outcome
    outcome.failures.extend(SkippedFile(file_path=path, reason=reason) for path, reason in failures.items())
    outcome.files.extend(path for path in locations if path not in failures)
    outcome.metrics["deleted-orphan-files-count"] = len(locations) - len(failures)
    outcome.metrics["failed-deletes-count"] = len(failures)
    return len(locations) - len(failures)
