"""Patterns of dates and timestamps for ``dateFormat`` and ``timestampFormat``: those of Java's DateTimeFormatter, numbers only.

Letters: ``y`` or ``u`` year, ``M`` month, ``d`` day, ``H`` hour (0 to 23), ``m`` minute, ``s`` second, ``S`` fraction, ``X``, ``x``
or ``Z`` offset, ``V`` zone. As many digits are read as letters are given, and a longer year has a sign; one letter reads all
following digits. Text in single quotes, and every other character that is not a letter, stands for itself; brackets enclose
optional parts. Nothing is truncated: a date's pattern may have a time, which must be midnight.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from iceberg_ops.errors import OptionError
from iceberg_ops.expressions.literal_text import date_from_text, timestamp_from_text

_LETTERS = {"y": "year", "u": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second", "S": "fraction"}
_ZONES = {"X": "zone", "x": "zone", "Z": "zone", "V": "zone"}
_PIECE = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|(.)", re.DOTALL)


def date_parser(pattern: str, option: str) -> Callable[[str], int]:
    """Days from 1970-01-01 for a text in that pattern. The parser raises ValueError; this raises OptionError for an unsupported
    pattern."""
    match = _compiled(pattern, option, ("year", "month", "day"))

    def parse(text: str) -> int:
        parts = _matched(match, text)
        clock = (parts.get(part) or "0" for part in ("hour", "minute", "second", "fraction"))
        if parts.get("zone") is not None or any(part.strip("0") for part in clock):
            raise ValueError(f"{text!r} is more than a date")
        return date_from_text(f"{parts['year']}-{parts['month']}-{parts['day']}")

    return parse


def timestamp_parser(pattern: str, option: str) -> Callable[[str], tuple[int, bool]]:
    """Nanoseconds since the epoch, and whether the text has a zone."""
    match = _compiled(pattern, option, ("year", "month", "day"))

    def parse(text: str) -> tuple[int, bool]:
        parts = _matched(match, text)
        if (parts.get("fraction") or "")[9:].strip("0"):
            raise ValueError(f"{text!r} has more than nanoseconds")
        clock = ":".join(parts.get(part) or "0" for part in ("hour", "minute", "second"))
        day = f"{parts['year']}-{parts['month']}-{parts['day']}"
        return timestamp_from_text(f"{day} {clock}.{parts.get('fraction') or '0'}{parts.get('zone') or ''}")

    return parse


def _matched(pattern: re.Pattern[str], text: str) -> dict[str, str | None]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} does not follow the pattern")
    return match.groupdict()


def _compiled(pattern: str, option: str, needed: tuple[str, ...]) -> re.Pattern[str]:
    parts, open_brackets = list[str](), 0
    for piece in _PIECE.finditer(pattern):
        text = piece[0]
        if piece[2] is not None:
            parts.append(_letters(text, pattern, option))
        elif piece[1] is not None or text == "''":
            parts.append(re.escape((piece[1] or "'").replace("''", "'")))
        elif text == "[":
            parts.append("(?:")
            open_brackets += 1
        elif text == "]" and open_brackets:
            parts.append(")?")
            open_brackets -= 1
        elif text in "]{}#'":
            raise _refused(pattern, option, f"{text!r}")
        else:
            parts.append(re.escape(text))
    try:
        compiled = re.compile("".join(parts), re.ASCII)
    except re.error:
        raise _refused(pattern, option, "a letter that is there twice, or an open bracket") from None
    if missing := [name for name in needed if name not in compiled.groupindex]:
        raise _refused(pattern, option, f"no {missing[0]}")
    return compiled


def _letters(text: str, pattern: str, option: str) -> str:
    letter, count = text[0], len(text)
    if letter in _ZONES:
        return r"(?P<zone>Z|[+-]\d{2}(?::?\d{2})?(?::?\d{2})?|[A-Za-z_]+(?:/[A-Za-z_+\-0-9]+)*)"
    if letter not in _LETTERS or (letter == "M" and count > 2) or (letter in "yu" and count in (2, 3)):
        raise _refused(pattern, option, f"{text!r}")
    if letter in "yu":
        digits = r"[+-]?\d{4,7}+" if count == 1 else r"\d{4}|[+-]\d{4,7}+"
    else:
        digits = rf"\d{{{count}}}" if count > 1 else r"\d++"
    return f"(?P<{_LETTERS[letter]}>{digits})"


def _refused(pattern: str, option: str, what: str) -> OptionError:
    return OptionError(
        f"source option {option} = {pattern!r} has {what}, which is not supported: years (yyyy), months, days, hours (HH), "
        "minutes, seconds, fractions and zones in numbers are"
    )
