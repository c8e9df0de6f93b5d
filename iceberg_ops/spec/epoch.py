"""Dates and times as integers of the format, to and from ISO 8601 text.

Works on integers over the full range of the format's types: Python's ``datetime`` supports only microseconds and years 1 to 9999.
Text has the form of Java's formatters, so paths and JSON agree with other writers. Spec: Appendix B, D.
"""

from __future__ import annotations

import re

MICROS_PER_SECOND = 1_000_000
NANOS_PER_SECOND = 1_000_000_000
SECONDS_PER_DAY = 86_400

_DATE = re.compile(r"([+-]\d{4,10}|\d{4})-(\d{2})-(\d{2})")
_TIME = re.compile(r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?")
_OFFSET = re.compile(r"(.*?)(Z|z|[+-]\d{2}(?::?\d{2})?(?::?\d{2})?)")
_DAYS_IN_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Year, month and day of the proleptic Gregorian calendar for days from 1970-01-01."""
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted_month + 2) // 5 + 1


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01. The inverse of ``civil_from_days``."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def _year_text(year: int) -> str:
    if 0 <= year <= 9999:
        return f"{year:04d}"
    return f"+{year}" if year > 0 else f"-{-year:04d}"


def iso_date(days: int) -> str:
    """``2017-11-16``; years beyond 9999 carry a plus sign."""
    year, month, day = civil_from_days(days)
    return f"{_year_text(year)}-{month:02d}-{day:02d}"


def iso_time(ticks: int, per_second: int = MICROS_PER_SECOND, *, digits: int | None = None) -> str:
    """``22:31:08.123456``. ``digits``: the number after the point; None for no trailing zeros."""
    seconds, fraction = divmod(ticks, per_second)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    width = len(str(per_second)) - 1
    shown = f"{fraction:0{width}d}"
    shown = shown.rstrip("0") if digits is None else shown.ljust(digits, "0")[:digits]
    return f"{text}.{shown}" if shown else text


def iso_timestamp(ticks: int, per_second: int = MICROS_PER_SECOND, *, utc: bool = False, digits: int | None = None) -> str:
    """``2017-11-16T22:31:08.123456``, with ``+00:00`` if ``utc``."""
    days, rest = divmod(ticks, per_second * SECONDS_PER_DAY)
    return f"{iso_date(days)}T{iso_time(rest, per_second, digits=digits)}{'+00:00' if utc else ''}"


def parse_date(text: str) -> int:
    """Days from 1970-01-01. Raises ValueError."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a date (YYYY-MM-DD)")
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS_IN_MONTH[month - 1] or (month == 2 and day == 29 and not leap):
        raise ValueError(f"{text!r} is not a day of the calendar")
    return days_from_civil(year, month, day)


def parse_time(text: str, per_second: int = MICROS_PER_SECOND) -> int:
    """Ticks of the day. Raises ValueError; also if ``text`` has more digits than ``per_second`` can hold."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time (HH:MM:SS.ffffff)")
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{text!r} is not a time of the day")
    width = len(str(per_second)) - 1
    digits = (match[4] or "").ljust(width, "0")
    if digits[width:].strip("0"):
        raise ValueError(f"{text!r} has more than {width} digits of a second")
    return ((hour * 60 + minute) * 60 + second) * per_second + int(digits[:width])


def split_offset(text: str) -> tuple[str, int | None]:
    """A timestamp's local part and its offset in seconds; None if it has none. Raises ValueError."""
    local, at, clock = text.partition("T")
    match = _OFFSET.fullmatch(clock) if at else None
    if match is None:
        return text, None
    if match[2] in ("Z", "z"):
        return f"{local}T{match[1]}", 0
    digits = match[2][1:].replace(":", "").ljust(6, "0")
    hours, minutes, seconds = int(digits[:2]), int(digits[2:4]), int(digits[4:])
    if hours > 18 or minutes > 59 or seconds > 59:
        raise ValueError(f"{text!r} has no valid offset")
    return f"{local}T{match[1]}", (-1 if match[2][0] == "-" else 1) * (hours * 3600 + minutes * 60 + seconds)


def parse_timestamp(text: str, per_second: int = MICROS_PER_SECOND) -> int:
    """Ticks since the epoch for a timestamp without offset. Raises ValueError."""
    date, at, clock = text.partition("T")
    if not at:
        raise ValueError(f"{text!r} is not a timestamp (YYYY-MM-DDTHH:MM:SS.ffffff)")
    return parse_date(date) * SECONDS_PER_DAY * per_second + parse_time(clock, per_second)


def parse_timestamptz(text: str, per_second: int = MICROS_PER_SECOND) -> int:
    """Ticks since the epoch for a timestamp with any offset. Raises ValueError."""
    local, offset = split_offset(text)
    if offset is None:
        raise ValueError(f"{text!r} has no offset from UTC")
    return parse_timestamp(local, per_second) - offset * per_second
