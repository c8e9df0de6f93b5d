"""Parsers of option values, and a reader whose errors name action, option, value and rule.

A parser converts text to a value or raises ValueError whose message is the rule ("must be ...").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from iceberg_ops.config.near_names import did_you_mean
from iceberg_ops.config.whole_numbers import LONG_MAX, whole_number
from iceberg_ops.errors import OptionError

T = TypeVar("T")
D = TypeVar("D")

_DIGITS_OF_MS = 11
"""Milliseconds since 1970 have at least this many digits; a shorter number is a date: 20240101."""
_AGE = re.compile(r"([0-9]+)\s*(ms|s|m|h|d|w)")
_UNITS_OF_SIZE = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"([0-9]{1,19})\s*(?:([KMGT])(?:i?B)?|B)?", re.IGNORECASE)
UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


@dataclass(frozen=True, slots=True)
class Option:
    """An option as documented: its name, the unit or type of its value, its default in words, and its meaning."""

    name: str
    unit: str
    default: str
    meaning: str


@dataclass(frozen=True, slots=True)
class OptionReader:
    """Reads options of one action; ``reader(name, parser, default)`` raises OptionError for a bad value."""

    action: str
    options: Mapping[str, str]

    @classmethod
    def of(cls, action: str, known: Iterable[Option], options: Mapping[str, str]) -> OptionReader:
        """A reader of options, each of which must be one of ``known``. Raises OptionError."""
        check_option_names(action, known, options)
        return cls(action, options)

    def __call__(self, name: str, parse: Callable[[str], T], default: D) -> T | D:
        value = self.options.get(name)
        if value is None:
            return default
        try:
            return parse(str(value).strip())
        except ValueError as e:
            raise OptionError(f"{self.action}: option {name} = {value!r}: {e}") from None


def check_option_names(action: str, known: Iterable[Option], options: Iterable[str]) -> None:
    """Refuse options that ``action`` does not have. Raises OptionError naming the unknown and the known ones."""
    names = sorted(option.name for option in known)
    if unknown := sorted(set(options) - set(names)):
        given = ", ".join(f"{name}{did_you_mean(name, names)}" for name in unknown)
        raise OptionError(f"{action}: unknown option {given}: the options are {', '.join(names)}")


def text(value: str) -> str:
    """Any text that is not empty."""
    if not value:
        raise ValueError("must not be empty")
    return value


def boolean(value: str) -> bool:
    """``true`` or ``false``, in any case."""
    if value.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return value.lower() == "true"


def number(value: str) -> float:
    """A number above 0."""
    try:
        parsed = float(value)
    except ValueError:
        parsed = 0.0
    if not 0 < parsed < float("inf"):
        raise ValueError("must be a number above 0")
    return parsed


def ratio(value: str) -> float:
    """A share in (0, 1]."""
    parsed = number(value) if _is_number(value) else 0.0
    if not 0 < parsed <= 1:
        raise ValueError("must be a number above 0 and at most 1")
    return parsed


def at_least(low: int) -> Callable[[str], int]:
    """A parser of integers from ``low`` to 2^63 - 1."""

    def parse(value: str) -> int:
        parsed = whole_number(value)
        if parsed is None or parsed < low:
            raise ValueError(f"must be a whole number, {low} or more" + (", below 2^63" if len(value) > 18 else ""))
        return parsed

    return parse


def size(low: int) -> Callable[[str], int]:
    """Bytes, as an integer or with a unit: ``512MB`` and ``512MiB`` are both 512 x 2^20 (as in Spark's settings)."""

    def parse(value: str) -> int:
        m = _SIZE.fullmatch(value)
        parsed = -1 if m is None else int(m[1]) * _UNITS_OF_SIZE[(m[2] or "").upper()]
        if not low <= parsed <= LONG_MAX:
            raise ValueError(f"must be a whole number of bytes, such as 536870912 or 512MB, {low} or more, below 2^63")
        return parsed

    return parse


def choice(*choices: str) -> Callable[[str], str]:
    """A parser of one of ``choices`` (lower case), in any case."""

    def parse(value: str) -> str:
        if value.lower() not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return value.lower()

    return parse


def names(value: str) -> tuple[str, ...]:
    """Comma-separated names."""
    parts = tuple(part.strip() for part in value.split(","))
    if not all(parts):
        raise ValueError("must be names separated by commas")
    return parts


def numbers(value: str) -> tuple[int, ...]:
    """Comma-separated integers."""
    parsed = [whole_number(part) for part in names(value)]
    known = tuple(number for number in parsed if number is not None)
    if len(known) < len(parsed):
        raise ValueError("must be whole numbers separated by commas")
    return known


def pairs(value: str) -> dict[str, str]:
    """Comma-separated ``from=to`` pairs."""
    parts = [part.partition("=") for part in names(value)]
    if not all(left and sign and right for left, sign, right in parts):
        raise ValueError("must be from=to pairs separated by commas")
    if len({left.strip() for left, _, _ in parts}) < len(parts):
        raise ValueError("must be from=to pairs, each from once")
    return {left.strip(): right.strip() for left, _, right in parts}


def moment(now_ms: int) -> Callable[[str], int]:
    """A time as ISO 8601 (UTC without an offset), as milliseconds since 1970, or as an age before ``now_ms`` (``5d``, ``36h``)."""

    def parse(value: str) -> int:
        if (age := _age_ms(value)) is not None:
            return now_ms - age
        if len(value) >= _DIGITS_OF_MS and (at_ms := whole_number(value)) is not None:
            return at_ms
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("must be an ISO 8601 time, milliseconds since 1970, or an age such as 5d or 36h") from None
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)

    return parse


def duration_ms(value: str) -> int:
    """A duration such as ``90m`` or ``7d``, in milliseconds."""
    milliseconds = _age_ms(value.strip())
    if milliseconds is None:
        raise ValueError("must be a length of time such as 90m, 36h or 7d")
    return milliseconds


def _age_ms(value: str) -> int | None:
    """Milliseconds of a duration; None if it is not one, or exceeds 64 bits."""
    match = _AGE.fullmatch(value)
    number = None if match is None else whole_number(match[1])
    if match is None or number is None or number * UNIT_MS[match[2]] > LONG_MAX:
        return None
    return number * UNIT_MS[match[2]]


def _is_number(value: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", value, re.ASCII) is not None
