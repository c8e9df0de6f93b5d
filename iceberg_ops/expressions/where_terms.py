"""Columns in SQL text: converts parse-tree nodes to terms.

A term is a dotted column name, or a partition transform of one: ``CAST(ts AS DATE)``, ``date(ts)`` and ``system.days(ts)`` are the
day, ``system.bucket(16, id)`` the bucket. Anything else gives None. Imported only by ``iceberg_ops.expressions.where``.
"""

from __future__ import annotations

from sqlglot import exp

from iceberg_ops.expressions.predicates import Literal, Reference, Term, TransformTerm
from iceberg_ops.expressions.where_literals import Node, cast_type, constant
from iceberg_ops.spec.transforms import DAY, HOUR, MONTH, YEAR, Transform, bucket, truncate
from iceberg_ops.spec.types import DATE, LONG

_PERIODS = {"years": YEAR, "months": MONTH, "days": DAY, "hours": HOUR}


def column_text(node: Node) -> str:
    """The dotted name of a column node."""
    return ".".join(part.name for part in node.parts)


def column_term(node: Node) -> Term | None:
    """The term of ``node``, or None."""
    if isinstance(node, exp.Paren):
        return column_term(node.this)
    if isinstance(node, exp.Column):
        return Reference(column_text(node))
    if isinstance(node, exp.Dot):
        return _dotted(node)
    if isinstance(node, exp.Cast) and cast_type(node.to) == DATE and not node.args.get("safe"):
        inner = column_term(node.this)
        return TransformTerm(DAY, inner, is_cast=True) if isinstance(inner, Reference) else None
    return None


def operand(node: Node, value: Literal) -> tuple[Term | None, Literal]:
    """The term of ``node``, and ``value`` in the unit of that term: ``year(ts) = 2020`` is the year transform at 50."""
    if not isinstance(node, exp.Year):
        return column_term(node), value
    source = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
    inner = column_term(source)
    if not isinstance(inner, Reference) or value.type.name not in ("int", "long"):
        return None, value
    return TransformTerm(YEAR, inner, is_cast=True), Literal(value.value - 1970, LONG)


def _dotted(node: Node) -> Term | None:
    if isinstance(node.expression, exp.Func):
        prefix = node.this.name if isinstance(node.this, exp.Identifier | exp.Column) else ""
        return _iceberg_function(node.expression) if prefix.lower() == "system" else None
    head = column_term(node.this)
    if isinstance(head, Reference) and isinstance(node.expression, exp.Identifier):
        return Reference(f"{head.name}.{node.expression.name}")
    return None


def _iceberg_function(node: Node) -> Term | None:
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else node.key
    if isinstance(node, exp.Trunc):
        arguments = [node.this, node.args.get("decimals")]
        name = "truncate"
    else:
        arguments = list(node.expressions)
    transform: Transform | None = None
    if name in _PERIODS and len(arguments) == 1:
        transform, column = _PERIODS[name], arguments[0]
    elif name in ("bucket", "truncate") and len(arguments) == 2:
        width, column = constant(arguments[0]), arguments[1]
        number = getattr(width, "value", None)
        if isinstance(number, int) and number > 0:
            transform = bucket(number) if name == "bucket" else truncate(number)
    if transform is None:
        return None
    inner = column_term(column)
    return TransformTerm(transform, inner) if isinstance(inner, Reference) else None
