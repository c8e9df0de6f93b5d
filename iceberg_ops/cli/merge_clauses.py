"""``--when`` of ``iceberg-ops merge``: converts one clause of Spark's MERGE INTO to a value of the job spec.

::

    MATCHED [AND condition] THEN UPDATE SET * | UPDATE SET a = expression, b.c = expression | DELETE
    NOT MATCHED [BY TARGET] [AND condition] THEN INSERT * | INSERT (a, b) VALUES (expression, expression)
    NOT MATCHED BY SOURCE [AND condition] THEN UPDATE SET a = expression | DELETE

Conditions and expressions stay text: Spark parses them. The job checks which action may follow which ``when``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from iceberg_ops.cli.sql_tokens import Tokens
from iceberg_ops.config.job_spec import MergeClause
from iceberg_ops.errors import OptionError

if TYPE_CHECKING:
    from iceberg_ops.spec.schema import Schema

TARGET = "target"
"""The name of the table in conditions and clauses."""


def parse_when(text: str) -> MergeClause:
    """One clause of a MERGE. Raises OptionError that shows the text and the position."""
    tokens = Tokens(text)
    tokens.take("WHEN")
    when = _when(tokens)
    condition = _expression(tokens, "THEN") if tokens.take("AND") else None
    tokens.expect("THEN")
    action, assignments = _action(tokens)
    tokens.end()
    return MergeClause(when=when, action=action, condition=condition, assignments=assignments)


def parse_assignments(texts: tuple[str, ...]) -> dict[str, str]:
    """``column = expression`` texts as a mapping. Raises OptionError, also for a column that is set twice."""
    assigned: dict[str, str] = {}
    for text in texts:
        tokens = Tokens(text)
        _assign(tokens, assigned)
        tokens.end()
    return assigned


def names_target(assignments: Mapping[str, str] | None) -> bool:
    """Whether a column name begins with ``target.``, which may be the table or a column with that name."""
    return any(name.lower().startswith(f"{TARGET}.") for name in assignments or ())


def of_columns(assignments: Mapping[str, str], schema: Schema) -> dict[str, str]:
    """The assignments by the columns' own names, in the form of a job spec: without a ``target.`` that means the table.

    The same text may name a field of a column ``target``; it does if the table has no other such column. Raises
    OptionError if both exist (a WHERE reads it as the table's), and for a column that is set twice."""
    assigned: dict[str, str] = {}
    for name, value in assignments.items():
        column = _own_name(name, schema)
        if column in assigned:
            raise OptionError(f"{name} = {value}: column {column} is set twice")
        assigned[column] = value
    return assigned


def _own_name(name: str, schema: Schema) -> str:
    head, dot, rest = name.partition(".")
    if head.lower() != TARGET or not dot:
        return name
    if schema.find(name, case_sensitive=False) is None:
        return rest
    if schema.find(rest, case_sensitive=False) is not None:
        raise OptionError(
            f"{name}: is column {rest} of the table, and a field of its column {head}: "
            f"write {rest} for the one, {TARGET}.{name} for the other"
        )
    return name


def _when(tokens: Tokens) -> Literal["matched", "not-matched", "not-matched-by-source"]:
    if tokens.take("MATCHED"):
        return "matched"
    if tokens.take("NOT", "MATCHED", "BY", "SOURCE"):
        return "not-matched-by-source"
    if tokens.take("NOT", "MATCHED", "BY", "TARGET") or tokens.take("NOT", "MATCHED"):
        return "not-matched"
    tokens.fail("MATCHED or NOT MATCHED")


def _action(tokens: Tokens) -> tuple[Literal["update", "delete", "insert"], dict[str, str] | None]:
    if tokens.take("DELETE"):
        return "delete", None
    if tokens.take("UPDATE"):
        tokens.expect("SET")
        return "update", None if tokens.take("*") else _assignments(tokens)
    if tokens.take("INSERT"):
        return "insert", None if tokens.take("*") else _values(tokens)
    tokens.fail("UPDATE SET, DELETE or INSERT")


def _assignments(tokens: Tokens) -> dict[str, str]:
    assigned: dict[str, str] = {}
    _assign(tokens, assigned)
    while tokens.take(","):
        _assign(tokens, assigned)
    return assigned


def _assign(tokens: Tokens, assigned: dict[str, str]) -> None:
    column = _column(tokens)
    tokens.expect("=")
    _put(tokens, assigned, column, _expression(tokens, ","))


def _values(tokens: Tokens) -> dict[str, str]:
    tokens.expect("(")
    columns = [_column(tokens)]
    while tokens.take(","):
        columns.append(_column(tokens))
    tokens.expect(")")
    tokens.expect("VALUES")
    tokens.expect("(")
    values = [_expression(tokens, ",")]
    while tokens.take(","):
        values.append(_expression(tokens, ","))
    tokens.expect(")")
    if len(columns) != len(values):
        raise OptionError(f"{tokens.source!r}: {len(columns)} columns and {len(values)} values")
    assigned: dict[str, str] = {}
    for column, value in zip(columns, values, strict=True):
        _put(tokens, assigned, column, value)
    return assigned


def _expression(tokens: Tokens, stop: str) -> str:
    return tokens.until((stop,), brackets="()[]")


def _column(tokens: Tokens) -> str:
    return tokens.dotted_name()


def _put(tokens: Tokens, assigned: dict[str, str], column: str, value: str) -> None:
    if column in assigned:
        raise OptionError(f"{tokens.source!r}: column {column} is set twice")
    assigned[column] = value
