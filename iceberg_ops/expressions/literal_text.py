"""Text of SQL literals to values, as Spark's casts from string read it (``CAST('...' AS T)``, ``DATE '...'``).

Every function raises ValueError for text that Spark 4 in ANSI mode refuses; callers turn it into WhereError with the column's name.
A timestamp without an offset is read as UTC: this package has no session time zone. A timestamp's text is read to the nanosecond,
because Iceberg has such columns; what Spark does with more than six digits is for callers to apply. Iceberg's own JSON forms are
strict and live in ``iceberg_ops.spec.epoch``.
"""

from __future__ import annotations

import re
import uuid
from datetime import datetime, timedelta, tzinfo
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
_DECIMAL = re.compile(r"[+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?", re.ASCII)
_SPECIAL = {"nan": "nan", "inf": "inf", "+inf": "inf", "infinity": "inf", "+infinity": "inf", "-inf": "-inf", "-infinity": "-inf"}
_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})
_AROUND = "".join(map(chr, range(33))) + "\x7f"
"""What Spark strips from a text before it reads a number, a date or a truth value: blanks and control characters of ASCII."""
_NANOS = 1_000_000_000
_UUID = re.compile(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")


def boolean_from_text(text: str) -> bool:
    word = text.strip(_AROUND).lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"{text!r} is not a boolean")
    return word in _TRUE


def whole_from_text(text: str) -> int:
    word = text.strip(_AROUND)
    if not _WHOLE.fullmatch(word):
        raise ValueError(f"{text!r} is not a whole number")
    return int(word)


def floating_from_text(text: str) -> float:
    word = text.strip(_AROUND)
    if special := _SPECIAL.get(word.lower()):
        return float(special)
    if not _FLOATING.fullmatch(word):
        raise ValueError(f"{text!r} is not a number")
    return float(word.rstrip("dDfF"))


def decimal_text(text: str) -> str:
    """The text, checked to be what ``Decimal`` reads."""
    if not _DECIMAL.fullmatch(text.strip(_AROUND)):
        raise ValueError(f"{text!r} is not a decimal")
    return text.strip(_AROUND)


def date_from_text(text: str) -> int:
    """Days from 1970-01-01; month and day may be left out, and a time after the day is ignored."""
    word = text.strip(_AROUND)
    if word.lower() == "epoch":
        return 0
    match = _DATE.fullmatch(word)
    if match is None:
        raise ValueError(f"{text!r} is not a date")
    return _days(match[1], match[2], match[3])


def time_from_text(text: str) -> int:
    """Microseconds of the day."""
    match = _TIME.fullmatch(text.strip(_AROUND))
    if match is None:
        raise ValueError(f"{text!r} is not a time of the day")
    return _nanos_of_day(match[1], match[2], match[3], match[4]) // 1000


def timestamp_from_text(text: str) -> tuple[int, bool]:
    """Nanoseconds from the epoch (UTC where an offset or a zone is given, else as written), and whether one is given. Digits beyond
    nanoseconds are cut."""
    word = text.strip(_AROUND)
    if word.lower() == "epoch":
        return 0, False
    match = _TIMESTAMP.fullmatch(word)
    if match is None:
        raise ValueError(f"{text!r} is not a timestamp")
    local = _days(match[1], match[2], match[3]) * SECONDS_PER_DAY * _NANOS
    local += _nanos_of_day(match[4] or "0", match[5], match[6], match[7])
    if match[8] is None:
        return local, False
    return local - _offset_seconds(match[8], local // 1000) * _NANOS, True


def uuid_from_text(text: str) -> uuid.UUID:
    """A uuid in either case, with its hyphens or without."""
    word = text.strip(_AROUND)
    if not _UUID.fullmatch(word):
        raise ValueError(f"{text!r} is not a uuid")
    return uuid.UUID(word)


def _days(year: str, month: str | None, day: str | None) -> int:
    number = int(year)
    parse_date(f"{2000 + number % 400:04d}-{int(month or 1):02d}-{int(day or 1):02d}")
    return days_from_civil(number, int(month or 1), int(day or 1))


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
