"""MERGE as one DataFrame: which clause applies to each pair of target and source row, and the new row.

The first clause (in the order written) whose kind and condition fit applies, as SQL requires. A target row that two source rows
match is an error of the whole statement; ``runners.changes`` counts matched pairs for that check, so pairs without an applicable
clause are kept too (Iceberg's Spark runtime checks the same pairs).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from iceberg_ops.actions.rows.merge_checks import names_side_without_row, side_without_row
from iceberg_ops.config.job_spec import MergeClause, RowChange
from iceberg_ops.errors import OptionError
from iceberg_ops.spec.schema import Schema, not_of_table
from spark_jobs.jobs.assignment import assigned_column
from spark_jobs.jobs.bad_records import bad_change
from spark_jobs.jobs.conditions import condition, expression, reads_column_of
from spark_jobs.jobs.nested_assignment import Path, with_fields
from spark_jobs.jobs.repeatable import is_known
from spark_jobs.jobs.sql_tables import SqlTables
from spark_jobs.jobs.staged_source import StableSource
from spark_jobs.jobs.write_defaults import is_default, left_out, write_default
from spark_jobs.runners.changes import CHANGE_COLUMN, DELETE, INSERT, KEEP, UPDATE
from spark_jobs.runners.column_names import OWN, quoted
from spark_jobs.runners.reading import FILE_COLUMN, POSITION_COLUMN, ROW_ID_COLUMN
from spark_jobs.runners.spark_schema import spark_schema

_CHANGES = {"update": UPDATE, "delete": DELETE, "insert": INSERT}
_CLAUSE = f"{OWN}clause"
_BROADCAST_BYTES = 64 * 1024 * 1024
"""Largest source that is broadcast to reduce the target: it takes about ten times that in memory, on the driver and in each
executor."""
_TARGET, _SOURCE = f"{OWN}in_target", f"{OWN}in_source"


@dataclass(frozen=True, slots=True)
class Merged:
    """``is_known``: ON and the conditions of all clauses give the same result for the same rows (``repeatable.is_known``)."""

    rows: DataFrame
    is_known: bool


def merged_rows(target: DataFrame, stable: StableSource, change: RowChange, schema: Schema, tables: SqlTables) -> Merged:
    """Pairs with the place of the target row, ``CHANGE_COLUMN`` and the table's new column values; other pairs are left out.

    ``target`` has the place of each row, the table's columns and perhaps a kept row id, which is passed through; ``tables`` are
    those that subqueries of assignments may name (ON and conditions allow none, as in Spark). Raises WhereError, SchemaError,
    OptionError.
    """
    source = stable.rows
    left = target.withColumn(_TARGET, F.lit(True)).alias("target")
    right = source.withColumn(_SOURCE, F.lit(True)).alias("source")
    both = left.crossJoin(right)
    kinds = {c.when for c in change.clauses}
    how = _join_type("not-matched-by-source" in kinds, "not-matched" in kinds)
    on = condition(both, change.on or "", "ON")
    are_known = [is_known(both.filter(on))]
    if how in ("inner", "right_outer") and _is_small(stable) and are_known[0]:
        # Only target rows with a match matter here: dropping the others first, with a broadcast of the source's keys, saves
        # the join their other columns, and an outer join the shuffle of the whole table.
        left = left.join(F.broadcast(right), on, "left_semi")
    joined = left.join(right, on, how)
    in_target, in_source = F.col(f"target.{_TARGET}").isNotNull(), F.col(f"source.{_SOURCE}").isNotNull()
    sides = {
        "matched": in_target & in_source,
        "not-matched": in_source & ~in_target,
        "not-matched-by-source": in_target & ~in_source,
    }
    which = F.lit(-1)
    for number, clause in reversed(list(enumerate(change.clauses))):
        applies = sides[clause.when]
        if clause.condition is not None:
            holds = condition(joined, clause.condition, f"WHEN clause {number + 1}")
            _check_sides(joined, left, number, clause, holds)
            are_known.append(is_known(joined.filter(holds)))
            applies = applies & F.coalesce(holds, F.lit(False))
        which = F.when(applies, F.lit(number)).otherwise(which)
    numbered = joined.withColumn(_CLAUSE, which if all(are_known) else _evaluated_once(which))
    keep_pairs = F.col(f"target.{_TARGET}").isNotNull() & F.col(f"source.{_SOURCE}").isNotNull()
    numbered_rows = numbered.filter((F.col(_CLAUSE) >= 0) | keep_pairs)
    rows = numbered_rows.select(
        F.col(f"target.{FILE_COLUMN}").alias(FILE_COLUMN),
        F.col(f"target.{POSITION_COLUMN}").alias(POSITION_COLUMN),
        _by_clause([F.lit(_CHANGES[c.action]) for c in change.clauses], F.lit(KEEP)).alias(CHANGE_COLUMN),
        *[F.col(f"target.{ROW_ID_COLUMN}").alias(ROW_ID_COLUMN) for name in target.columns if name == ROW_ID_COLUMN],
        *_output_columns(joined, left, source, change, schema, tables),
    )
    return Merged(rows, all(are_known))


def _evaluated_once(value: Column) -> Column:
    """``value`` in a form that Spark computes once per row, however often the result is used: Spark copies only deterministic
    expressions. Otherwise a user function could choose one clause when rows are filtered, and another when their values are
    computed."""
    return F.when(F.monotonically_increasing_id() >= 0, value)


def _is_small(source: StableSource) -> bool:
    """Small enough to be sent to every executor, by the files that contain it or by Spark's own estimate."""
    size = source.size
    if size is None:
        size = int(source.rows._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
    return size <= _BROADCAST_BYTES


def _join_type(keep_target: bool, keep_source: bool) -> str:
    if keep_target and keep_source:
        return "full_outer"
    return "left_outer" if keep_target else "right_outer" if keep_source else "inner"


def _by_clause(values: list[Column], otherwise: Column) -> Column:
    result = otherwise
    for number, value in reversed(list(enumerate(values))):
        result = F.when(F.col(_CLAUSE) == number, value).otherwise(result)
    return result


def _check_sides(joined: DataFrame, left: DataFrame, number: int, clause: MergeClause, value: Column) -> None:
    """Raise WhereError if ``value`` of clause ``number`` (from 0) reads the side without a row there: it would be NULL."""
    side = side_without_row(clause)
    if side is not None and reads_column_of(joined, value, left, besides=side == "source"):
        raise names_side_without_row(number + 1, clause)


def _output_columns(
    joined: DataFrame, left: DataFrame, source: DataFrame, change: RowChange, schema: Schema, tables: SqlTables
) -> list[Column]:
    """The table's new column values, and ``BAD_COLUMN`` if a value may not fit."""
    values = []
    for number, clause in enumerate(change.clauses):
        check = partial(_check_sides, joined, left, number, clause)
        values.append(_clause_values(joined, source, clause, schema, tables, check))
    out, reasons = [], []
    for f, target_field in zip(schema.fields, spark_schema(schema).fields, strict=True):
        columns = []
        for number, (clause_values, kept) in enumerate(values):
            value = clause_values.get(f.name)
            if value is None or f.name in kept:
                columns.append((F.lit(None) if value is None else value).cast(target_field.dataType))
                continue
            type_ = joined.select(value.alias(f.name)).schema[0].dataType
            column = assigned_column(f, value, type_, target_field.dataType)
            columns.append(column.value.cast(target_field.dataType))
            if column.wrong is not None:
                reasons.append(F.when(F.col(_CLAUSE) == number, column.wrong))
        out.append(_by_clause(columns, F.lit(None).cast(target_field.dataType)).alias(f.name))
    record = F.to_json(F.struct(*[F.col(f"source.{quoted(name)}") for name in source.columns]))
    bad = bad_change(reasons, F.col(f"target.{FILE_COLUMN}"), F.col(f"target.{POSITION_COLUMN}"), record)
    return out if bad is None else [*out, bad]


def _clause_values(
    joined: DataFrame,
    source: DataFrame,
    clause: MergeClause,
    schema: Schema,
    tables: SqlTables,
    check: Callable[[Column], None],
) -> tuple[Mapping[str, Column], Collection[str]]:
    """Value of each table column for a clause, empty for DELETE; and the columns that keep their value."""
    if clause.action == "delete":
        return {}, ()
    if clause.assignments is None:
        given = {name.lower(): name for name in source.columns}
        if missing := [f.name for f in schema.fields if f.name.lower() not in given]:
            raise OptionError(f"merge: {clause.action} * needs every table column in the source; it lacks {', '.join(missing)}")
        return {f.name: F.col(f"source.{quoted(given[f.name.lower()])}") for f in schema.fields}, ()
    assigned = set_values(joined, schema, clause.assignments, tables, "target.", check=check)
    if clause.action == "insert":
        return {**left_out(schema, clause.assignments), **assigned}, ()
    base = {f.name: F.col(f"target.{quoted(f.name)}") for f in schema.fields}
    return {**base, **assigned}, base.keys() - assigned.keys()


def set_values(
    rows: DataFrame,
    schema: Schema,
    assigned: Mapping[str, str],
    tables: SqlTables,
    prefix: str = "",
    *,
    evaluated_once: bool = False,
    check: Callable[[Column], None] = lambda value: None,
) -> dict[str, Column]:
    """SET's expressions by top-level column; ``a.b`` sets a field inside struct ``a``; ``DEFAULT`` is the write default; ``tables``
    and ``evaluated_once`` as in ``expression``; ``check`` is called with each expression. Raises WhereError, OptionError."""
    values: dict[str, dict[Path, Column]] = {}
    for name, text in assigned.items():
        field = schema.find(name, case_sensitive=False)
        if field is None:
            raise OptionError(f"SET {not_of_table(name, schema.fields)}")
        root, *inside = _path_to(schema, field.field_id)
        parts = values.setdefault(root, {})
        if tuple(inside) in parts:
            raise OptionError(f"SET assigns {schema.names_by_id[field.field_id]!r} twice")
        if is_default(text):
            parts[tuple(inside)] = write_default(field)
        else:
            value = expression(rows, text, f"SET {name} =", tables, evaluated_once=evaluated_once)
            check(value)
            parts[tuple(inside)] = value
    return {
        f.name: with_fields(f.name, F.col(prefix + quoted(f.name)), f.type, values[f.name])
        for f in schema.fields
        if f.name in values
    }


def _path_to(schema: Schema, field_id: int) -> tuple[str, ...]:
    """Names from the top-level column down to a field."""
    parent = schema.parents[field_id]
    above = () if parent is None else _path_to(schema, parent)
    return (*above, schema.fields_by_id[field_id].name)
