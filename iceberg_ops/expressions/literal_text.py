"""Converts text of SQL literals to values, like Spark's casts from string (``CAST('...' AS T)``, ``DATE '...'``).

Every function raises ValueError for text that Spark 4 in ANSI mode refuses, and NotFolded for text that only Spark can read;
callers convert ValueError to WhereError with the column's name.
A timestamp without an offset is read as UTC: this package has no session time zone. A timestamp's text is read to the nanosecond,
because Iceberg has such columns; callers apply Spark's rule for more than six digits. Iceberg's own JSON forms are
strict and are in ``iceberg_ops.spec.epoch``.
"""

from __future__ import annotations

import math
import re
import uuid
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from iceberg_ops.spec.epoch import SECONDS_PER_DAY, days_from_civil, parse_date

_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL | re.ASCII)
_TIMESTAMP = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?\s*(\S+)?)?)?)?)?)?", re.ASCII
)
_TIME = re.compile(r"T?(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6})\d*)?)?", re.ASCII)
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:(?P<h>\d{1,2})(?::(?P<m>\d{1,2})(?::(?P<s>\d{2}))?)?|(?P<hh>\d{2})(?P<mm>\d{2})(?P<ss>\d{2})?)",
    re.ASCII,
)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_FLOATING = re.compile(r"[+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?[dDfF]?", re.ASCII)
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]++\.?[0-9a-fA-F]*+|\.[0-9a-fA-F]++)[pP][+-]?\d++[dDfF]?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:(\d++)\.?(\d*+)|\.(\d++))(?:[eE]([+-]?\d++))?")
_SPECIAL = {"nan": "nan", "inf": "inf", "+inf": "inf", "infinity": "inf", "+infinity": "inf", "-inf": "-inf", "-infinity": "-inf"}
_SIGNED_NAN = frozenset({"+NaN", "-NaN"})
"""Java reads these, only with this case."""
_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})
_AROUND = "".join(map(chr, range(33))) + "\x7f"
"""Characters that Spark removes from the ends of a text before it reads an integer, a date or a boolean: blanks and ASCII control
characters."""
TRIMMED_BY_JAVA = _AROUND[:-1]
"""Characters that Java removes from the ends before it reads a decimal, a float or a double, and Spark before it recognises a word
for a day."""
MOST_DIGITS = 38
"""The limit of a decimal."""
_DIGITS_OF_EXPONENT = 6
_CHANGING_DAYS = frozenset({"now", "today", "tomorrow", "yesterday"})
_DAYS, _MICROS = range(-(2**31), 2**31), range(-(2**63), 2**63)
_NANOS = 1_000_000_000
_UUID = re.compile(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")


class NotFolded(ValueError):
    """A cast for which only Spark knows the result, or whether there is one."""


def boolean_from_text(text: str) -> bool:
    """A boolean in one of Spark's spellings, in any case."""
    word = text.strip(_AROUND).lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"{text!r} is not a boolean")
    return word in _TRUE


def whole_from_text(text: str) -> int:
    """An integer of any size; the caller checks its range."""
    word = text.strip(_AROUND)
    if not _WHOLE.fullmatch(word):
        raise ValueError(f"{text!r} is not a whole number")
    return int(word)


def floating_from_text(text: str) -> float:
    """A double, in Java's forms: decimal or hexadecimal digits, NaN and the infinities."""
    word = text.strip(TRIMMED_BY_JAVA)
    if _FLOATING.fullmatch(word):
        return float(word.rstrip("dDfF"))
    if word in _SIGNED_NAN:
        return math.nan
    if special := _SPECIAL.get(word.lower()):
        return float(special)
    if not is_hexadecimal(word):
        raise ValueError(f"{text!r} is not a number")
    try:
        return float.fromhex(word.rstrip("dDfF"))
    except OverflowError:
        return -math.inf if word.startswith("-") else math.inf


def is_hexadecimal(text: str) -> bool:
    """Whether a text is a float in hexadecimal digits with a power of two, such as ``0x1.8p3``."""
    return _HEXADECIMAL.fullmatch(text.strip(TRIMMED_BY_JAVA)) is not None


def decimal_from_text(text: str) -> Decimal:
    """A decimal with at most 38 digits before its point. Raises NotFolded for digits that are not ASCII, which Java reads by
    its own version of Unicode, and for exponents of millions, which Java refuses or needs much memory for."""
    word = text.strip(TRIMMED_BY_JAVA)
    match = _DECIMAL.fullmatch(word)
    if match is None:
        raise ValueError(f"{text!r} is not a decimal")
    if not word.isascii():
        raise NotFolded(f"{text!r} as a decimal, which has digits that are not ASCII")
    fraction = match[2] or match[3] or ""
    digits = ((match[1] or "") + fraction).lstrip("0") or "0"
    exponent = (match[4] or "0").lstrip("+")
    if len(exponent.lstrip("-").lstrip("0")) > _DIGITS_OF_EXPONENT:
        raise NotFolded(f"{text!r} as a decimal, whose exponent is extreme")
    if digits != "0" and len(digits) - len(fraction) + int(exponent) > MOST_DIGITS:
        raise ValueError(f"{text!r} has more than {MOST_DIGITS} digits before its point")
    return Decimal(word)


def date_from_text(text: str, *, of_column: bool = False) -> int:
    """Days from 1970-01-01; month and day may be omitted, and a time after the day is ignored. ``of_column``: the text is not a
    constant, and Spark recognises no words in it."""
    word = text.strip(_AROUND)
    match = _DATE.fullmatch(word)
    if match is not None:
        return _days(match[1], match[2], match[3])
    if not of_column and _is_epoch(text):
        return 0
    raise _not_read(text, "a date")


def time_from_text(text: str) -> int:
    """Microseconds of the day."""
    match = _TIME.fullmatch(text.strip(_AROUND))
    if match is None:
        raise ValueError(f"{text!r} is not a time of the day")
    return _nanos_of_day(match[1], match[2], match[3], match[4]) // 1000


def timestamp_from_text(text: str) -> tuple[int, bool]:
    """Nanoseconds since the epoch (UTC if an offset or a zone is given, else as written), and whether one is given. Digits beyond
    nanoseconds are truncated."""
    word = text.strip(_AROUND)
    if _is_epoch(text):
        return 0, False
    match = _TIMESTAMP.fullmatch(word)
    if match is None:
        raise _not_read(text, "a timestamp")
    local = _days(match[1], match[2], match[3]) * SECONDS_PER_DAY * _NANOS
    local += _nanos_of_day(match[4] or "0", match[5], match[6], match[7])
    instant = local if match[8] is None else local - _offset_seconds(match[8], local // 1000) * _NANOS
    if instant // 1000 not in _MICROS:
        raise ValueError(f"{text!r} is outside timestamp")
    return instant, match[8] is not None


def _is_epoch(text: str) -> bool:
    return text.strip(TRIMMED_BY_JAVA).lower() == "epoch"


def _not_read(text: str, what: str) -> ValueError:
    is_changing = text.strip(TRIMMED_BY_JAVA).lower() in _CHANGING_DAYS
    return ValueError(f"{text!r} means another day tomorrow: write {what} itself" if is_changing else f"{text!r} is not {what}")


def uuid_from_text(text: str) -> uuid.UUID:
    """A uuid in upper or lower case, with or without hyphens."""
    word = text.strip(_AROUND)
    if not _UUID.fullmatch(word):
        raise ValueError(f"{text!r} is not a uuid")
    return uuid.UUID(word)


def _days(year: str, month: str | None, day: str | None) -> int:
    number = int(year)
    parse_date(f"{2000 + number % 400:04d}-{int(month or 1):02d}-{int(day or 1):02d}")
    days = days_from_civil(number, int(month or 1), int(day or 1))
    if days not in _DAYS:
        raise ValueError(f"year {year} is outside date")
    return days


def _nanos_of_day(hour: str, minute: str | None, second: str | None, fraction: str | None) -> int:
    h, m, s = int(hour), int(minute or 0), int(second or 0)
    if h > 23 or m > 59 or s > 59:
        raise ValueError(f"{hour}:{minute or '00'}:{second or '00'} is not a time of the day")
    return ((h * 60 + m) * 60 + s) * _NANOS + int((fraction or "").ljust(9, "0")[:9])


def _offset_seconds(zone: str, local: int) -> int:
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    if match := _OFFSET.fullmatch(zone):
        hours, minutes, seconds = (int(match[part] or match[part * 2] or 0) for part in "hms")
        if hours > 18 or minutes > 59 or seconds > 59 or (hours == 18 and minutes + seconds):
            raise ValueError(f"{zone!r} is not an offset from UTC")
        return (-1 if match[1] == "-" else 1) * (hours * 3600 + minutes * 60 + seconds)
    try:
        region: tzinfo = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{zone!r} is not a time zone") from None
    try:
        wall = datetime.fromisoformat("1970-01-01") + timedelta(microseconds=local)
    except OverflowError:
        raise ValueError(f"a year outside 1 to 9999 needs an offset, not {zone!r}") from None
    offset = wall.replace(tzinfo=region).utcoffset() or timedelta()
    return offset.days * SECONDS_PER_DAY + offset.seconds
