"""Renames the columns of an expression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from iceberg_ops.expressions.predicates import And, Expression, MayMatch, Not, Or, Predicate, Reference, TransformTerm
from iceberg_ops.expressions.scalars.terms import renamed as renamed_term
from iceberg_ops.spec.schema import Schema


def renamed(found: Expression, name_of: Callable[[str], str]) -> Expression:
    """``found``, unbound, with every column's dotted name replaced."""
    if isinstance(found, And | Or):
        return type(found)(renamed(found.left, name_of), renamed(found.right, name_of))
    if isinstance(found, Not):
        return Not(renamed(found.child, name_of))
    if isinstance(found, Predicate):
        reference, term = Reference(name_of(found.term.name)), found.term
        return replace(found, term=replace(term, reference=reference) if isinstance(term, TransformTerm) else reference)
    if isinstance(found, MayMatch):
        value = None if found.value is None else renamed_term(found.value, name_of)
        return replace(found, columns=tuple(name_of(name) for name in found.columns), value=value)
    return found


def unqualified(found: Expression, table: str, schema: Schema) -> Expression:
    """``found`` with ``table.city`` as ``city`` if ``schema`` has that column, as Spark resolves it: before a field of a column
    with the name of the table."""

    return renamed(found, lambda name: plain_name(name, table, schema))


def plain_name(name: str, table: str, schema: Schema) -> str:
    """``city`` for ``table.city`` if ``schema`` has that column."""
    qualifier, _, rest = name.partition(".")
    return rest if qualifier.lower() == table and schema.find(rest, case_sensitive=False) is not None else name
