"""Converts the SQL parser's tree to a term that is computed from a row: functions, operators, CASE and CAST.

A function that is not in the table becomes ``Refused`` with its name; types are checked when the term is bound.
Functions are found by their written name, with their written arguments (``where_parser`` keeps both): the parser's own
classes mix dialects. Imported only by ``iceberg_ops.expressions.where`` and its siblings, because the SQL parser is slow to load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.predicates import Reference
from iceberg_ops.expressions.scalars.functions import ALIASES, FUNCTIONS
from iceberg_ops.expressions.scalars.terms import NULL, TOO_DEEP, Call, CastTo, Column, Constant, Refused, Scalar
from iceberg_ops.expressions.where_literals import DIALECT, Node, Null, cast_type, constant
from iceberg_ops.expressions.where_parser import WRITTEN_CALL, WRITTEN_WIDTH
from iceberg_ops.expressions.where_terms import column_term
from iceberg_ops.spec.types import PrimitiveType

_BINARY: dict[type[Node], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.And: "and",
    exp.Or: "or",
}
_LITERALS = (exp.Literal, exp.Null, exp.Boolean, exp.RawString, exp.HexString, exp.Neg, exp.Cast)
_SHORT = frozenset({"TINYINT", "SMALLINT"})
_OPERATORS = frozenset(name for name in FUNCTIONS if not name[0].isalpha() or " " in name) | {
    "negative", "in", "and", "or", "not", "like", "case", "div", "isnan",
}  # fmt: skip
"""Entries of the table that are not functions with this name, or that have a special form in the parser's tree."""


def convert_term(node: Node) -> Scalar:
    """``convert_scalar``; a term with more levels than Python's stack is left to Spark."""
    try:
        return convert_scalar(node)
    except RecursionError:
        return Refused(TOO_DEEP)


def convert_scalar(node: Node) -> Scalar:
    """The term of ``node``, with parts that only Spark evaluates as ``Refused``. Raises WhereError."""
    if isinstance(node, exp.Paren):
        return convert_scalar(node.this)
    if isinstance(node, exp.DataType) or node.find(exp.Query, exp.Exists) is not None:
        return Refused("a subquery")
    if isinstance(node, _LITERALS) and (literal := _literal(node)) is not None:
        return literal
    if isinstance(term := column_term(node) if isinstance(node, exp.Column | exp.Dot) else None, Reference):
        return Column(term.name)
    if (call := node.meta.get(WRITTEN_CALL)) is not None and not isinstance(node, exp.If):
        return _written_call(call.name, call.arguments)
    if (operator := _BINARY.get(type(node))) is not None:
        return Call(operator, (convert_scalar(node.this), convert_scalar(node.expression)))
    if (handler := _HANDLERS.get(type(node))) is not None:
        return handler(node)
    return _refused(node)


def _refused(node: Node) -> Refused:
    if isinstance(node, exp.Anonymous):
        return Refused(f"function {str(node.this).lower()}")
    if isinstance(node, exp.Func) and not isinstance(node, exp.Binary):
        return Refused(f"function {node.sql_name().lower()}")
    return Refused(node.sql(dialect=DIALECT))


def _literal(node: Node) -> Scalar | None:
    for kind in node.find_all(exp.DataType):
        if kind.this.name in _SHORT:
            return Refused("TINYINT and SMALLINT")
        if _is_wide_text(kind):
            return Refused("CHAR and VARCHAR")
    try:
        value = constant(node)
    except WhereError as e:
        return Refused(str(e))
    if isinstance(value, Null):
        return _null(node)
    if value is None:
        return None
    written = node.this if isinstance(node, exp.Neg) else node
    return Constant(value.value, value.type, isinstance(written, exp.Literal) and not written.is_string)


def _is_wide_text(kind: Node) -> bool:
    return kind.this is exp.DataType.Type.TEXT and bool(kind.meta.get(WRITTEN_WIDTH))


def _null(node: Node) -> Scalar:
    if isinstance(node, exp.Null):
        return NULL
    target = cast_type(node.to) if isinstance(node, exp.Cast) else None
    return Constant(None, target) if isinstance(target, PrimitiveType) else Refused("NULL in an expression")


def _written_call(name: str, arguments: Sequence[Node]) -> Scalar:
    """A function by its written name and arguments."""
    name = name.lower()
    known = ALIASES.get(name, name)
    if known == "isnan" and len(arguments) == 1:
        return Call("isnan", (convert_scalar(arguments[0]),))
    if known == "case":
        return _convert_if(arguments)
    if (known in _OPERATORS and known != "%") or known not in FUNCTIONS:
        return Refused(f"function {name}")
    if name in ("isnull", "nullif", "mod") and len(arguments) != {"isnull": 1}.get(name, 2):
        return Refused(f"function {name} of {len(arguments)} arguments")
    if not arguments:
        return Refused(f"function {name} without arguments")
    return Call(known, tuple(convert_scalar(a) for a in arguments))


def _convert_if(arguments: Sequence[Node]) -> Scalar:
    if len(arguments) != 3:
        return Refused(f"function if of {len(arguments)} arguments")
    return Call("case", tuple(convert_scalar(a) for a in arguments))


def _anonymous(node: Node) -> Scalar:
    name, arguments = str(node.this).lower(), node.expressions
    if name == "isnotnull" and len(arguments) == 1:
        return Call("not", (Call("isnull", (convert_scalar(arguments[0]),)),))
    return _written_call(name, arguments)


def _if(node: Node) -> Scalar:
    return _convert_if([part for part in (node.this, node.args.get("true"), node.args.get("false")) if part is not None])


def _case(node: Node) -> Scalar:
    parts: list[Scalar] = []
    for branch in node.args["ifs"]:
        condition = convert_scalar(branch.this)
        if node.this is not None:
            condition = Call("=", (convert_scalar(node.this), condition))
        parts += [condition, convert_scalar(branch.args["true"])]
    default = node.args.get("default")
    return Call("case", (*parts, NULL if default is None else convert_scalar(default)))


def _cast(node: Node) -> Scalar:
    target = cast_type(node.to)
    if not isinstance(target, PrimitiveType) or _is_wide_text(node.to):
        return Refused(f"a cast to {node.to.sql(dialect=DIALECT)}")
    if node.args.get("format") or node.args.get("default"):
        return Refused("a cast with a format")
    return CastTo(convert_scalar(node.this), target, bool(node.args.get("safe")))


def _pipe(node: Node) -> Scalar:
    """``||`` and + have the same precedence in Spark; the parser does not support that."""
    if any(isinstance(side, exp.Binary) and not isinstance(side, exp.DPipe) for side in (node.this, node.expression)):
        return Refused("|| beside another operator without parentheses")
    return Call("concat", (convert_scalar(node.this), convert_scalar(node.expression)))


def _trim(node: Node) -> Scalar:
    if node.expression or node.args.get("collation") or node.args.get("position") not in (None, "BOTH"):
        return Refused("trim of other characters than spaces, or of one end")
    return Call("trim", (convert_scalar(node.this),))


def _substring(node: Node) -> Scalar:
    parts = [node.this, node.args.get("start"), node.args.get("length")]
    return Call("substring", tuple(convert_scalar(part) for part in parts if part is not None))


def _rounded_to_whole(name: str) -> Callable[[Node], Scalar]:
    def build(node: Node) -> Scalar:
        if node.args.get("decimals") or node.args.get("to"):
            return Refused(f"{name} to a number of digits")
        return Call(name, (convert_scalar(node.this),))

    return build


def _position(node: Node) -> Scalar:
    if node.args.get("position") or node.args.get("occurrence"):
        return Refused("position from a place on")
    return Call("instr", (convert_scalar(node.this), convert_scalar(node.args["substr"])))


def _in(node: Node) -> Scalar:
    if not node.expressions or node.args.get("query") or node.args.get("unnest"):
        return Refused("IN of anything but a list")
    return Call("in", (convert_scalar(node.this), *(convert_scalar(item) for item in node.expressions)))


def _between(node: Node) -> Scalar:
    if node.args.get("symmetric"):
        return Refused("BETWEEN SYMMETRIC")
    value = convert_scalar(node.this)
    return Call(
        "and", (Call(">=", (value, convert_scalar(node.args["low"]))), Call("<=", (value, convert_scalar(node.args["high"]))))
    )


def _like(node: Node) -> Scalar:
    if isinstance(node.expression, exp.Any | exp.All):
        return Refused("LIKE ANY or LIKE ALL of an expression")
    call = Call("like", (convert_scalar(node.this), convert_scalar(node.expression)))
    return Call("not", (call,)) if node.args.get("negate") else call


def _is(node: Node) -> Scalar:
    side, right = convert_scalar(node.this), node.expression
    if isinstance(right, exp.Null):
        return Call("isnull", (side,))
    if isinstance(right, exp.Boolean):
        return Call("is true" if right.this else "is false", (side,))
    return _refused(node)


_HANDLERS: dict[type[Node], Callable[[Node], Scalar]] = {
    exp.Not: lambda node: Call("not", (convert_scalar(node.this),)),
    exp.Neg: lambda node: Call("negative", (convert_scalar(node.this),)),
    exp.NullSafeNEQ: lambda node: Call("not", (Call("<=>", (convert_scalar(node.this), convert_scalar(node.expression))),)),
    exp.DPipe: _pipe,
    exp.Case: _case,
    exp.If: _if,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Trim: _trim,
    exp.Substring: _substring,
    exp.Floor: _rounded_to_whole("floor"),
    exp.Ceil: _rounded_to_whole("ceil"),
    exp.StrPosition: _position,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.Is: _is,
    exp.Anonymous: _anonymous,
}
