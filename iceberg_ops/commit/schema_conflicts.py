"""Conflicts over columns that copies of rows do not hold.

A rewrite, a copy-on-write statement and a merge-on-read update copy rows by the schema that the table had when they were read. A
column that had been dropped is not in the copies, although the files that were read may hold its values. That is right as long as
nobody asks for the column again. Others may: a writer that still has the older schema deletes by it, or makes the older schema
current again. Iceberg Java has neither check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iceberg_ops.commit.history import History, conflict
from iceberg_ops.commit.operation import StagedCommit
from iceberg_ops.commit.validation import is_by_equality, new_deletes_for
from iceberg_ops.errors import ValidationError
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.promotion import can_promote
from iceberg_ops.spec.requirements import AssertCurrentSchemaId
from iceberg_ops.spec.types import NestedField
from iceberg_ops.table.table import Table


def no_deletes_by_columns_not_copied(table: Table, history: History, replaced: Sequence[DataFile]) -> None:
    """Prevents that an equality delete which came since they were read reaches other rows of the copies than of the ``replaced``
    files: it compares a column that these may hold and the copies do not, where it reads as null. Rows that it removed would come
    back, and others that have no null go. Its writer may have begun before the column was dropped."""
    copied = history.callers.schema.fields_by_id

    def compares_more(delete: DataFile) -> bool:
        return is_by_equality(delete) and not (delete.equality_ids and all(i in copied for i in delete.equality_ids))

    found = new_deletes_for(table, history, replaced, compares_more, bounds_of=copied)
    if found:
        file, (snapshot, delete) = found[0]
        lacking = [i for i in delete.equality_ids or () if i not in copied]
        message = f"Cannot commit, found new equality delete by columns {lacking} that the copies of replaced data file lack"
        raise conflict(f"{message}: {file.file_path}: {delete.file_path}", snapshot, delete, tuple(f.file_path for f, _ in found))


def no_columns_that_came_back(table: Table, history: History, copied: Sequence[str]) -> None:
    """Prevents losing the values of a column: the table lacked it, or had it with another type, when rows of the ``copied`` files
    were read, and an older schema is current again. No snapshot shows that. A column of a higher id than any that was given then is
    new, and in no file that was read."""
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


def on_this_schema(staged: StagedCommit, table: Table) -> StagedCommit:
    """The same commit, accepted only while the schema that was validated is current: no other requirement notices a column that
    comes back, or one that is dropped and that its equality deletes compare, between the last look and the swap."""
    return replace(staged, requirements=(*staged.requirements, AssertCurrentSchemaId(table.metadata.current_schema_id)))


def _reads(written: NestedField, now: NestedField, format_version: int) -> bool:
    """Whether values that were written for ``written`` are values of ``now``. Fields of nested types have ids of their own."""
    if written.type.is_nested or now.type.is_nested:
        return written.type.is_nested and now.type.is_nested
    return can_promote(written.type, now.type, format_version)
