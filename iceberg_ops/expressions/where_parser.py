"""Parses SQL text to the parser's tree, in Spark 4's dialect; ``iceberg_ops.expressions.where`` interprets the tree.

Imported only from there, because the SQL parser is slow to load. Raises WhereError for text that is not exactly one condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.where_literals import Node
from iceberg_ops.expressions.where_precedence import check_operators

_CLAUSE_WORDS = frozenset({
    "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "JOIN", "NATURAL", "ON", "USING", "LIMIT", "OFFSET", "HAVING", "WHERE",
    "WINDOW", "UNION", "SET", "VALUES", "TABLE", "INTO", "WITH", "FETCH", "FOR", "FINAL", "SELECT", "INSERT", "UPDATE", "DELETE",
    "MERGE", "CREATE", "DROP", "ALTER", "FROM", "QUALIFY", "LATERAL", "ANTI", "SEMI", "INTERSECT", "EXCEPT", "COMMAND", "SHOW",
    "EXECUTE", "RENAME", "DESCRIBE", "GRANT", "REVOKE", "RETURNING", "ROLLBACK", "UNCACHE", "SERDE_PROPERTIES", "PARTITION_BY",
    "TABLE_SAMPLE",
})  # fmt: skip
"""Words of commands and of clauses around a condition (types of tokens). Spark reserves none of them, so inside a condition they
are column names."""

_TYPED_LITERALS = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "INTERVAL"})
"""Types that Spark allows before a string. It refuses every other (UNSUPPORTED_TYPED_LITERAL); this parser would cast it."""
WRITTEN_CALL, WRITTEN_WIDTH = "iceberg-ops call", "iceberg-ops width"
"""Notes on nodes of the tree: the name and arguments of a function as written; that a text type is a CHAR or VARCHAR,
whose length the parser does not keep."""
_WIDE_TEXTS = frozenset({"CHAR", "NCHAR", "BPCHAR", "VARCHAR", "NVARCHAR", "CHARACTER"})
_STRINGS = frozenset({TokenType.STRING, TokenType.RAW_STRING})
"""Text literals; adjacent ones are one literal in Spark SQL."""
_OPENS = frozenset({TokenType.L_PAREN, TokenType.COMMA})
_BETWEEN_VALUES = frozenset({
    "AND", "OR", "NOT", "IS", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "DIV", "COLLATE", "ESCAPE", "AT",
})  # fmt: skip
"""Words that follow a value."""
Tokens = list[Any]


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A function as written. Copies of a tree share it: if it were copied with each node, its arguments would double at every
    level."""

    name: str
    arguments: tuple[Any, ...]

    def __deepcopy__(self, memo: object) -> WrittenCall:
        return self


def _noting(name: str, build: Callable[..., Any]) -> Callable[..., Any]:
    """``build`` makes a node of a function's arguments; here it also notes them. The parser reads its parameters' names."""

    def noted(args: list[Any], **others: Any) -> Any:
        node = build(args, **others)
        node.meta[WRITTEN_CALL] = WrittenCall(name, tuple(args))
        return node

    if "dialect" in getattr(getattr(build, "__code__", None), "co_varnames", ()):
        return lambda args, dialect: noted(args, dialect=dialect)
    return lambda args: noted(args)  # noqa: PLW0108 - it takes no dialect


class _Dialect(Spark):
    """Spark 4: a doubled quote inside a string is that quote, and hex strings accept either quote. A condition contains no command,
    so no command takes the text after it as its own."""

    class Tokenizer(Spark.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']
        HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [(mark + quote, quote) for mark in "Xx" for quote in "'\""]

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]
        FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {
            name: _noting(name, build) for name, build in Spark.Parser.FUNCTIONS.items()
        }


def parse_condition(text: str) -> Node:
    """The tree of one condition. Raises WhereError."""
    try:
        with refused_if_too_deep(text):
            trees = _parsed(text)
    except SqlglotError as e:
        raise WhereError(f"cannot parse {text!r}: {_reason(e)}") from None
    if len(trees) != 1 or trees[0] is None:
        raise WhereError(f"cannot parse {text!r}: it is not one condition")
    return trees[0]


def _note_widths(tokens: Tokens, trees: list[Any]) -> None:
    if any(token.text.upper() in _WIDE_TEXTS for token in tokens):
        for node in (type_ for tree in trees if tree is not None for type_ in tree.find_all(exp.DataType)):
            node.meta[WRITTEN_WIDTH] = True


@contextmanager
def refused_if_too_deep(text: str) -> Iterator[None]:
    """Within this context a tree with more levels than Python's stack is a WhereError about ``text``."""
    try:
        yield
    except RecursionError:
        raise WhereError(f"cannot parse {text[:60]!r}...: it is nested too deep") from None


def _parsed(text: str) -> list[Any]:
    tokens = _with_columns_named_all(joined(tokenize(text)))
    _check_typed_literals(text, tokens)
    check_operators(text, tokens)
    trees = _trees(text, tokens)
    _note_widths(tokens, trees)
    return trees


def _with_columns_named_all(tokens: Tokens) -> Tokens:
    """The tokens with ``all`` as a name if it is an argument (``coalesce(all, 0)``). The parser treats it as the ALL keyword before
    an argument, and drops it."""
    renamed = list(tokens)
    for i, (before, token) in enumerate(pairwise(tokens), 1):
        if token.token_type is TokenType.ALL and before.token_type in _OPENS:
            behind = tokens[i + 1] if i + 1 < len(tokens) else None
            if before.token_type is TokenType.COMMA or behind is None or not _begins_a_value(behind):
                renamed[i] = _named(token)
    return renamed


def _begins_a_value(token: Any) -> bool:
    if token.text.upper() in _BETWEEN_VALUES and token.token_type is not TokenType.IDENTIFIER and not is_string(token):
        return False
    signs = (TokenType.L_PAREN, TokenType.DASH, TokenType.PLUS, TokenType.TILDE)
    return is_string(token) or token.token_type in signs or token.text[:1].isalnum() or token.text[:1] == "_"


def _trees(text: str, tokens: Tokens) -> list[Any]:
    dialect = _Dialect()
    try:
        return list(dialect.parser().parse_into(exp.Condition, tokens, text))
    except ParseError:
        if not any(token.token_type.name in _CLAUSE_WORDS for token in tokens):
            raise
        return list(dialect.parser().parse_into(exp.Condition, [_as_name(token) for token in tokens], text))


def tokenize(text: str) -> Tokens:
    """The tokens of a text; ``0x1F`` is a name there, as in Spark. Raises SqlglotError."""
    return [_hexadecimal_name(token, text) for token in _Dialect().tokenize(text)]


def _hexadecimal_name(token: Any, text: str) -> Any:
    if token.token_type is not TokenType.HEX_STRING or not (written := text[token.start : token.end + 1]).startswith("0"):
        return token
    return Token(TokenType.VAR, written, token.line, token.col, token.start, token.end, token.comments)


def is_string(token: Any) -> bool:
    """A text literal, plain or raw."""
    return token.token_type in _STRINGS


def joined(tokens: Tokens) -> Tokens:
    """The tokens with adjacent strings joined, including raw ones (``'a' r'\\'``), which the parser does not join itself."""
    result: list[Any] = []
    for token in tokens:
        if result and is_string(token) and is_string(before := result[-1]):
            whole = before.text + token.text
            result[-1] = Token(TokenType.STRING, whole, before.line, before.col, before.start, token.end, before.comments)
        else:
            result.append(token)
    return result


def _check_typed_literals(text: str, tokens: Tokens) -> None:
    for before, token in pairwise(tokens):
        if token.token_type not in _STRINGS or before.text.upper() in _TYPED_LITERALS:
            continue
        if before.token_type in Spark.Parser.TYPE_TOKENS and before.token_type is not TokenType.IDENTIFIER:
            raise WhereError(
                f"cannot parse {text!r}: {before.text} {token.text!r} is not a literal in Spark SQL: "
                f"write CAST({token.text!r} AS {before.text}), with precision and scale where it is a decimal"
            )
        if before.token_type is TokenType.R_PAREN:
            raise WhereError(f"cannot parse {text!r}: the string {token.text!r} cannot follow a parenthesis")


def _as_name(token: Any) -> Any:
    return _named(token) if token.token_type.name in _CLAUSE_WORDS else token


def _named(token: Any) -> Any:
    return Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end, token.comments)


def _reason(error: SqlglotError) -> str:
    details = getattr(error, "errors", None)
    if not details:
        return "it is not a condition"
    first = details[0]
    what = "the expression is not complete" if "equired keyword" in first["description"] else first["description"]
    return f"{what} at {first.get('highlight')!r} (line {first.get('line')}, column {first.get('col')})"
