"""Generated literals for a column of ``where_rows``: values from its pool and near them, in every SQL form.

Each is written twice, because Spark has no uuid and no nanoseconds: for this package, and for Spark (``where_rows.for_spark``).
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from iceberg_ops.spec.epoch import iso_date, iso_time, iso_timestamp
from iceberg_ops.spec.types import DecimalType, IcebergType, PrimitiveType
from iceberg_ops.spec.values import decimal_of
from tests.expressions.where_rows import BYTES, DATES, INSTANTS, POOLS, TEXTS, TYPES

WIDE = Context(prec=200)
NUMERIC = ("i", "l", "f", "d", "dec", "whole", "mid", "deep", "tiny", "inner.x", "inner.d")
OURS_ALONE = ("ns", "tzns", "u")
"""Columns of types that Spark does not have."""
ZONES = (
    "Z", "+00:00", "+01:00", "-05:30", "+1:5", "+0100", "+18:00", "-18:00", " UTC", "UTC+1", " GMT-2", " Europe/Paris", " EST",
    " +2", " America/New_York", " Asia/Kathmandu", "+01:02:03", " PST", "z",
)  # fmt: skip
IN_NEW_YORK = (1_615_689_000_000_000, 1_636_263_000_000_000, 1_636_266_600_000_000)
"""Hours that there is none of on a day of spring, and two of on one of autumn."""
BAD = (
    "epoch", "2020-01-01x", "1_0", "x", "", "0x1", "1.5.5", "٣", "1e", "--1", "2020-13-01", "2020-02-30", "24:00:00", "tru", "1L",
    "+", "2020-01-01 25:00:00", " ", "2020-1-1-1", "12:60", "1 2", "1,5", "\u00a01", "∞",
)  # fmt: skip
NUMBER_FORMS = ("plain", "plain", "decimal", "double", "float", "exponent", "text", "cast", "suffix", "function", "sign")
DECIMALS = ((9, 2), (38, 0), (38, 10), (38, 38), (38, 37), (20, 0), (10, 5), (1, 1), (5, 5), (10, 0))
NEGATED_DIGITS = 34
"""Spark rounds to these when it negates, and fails where the rounded number needs more than 38."""
NULL_TYPES = {"string": "STRING", "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP", "long": "BIGINT"}


@dataclass(frozen=True, slots=True)
class Written:
    """A literal as SQL for us and for Spark, and the form it has."""

    ours: str
    spark: str
    form: str


def alike(text: str, form: str) -> Written:
    return Written(text, text, form)


def kind_of(type_: IcebergType) -> str:
    """The type's name without its parameters."""
    return type_.name if isinstance(type_, PrimitiveType) else str(type_)


def sql_text(rng: random.Random, text: str) -> str:
    """A SQL literal that Spark reads as ``text``: in one of its two quotes, raw, escaped in part, or in pieces."""
    style = rng.random()
    if style < 0.1 and len(text) > 1:
        at = rng.randrange(1, len(text))
        return f"{sql_text(rng, text[:at])} {sql_text(rng, text[at:])}"
    quote = rng.choice("'''\"")
    if style < 0.25 and quote not in text:
        return f"{rng.choice('rR')}{quote}{text}{quote}"
    odd = rng.random() < 0.2
    return quote + "".join(_character(rng, c, quote, odd) for c in text) + quote


def _character(rng: random.Random, c: str, quote: str, odd: bool) -> str:
    if c == quote:
        return rng.choice([f"\\{c}", c + c])
    if c == "\\":
        return "\\\\"
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\x00": "\\0", "\x1a": "\\Z", "\x08": "\\b"}
    if c in named and rng.random() < 0.5:
        return named[c]
    if not odd or rng.random() < 0.5:
        return c
    forms = [f"\\U{ord(c):08x}"]
    if ord(c) < 0x10000:
        forms.append(f"\\u{ord(c):04X}")
    if ord(c) < 0o200:
        forms.append(f"\\{ord(c):03o}")
    if c in "\"'" or (c.isalpha() and c not in "bnrtZuU"):
        forms.append(f"\\{c}")
    return rng.choice(forms)


def fits(exact: Decimal) -> bool:
    """Whether a decimal can hold it."""
    digits = exact.as_tuple()
    assert isinstance(digits.exponent, int)
    return max(len(digits.digits) + max(digits.exponent, 0), -digits.exponent) <= 38


class Literals:
    """Draws literals with one source of chance."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._kinds: dict[str, Callable[[str], Written]] = {
            "boolean": self._boolean, "date": self._date, "time": self._time, "timestamp": self._instant, "uuid": self._uuid,
            "timestamptz": self._instant, "timestamp_ns": self._nanos, "timestamptz_ns": self._nanos, "string": self._text,
            "binary": self._bytes, "fixed": self._bytes,
        }  # fmt: skip

    def draw(self, column: str) -> Written:
        """A literal that a comparison with ``column`` may have; now and then one of another kind, or no value at all."""
        chance = self.rng.random()
        if chance < 0.03:
            return self._null(TYPES[column])
        if chance < 0.045 and column not in OURS_ALONE:
            other = self.draw(self.rng.choice([c for c in TYPES if c not in OURS_ALONE]))
            return Written(other.ours, other.spark, f"foreign {other.form}")
        if chance < 0.06 and column not in OURS_ALONE:
            return alike(sql_text(self.rng, self.rng.choice(BAD)), "malformed text")
        return self._number(column) if column in NUMERIC else self._kinds[kind_of(TYPES[column])](column)

    def _null(self, type_: IcebergType) -> Written:
        name = kind_of(type_)
        if isinstance(type_, DecimalType) or name in ("uuid", "fixed", "timestamp_ns", "timestamptz_ns") or self.rng.random() < 0.5:
            return alike("NULL", "NULL")
        return alike(f"CAST(NULL AS {NULL_TYPES.get(name, name.upper())})", "typed NULL")

    def _boolean(self, column: str) -> Written:
        rng, value = self.rng, self.rng.random() < 0.5
        words = ["true", "t", "TRUE", "yes", "y", "1", " True "] if value else ["false", "f", "no", "n", "0", "\tfalse"]
        word = sql_text(rng, rng.choice(words))
        texts = [str(value).upper(), str(value).lower(), word, f"CAST({word} AS BOOLEAN)", f"boolean({int(value)})"]
        return alike(rng.choice(texts), "boolean")

    def _number(self, column: str) -> Written:
        value = self._some_number(column)
        if isinstance(value, float) and not math.isfinite(value):
            return self._not_finite(value)
        return alike(*self._finite(Decimal(repr(value)) if isinstance(value, float) else Decimal(value), value))

    def _some_number(self, column: str) -> Any:
        """Of at most 38 digits, which is all a decimal has; now and then of more."""
        found = self._any_number(column)
        while isinstance(found, Decimal) and not fits(found) and self.rng.random() < 0.97:
            found = self._any_number(column)
        return found

    def _any_number(self, column: str) -> Any:
        rng = self.rng
        value = rng.choice(POOLS[rng.choice(NUMERIC)] if rng.random() < 0.25 else POOLS[column])
        chance = rng.random()
        if chance < 0.6 or (isinstance(value, float) and not math.isfinite(value)):
            return value
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        if chance < 0.7:
            return WIDE.add(exact, Decimal(rng.choice(["0.5", "-0.5", "0.4", "1", "-1", "0.0000000001", "0.49999999999999999999"])))
        if chance < 0.8:
            return decimal_of(rng.choice([1, -1, 5, 15]), rng.randrange(40))
        scale = max(-int(exact.as_tuple().exponent), 0)
        return WIDE.add(exact, decimal_of(rng.choice([1, -1, 5, -5]), min(scale + rng.randrange(2), 60)))

    def _not_finite(self, value: float) -> Written:
        rng = self.rng
        above, below = ["Infinity", "inf", "+inf", "INF"], ["-Infinity", "-inf", " -Inf"]
        word = f"'{rng.choice(['NaN', 'nan', ' NaN '] if math.isnan(value) else above if value > 0 else below)}'"
        shown = [word, f"double({word})", f"float({word})", f"CAST({word} AS DOUBLE)", f"CAST({word} AS FLOAT)"]
        if value == -math.inf:
            shown.append("-double('Infinity')")
        return alike(rng.choice(shown), "not finite")

    def _finite(self, exact: Decimal, value: Any) -> tuple[str, str]:
        """A number as SQL, and the form it has."""
        rng = self.rng
        plain, short = f"{exact:f}", repr(value) if isinstance(value, float) else f"{exact:f}"
        form = rng.choice(NUMBER_FORMS)
        if form in ("decimal", "sign") and not fits(exact):
            form = "plain"
        if form == "plain":
            return plain if "e" not in short and fits(exact) else f"{exact:e}", form
        if form == "decimal":
            return rng.choice([f"{plain}BD", f"{exact:e}BD", f"{plain}0BD" if "." in plain else f"{plain}.0", f"{plain}bd"]), form
        if form in ("double", "float"):
            return short + rng.choice("dD" if form == "double" else "fF"), form
        if form == "exponent":
            return f"{exact:e}", form
        if form == "text":
            shown = [short, plain, f" {plain} ", f"{exact:e}", f"+{plain}" if exact >= 0 else plain, f"{plain}d", f"{plain}\\t"]
            return f"'{rng.choice(shown)}'", form
        if form == "cast":
            return self._cast_number(exact, plain, short), form
        if form == "suffix":
            widths = ((8, "Yy"), (16, "Ss"), (64, "Ll"))
            fitting = "".join(words for bits, words in widths if -(2 ** (bits - 1)) <= int(exact) < 2 ** (bits - 1))
            return plain.partition(".")[0] + rng.choice(fitting or "L"), form
        if form == "function":
            names = ["double", "float", "string", *(["int", "bigint", "decimal"] if abs(exact) < 2**31 else [])]
            return f"{rng.choice(names + (['smallint', 'tinyint'] if abs(exact) < 128 else []))}({short})", form
        shown = rng.choice([f"- ({plain})", f"-{plain}" if exact >= 0 else f"- {plain}", f"+{plain}", f"-(-({plain}))"])
        is_rounded = "(" in shown and len(exact.as_tuple().digits) > NEGATED_DIGITS
        return shown, "rounded sign" if is_rounded else form

    def _cast_number(self, exact: Decimal, plain: str, short: str) -> str:
        """A cast that mostly fits."""
        rng = self.rng
        before = max(exact.adjusted() + 1, 0) if exact else 0
        targets = [f"DECIMAL({p}, {s})" for p, s in DECIMALS if p - s > before or rng.random() < 0.01]
        target = rng.choice([*targets, "DOUBLE", "FLOAT", "STRING", *(["INT", "BIGINT"] if abs(exact) < 2**31 else [])])
        is_cut = target in ("INT", "BIGINT") and ("." in plain or "e" in short)
        inner = f"{short}D" if is_cut else rng.choice([f"'{plain}'", f"'{short}'", f"{short}D"])
        return f"{rng.choice(['CAST', 'CAST', 'TRY_CAST'])}({inner} AS {target})"

    def _text(self, column: str) -> Written:
        rng, value = self.rng, self.rng.choice(TEXTS)
        chance = rng.random()
        if chance < 0.2 and value:
            value = value[: rng.randrange(len(value))] + rng.choice(["", "a", "\\", "\U0010ffff", "\x00"])
        if chance > 0.95:
            return alike(f"X'{value.encode('utf-8').hex()}'", "bytes as text")
        return alike(f"string({sql_text(rng, value)})" if chance > 0.9 else sql_text(rng, value), "text")

    def _bytes(self, column: str) -> Written:
        rng, value = self.rng, self.rng.choice([*POOLS[column], *BYTES])
        hexed = value.hex()
        shown = [f"X'{hexed}'", f'x"{hexed.upper()}"', f"X'{hexed[1:] if hexed.startswith('0') else hexed}'"]
        if value.isascii():
            text = sql_text(rng, value.decode())
            shown += [text, f"binary({text})", f"CAST({text} AS BINARY)"]
        return alike(rng.choice(shown), "bytes")

    def _date(self, column: str) -> Written:
        rng = self.rng
        text = iso_date(rng.choice(DATES) + rng.choice([0, 0, 0, 1, -1]))
        if rng.random() < 0.15:
            return self._instant(column)
        if rng.random() < 0.3:
            year, month, day = text.rsplit("-", 2)
            short = [f"{year}-{int(month)}-{int(day)}", year, f"{year}-{month}", text.lstrip("+")]
            text = rng.choice([*short, f"{text} 12:30", f"{text}T", f" {text} "])
        return alike(self._typed(f"'{text}'", "DATE"), "date")

    def _typed(self, quoted: str, kind: str) -> str:
        shown = [f"{kind} {quoted}", f"{kind}{quoted}", quoted, f"CAST({quoted} AS {kind})", f"TRY_CAST({quoted} AS {kind})"]
        if kind in ("DATE", "TIMESTAMP"):
            shown.append(f"{kind.lower()}({quoted})")
        return self.rng.choice(shown)

    def _time(self, column: str) -> Written:
        rng = self.rng
        text = iso_time(min(max(rng.choice(POOLS["t"]) + rng.choice([0, 0, 1, -1]), 0), 86_399_999_999))
        if rng.random() < 0.3:
            hour, minute, second = text.split(":")
            text = rng.choice([f"{int(hour)}:{int(minute)}:{second}", f"{hour}:{minute}", f"T{text}", f" {text} "])
        return alike(self._typed(f"'{text}'", "TIME"), "time")

    def _instant(self, column: str) -> Written:
        rng = self.rng
        micros = rng.choice(INSTANTS) + rng.choice([0, 0, 0, 1, -1, 3_600_000_000])
        text = iso_timestamp(rng.choice(IN_NEW_YORK) if rng.random() < 0.1 else micros, digits=rng.choice([0, 3, 6, 6]) or None)
        if rng.random() < 0.3:
            text = text.replace("T", " ")
        if rng.random() < 0.15 and "." in text:
            text += rng.choice(["0", "1", "9", "999", "5555"])
        if rng.random() < 0.15:
            day = text.split("T")[0].split(" ")[0]
            text = rng.choice([text.split(".")[0][:-3], text[:-6], day, text.lstrip("+"), f" {text} "])
        if rng.random() < 0.3:
            text += rng.choice(ZONES)
        return alike(
            self._typed(f"'{text}'", rng.choice(["TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIMESTAMP"])), "timestamp"
        )

    def _nanos(self, column: str) -> Written:
        """Ours a text with up to nine digits, Spark's a whole number."""
        rng = self.rng
        nanos = min(max(rng.choice(POOLS[column]) + rng.choice([0, 0, 0, 1, -1, 1000]), -(2**63)), 2**63 - 1)
        seconds, rest = divmod(nanos, 10**9)
        base = (dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)).strftime(f"%Y-%m-%d{rng.choice(' T')}%H:%M:%S")
        fraction = f"{rest:09d}".rstrip("0") if rng.random() < 0.5 else f"{rest:09d}"
        kind, zone = ("TIMESTAMP", rng.choice(["", "Z", "+00:00"])) if column == "tzns" else ("TIMESTAMP_NTZ", "")
        text = f"'{base}{'.' if fraction else ''}{fraction}{zone}'"
        return Written(rng.choice([text, text, f"{kind} {text}", f"CAST({text} AS {kind})"]), f"{nanos}L", "nanoseconds")

    def _uuid(self, column: str) -> Written:
        text = str(self.rng.choice(POOLS[column]))
        casts = [f"CAST('{shown}' AS {name})" for shown in (text, text.upper(), text.replace("-", "")) for name in ("uuid", "UUID")]
        return Written(self.rng.choice([f"'{text}'", f"'{text}'", f"'{text}'", *casts]), f"'{text}'", "uuid")
