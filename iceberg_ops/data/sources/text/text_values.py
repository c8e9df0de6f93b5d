"""Defines which text is a value of which type: the forms of CSV fields, and of texts in JSON.

The forms are those of ISO 8601 and of numbers as programs write them, with Spark's names for special numbers. A text that does not
fit its type exactly is not a value of it: an integer out of range, a decimal with more digits, a number that would round to
infinity, a fraction of a second finer than the type's, a zone for a timestamp without one. A ``timestamptz`` without a zone is UTC.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_ops.config.unicode_text import is_unicode
from iceberg_ops.config.whole_numbers import INT_MAX, LONG_MAX
from iceberg_ops.data.arrow.arrow_schema import arrow_type
from iceberg_ops.data.arrow.arrow_values import array_of
from iceberg_ops.data.sources.text.parsed import NotAValueError, shown
from iceberg_ops.expressions.literal_text import date_from_text, timestamp_from_text, uuid_from_text
from iceberg_ops.spec.epoch import SECONDS_PER_DAY, parse_time
from iceberg_ops.spec.types import BINARY, STRING, DecimalType, FixedType, IcebergType
from iceberg_ops.spec.values import float32

_NANOS_OF_DAY = SECONDS_PER_DAY * 1_000_000_000
WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?", re.ASCII)
_DAY = re.compile(r"[+-]?\d{4,7}-\d{1,2}-\d{1,2}", re.ASCII)
_DAY_AND_TIME = re.compile(r"[+-]?\d{4,6}-\d{1,2}-\d{1,2}(?:[ T].*)?", re.ASCII | re.DOTALL)
_MOST_DIGITS = 400
"""The limit of an exponent's effect in digits: more cannot be a value of any type, and would take long."""
_LEAST_NORMAL = 2.0**-126
_HALFWAY = 0x10000000
_SPECIAL = re.compile(r"(?i)[+-]?(?:nan|inf(?:inity)?)")


@dataclass(frozen=True, slots=True)
class TextForms:
    """Forms from a source's options: texts for NaN and the infinities, and patterns of dates and timestamps."""

    numbers: Mapping[str, float] = field(default_factory=dict)
    date: Callable[[str], int] | None = None
    """Days from 1970-01-01; raises ValueError."""
    timestamptz: Callable[[str], tuple[int, bool]] | None = None
    """Nanoseconds since the epoch, and whether the text has a zone; raises ValueError."""
    timestamp: Callable[[str], tuple[int, bool]] | None = None
    """The same for timestamps without a zone."""


def parse_texts(texts: Sequence[str | None], type_: IcebergType, forms: TextForms) -> tuple[pa.Array, dict[int, str]]:
    """The values of ``texts`` (None: NULL) in the canonical Arrow form of ``type_``; by index why a text is not a value, NULL
    there.

    Raises KeyError for a nested type, which has no text form."""
    if (fast := _at_once(texts, type_, forms)) is not None:
        return fast, {}
    parse, values, wrong = text_parser(type_, forms), list[Any](), dict[int, str]()
    for i, text in enumerate(texts):
        value = None
        if text is not None:
            try:
                value = parse(text)
            except ValueError:
                wrong[i] = f"{shown(text)} is not a valid {type_}"
        values.append(value)
    return array_of(type_, values), wrong


def text_parser(type_: IcebergType, forms: TextForms) -> Callable[[str], Any]:
    """Converts one text to one canonical value; raises ValueError. Raises KeyError for a nested type."""
    if isinstance(type_, DecimalType):
        return lambda text: parse_decimal(text, type_)
    if isinstance(type_, FixedType):
        return lambda text: _fixed(text, type_.length)
    return _PARSERS[str(type_)](forms)


def parse_floating(text: str, *, single: bool) -> float:
    """The nearest number of 64 (``single``: 32) bits. Raises ValueError for a finite one that is out of range."""
    if not _NUMBER.fullmatch(text):
        raise NotAValueError
    value = _nearest_single(text) if single else float(text)
    if math.isinf(value):
        raise NotAValueError
    return value


def parse_integer(text: str, most: int) -> int:
    """An integer of at most ``most``, at least ``-most - 1``. Raises ValueError."""
    if not WHOLE.fullmatch(text) or len(text) > _MOST_DIGITS or not -most - 1 <= (value := int(text)) <= most:
        raise NotAValueError
    return value


def ticks_from_nanos(nanos: int, *, per_second: int) -> int:
    """Ticks of a type with ``per_second`` ticks, from nanoseconds. Raises ValueError for a part of a tick, or out of range."""
    ticks, rest = divmod(nanos, 1_000_000_000 // per_second)
    if rest or not -LONG_MAX - 1 <= ticks <= LONG_MAX:
        raise NotAValueError
    return ticks


def _nearest_single(text: str) -> float:
    """The nearest number to the text, not to the 64-bit number next to it, which may round to the other side."""
    near = float(text)
    value = float32(near)
    if math.isinf(value) or (abs(near) >= _LEAST_NORMAL and _low_bits(near) != _HALFWAY):
        return value
    return float(pc.cast(pa.scalar(text.lstrip("+")), pa.float32()).as_py())


def _low_bits(value: float) -> int:
    """The bits of a number that a 32-bit number does not have."""
    return int.from_bytes(struct.pack(">d", value)) & 0x1FFFFFFF


def parse_decimal(text: str, type_: DecimalType) -> Decimal:
    """The exact decimal of a number's text. Raises ValueError if ``type_`` cannot hold it."""
    if not _NUMBER.fullmatch(text):
        raise NotAValueError
    try:
        value = Decimal(text)
        _, digits, exponent = value.as_tuple()
        if not isinstance(exponent, int) or len(digits) > _MOST_DIGITS or abs(exponent) > _MOST_DIGITS:
            raise NotAValueError
        unscaled = int("".join(map(str, digits))) * 10 ** max(0, exponent + type_.scale)
    except InvalidOperation:
        raise NotAValueError from None
    unscaled, lost = divmod(unscaled, 10 ** max(0, -exponent - type_.scale))
    if lost or unscaled >= 10**type_.precision:
        raise NotAValueError
    return Decimal((1 if value.is_signed() and unscaled else 0, tuple(map(int, str(unscaled))), -type_.scale))


def _fixed(text: str, length: int) -> bytes:
    value = text.encode()
    if len(value) != length:
        raise NotAValueError
    return value


def _whole(most: int) -> Callable[[TextForms], Callable[[str], Any]]:
    return lambda _: lambda text: parse_integer(text, most)


def _floating(*, single: bool) -> Callable[[TextForms], Callable[[str], Any]]:
    def of_forms(forms: TextForms) -> Callable[[str], Any]:
        def parse(text: str) -> float:
            if text in forms.numbers:
                return forms.numbers[text]
            return float(text) if _SPECIAL.fullmatch(text) else parse_floating(text, single=single)

        return parse

    return of_forms


def _boolean(text: str) -> bool:
    lower = text.lower()
    if lower not in ("true", "false"):
        raise NotAValueError
    return lower == "true"


def _text(text: str) -> str:
    if not is_unicode(text):
        raise NotAValueError
    return text


def _date(forms: TextForms) -> Callable[[str], Any]:
    def parse(text: str) -> int:
        if forms.date is not None:
            return _in_range(forms.date(text), INT_MAX)
        if _DAY.fullmatch(text):
            return _in_range(date_from_text(text), INT_MAX)
        if not _DAY_AND_TIME.fullmatch(text):
            raise NotAValueError
        nanos, has_zone = timestamp_from_text(text)
        days, rest = divmod(nanos, _NANOS_OF_DAY)
        if has_zone or rest:
            raise NotAValueError
        return days

    return parse


def _timestamp(*, per_second: int, zoned: bool) -> Callable[[TextForms], Callable[[str], Any]]:
    def of_forms(forms: TextForms) -> Callable[[str], Any]:
        form = forms.timestamptz if zoned else forms.timestamp

        def parse(text: str) -> int:
            if form is None and (not _DAY_AND_TIME.fullmatch(text) or _cut_digits(text)):
                raise NotAValueError
            nanos, has_zone = (form or timestamp_from_text)(text)
            if has_zone and not zoned:
                raise NotAValueError
            return ticks_from_nanos(nanos, per_second=per_second)

        return parse

    return of_forms


def _cut_digits(text: str) -> bool:
    """Whether a second has more than nine significant digits."""
    fraction = re.search(r"\.(\d*)", text)
    return fraction is not None and bool(fraction[1][9:].strip("0"))


def _in_range(value: int, most: int) -> int:
    if not -most - 1 <= value <= most:
        raise NotAValueError
    return value


_PARSERS: dict[str, Callable[[TextForms], Callable[[str], Any]]] = {
    "boolean": lambda _: _boolean,
    "int": _whole(INT_MAX),
    "long": _whole(LONG_MAX),
    "float": _floating(single=True),
    "double": _floating(single=False),
    "date": _date,
    "time": lambda _: parse_time,
    "timestamp": _timestamp(per_second=1_000_000, zoned=False),
    "timestamptz": _timestamp(per_second=1_000_000, zoned=True),
    "timestamp_ns": _timestamp(per_second=1_000_000_000, zoned=False),
    "timestamptz_ns": _timestamp(per_second=1_000_000_000, zoned=True),
    "string": lambda _: _text,
    "uuid": lambda _: uuid_from_text,
    "binary": lambda _: str.encode,
}

_PLAIN_FORMS = {
    "int": r"^-?[0-9]{1,9}$",
    "long": r"^-?[0-9]{1,18}$",
    "float": r"^-?[0-9]{1,15}(\.[0-9]{1,17})?$",
    "double": r"^-?[0-9]{1,15}(\.[0-9]{1,17})?$",
    "date": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "timestamp": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$",
}
"""Forms that Arrow reads exactly as this module does, for whole columns at once."""


def _at_once(texts: Sequence[str | None], type_: IcebergType, forms: TextForms) -> pa.Array | None:
    """None if a text may not be a value, or has another form."""
    try:
        array = pa.array(texts, pa.string())
    except (pa.ArrowInvalid, UnicodeError):
        return None  # half of a surrogate pair
    if type_ in (STRING, BINARY):
        return array.cast(arrow_type(type_))
    form = _decimal_form(type_) if isinstance(type_, DecimalType) else _PLAIN_FORMS.get(str(type_))
    if form is None or _has_own_forms(type_, forms) or not pc.all(pc.match_substring_regex(array, form)).as_py():
        return None
    try:
        return array.cast(arrow_type(type_))
    except pa.ArrowInvalid:
        return None


def _has_own_forms(type_: IcebergType, forms: TextForms) -> bool:
    """Whether a text in an ordinary form may mean something else."""
    if str(type_) in ("float", "double"):
        return any(map(_NUMBER.fullmatch, forms.numbers))
    return (forms.date if str(type_) == "date" else forms.timestamp if str(type_) == "timestamp" else None) is not None


def _decimal_form(type_: DecimalType) -> str | None:
    whole = type_.precision - type_.scale
    if whole < 1:
        return None
    return rf"^-?[0-9]{{1,{whole}}}(\.[0-9]{{1,{type_.scale}}})?$" if type_.scale else rf"^-?[0-9]{{1,{whole}}}$"
