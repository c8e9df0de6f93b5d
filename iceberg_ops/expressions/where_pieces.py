"""The SQL parts of UPDATE and MERGE: the new values of columns, and conditions split at AND.

Only forms that need no engine are recognised: a constant, a column, an equality of two columns. Code that knows the tables resolves
names; any other form is returned as text that this package does not evaluate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from iceberg_ops.expressions.predicates import Expression, Literal
from iceberg_ops.expressions.scalars.terms import Scalar
from iceberg_ops.expressions.where import convert_where
from iceberg_ops.expressions.where_literals import DIALECT, Constant, Node, constant
from iceberg_ops.expressions.where_parser import parse_condition, refused_if_too_deep
from iceberg_ops.expressions.where_scalars import convert_term
from iceberg_ops.expressions.where_terms import column_text


@dataclass(frozen=True, slots=True)
class ColumnText:
    """A column as written, with the ``parts`` of its dotted name."""

    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class Conjunct:
    """One of the conditions that AND joins. ``pair`` are its sides if it is an equality of two columns."""

    text: str
    where: Expression
    columns: tuple[ColumnText, ...]
    pair: tuple[ColumnText, ColumnText] | None


def parse_value(text: str) -> Constant | ColumnText | None:
    """The value of ``text`` for a row: a literal, NULL or a column; None: another form. Raises WhereError if it does not
    parse."""
    with refused_if_too_deep(text):
        return _parse_value(text, parse_condition(text).unnest())


def parse_scalar(text: str) -> Scalar:
    """The value that ``text`` computes from a row, with parts that only Spark evaluates as ``Refused``. Raises WhereError if it
    does not parse."""
    with refused_if_too_deep(text):
        return convert_term(parse_condition(text))


def _parse_value(text: str, node: Node) -> Constant | ColumnText | None:
    if any(kind.this is exp.DataType.Type.TEXT for kind in node.find_all(exp.DataType)):
        return None  # the parser does not keep the length of a CHAR or VARCHAR
    value = constant(node)
    if isinstance(value, Literal) and isinstance(value.value, float) and value.value == 0 and "-" in text:
        return None  # storage distinguishes negative zero from zero, comparisons do not
    return _column(node) if value is None else value


def conjuncts(text: str) -> list[Conjunct]:
    """The conditions whose conjunction is ``text``: it is true if all of them are. Raises WhereError."""
    with refused_if_too_deep(text):
        return [_conjunct(node) for node in _parts(parse_condition(text))]


def _parts(node: Node) -> Iterator[Node]:
    todo = [node]
    while todo:  # thousands of ANDs are that many levels of the tree
        inner = todo.pop().unnest()
        if isinstance(inner, exp.And):
            todo += [inner.expression, inner.this]
        else:
            yield inner


def _conjunct(node: Node) -> Conjunct:
    columns = tuple(dict.fromkeys(ColumnText(tuple(p.name for p in column.parts)) for column in node.find_all(exp.Column)))
    left, right = (_column(node.this), _column(node.expression)) if isinstance(node, exp.EQ) else (None, None)
    pair = (left, right) if left is not None and right is not None else None
    return Conjunct(node.sql(dialect=DIALECT), convert_where(node), columns, pair)


def _column(node: Node) -> ColumnText | None:
    inner = node.unnest()
    if not isinstance(inner, exp.Column) or not column_text(inner):
        return None
    return ColumnText(tuple(part.name for part in inner.parts))
