"""Converts SQL for Spark, which has no uuid type and sees uuids as text.

``CAST('...' AS uuid)`` of a text becomes the text form of that uuid, so that ``u = CAST('F79C...' AS uuid)`` has the same meaning
in Spark as here. Everything else is unchanged; Spark refuses a cast of anything but a text.
This module loads the SQL parser, so it is imported only for Spark.
"""

from __future__ import annotations

from sqlglot.errors import SqlglotError

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.literal_text import uuid_from_text
from iceberg_ops.expressions.where_parser import Tokens, is_string, joined, tokenize

_CASTS = ("CAST", "TRY_CAST")


def for_spark(text: str) -> str:
    """``text`` with its uuids as text. Raises WhereError for a text that is not a uuid."""
    if "uuid" not in text.lower():
        return text
    try:
        tokens = joined(tokenize(text))
    except SqlglotError:
        return text  # Spark reports what is wrong with it
    for n in reversed(range(len(tokens))):
        if is_string(tokens[n]) and (place := _cast_around(tokens, n)) is not None:
            start, stop, safe = place
            text = text[:start] + _as_text(tokens[n].text, safe) + text[stop + 1 :]
    return text


def _cast_around(tokens: Tokens, n: int) -> tuple[int, int, bool] | None:
    """Where the cast of the ``n``-th token to a uuid begins and ends, and whether it gives NULL for an invalid text."""
    after = [token.text.upper() for token in tokens[n + 1 : n + 4]]
    if after[:2] == ["::", "UUID"]:
        return tokens[n].start, tokens[n + 2].end, False
    before = [token.text.upper() for token in tokens[max(n - 2, 0) : n]]
    if after == ["AS", "UUID", ")"] and len(before) == 2 and before[0] in _CASTS and before[1] == "(":
        return tokens[n - 2].start, tokens[n + 3].end, before[0] == "TRY_CAST"
    return None


def _as_text(text: str, safe: bool) -> str:
    try:
        return f"'{uuid_from_text(text)}'"
    except ValueError as e:
        if safe:
            return "CAST(NULL AS STRING)"
        raise WhereError(f"CAST({text!r} AS UUID): {e}") from None
