"""Renames the columns of an expression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from iceberg_ops.expressions.predicates import And, Expression, MayMatch, Not, Or, Predicate, Reference, TransformTerm
from iceberg_ops.expressions.scalars.terms import renamed as renamed_term
from iceberg_ops.spec.schema import Schema


def renamed(expression: Expression, name_of: Callable[[str], str]) -> Expression:
    """``found``, unbound, with every column's dotted name replaced."""
    if isinstance(expression, And | Or):
        return type(expression)(renamed(expression.left, name_of), renamed(expression.right, name_of))
    if isinstance(expression, Not):
        return Not(renamed(expression.child, name_of))
    if isinstance(expression, Predicate):
        reference, term = Reference(name_of(expression.term.name)), expression.term
        return replace(expression, term=replace(term, reference=reference) if isinstance(term, TransformTerm) else reference)
    if isinstance(expression, MayMatch):
        value = None if expression.value is None else renamed_term(expression.value, name_of)
        return replace(expression, columns=tuple(name_of(name) for name in expression.columns), value=value)
    return expression


def unqualified(expression: Expression, table: str, schema: Schema) -> Expression:
    """``found`` with ``table.city`` as ``city`` if ``schema`` has that column, as Spark resolves it: before a field of a column
    with the name of the table."""

    return renamed(expression, lambda name: plain_name(name, table, schema))


def plain_name(name: str, table: str, schema: Schema) -> str:
    """``city`` for ``table.city`` if ``schema`` has that column."""
    qualifier, _, rest = name.partition(".")
    return rest if qualifier.lower() == table and schema.find(rest, case_sensitive=False) is not None else name
