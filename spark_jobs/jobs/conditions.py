"""Conditions and expressions that people write, checked before anything runs.

They are Spark SQL, evaluated by Spark on live rows. Besides that a condition is read by ``iceberg_ops.expressions.where`` for
pruning and conflict checks; what that reader does not understand means "may match" there, never "does not match".
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, And, Expression, MayMatch, Not, Or, Predicate, Reference, TransformTerm
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.spec.schema import Schema
from spark_jobs.jobs.source_rows import first_line

TARGET = "target"
"""What a condition may call the table it changes."""


def pruning_filter(where: str | None, schema: Schema) -> Expression:
    """``where`` as an Iceberg expression for planning and conflict checks; always true where there is none.

    ``target.city`` is the column ``city``, as Spark resolves it: before a field of a column that is called ``target``.
    """
    return ALWAYS_TRUE if where is None else _unqualified(parse_where(where), schema)


def _unqualified(found: Expression, schema: Schema) -> Expression:
    def plain(name: str) -> str:
        qualifier, _, rest = name.partition(".")
        return rest if qualifier.lower() == TARGET and schema.find(rest, case_sensitive=False) is not None else name

    if isinstance(found, And | Or):
        return type(found)(_unqualified(found.left, schema), _unqualified(found.right, schema))
    if isinstance(found, Not):
        return Not(_unqualified(found.child, schema))
    if isinstance(found, Predicate):
        reference, term = Reference(plain(found.term.name)), found.term
        return replace(found, term=replace(term, reference=reference) if isinstance(term, TransformTerm) else reference)
    if isinstance(found, MayMatch):
        return replace(found, columns=tuple(plain(name) for name in found.columns))
    return found


def condition(rows: DataFrame, text: str, what: str) -> Column:
    """``text`` as a boolean column over ``rows``. Raises WhereError naming ``what`` (WHERE, ON, a clause) for one that does not
    parse, names an unknown or ambiguous column, is not boolean, or could differ between two evaluations (``rand()``)."""
    column = expression(rows, text, what)
    try:
        filtered = rows.filter(column)
    except AnalysisException as e:
        raise WhereError(f"{what} {text!r}: {first_line(e)}") from e
    _require_deterministic(filtered, text, what)
    return column


def expression(rows: DataFrame, text: str, what: str) -> Column:
    """``text`` as a column over ``rows``; raises WhereError like ``condition``."""
    try:
        column = F.expr(text)
        selected = rows.select(column)
    except (ParseException, AnalysisException) as e:
        raise WhereError(f"{what} {text!r}: {first_line(e)}") from e
    _require_deterministic(selected, text, what)
    return column


def _require_deterministic(rows: DataFrame, text: str, what: str) -> None:
    if not rows._jdf.queryExecution().analyzed().deterministic():
        raise WhereError(f"{what} {text!r} is not deterministic: rows could be counted once and written twice")
