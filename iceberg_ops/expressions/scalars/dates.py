"""Spark's functions of dates (days since 1970-01-01) and timestamps (microseconds, UTC), for any year."""

from __future__ import annotations

from collections.abc import Callable

from iceberg_ops.expressions.comparisons import INT_RANGE, LONG_RANGE
from iceberg_ops.expressions.literal_text import NotFolded
from iceberg_ops.spec.epoch import MICROS_PER_SECOND, SECONDS_PER_DAY, civil_from_days, days_from_civil

_DAY = SECONDS_PER_DAY * MICROS_PER_SECOND
_HOUR, _MINUTE = 3600 * MICROS_PER_SECOND, 60 * MICROS_PER_SECOND


def day_of(micros: int) -> int:
    return micros // _DAY


def year(days: int) -> int:
    return civil_from_days(days)[0]


def quarter(days: int) -> int:
    return (month(days) + 2) // 3


def month(days: int) -> int:
    return civil_from_days(days)[1]


def day(days: int) -> int:
    return civil_from_days(days)[2]


def day_of_year(days: int) -> int:
    return days - days_from_civil(year(days), 1, 1) + 1


def day_of_week(days: int) -> int:
    """1 is Sunday; 1970-01-01 was a Thursday."""
    return (days + 4) % 7 + 1


def weekday(days: int) -> int:
    """0 is Monday."""
    return (days + 3) % 7


def last_day(days: int) -> int:
    y, m, _ = civil_from_days(days)
    return (days_from_civil(y + 1, 1, 1) if m == 12 else days_from_civil(y, m + 1, 1)) - 1


def hour(micros: int) -> int:
    return micros % _DAY // _HOUR


def minute(micros: int) -> int:
    return micros % _HOUR // _MINUTE


def second(micros: int) -> int:
    return micros % _MINUTE // MICROS_PER_SECOND


def date_add(days: int, count: int) -> int:
    return _in_int(days + count)


def date_sub(days: int, count: int) -> int:
    return _in_int(days - count)


def date_diff(end: int, start: int) -> int:
    return _in_int(end - start)


def _in_int(days: int) -> int:
    """Raises NotFolded: Spark wraps around."""
    if not INT_RANGE[0] <= days <= INT_RANGE[1]:
        raise NotFolded(f"{days} days are beyond an int")
    return days


def _first_day(days: int, unit: str) -> int | None:
    if unit == "WEEK":
        return days - weekday(days)
    y, m, _ = civil_from_days(days)
    if unit in ("MONTH", "MON", "MM"):
        return days_from_civil(y, m, 1)
    if unit == "QUARTER":
        return days_from_civil(y, (m - 1) // 3 * 3 + 1, 1)
    return days_from_civil(y, 1, 1) if unit in ("YEAR", "YYYY", "YY") else None


_WIDTHS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1000,
    "SECOND": MICROS_PER_SECOND,
    "MINUTE": _MINUTE,
    "HOUR": _HOUR,
    "DAY": _DAY,
    "DD": _DAY,
}


def date_trunc(unit: str, micros: int) -> int | None:
    """The start of the unit that contains the instant; NULL for a text that is not a unit."""
    unit = unit.upper()
    if unit in _WIDTHS:
        truncated = micros - micros % _WIDTHS[unit]
    else:
        first = _first_day(micros // _DAY, unit)
        if first is None:
            return None
        truncated = first * _DAY
    if truncated < LONG_RANGE[0]:
        raise NotFolded("the start of that unit is before the first timestamp")
    return truncated


def trunc(days: int, unit: str) -> int | None:
    """The first day of the unit; NULL for a text that is not a unit of days."""
    return _first_day(days, unit.upper())


PARTS_OF_DATES: dict[str, Callable[[int], int]] = {
    "year": year,
    "quarter": quarter,
    "month": month,
    "day": day,
    "dayofmonth": day,
    "dayofyear": day_of_year,
    "dayofweek": day_of_week,
    "weekday": weekday,
}
PARTS_OF_TIMES: dict[str, Callable[[int], int]] = {"hour": hour, "minute": minute, "second": second}
