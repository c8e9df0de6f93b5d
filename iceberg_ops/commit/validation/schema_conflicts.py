"""Conflicts about columns: files that the table's schema can no longer read, and columns that copies of rows do not hold.

Files of a commit are written with the schema that the caller saw. If columns are added, renamed, promoted or dropped in between,
the files are still readable. But another engine may replace the table (CREATE OR REPLACE TABLE): its uuid stays, and a column with
the name of a former one gets the same id, whatever its type. Files of the former type cannot be read in such a table.

A rewrite, a copy-on-write statement and a merge-on-read update copy rows with the schema that the table had when they were read.
The copies lack a dropped column, although the files that were read may hold its values. That is correct as long as no commit uses
the column again. Others may: a writer that still has the older schema deletes by it, or makes the older schema current again.
Iceberg Java has none of these checks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from iceberg_ops.commit.protocol.history import History, conflict
from iceberg_ops.commit.protocol.operation import StagedCommit
from iceberg_ops.commit.validation.checks import is_by_equality, new_deletes_for
from iceberg_ops.commit.validation.promoted_dates import date_beyond_nanoseconds
from iceberg_ops.errors import CorruptTableError, UnsupportedError, ValidationError
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.manifests import ManifestContent, ManifestFile
from iceberg_ops.spec.promotion import can_promote
from iceberg_ops.spec.requirements import AssertCurrentSchemaId
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.types import MISSING, UNKNOWN, NestedField
from iceberg_ops.table.former_columns import live_entries_of, schema_when_made
from iceberg_ops.table.manifests import manifests_of
from iceberg_ops.table.table import Table


def no_deletes_by_columns_not_copied(table: Table, history: History, replaced: Sequence[DataFile]) -> None:
    """Prevents a concurrent equality delete from reaching other rows of the copies than of the ``replaced`` files: it compares a
    column that these files may hold and the copies do not, where it reads as null. Rows that it removed would come back, and rows
    without null would be lost. Its writer may have begun before the column was dropped."""
    copied = history.callers.schema.fields_by_id

    def compares_more(delete: DataFile) -> bool:
        return is_by_equality(delete) and not (delete.equality_ids and all(i in copied for i in delete.equality_ids))

    new_deletes = new_deletes_for(table, history, replaced, compares_more, bounds_of=copied)
    if new_deletes:
        file, (snapshot, delete) = new_deletes[0]
        lacking = [i for i in delete.equality_ids or () if i not in copied]
        message = f"Cannot commit, found new equality delete by columns {lacking} that the copies of replaced data file lack"
        raise conflict(
            f"{message}: {file.file_path}: {delete.file_path}", snapshot, delete, tuple(f.file_path for f, _ in new_deletes)
        )


def no_columns_that_came_back(table: Table, history: History, copied: Sequence[str]) -> None:
    """Prevents losing the values of a column: the table lacked it, or had it with another type, when rows of the ``copied`` files
    were read, and an older schema is current again. No snapshot shows that. A column with a higher id than the last assigned one at
    that time is new, and in no file that was read."""
    then, now = history.callers, table.metadata
    if not copied or then.schema.struct == now.schema.struct:
        return
    held = then.schema.fields_by_id
    version = now.format_version
    lost = [
        f
        for f in now.schema.fields_by_id.values()
        if f.field_id <= then.last_column_id and (f.field_id not in held or not _reads(held[f.field_id], f, version))
    ]
    if lost:
        name = now.schema.names_by_id[lost[0].field_id]
        raise ValidationError(
            f"Cannot commit, column {name!r} (field {lost[0].field_id}, {lost[0].type}) came back by schema "
            f"{now.current_schema_id} after rows were copied by schema {then.current_schema_id}: {copied[0]}; read them again",
            file_path=copied[0],
            file_paths=tuple(copied),
        )


def no_files_of_other_columns(
    table: Table, history: History, added: Sequence[DataFile], manifests: Sequence[ManifestFile] = ()
) -> None:
    """Prevents files that no reader of the table can read: written for a column that now has another type, or one that cannot hold
    their dates, or without a required column. ``added``, equality deletes included, and the files of ``manifests`` were written
    with the schema that the caller saw. Dates in files of ``manifests`` are not looked at."""
    now, written = table.metadata, history.callers.schema
    paths = (*(f.file_path for f in added), *(m.manifest_path for m in manifests))
    if not paths or written.struct == now.schema.struct:
        return
    data = [f for f in added if f.content is FileContent.DATA]
    keys = None if data or manifests else {i for f in added for i in f.equality_ids or ()}
    why = of_another_type(now, written, keys)
    if why is None and keys is None:
        why = without_required(now, written, lambda i: bool(manifests) or any(may_be_null(f, i) for f in data))
    if why is not None:
        raise ValidationError(
            f"Cannot commit, {why} when files were written that this commit adds: {paths[0]}; write them again",
            file_path=paths[0],
            file_paths=paths,
        )
    if (why := date_beyond_nanoseconds(now.schema, written, added)) is not None:
        raise ValidationError(f"Cannot commit, {why}", file_path=paths[0], file_paths=paths)


def of_another_type(now: TableMetadata, written: Schema, field_ids: Collection[int] | None = None) -> str | None:
    """A column, of ``field_ids`` or of all, whose values in files of schema ``written`` do not have its current type; None if there
    is none. A column that the table no longer has counts if files are partitioned by it: partition values have the type that it had
    last."""
    sources = {i for spec in now.partition_specs for f in spec.fields for i in f.source_ids}
    gone = (f for i, f in now.all_fields_by_id.items() if i in sources and i not in now.schema.fields_by_id)
    for f in (*now.schema.fields_by_id.values(), *gone):
        before = written.fields_by_id.get(f.field_id)
        if (field_ids is None or f.field_id in field_ids) and before is not None and not _reads(before, f, now.format_version):
            return f"{_named(now, f)} is of type {f.type}, and was {before.type}"
    return None


def without_required(now: TableMetadata, written: Schema, may_be_null: Callable[[int], bool]) -> str | None:
    """A required column that rows of schema ``written`` lack, or may lack; None if there is none. ``may_be_null``: whether the
    files may hold nulls in a column, by its id."""
    for f in now.schema.fields_by_id.values():
        before, parent = written.fields_by_id.get(f.field_id), now.schema.parents[f.field_id]
        if not f.required:
            continue
        if before is None and f.initial_default is MISSING and (parent is None or _has_values(written, parent)):
            return f"{_named(now, f)} is required, and was not there"
        if before is not None and not before.required and may_be_null(f.field_id):
            return f"{_named(now, f)} is required, and was not"
    return None


def _has_values(written: Schema, field_id: int) -> bool:
    """Whether rows of the schema may have a non-null value of the field."""
    field = written.fields_by_id.get(field_id)
    return field is not None and field.type != UNKNOWN


def former_rows(table: Table, snapshot: Snapshot, line: Collection[int]) -> tuple[int, str] | None:
    """Which snapshot, by id, made rows of ``snapshot`` that cannot be read with the table's columns, or are read wrongly, and why;
    None if there are none. Snapshots in ``line`` do not count, except ``snapshot`` itself. Files are checked only if the history of
    ``snapshot`` has other columns, or has expired before it reaches ``line``."""
    metadata = table.metadata
    schemas = _former_schemas(metadata)
    former: dict[int | None, str] = {}
    is_known = False
    for s in metadata.ancestors(snapshot.snapshot_id):
        is_known = is_known or s.snapshot_id in line or s.parent_snapshot_id is None
        if (s is snapshot or s.snapshot_id not in line) and (why := schemas.get(s.schema_id)):
            former[s.snapshot_id] = why
    for manifest in manifests_of(table, snapshot) if former else ():
        if manifest.content is ManifestContent.DATA:
            for entry in live_entries_of(table, snapshot, manifest):
                for made in (entry.snapshot_id, snapshot.snapshot_id):
                    if made is not None and made in former:
                        return made, former[made]
    return None if is_known else _former_rows_of_expired(table, snapshot, schemas)


def _former_rows_of_expired(table: Table, snapshot: Snapshot, schemas: Mapping[int | None, str]) -> tuple[int, str] | None:
    """The same for rows whose snapshot has expired. An unreadable file is not a reason to refuse: it may be damaged. ``schemas``:
    the former schemas, by id."""
    numbered = {s.sequence_number: schemas.get(s.schema_id) for s in table.metadata.snapshots}
    next_ones = sorted(numbered.items(), key=lambda pair: pair[0]) if any(numbered.values()) else []
    with suppress(CorruptTableError, UnsupportedError):
        for manifest in manifests_of(table, snapshot):
            if manifest.content is ManifestContent.DATA and _has_live_entries(manifest):
                with suppress(CorruptTableError, UnsupportedError):
                    if maker := _expired_maker(table, snapshot, manifest, next_ones):
                        return maker
    return None


def _expired_maker(
    table: Table, snapshot: Snapshot, manifest: ManifestFile, next_ones: Sequence[tuple[int, str | None]]
) -> tuple[int, str] | None:
    """A manifest records the table's columns at the time it was written. A file also has those of the next remaining snapshot, if
    they are former ones, in whatever manifest it is now. ``next_ones``: sequence numbers of the table's snapshots, ascending, and
    why the columns of each are former ones; empty if none are."""
    metadata = table.metadata
    made, known = manifest.added_snapshot_id, metadata.snapshots_by_id
    if made is not None and made not in known:
        written = schema_when_made(table, manifest)
        if written is not None and (why := _unreadable(metadata, written)):
            return made, why
    for entry in live_entries_of(table, snapshot, manifest) if next_ones else ():
        if entry.snapshot_id is not None and entry.snapshot_id not in known and entry.file_sequence_number:
            place = bisect_left(next_ones, entry.file_sequence_number, key=lambda pair: pair[0])
            if place < len(next_ones) and (why := next_ones[place][1]):
                return entry.snapshot_id, why
    return None


def _has_live_entries(manifest: ManifestFile) -> bool:
    return (manifest.added_files_count, manifest.existing_files_count) != (0, 0)


def _former_schemas(metadata: TableMetadata) -> dict[int | None, str]:
    """The table's schemas, by id, whose rows cannot be read with its columns, or are read wrongly, and why."""
    return {s.schema_id: why for s in metadata.schemas if (why := _unreadable(metadata, s))}


def _unreadable(now: TableMetadata, written: Schema) -> str | None:
    """Why rows of schema ``written`` cannot be read with the table's columns, or are read wrongly; None if they can."""
    if written.struct == now.schema.struct:
        return None
    return of_another_type(now, written) or without_required(now, written, lambda _: False)


def may_be_null(file: DataFile, field_id: int) -> bool:
    """Whether a column of the file may hold a null."""
    return (file.null_value_counts or {}).get(field_id) != 0


def _named(now: TableMetadata, f: NestedField) -> str:
    return f"column {now.schema.names_by_id.get(f.field_id, f.name)!r} (field {f.field_id})"


def on_this_schema(staged: StagedCommit, table: Table) -> StagedCommit:
    """The same commit, accepted only while the validated schema is current: no other requirement detects a column that comes back,
    or a dropped column that its equality deletes compare, between validation and the swap."""
    return replace(staged, requirements=(*staged.requirements, AssertCurrentSchemaId(table.metadata.current_schema_id)))


def _reads(written: NestedField, now: NestedField, format_version: int) -> bool:
    """Whether values written for ``written`` are valid values of ``now``. Fields of nested types have ids of their own."""
    if written.type != UNKNOWN and (written.type.is_nested or now.type.is_nested):
        return type(written.type) is type(now.type)
    return can_promote(written.type, now.type, format_version)
