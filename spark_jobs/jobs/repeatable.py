"""Decides whether every evaluation of a source gives the same rows, as far as Spark's plan shows it.

Spark evaluates a plan more than once: for two joins of one statement, and in part if results of a stage are lost with an
executor. ``LIMIT``, windows, samples, ``first()`` and sums of floats then give other rows although Spark calls them deterministic,
because rows come from a shuffle in another order. So a plan counts as repeatable only if every operator and expression of it is
known to depend on nothing but the set of its input rows, down to its inputs: files listed once, rows in the plan itself, and
tables of a pinned snapshot. Functions are known by name (``repeatable_functions``); user functions of every kind are not, even if
they are declared deterministic.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyspark.sql import DataFrame

from spark_jobs.jobs.repeatable_functions import BUILT_IN, KNOWN, is_known_aggregate
from spark_jobs.runners.scala_values import class_name, items

_AGGREGATE = f"{BUILT_IN}aggregate."
_OPERATORS = frozenset(
    {
        "Project", "Filter", "SubqueryAlias", "View", "LocalRelation", "OneRowRelation", "Range", "Distinct", "Union", "Intersect",
        "Except", "Join", "Aggregate", "Sort", "WithCTE", "CTERelationDef", "CTERelationRef", "PipeOperator", "Generate",
        "ResolvedHint", "Repartition", "RepartitionByExpression",
    }
)  # fmt: skip
_COMPARES_ROWS = frozenset({"Distinct", "Aggregate", "Intersect", "Except"})
"""If rows are equal by a collation (``a`` and ``A``), these keep any one of them."""


def is_repeatable(rows: DataFrame, pinned: Collection[DataFrame] = ()) -> bool:
    """Whether ``rows`` are certainly the same in every evaluation. ``pinned`` are rows of pinned snapshots of tables."""
    plans = tuple(frame._jdf.queryExecution().analyzed() for frame in pinned)
    return _plan_is_repeatable(rows._jdf.queryExecution().analyzed(), plans)


def is_known(rows: DataFrame) -> bool:
    """Whether the topmost operator of ``rows``, a filter or a projection, gives the same result for the same rows, whatever the
    rows are. Over a filter with a SQL function Spark adds a projection, which computes nothing: such a filter is not known."""
    plan = rows._jdf.queryExecution().analyzed()
    expressions = list(items(plan.expressions()))
    if str(plan.nodeName()) == "Project" and all(class_name(e) == "AttributeReference" for e in expressions):
        return False
    return all(map(_is_repeatable_expression, expressions))


def _plan_is_repeatable(plan: Any, pinned: tuple[Any, ...]) -> bool:
    kind = str(plan.nodeName())
    if kind == "View" and any(plan.child().sameResult(view) for view in pinned):
        return True  # its inputs decide: any part of a query may have the name of the view
    if kind == "LogicalRelation":
        return _lists_files_once(plan.relation())
    if kind not in _OPERATORS or (kind in _COMPARES_ROWS and _has_collation(plan)):
        return False
    return all(_is_repeatable_expression(e) for e in items(plan.expressions())) and all(
        _plan_is_repeatable(child, pinned) for children in (plan.children(), plan.innerChildren()) for child in items(children)
    )


def _lists_files_once(relation: Any) -> bool:
    if class_name(relation) != "HadoopFsRelation":
        return False
    return class_name(relation.location()) == "InMemoryFileIndex"


def _has_collation(plan: Any) -> bool:
    """Whether a collation decides which rows or values of ``plan`` are equal, even if a cast removes it afterwards."""
    return any(_is_collated(a) for a in items(plan.output())) or any(_holds_collation(e) for e in items(plan.expressions()))


def _holds_collation(expression: Any) -> bool:
    return _is_collated(expression) or any(_holds_collation(child) for child in items(expression.children()))


def _is_collated(expression: Any) -> bool:
    return " collate " in str(expression.dataType().sql()).lower()


def _is_repeatable_expression(expression: Any) -> bool:
    name = str(expression.getClass().getName())
    kind = name.removeprefix(BUILT_IN)
    if not name.startswith(BUILT_IN) or kind not in KNOWN or not expression.deterministic():
        return False
    if kind == "aggregate.AggregateExpression":
        function = expression.aggregateFunction()
        given = [*items(function.children()), *list(items(expression.children()))[1:]]  # the others are its FILTER
        return _is_repeatable_aggregate(function) and all(map(_is_repeatable_expression, given))
    return all(_is_repeatable_expression(child) for child in items(expression.children()))


def _is_repeatable_aggregate(function: Any) -> bool:
    name, children = str(function.getClass().getName()), list(items(function.children()))
    of_type = str(children[0].dataType().simpleString()) if children else ""
    return name.startswith(_AGGREGATE) and is_known_aggregate(name.removeprefix(_AGGREGATE), str(function.prettyName()), of_type)
