"""JSON text as Python values, without loss: numbers keep their digits, and a repeated name is an error.

In addition to JSON (RFC 8259): texts in single quotes, and the numbers ``NaN``, ``Infinity``, ``INF``, also with a sign. An object
is a ``dict``, a number a ``Number``."""

from __future__ import annotations

import json
import re
from typing import Any

from iceberg_ops.config.unicode_text import is_unicode
from iceberg_ops.data.sources.text.parsed import NotAValueError, shown

_PIECES = re.compile(
    r"""
    "(?:[^"\\]++|\\.)*+"
    | '((?:[^'\\]++|\\.)*+)'
    | ["'].*  # a text without an end: nothing behind it is looked at
    | ([+-]?INF\b|\+Infinity\b)
    | [^"'+\-I]++
    | .
    """,
    re.DOTALL | re.VERBOSE,
)
_INNER = re.compile(r"\\'|\"|\\.", re.DOTALL)


_TOO_DEEP = "values are nested too deeply"
_MOST_LEVELS = 200
"""The most nested objects and arrays: Python's stack has no room for many more."""


class Number(str):
    """A number in its original text."""

    __slots__ = ()


def read_json(text: str) -> Any:
    """The value of a JSON text. Raises NotAValueError, whose message is the reason, for text that is not JSON, or has a repeated
    name in one object, or half of a surrogate pair, or values more than 200 levels deep."""
    try:
        value = _loaded(text)
    except _DuplicateName as e:
        raise NotAValueError(f"name {shown(str(e))} occurs twice in one object") from None
    except (ValueError, RecursionError) as e:
        try:
            value = _loaded(_in_double_quotes(text)) if "'" in text or "INF" in text or "+Inf" in text else None
        except _DuplicateName as twice:
            raise NotAValueError(f"name {shown(str(twice))} occurs twice in one object") from None
        except (ValueError, RecursionError):
            value = None
        if value is None:
            raise NotAValueError(f"is not JSON: {_why(e)}") from None
    if text.count("{") + text.count("[") > _MOST_LEVELS and _is_deep(value):
        raise NotAValueError(f"is not JSON: {_TOO_DEEP}")
    if "\\u" in text and not is_unicode(json.dumps(value, ensure_ascii=False)):
        raise NotAValueError("has half of a surrogate pair, which is not Unicode")
    return value


def _why(e: BaseException) -> str:
    if isinstance(e, json.JSONDecodeError):
        return f"{e.msg.removesuffix(' at')} at character {e.pos + 1}"
    return _TOO_DEEP if isinstance(e, RecursionError) else str(e)


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_MOST_LEVELS):
        inside = (inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer))
        level = [inner for inner in inside if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


class _DuplicateName(Exception):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        raise _DuplicateName(next(name for name, _ in pairs if name in seen or seen.add(name)))  # type: ignore[func-returns-value]
    return members


def _loaded(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object, parse_int=Number, parse_float=Number, parse_constant=Number)


def _in_double_quotes(text: str) -> str:
    """The same with every text in double quotes, and infinity in the only form that Python reads."""

    def piece(match: re.Match[str]) -> str:
        if match[1] is not None:
            return '"' + _INNER.sub(lambda m: {"\\'": "'", '"': '\\"'}.get(m[0], m[0]), match[1]) + '"'
        return f"{'-' if match[2].startswith('-') else ''}Infinity" if match[2] else match[0]

    return _PIECES.sub(piece, text)
