"""Removes files below a table's location that belong to no table.

The order protects running writers: first list, then load the table again, so that files committed during the listing count as
reachable. Only files older than the cut-off are removed at all. ``iceberg_ops.planning.remove_orphan_files`` decides which files
are orphans; this module lists them (``listing``) and reports every result. The gate (``iceberg_ops.deletion``) proves each batch
once more against the current table, before it deletes the files or moves them to a quarantine. Listed, recorded and orphan files go
through sorted lines, so memory does not grow with the table.

The rule: any doubt about ownership ends the job before a file is deleted: gc.enabled is false, metadata of another table,
another table under the name, an unreadable manifest or other table of the catalog, a recorded file that the listing does
not contain."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice

from iceberg_ops.actions.orphan_listing import check_listing
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import Committed, NothingToDo, PartiallyCommitted, Planned, Result
from iceberg_ops.actions.sorted_lines import SortedLines
from iceberg_ops.actions.workers.listing import listed
from iceberg_ops.catalog.catalog import KeepsTablesInFolders
from iceberg_ops.catalog.neighbours import Claim, claims_of_others, forbid_relative_record, recorded_by
from iceberg_ops.config.lanes import LOCAL
from iceberg_ops.config.options import NO_LIMIT, RemoveOrphanFilesOptions, remove_orphan_files_options
from iceberg_ops.config.plurals import counted
from iceberg_ops.config.properties import GC_ENABLED
from iceberg_ops.config.report import SkippedFile
from iceberg_ops.deletion.bulk import DELETED_AT_ONCE, Delete, delete_files
from iceberg_ops.deletion.bulk import recorded as recording
from iceberg_ops.deletion.gate import check_same_table, delete_unreferenced, in_bulk
from iceberg_ops.deletion.leases import active_leases, has_run_out
from iceberg_ops.deletion.notes import note_has_run_out
from iceberg_ops.deletion.places import notes_folders
from iceberg_ops.errors import GcDisabledError, IcebergOpsError, OptionError
from iceberg_ops.io.file_io import DeleteFailure, FileInfo, FileIO
from iceberg_ops.io.locations import (
    Identity,
    folder_identity,
    forbid_relative,
    identity_under,
    is_within,
    links_under,
    on_one_file_system,
)
from iceberg_ops.planning.file_groups import Skipped
from iceberg_ops.planning.orphan_records import file_name, listed_line, recorded_line
from iceberg_ops.planning.remove_orphan_files import (
    MissingFile,
    Orphan,
    Ownership,
    RecordedElsewhere,
    check_quarantine,
    find_orphans,
    orphans_by_name,
    owned_elsewhere,
    partition_names,
    quarantine_place,
    quarantine_root,
    search_location,
)
from iceberg_ops.table.metadata_files import parse_version
from iceberg_ops.table.own_folders import folders_of
from iceberg_ops.table.reachable import recorded_locations
from iceberg_ops.table.table import Table

_COPIED_AT_ONCE = 1 << 20


def remove_orphan_files(run: Run) -> Result:
    """Raises ValidationError (gc.enabled is false), UnsupportedError (a shared location), OptionError."""
    table = run.table
    if not GC_ENABLED.of(table.properties):
        raise GcDisabledError(
            f"cannot remove orphan files of {table.name}: gc.enabled is false (deleting files may corrupt other tables, "
            "or branches of Nessie, where nessie-gc deletes files)"
        )
    options = remove_orphan_files_options(run.job.options, now_ms=run.now_ms())
    identity = identity_under(table.io)
    for folder in folders_of(table):
        forbid_relative_record(table.io, folder, table.name)
    location = search_location(table.location, table.properties, options.location, identity)
    if not any(_is_part_of(location, folder, table, identity) for folder in folders_of(table)):
        raise OptionError(
            f"remove_orphan_files: location {location}: is in another HDFS than the folders of table {table.name}, "
            f"{', '.join(folders_of(table))}, as far as Hadoop's settings show: name it as the table's metadata does"
        )
    if not options.stream_results:
        run.outcome.listed = NO_LIMIT
    if options.quarantine_path is not None:
        forbid_relative(table.io, options.quarantine_path, "remove_orphan_files: option quarantine-path")
    check_quarantine(folders_of(table), options.quarantine_path, identity)
    with SortedLines() as orphans:
        current = _find(run, options, location, orphans)
        if not orphans.count:
            return NothingToDo(findings=run.outcome.findings())
        if run.job.dry_run:
            run.outcome.list_files(path for path, _ in _read(orphans))
            return Planned(findings=run.outcome.findings())
        with run.step("clean") as detail:
            if options.quarantine_path is None:
                detail.append(f"{counted(_delete(run, orphans, current, options), 'file')} deleted")
            else:
                detail.append(f"{counted(_move(run, orphans, current, options.quarantine_path), 'file')} moved")
    of = PartiallyCommitted if run.outcome.metrics["failed-deletes-count"] else Committed
    return of(findings=run.outcome.findings(), table=run.table)


def _is_part_of(location: str, folder: str, table: Table, identity: Identity) -> bool:
    is_below = is_within(folder_identity(identity, location), folder_identity(identity, folder))
    return is_below and on_one_file_system(table.io, location, folder)


def _find(run: Run, options: RemoveOrphanFilesOptions, location: str, orphans: SortedLines) -> Table:
    """List, load the table, and put the removable files into ``orphans``; returns the loaded table. Raises ValidationError for
    another table under its name and for a listing that does not contain the table's files."""
    identity = identity_under(run.table.io, deletes=True)
    metrics = run.outcome.metrics
    metrics |= dict.fromkeys(("listed-files-count", "orphan-files-count", "orphan-files-bytes", "kept-files-count"), 0)
    with SortedLines() as lines, SortedLines() as names, SortedLines() as candidates:
        with run.step("list") as detail:
            for info in _listed(run, location, options):
                lines.add(listed_line(info, identity))
            metrics["listed-files-count"] = lines.count
            detail.append(f"{counted(lines.count, 'file')} below {location}")
        with run.step("plan") as detail:
            current = run.catalog.load_table(run.table.identifier[1:])
            check_same_table(run.table, current)
            links = links_under(current.io)
            for recorded in recorded_locations(current):
                forbid_relative_record(current.io, recorded, current.name)
                lines.add(recorded_line(recorded, identity))
                for target in links(recorded):
                    lines.add(recorded_line(target, identity))
            ownership = _ownership(run, current)
            leased, unmet = _Leased(current, run.now_ms()), dict[str, str]()
            for result in find_orphans(lines, ownership, options, location, current.io):
                if isinstance(result, MissingFile):
                    unmet[identity(result.location)] = result.location
                    continue
                if isinstance(result, RecordedElsewhere):
                    names.add(recorded_line(result.location, file_name))
                    continue
                kept = result if isinstance(result, Skipped) else leased.reason_to_keep(result)
                if kept is None and isinstance(result, Orphan):
                    names.add(listed_line(result.info, file_name))
                elif kept is not None:
                    _keep(run, kept)
            check_listing(run.table, current, location, unmet)
            for named in orphans_by_name(names):
                if isinstance(named, Skipped):
                    _keep(run, named)
                else:
                    candidates.add(listed_line(named.info, identity))
            for left in _not_others(run, current, location, candidates):
                orphans.add(json.dumps([left.info.location, left.info.size]))
                metrics["orphan-files-count"] += 1
                metrics["orphan-files-bytes"] += left.info.size
            detail.append(f"{orphans.count} orphans")
    return current


def _ownership(run: Run, table: Table) -> Ownership:
    catalog = run.catalog
    return Ownership(
        table=table,
        partition_names=partition_names(table.metadata),
        dropped=catalog.dropped_tables(table.identifier[1:]) if isinstance(catalog, KeepsTablesInFolders) else (),
        version=parse_version(table.metadata_location) or 0,
    )


def _listed(run: Run, location: str, options: RemoveOrphanFilesOptions) -> Iterator[FileInfo]:
    meter = run.meter("listing", unit="folders")
    # One process lists a local store as fast as several.
    runner = None if run.runner is None or run.runner.name == LOCAL else run.runner
    yield from listed(run.table.io, location, runner, by_prefix=options.prefix_listing, on_progress=meter.at)


def _keep(run: Run, kept: Skipped) -> None:
    run.outcome.metrics["kept-files-count"] += 1
    if len(run.outcome.skipped) < run.outcome.listed:
        run.outcome.skipped.append(SkippedFile(file_path=kept.file_path, reason=kept.reason))


def _not_others(run: Run, table: Table, location: str, candidates: SortedLines) -> Iterator[Orphan]:
    """Candidates that no other table of the catalog claims; the others are kept. Without candidates no table is read."""
    if not candidates.count:
        return
    claims = list(claims_of_others(run.catalog, table, location, run.now_ms()))
    identity, links = identity_under(table.io, deletes=True), links_under(table.io)
    for claim in claims:
        for recorded in recorded_by(claim.table) if claim.around else ():
            for place in (recorded, *links(recorded)):
                candidates.add(recorded_line(place, identity, claim.table.name))
    for candidate in owned_elsewhere(candidates, table.io):
        kept = candidate if isinstance(candidate, Skipped) else _claimed(candidate, claims, identity(candidate.info.location))
        if kept is not None:
            _keep(run, kept)
        elif isinstance(candidate, Orphan):
            yield candidate


def _claimed(orphan: Orphan, claims: Iterable[Claim], identity: str) -> Skipped | None:
    within = (claim for claim in claims if any(is_within(identity, folder) for folder in claim.folders))
    holder = next((claim.table.name for claim in within), None)
    return None if holder is None else Skipped(orphan.info.location, f"it is stored with the files of table {holder}")


class _Leased:
    """Files that a running job is writing, and notes of jobs, except the leases of dead jobs."""

    def __init__(self, table: Table, now_ms: int) -> None:
        self._table, self._now_ms = table, now_ms
        self._leases = active_leases(table, now_ms)
        self._identity = identity_under(table.io)
        self._notes = [folder_identity(self._identity, folder) for folder in notes_folders(table)]

    def reason_to_keep(self, orphan: Orphan) -> Skipped | None:
        """Why an orphan stays; None if it may go."""
        location = orphan.info.location
        if holder := next((lease.holder for lease in self._leases if lease.covers(location, self._table.io)), None):
            return Skipped(location, f"run {holder} is working on it")
        name = self._identity(location)
        if not any(is_within(name, folder) for folder in self._notes):
            return None
        if not (has_run_out(self._table, location, self._now_ms) or note_has_run_out(self._table, location, self._now_ms)):
            return Skipped(location, "a note of a running or interrupted job")
        return None


def _read(orphans: SortedLines) -> Iterator[tuple[str, int]]:
    for line in orphans:
        location, size = json.loads(line)
        yield location, size


def _batches(orphans: SortedLines) -> Iterator[list[tuple[str, int]]]:
    waiting = _read(orphans)
    while batch := list(islice(waiting, DELETED_AT_ONCE)):
        yield batch


def _move(run: Run, orphans: SortedLines, current: Table, folder: str) -> int:
    """Move orphans into the quarantine; returns their number. A list of their old locations is written before the first is
    moved."""
    root = quarantine_root(folder, run.run_key)
    io, outcome = run.table.io, run.outcome
    meter = run.meter("moving", orphans.count, outcome.metrics["orphan-files-bytes"], unit="files")

    def target_location(origin: str) -> str:
        return quarantine_place(origin, run.table.location, root)

    def moved(io: FileIO, locations: Sequence[str]) -> list[DeleteFailure]:
        failures = [failure for origin in locations if (failure := _copied(io, origin, target_location(origin))) is not None]
        failed = {failure.location for failure in failures}
        return failures + in_bulk(io, [origin for origin in locations if origin not in failed])

    with io.open_output(_free_record(io, root)) as record:
        for origin, _ in _read(orphans):
            record.write(json.dumps({"from": origin, "to": target_location(origin)}).encode() + b"\n")
    outcome.metrics |= {"moved-orphan-files-count": 0, "failed-deletes-count": 0}
    for batch in _batches(orphans):
        _remove(run, current, [origin for origin, _ in batch], moved, "moved-orphan-files-count")
        meter.advance(len(batch), sum(size for _, size in batch))
    return outcome.metrics["moved-orphan-files-count"]


def _free_record(io: FileIO, root: str) -> str:
    """A run that is repeated under its key keeps the record of the first one."""
    names = (f"{root}/moved{'' if n == 1 else f'-{n}'}.jsonl" for n in count(1))
    return next(name for name in names if not io.exists(name))


def _copied(io: FileIO, origin: str, place: str) -> DeleteFailure | None:
    try:
        _copy(io, origin, place)
    except (OSError, IcebergOpsError) as e:
        return DeleteFailure(origin, f"not moved: {e}")
    return None


def _copy(io: FileIO, origin: str, place: str) -> None:
    with io.open_input(origin) as source, io.open_output(place) as sink:
        shutil.copyfileobj(source, sink, _COPIED_AT_ONCE)


def _delete(run: Run, orphans: SortedLines, current: Table, options: RemoveOrphanFilesOptions) -> int:
    meter = run.meter("deleting", orphans.count, run.outcome.metrics["orphan-files-bytes"], unit="files")
    run.outcome.metrics |= {"deleted-orphan-files-count": 0, "failed-deletes-count": 0}

    def delete(io: FileIO, locations: Sequence[str]) -> list[DeleteFailure]:
        return delete_files(io, locations, options.max_concurrent_deletes)

    for batch in _batches(orphans):
        _remove(run, current, [location for location, _ in batch], delete, "deleted-orphan-files-count")
        meter.advance(len(batch), sum(size for _, size in batch))
    return run.outcome.metrics["deleted-orphan-files-count"]


def _remove(run: Run, current: Table, locations: Sequence[str], delete: Delete, metric: str) -> None:
    """Let the gate remove a batch, and report the result. ``current`` is the state in which the orphans were found."""

    def reload() -> Table:
        return run.catalog.load_table(run.table.identifier[1:])

    def on_gone(gone: Sequence[str], is_in_doubt: bool) -> None:
        run.outcome.changed |= bool(gone) or is_in_doubt
        run.outcome.list_files(gone)
        run.outcome.metrics[metric] += len(gone)

    done = delete_unreferenced(current, reload, locations, proven_for=current.metadata, delete=recording(delete, on_gone))
    for kept in done.kept:
        _keep(run, Skipped(kept.location, kept.reason))
    for failure in done.failures:
        _failed(run, failure.location, failure.reason)


def _failed(run: Run, location: str, reason: str) -> None:
    run.outcome.metrics["failed-deletes-count"] += 1
    if len(run.outcome.failures) < run.outcome.listed:
        run.outcome.failures.append(SkippedFile(file_path=location, reason=reason))
