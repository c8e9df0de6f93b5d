"""The rows and deletes of an upsert on lane local. The source is held in memory; per key one of its rows is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iceberg_ops.actions.local.set_values import refuse_opaque_parts
from iceberg_ops.actions.local.source_files import check_required_columns
from iceberg_ops.actions.local.source_in_memory import SourceRows, read_source
from iceberg_ops.actions.rows.row_engine import WrittenUpserts
from iceberg_ops.actions.rows.write_options import write_context
from iceberg_ops.actions.run.context import Run
from iceberg_ops.config.row_options import WriteOptions
from iceberg_ops.data.arrow.arrow_schema import arrow_type
from iceberg_ops.data.arrow.arrow_values import values_of
from iceberg_ops.data.columns.key_codes import KeyCodes, ranks
from iceberg_ops.data.columns.promotion import promote
from iceberg_ops.data.columns.row_filter import rows_where
from iceberg_ops.data.writing.upsert_keys import KeyPlan, UpsertKeys
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import DataError, NeedsSparkError, OptionError, SchemaError, TypesNotComparedError, WhereError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.name_matching import matched
from iceberg_ops.spec.schema import not_of_table
from iceberg_ops.spec.types import DOUBLE, FLOAT, IcebergType, MapType, NestedField, PrimitiveType, child_fields

Mask = npt.NDArray[np.bool_]
Columns = Sequence[tuple[NestedField, NestedField]]
"""Columns of the table and the columns of the source that are stored in them."""
_UNORDERED = frozenset({"variant", "geometry", "geography"})


@dataclass(frozen=True, slots=True)
class _Latest:
    """The used rows of the source, one per key: all of its stored columns, and which rows only delete."""

    columns: Columns
    rows: pa.RecordBatch
    deletes: Mask


def write_upserts(run: Run, options: WriteOptions, keys: Sequence[NestedField], plan: KeyPlan) -> WrittenUpserts:
    """Write the used rows of the source, and the deletes of their keys.

    Raises DataError for two source rows of one key that ``order-by`` does not order, UnsupportedError for an expression or
    conversion that needs Spark, and the errors of ``read_source``.
    """
    with run.step("plan"):
        source = read_source(run, require_success_file=options.require_success_file)
        latest = _latest(source, options, _columns(run, source, options), keys)
    with run.step("write"):
        files, deletes = _write(run, write_context(run.table, options), plan, latest)
    return WrittenUpserts(files=files, deletes=deletes, keys=latest.rows.num_rows)


def _columns(run: Run, source: SourceRows, options: WriteOptions) -> Columns:
    """Raises OptionError, SchemaError and UnsupportedError."""
    for name in options.source_only_columns:
        if name not in source.names:
            raise OptionError(f"source-only-columns: {name!r} is not a column of the source ({', '.join(source.names)})")
    fields = run.table.schema.fields
    names = [name for name in source.names if name not in options.source_only_columns]
    known = matched(names, fields, f"source {source.name}")
    pairs = []
    for name in names:
        column = known.get(name)
        if column is None:
            raise SchemaError(f"source {source.name}: column {not_of_table(name, fields)}")
        given = source.find(name)
        assert given is not None
        source.check_fit(given, column)
        pairs.append((column, given))
    check_required_columns(source.name, [column for column, _ in pairs], run.table.schema)
    return pairs


def _latest(source: SourceRows, options: WriteOptions, columns: Columns, keys: Sequence[NestedField]) -> _Latest:
    """Raises DataError for a key that still has several rows."""
    given_by_id = {column.field_id: given for column, given in columns}
    for f in keys:
        if f.field_id not in given_by_id:
            raise SchemaError(f"upsert key {f.name!r} is not a column of the source ({', '.join(source.names)})")
    of_key = [given_by_id[f.field_id] for f in keys]
    deletes = _deletes(source, options.delete_when)
    order = _order(source, options.order_by)
    rows = source.rows
    counts = np.zeros(rows.num_rows, np.bool_)
    if rows.num_rows:
        # Keys are compared as the table stores them, which may be a wider type than the source's.
        stored = [promote(source.column(g), arrow_type(f.type), f.name) for f, g in zip(keys, of_key, strict=True)]
        codes = KeyCodes(stored, nulls_are_keys=True).of_rows
        greatest = np.full(int(codes.max()) + 1, np.iinfo(np.int64).min)
        np.maximum.at(greatest, codes, order)
        counts = order == greatest[codes]
        _check_one_each(source, options.order_by, of_key, np.where(counts, codes, -1))
    kept = pa.array(counts)
    stored = [source.column(given).filter(kept) for _, given in columns]
    batch = pa.RecordBatch.from_arrays(stored, names=[column.name for column, _ in columns])
    latest = _Latest(columns, batch, deletes[counts])
    _check_required(source, latest, keys)
    return latest


def _check_required(source: SourceRows, latest: _Latest, keys: Sequence[NestedField]) -> None:
    """Prevents a null in a required column; the error names the row by its key. Raises DataError."""
    for (f, _), column in zip(latest.columns, latest.rows.columns, strict=True):
        nulls = np.asarray(column.is_null()) & ~latest.deletes
        if f.required and nulls.any():
            key = _key_at(latest.rows, keys, int(np.argmax(nulls)))
            raise DataError(f"column {f.name!r} is required, but the row of key ({key}) would have no value: {source.name}")


def _key_at(rows: pa.RecordBatch, keys: Sequence[NestedField], at: int) -> str:
    return _shown([values_of(f.type, rows.column(f.name).slice(at, 1))[0] for f in keys])


def _shown(key: Sequence[Any]) -> str:
    return ", ".join("NULL" if v is None else str(v) for v in key)


def _deletes(source: SourceRows, condition: str | None) -> Mask:
    if condition is None:
        return np.zeros(source.rows.num_rows, np.bool_)
    try:
        bound = bind(source.schema, parse_where(condition), case_sensitive=False)
    except TypesNotComparedError:
        raise NeedsSparkError.to(f"a comparison of different types in upsert delete-when {condition}") from None
    except WhereError as e:
        raise OptionError(f"upsert: delete-when = {condition!r}: {e}") from None
    refuse_opaque_parts(bound, f"upsert delete-when {condition}")
    return rows_where(bound, source.rows, source.schema)


def _order(source: SourceRows, name: str | None) -> npt.NDArray[np.int64]:
    if name is None:
        return np.zeros(source.rows.num_rows, np.int64)
    f = source.find(name)
    if f is None:
        raise OptionError(f"upsert: order-by = {name!r}: not a column of the source ({', '.join(source.names)})")
    if _has_no_order(f.type):
        raise OptionError(f"upsert: order-by = {name!r}: rows cannot be ordered by a column of type {f.type}")
    if f.type.is_nested or f.type in (FLOAT, DOUBLE):
        raise NeedsSparkError.to(f"upsert order-by {name} of type {f.type}")
    return ranks(source.column(f))


def _has_no_order(type_: IcebergType) -> bool:
    """Whether Spark has no order for the type either: a map, or a type that contains one."""
    if isinstance(type_, PrimitiveType):
        return type_.name in _UNORDERED
    return isinstance(type_, MapType) or any(_has_no_order(f.type) for f in child_fields(type_))


def _check_one_each(source: SourceRows, order_by: str | None, keys: Sequence[NestedField], codes: npt.NDArray[np.int64]) -> None:
    rows = np.bincount(codes[codes >= 0])
    if rows.max() <= 1:
        return
    of_key = int(np.argmax(rows > 1))
    at = int(np.argmax(codes == of_key))
    shown = _shown([values_of(f.type, source.column(f).slice(at, 1))[0] for f in keys])
    ordered = f"with the same greatest {order_by!r}" if order_by else "(order-by says which one counts)"
    raise DataError(f"{rows[of_key]} source rows of key ({shown}) {ordered}: {source.name}")


def _write(run: Run, context: WriteContext, plan: KeyPlan, latest: _Latest) -> tuple[list[DataFile], list[DataFile]]:
    """New rows and the keys' deletes; a failed call leaves no files. Raises DataError."""
    writer = PartitionedWriter(context, run.table.io, operation_id=run.operation_id)
    deletes = UpsertKeys(plan, context, run.table.io, run.operation_id, "00000")
    new = latest.rows.filter(pa.array(~latest.deletes))
    try:
        if latest.rows.num_rows:
            deletes.add(latest.rows)
        if new.num_rows:
            writer.write(new)
        return list(writer.close()), deletes.close()
    except BaseException:
        writer.abort()
        deletes.abort()
        raise
