"""Text of SQL literals to values, as Spark's casts from string read it (``CAST('...' AS T)``, ``DATE '...'``).

Every function raises ValueError for text that Spark 4 in ANSI mode refuses; callers turn it into WhereError with the column's name.
A timestamp without an offset is read as UTC: this package has no session time zone. Digits beyond microseconds are cut, as Spark
does. Iceberg's own JSON forms are strict and live in ``iceberg_ops.spec.epoch``.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from iceberg_ops.spec.epoch import SECONDS_PER_DAY, days_from_civil, parse_date

_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](?:(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?)?\s*(\S+)?)?)?)?"
)
_TIME = re.compile(r"T?(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6})\d*)?)?")
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
_WHOLE = re.compile(r"[+-]?\d+")
_FLOATING = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_SPECIAL = {"nan": "nan", "inf": "inf", "+inf": "inf", "infinity": "inf", "+infinity": "inf", "-inf": "-inf", "-infinity": "-inf"}
_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})
_MICROS = 1_000_000


def boolean_from_text(text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"{text!r} is not a boolean")
    return word in _TRUE


def whole_from_text(text: str) -> int:
    if not _WHOLE.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def floating_from_text(text: str) -> float:
    word = text.strip()
    if special := _SPECIAL.get(word.lower()):
        return float(special)
    if not _FLOATING.fullmatch(word):
        raise ValueError(f"{text!r} is not a number")
    return float(word.rstrip("dDfF"))


def decimal_text(text: str) -> str:
    """The text, checked to be what ``Decimal`` reads."""
    if not _DECIMAL.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a decimal")
    return text.strip()


def date_from_text(text: str) -> int:
    """Days from 1970-01-01; month and day may be left out, and a time after the day is ignored."""
    word = text.strip()
    if word.lower() == "epoch":
        return 0
    match = _DATE.fullmatch(word)
    if match is None:
        raise ValueError(f"{text!r} is not a date")
    return _days(match[1], match[2], match[3])


def time_from_text(text: str) -> int:
    """Microseconds of the day."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a time of the day")
    return _micros_of_day(match[1], match[2], match[3], match[4])


def timestamp_from_text(text: str) -> tuple[int, bool]:
    """Microseconds from the epoch (UTC where an offset or a zone is given, else as written), and whether one is given."""
    word = text.strip()
    if word.lower() == "epoch":
        return 0, True
    match = _TIMESTAMP.fullmatch(word)
    if match is None:
        raise ValueError(f"{text!r} is not a timestamp")
    local = _days(match[1], match[2], match[3]) * SECONDS_PER_DAY * _MICROS
    local += _micros_of_day(match[4] or "0", match[5], match[6], match[7])
    if match[8] is None:
        return local, False
    return local - _offset_seconds(match[8], local) * _MICROS, True


def _days(year: str, month: str | None, day: str | None) -> int:
    number = int(year)
    parse_date(f"{2000 + number % 400:04d}-{int(month or 1):02d}-{int(day or 1):02d}")
    return days_from_civil(number, int(month or 1), int(day or 1))


def _micros_of_day(hour: str, minute: str | None, second: str | None, fraction: str | None) -> int:
    h, m, s = int(hour), int(minute or 0), int(second or 0)
    if h > 23 or m > 59 or s > 59:
        raise ValueError(f"{hour}:{minute or '00'}:{second or '00'} is not a time of the day")
    return ((h * 60 + m) * 60 + s) * _MICROS + int((fraction or "").ljust(6, "0")[:6])


def _offset_seconds(zone: str, local: int) -> int:
    if zone.upper() in ("Z", "UTC", "GMT", "UT"):
        return 0
    if match := _OFFSET.fullmatch(zone):
        hours, minutes, seconds = int(match[2]), int(match[3] or 0), int(match[4] or 0)
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
