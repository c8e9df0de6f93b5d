"""Imports the Parquet files of a folder into a table without copying them (Iceberg: the ``add_files`` procedure).

All footers are read and all rules checked before anything is committed (``data.imported_files``, ``planning.partition_folders``).
Files without field ids need a name mapping: if the table has none, one with its current column names is set in the same commit, and
so is each name of a file that the mapping lacks.

After the import the files belong to the table: expiry deletes them once no snapshot needs them, unless gc.enabled is false. A lease
on the folder protects them during the import. While the table deletes files, or if a running job has written some of those in the
folder, an import is refused with a retryable error (``iceberg_ops.deletion.notes``, ``iceberg_ops.deletion.leases``). A folder of
another table of the catalog is refused. A folder outside the table's own is recorded in the table's properties, so that jobs on
other tables keep its files (``catalog.neighbours``); before the record exists, those jobs find the lease. Tables around the folder,
and the files themselves, are checked again right before the swap and after it: for a file that is rewritten in the meantime, the
table would record the size, counts and bounds of the old file, which readers use for pruning."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import PurePath

from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import Findings, NothingToDo, Planned, Result, commit_result
from iceberg_ops.catalog.neighbours import forbid_import_from_another_table, imported_folder_property
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.commit.protocol.history import base_snapshot
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.commit.validation.mapped_names import AddMappedNames
from iceberg_ops.config.plurals import counted
from iceberg_ops.config.table_options import AddFilesOptions, add_files_options
from iceberg_ops.data.sources.imported_files import ImportedFile, ImportTarget, imported_file
from iceberg_ops.data.sources.source_folder import is_hidden
from iceberg_ops.deletion.leases import forbid_files_of_running_jobs
from iceberg_ops.deletion.notes import forbid_running_deletion, forbid_running_purge
from iceberg_ops.errors import (
    CatalogUnavailableError,
    DataError,
    IncompleteError,
    OptionError,
    UnsupportedError,
    ValidationError,
)
from iceberg_ops.io.file_io import FileInfo
from iceberg_ops.io.local import file_identity, folder_links, may_have_other_names
from iceberg_ops.io.locations import identity_under, is_absolute_under
from iceberg_ops.io.machine_limits import MOST_THREADS
from iceberg_ops.planning.partition_folders import HIVE_NULL, Folders, check_spec, data_files, partition_tuple
from iceberg_ops.serde.json.name_mapping_json import table_name_mapping
from iceberg_ops.spec.metrics_config import MetricsConfig
from iceberg_ops.spec.name_mapping import create_name_mapping, with_names
from iceberg_ops.spec.partition_keys import partition_key
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.table.metadata_files import metadata_folder
from iceberg_ops.table.reachable import reachable_files
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

Listed = Mapping[str, FileInfo]
"""The files to import, by location, as they were listed before their footers were read."""


def add_files(run: Run) -> Result:
    """Raises OptionError, DataError, SchemaError, UnsupportedError, and the errors of the committer."""
    options = add_files_options(run.job.options)
    if not is_absolute_under(run.table.io, options.source_path):
        raise OptionError(
            f"add_files: source-path = {options.source_path!r}: must be absolute, because metadata records the absolute location "
            "of each file"
        )
    if run.job.dry_run:
        forbid_import_from_another_table(run.catalog, run.table, options.source_path)
        imported, _ = _plan(run, options)
        return Planned(findings=_findings(imported)) if imported else NothingToDo(findings=_findings(imported))
    head = base_snapshot(run.table.metadata, run.job.branch)
    # A staged table: if another table of its name is created and dropped before it, every file in its folder is deleted too.
    new_folders = () if run.table.metadata_location else (run.table.location,)
    with run.lease(None if head is None else head.snapshot_id, folders=(options.source_path, *new_folders)):
        # While the lease is held: a table that is created around the folder later finds the lease (``catalog.neighbours``).
        forbid_import_from_another_table(run.catalog, run.table, options.source_path)
        forbid_running_deletion(run.catalog.load_table(run.table.identifier[1:]))
        forbid_running_purge(run.table.io, options.source_path)
        imported, listed = _plan(run, options)
        findings = _findings(imported)
        if not imported:
            return NothingToDo(findings=findings)
        run.outcome.keep(findings)
        with run.step("commit"):
            operation = _operation(run, imported, head, options)
            before_swap = partial(_look_again, run, options, listed)
            committed = commit(run.catalog, run.table, operation, before_swap=before_swap, on_commit=run.outcome.record)
        if not committed.already_committed:
            _look_afterwards(run, options, listed)
        return commit_result(committed, findings)


def _forbid_others(run: Run, options: AddFilesOptions) -> None:
    forbid_import_from_another_table(run.catalog, run.table, options.source_path)
    if not run.table.metadata_location:  # Nobody finds the lease of a table that is in no catalog, so a purge may have begun.
        forbid_running_purge(run.table.io, options.source_path)


def _look_again(run: Run, options: AddFilesOptions, listed: Listed) -> None:
    """Right before the swap: a table may have been created around the folder while footers were read, by another engine, or while
    the table to be created is in no catalog, so its lease is not found; and files may have been removed or rewritten. Raises
    UnsupportedError, ValidationError, CatalogUnavailableError."""
    run.check_files(listed)
    _forbid_others(run, options)
    gone, changed = _differing(run, options, listed)
    if gone:
        raise ValidationError(
            f"add_files: {gone[0]}{_and_more(gone)} was deleted below {options.source_path} while it was imported: nothing was "
            f"committed; run it again",
            file_path=gone[0],
            file_paths=tuple(gone),
        )
    if changed:
        raise ValidationError(
            f"add_files: {changed[0]}{_and_more(changed)} was changed below {options.source_path} while it was imported: nothing "
            f"was committed; run it again when the files are complete",
            file_path=changed[0],
            file_paths=tuple(changed),
        )


def _look_afterwards(run: Run, options: AddFilesOptions, listed: Listed) -> None:
    """After the files are recorded, every later check of other jobs keeps them. Raises IncompleteError if another job missed
    them."""
    done = f"{len(listed)} files are in table {run.table.name}, but"
    try:
        gone, changed = _differing(run, options, listed)
        if gone:
            raise IncompleteError(
                f"{done} {gone[0]}{_and_more(gone)} was deleted at the same time, by a job that did not know about the import: "
                "restore it, or delete its rows from the table"
            )
        if changed:
            raise IncompleteError(
                f"{done} {changed[0]}{_and_more(changed)} was changed at the same time, so its recorded size, counts and bounds "
                "are out of date: restore it, or roll the import back and run it again"
            )
        if not run.table.metadata_location:
            _forbid_others(run, options)
    except UnsupportedError as e:
        raise IncompleteError(
            f"{done} another table was created around them at the same time ({e}), and its running jobs did not know about the "
            f"import: when these jobs have ended, check that all files still exist"
        ) from e
    except (CatalogUnavailableError, OSError) as e:
        log.warning("%s it is not known whether other jobs deleted some of them at the same time: %s", done, e)


def _differing(run: Run, options: AddFilesOptions, listed: Listed) -> tuple[list[str], list[str]]:
    """Files that are gone, and files that have changed since they were listed."""
    now = {info.location: info for info in run.table.io.list_prefix(options.source_path)}
    gone = [location for location in listed if location not in now]
    return gone, [location for location, info in listed.items() if location in now and now[location] != info]


def _and_more(gone: Sequence[str]) -> str:
    return f" (and {len(gone) - 1} more)" if len(gone) > 1 else ""


def _plan(run: Run, options: AddFilesOptions) -> tuple[list[ImportedFile], Listed]:
    with run.step("plan") as detail:
        imported, listed = _planned(run, options)
        detail.append(f"{counted(len(imported), 'file')} below {options.source_path}")
    return imported, listed


def _findings(imported: Sequence[ImportedFile]) -> Findings:
    files = [entry.file for entry in imported]
    return Findings(
        metrics={
            "imported-files-count": len(files),
            "imported-records-count": sum(f.record_count for f in files),
            "imported-bytes-count": sum(f.file_size_in_bytes for f in files),
            "imported-partitions-count": len({partition_key(f.spec_id, f.partition) for f in files}),
        },
        files=tuple(f.file_path for f in files),
    )


def _planned(run: Run, options: AddFilesOptions) -> tuple[list[ImportedFile], Listed]:
    table = run.table
    metadata = table.metadata
    schema, spec = metadata.schema, metadata.spec
    check_spec(schema, spec)
    _check_no_folder_links(table, options.source_path)
    listed_files = data_files(options.source_path, table.io.list_prefix(options.source_path), metadata_folder(metadata))
    if options.partition_filter:
        listed_files = [f for f in listed_files if _selected(f[1], options)]
    if not listed_files:
        where = " in that partition" if options.partition_filter else ""
        raise DataError(f"add_files: there is no data file below {options.source_path}{where}")
    if options.check_duplicate_files:
        _check_new(table, [info.location for info, _ in listed_files])
    # After the listing, and before a footer is read: see the function.
    forbid_files_of_running_jobs(run.catalog.load_table(table.identifier[1:]), [info.location for info, _ in listed_files])
    target = ImportTarget(
        schema,
        spec,
        table_name_mapping(metadata) or create_name_mapping(schema),
        MetricsConfig.of(metadata.properties, schema, metadata.sort_order),
        metadata.format_version,
        frozenset(f.source_id for f in spec.fields if not f.transform.is_void),
    )
    placed = [(info, partition_tuple(info.location, folders, schema, spec)) for info, folders in listed_files]
    meter = run.meter("reading footers", len(placed), sum(info.size for info, _ in listed_files), unit="files")
    files: list[ImportedFile] = []
    with ThreadPoolExecutor(min(options.parallelism, MOST_THREADS)) as pool:
        for f in pool.map(lambda p: imported_file(table.io, p[0].location, p[0].size, target, p[1]), placed):
            files.append(f)
            meter.advance(1, f.file.file_size_in_bytes)
    imported = [f for f in files if f.file.record_count]
    infos = {info.location: info for info, _ in listed_files}
    return imported, {f.file.file_path: infos[f.file.file_path] for f in imported}


def _selected(folders: Folders, options: AddFilesOptions) -> bool:
    values = {name.lower(): HIVE_NULL if value is None else value for name, value in folders}
    return all(values.get(name.lower()) == value for name, value in options.partition_filter.items())


def _check_no_folder_links(table: Table, source: str) -> None:
    """Prevents an import that silently leaves out the files behind a link to a folder. Hidden files are not data."""
    top = table.io.local_path(source) or ""
    links = (link for link in folder_links(table.io, source) if not is_hidden(PurePath(link).relative_to(top).parts))
    if link := next(links, None):
        raise UnsupportedError(
            f"not supported: importing {source} with {link} in it, because links to folders are not followed. Import the folder "
            f"that it leads to by itself, or remove the link"
        )


def _check_new(table: Table, locations: list[str]) -> None:
    """Prevents rows that are there twice (Java: check_duplicate_files)."""
    identity = identity_under(table.io)
    known = {identity(path) for path in reachable_files(table, table.metadata.snapshots).data}
    if twice := next((path for path in locations if identity(path) in known), None):
        raise DataError(f"add_files: {twice} is in table {table.name} already (check-duplicate-files = false permits it)")
    if any(may_have_other_names(table.io, path) for path in locations):
        _check_one_name_each(table, known, locations)


def _check_one_name_each(table: Table, known: Iterable[str], locations: Sequence[str]) -> None:
    """Prevents the same for a file that has two names, by a symbolic or a hard link."""
    names = {file: path for path in known if (file := file_identity(table.io, path)) is not None}
    for path in locations:
        if (file := file_identity(table.io, path)) is not None and (first := names.setdefault(file, path)) != path:
            raise DataError(
                f"add_files: {path} and {first} are names of one file (a link), and its rows would be in table {table.name} twice: "
                f"remove one of them (check-duplicate-files = false permits both)"
            )


def _names(imported: list[ImportedFile]) -> dict[int, frozenset[str]]:
    """Every name that the files have for a field. This package finds a name that differs only in case without the mapping, but
    other readers do not."""
    names: dict[int, set[str]] = {}
    for entry in imported:
        for field_id, name in entry.names.items():
            names.setdefault(field_id, set()).add(name)
    return {field_id: frozenset(known) for field_id, known in names.items()}


def _operation(run: Run, imported: list[ImportedFile], head: Snapshot | None, options: AddFilesOptions) -> Operation:
    append = AppendFiles(
        added=tuple(entry.file for entry in imported),
        only_new=options.check_duplicate_files,
        starting_snapshot_id=None if head is None else head.snapshot_id,
        branch=run.job.branch,
        run_key=run.run_key,
        summary=run.summary,
    )
    before: list[Operation] = []
    if stated := imported_folder_property(run.table, options.source_path):
        before.append(UpdateProperties(updates=stated))
    named, known = AddMappedNames(names=_names(imported)), table_name_mapping(run.table.metadata)
    if known is None or known != with_names(known, named.names):  # a name is never removed from a mapping
        before.append(named)
    if not before:
        return append
    return Transaction(operations=(*before, append), branch=run.job.branch, run_key=run.run_key, summary=run.summary)
