"""The rows that snapshots added and removed (Iceberg Java: a changelog; spec: "Reserved Field IDs", 2147483541-43).

Applied snapshot by snapshot, oldest first, removals before additions, the changelog converts the rows of its start to the rows of
its end: per snapshot it is exactly the difference of two multisets. So it does not contain a row that a snapshot only moved to
another file (copy-on-write). ``iceberg_ops.scan.incremental`` finds the changed files and deletes; ``replace`` changes no rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import groupby

import numpy as np
import pyarrow as pa

from iceberg_ops.data.arrow.arrow_schema import arrow_field
from iceberg_ops.data.arrow.arrow_values import values_of
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task
from iceberg_ops.data.rewriting.row_places import Positions, dead_positions
from iceberg_ops.errors import SchemaError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.scan.incremental import ChangeKind, ChangelogTask, plan_changelog, with_deletes_after
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.metadata_columns import CHANGE_ORDINAL, CHANGE_TYPE, COMMIT_SNAPSHOT_ID, POS
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import NestedField, StructType
from iceberg_ops.table.table import Table

DELETE, INSERT = "DELETE", "INSERT"
CHANGE_COLUMNS = (CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID)
Digests = Counter[bytes]


def changelog_batches(
    table: Table,
    from_snapshot_id: int | None = None,
    to_snapshot_id: int | None = None,
    *,
    where: Expression = ALWAYS_TRUE,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Rows changed in the snapshots ``(from, to]`` (None: from the beginning, to the current one), in ``changelog_schema``.

    ``_change_type`` is INSERT or DELETE, ``_change_ordinal`` counts the snapshots from 0, oldest first. A snapshot that both added
    and removed rows costs memory for a digest of each row it added. Raises NoSuchSnapshotError, also if needed history has expired,
    SchemaError, WhereError, CorruptTableError.
    """
    context = _context(table, to_snapshot_id)
    tasks = plan_changelog(
        table, from_snapshot_id=from_snapshot_id, to_snapshot_id=to_snapshot_id, where=where, schema=context.table_schema
    )
    shown = context if columns is None else context.select(columns)
    for _, group in groupby(tasks, key=lambda t: t.ordinal):
        yield from _of_snapshot(group, context, shown, table.io)


def changelog_schema(table: Table, to_snapshot_id: int | None = None, *, columns: Sequence[str] | None = None) -> Schema:
    """The requested columns in the read schema of the range's end, followed by the three columns of a changelog."""
    context = _context(table, to_snapshot_id)
    shown = context if columns is None else context.select(columns)
    if taken := {f.name for f in shown.projected.fields} & {f.name for f in CHANGE_COLUMNS}:
        raise SchemaError(
            f"column {min(taken)} of a changelog is always included: it cannot be selected, and no column may have its name"
        )
    return _with(shown.projected, CHANGE_COLUMNS)


def _context(table: Table, to_snapshot_id: int | None) -> ReadContext:
    metadata = table.metadata
    schema = metadata.schema if to_snapshot_id is None else metadata.schema_of(metadata.snapshot(to_snapshot_id))
    return ReadContext.for_table(metadata, schema=schema)


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of one file that a snapshot added or removed: all rows of ``task``, or those at ``positions``."""

    kind: str
    ordinal: int
    snapshot_id: int
    task: FileScanTask
    positions: Positions | None = None

    def rows(self, context: ReadContext, io: FileIO) -> Iterator[pa.RecordBatch]:
        """The rows in ``context.projected``."""
        if self.positions is None:
            yield from read_task(self.task, context, io)
            return
        placed = replace(context, projected=_with(context.projected, (POS,)))
        for batch in read_task(self.task, placed, io):
            kept = batch.filter(pa.array(np.isin(np.asarray(batch.column(batch.num_columns - 1)), self.positions)))
            if kept.num_rows:
                yield kept.select(range(batch.num_columns - 1))

    def marked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        values = (pa.scalar(self.kind), pa.scalar(self.ordinal, pa.int32()), pa.scalar(self.snapshot_id, pa.int64()))
        marks = [pa.repeat(value, batch.num_rows) for value in values]
        fields = [*batch.schema, *map(arrow_field, CHANGE_COLUMNS)]
        return pa.RecordBatch.from_arrays([*batch.columns, *marks], schema=pa.schema(fields))


def _parts(change: ChangelogTask, context: ReadContext, io: FileIO) -> Iterator[_Part]:
    about = (change.ordinal, change.snapshot_id)
    if change.kind is not ChangeKind.CHANGED_DELETES:
        yield _Part(INSERT if change.kind is ChangeKind.ADDED_FILE else DELETE, *about, change.task)
        return
    whole = [replace(t, residual=ALWAYS_TRUE) for t in (change.task, with_deletes_after(change))]
    before, after = (dead_positions(t, context.select([POS]), io) for t in whole)
    for kind, positions in ((DELETE, np.setdiff1d(after, before)), (INSERT, np.setdiff1d(before, after))):
        if len(positions):  # a snapshot that removed deletes adds their rows again
            yield _Part(kind, *about, replace(change.task, deletes=()), positions)


def _of_snapshot(
    changes: Iterable[ChangelogTask], context: ReadContext, shown: ReadContext, io: FileIO
) -> Iterator[pa.RecordBatch]:
    parts = [part for change in changes for part in _parts(change, context, io)]
    removed, added = [p for p in parts if p.kind == DELETE], [p for p in parts if p.kind == INSERT]
    if not (removed and added):
        yield from (part.marked(batch) for part in parts for batch in part.rows(shown, io))
        return
    there = Counter(d for part in added for batch in part.rows(context, io) for d in _digests(batch, context.projected))
    moved: Digests = Counter()
    for part in removed:
        yield from _without(part, there, moved, context, shown, io)
    for part in added:
        yield from _without(part, moved, Counter(), context, shown, io)


def _without(
    part: _Part, others: Digests, met: Digests, context: ReadContext, shown: ReadContext, io: FileIO
) -> Iterator[pa.RecordBatch]:
    """The part's rows without those in ``others``, each as often as it occurs there; ``met`` counts the rows left out."""
    change_columns = [f for f in shown.projected.fields if f not in context.projected.fields]
    both = replace(context, projected=_with(context.projected, change_columns))
    places = [both.projected.fields.index(f) for f in shown.projected.fields]
    for batch in part.rows(both, io):
        mask = np.ones(batch.num_rows, dtype=bool)
        for i, digest in enumerate(_digests(batch, context.projected)):
            if others[digest] > 0:
                others[digest] -= 1
                met[digest] += 1
                mask[i] = False
        if mask.any():
            yield part.marked(batch.filter(pa.array(mask)).select(places))


def _with(schema: Schema, more: Sequence[NestedField]) -> Schema:
    return Schema(StructType((*schema.fields, *more)), schema.schema_id)


def _digests(batch: pa.RecordBatch, schema: Schema) -> Iterator[bytes]:
    """Sixteen bytes per row for the values in the columns of ``schema``, the first ones of the batch; equal for equal rows."""
    values = [values_of(f.type, batch.column(i)) for i, f in enumerate(schema.fields)]
    for row in zip(*values, strict=True):
        yield blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=16).digest()
