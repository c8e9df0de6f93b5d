"""Conditions and expressions of users, checked before anything runs.

They are Spark SQL, evaluated by Spark on live rows. In addition, ``iceberg_ops.expressions.where`` parses a condition for
pruning and conflict checks; a part that it does not understand means "may match" there, never "does not match".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression
from iceberg_ops.expressions.renaming import unqualified
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.expressions.where_for_spark import for_spark
from iceberg_ops.spec.schema import Schema
from spark_jobs.jobs.spark_errors import first_line
from spark_jobs.jobs.sql_tables import TARGET, SqlTables, has_subquery
from spark_jobs.runners.column_names import OWN
from spark_jobs.runners.scala_values import class_name, items

_MORE_THAN_A_ROW = frozenset({"Generate", "Aggregate", "Window"})


def pruning_filter(where: str | None, schema: Schema, *, subqueries: bool = False) -> Expression:
    """``where`` as an Iceberg expression for planning and conflict checks; always true without a WHERE.

    ``target.city`` is the column ``city``, as Spark resolves it: before a field of a column named ``target``.
    """
    return ALWAYS_TRUE if where is None else unqualified(parse_where(where, subqueries=subqueries), TARGET, schema)


def condition(rows: DataFrame, text: str, what: str, tables: SqlTables | None = None) -> Column:
    """``text`` as a boolean column over ``rows``. Raises WhereError naming ``what`` (WHERE, ON, a clause) for one that does not
    parse, names an unknown or ambiguous column, is not boolean, or could differ between two evaluations (``rand()``).

    ``tables`` are those that subqueries may name; None: subqueries are not allowed."""
    column, shown = _column(rows, text, what, tables), f"{what} {text!r}"
    try:
        filtered = rows.filter(column)
    except AnalysisException as e:
        raise WhereError(f"{shown}: {first_line(e)}") from e
    _forbid_own_columns(_columns_read(filtered, rows, selects=False), shown)
    _require_deterministic(filtered, shown)
    _count_function(filtered, rows, tables)
    return column


def expression(rows: DataFrame, text: str, what: str, tables: SqlTables, *, evaluated_once: bool = False) -> Column:
    """``text`` as a column over ``rows``, with one value per row that depends only on this row. Raises WhereError like
    ``condition``, and for a generator, an aggregate or a window. A value that is ``evaluated_once`` per row may differ in another
    evaluation (``uuid()``)."""
    column, shown = _column(rows, text, what, tables), f"{what} {text!r}"
    try:
        selected = rows.select(column)
    except AnalysisException as e:
        raise WhereError(f"{shown}: {first_line(e)}") from e
    _require_one_value_per_row(selected, rows, shown)
    _forbid_own_columns(_columns_read(selected, rows, selects=True), shown)
    _count_function(selected, rows, tables)
    if not evaluated_once:
        _require_deterministic(selected, shown)
    return column


def _column(rows: DataFrame, text: str, what: str, tables: SqlTables | None) -> Column:
    text = for_spark(text)
    try:
        if tables is not None:
            return F.expr(tables.in_expression(text))
        if has_subquery(rows.sparkSession, text):
            raise WhereError(f"not supported: a subquery in {what} {text!r}, because Spark allows none there")
        return F.expr(text)
    except PySparkException as e:  # a number with too many digits is neither a ParseException nor an AnalysisException
        raise WhereError(f"{what} {text!r}: {first_line(e)}") from e


def reads_column_of(rows: DataFrame, column: Column, side: DataFrame, *, besides: bool = False) -> bool:
    """Whether ``column``, an expression over ``rows``, reads a column of ``side`` (``besides``: a column of ``rows`` that is not in
    ``side``), also in a subquery."""
    attributes = side._jdf.queryExecution().analyzed().outputSet()
    return any(bool(attributes.contains(read)) is not besides for read in _columns_read(rows.select(column), rows, selects=True))


def _columns_read(result: DataFrame, rows: DataFrame, *, selects: bool) -> Iterator[Any]:
    """The attributes of ``rows`` that ``result``, a filter of them or (``selects``) a projection, reads, as the JVM's objects. The
    projections that Spark adds below and above a SQL function pass all columns through: that does not count as reading."""
    given, is_own = rows._jdf.queryExecution().analyzed().outputSet(), selects
    for plan in _operators_over(result, rows):
        for part in items(plan.expressions()):
            if is_own or str(plan.nodeName()) != "Project" or class_name(part) != "AttributeReference":
                read = part.references().iterator()
                while read.hasNext():
                    if given.contains(attribute := read.next()):
                        yield attribute
        is_own = False


def _operators_over(result: DataFrame, rows: DataFrame) -> Iterator[Any]:
    """The operators of the plan of ``result`` that do not belong to ``rows``, from top to bottom."""
    below, plan = rows._jdf.queryExecution().analyzed(), result._jdf.queryExecution().analyzed()
    while not plan.fastEquals(below) and plan.children().size() == 1:
        yield plan
        plan = plan.children().apply(0)


def _count_function(result: DataFrame, rows: DataFrame, tables: SqlTables | None) -> None:
    """A SQL function of the program may read more than a row: it counts as a relation. Spark adds more than one operator over
    ``rows`` for it."""
    if tables is not None and sum(1 for _ in _operators_over(result, rows)) > 1:
        tables.relations += 1


def _forbid_own_columns(columns: Iterator[Any], shown: str) -> None:
    """Columns that the job adds do not belong to the table, and differ between evaluations."""
    for column in columns:
        name = str(column.name())
        if name.lower().startswith(OWN):
            raise WhereError(f"{shown}: {name!r} is not a column of the table")


def _require_one_value_per_row(selected: DataFrame, rows: DataFrame, shown: str) -> None:
    """Spark would create other rows (explode) or read other rows: its plan has more than a projection over ``rows``."""
    if any(str(plan.nodeName()) in _MORE_THAN_A_ROW for plan in _operators_over(selected, rows)):
        raise WhereError(f"{shown}: generators, aggregates and windows are not allowed here (a subquery may have them)")


def _require_deterministic(rows: DataFrame, shown: str) -> None:
    if not rows._jdf.queryExecution().analyzed().deterministic():
        raise WhereError(f"{shown} is not deterministic: rows could be counted once and written twice")
