"""Spark 4.1's answers to some three hundred WHERE texts over seven rows of edge cases, and ours.

``spark_answers.json`` holds the rows as SQL, and for each text the ids of the rows Spark kept, or its error class (ANSI mode,
session time zone UTC). This package keeps the same rows or refuses with WhereError; if Spark fails it refuses too, except for the
listed texts, which it reads as their author must have meant them.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.evaluators import row_filter
from iceberg_ops.expressions.json import expression_from_json, expression_to_json
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    DecimalType,
    NestedField,
    StructType,
)
from iceberg_ops.spec.values import float32

RECORDED = json.loads(Path(__file__).with_name("spark_answers.json").read_text("utf-8"))
ANSWERS: dict[str, Any] = RECORDED["answers"]
TYPES = {
    "id": INT, "flag": BOOLEAN, "i": INT, "l": LONG, "f": FLOAT, "d": DOUBLE, "dec": DecimalType(precision=9, scale=2), "day": DATE,
    "ntz": TIMESTAMP, "ts": TIMESTAMPTZ, "s": STRING, "bin": BINARY,
    "inner": StructType((NestedField(20, "x", INT), NestedField(21, "y z", STRING))),
}  # fmt: skip
SCHEMA = Schema.of(*(NestedField(i, name, type_) for i, (name, type_) in enumerate(TYPES.items(), 1)))
DAY, HOUR, NEW_YEAR, LEAP_DAY = 86_400_000_000, 3_600_000_000, 18262, 19782
NOON = LEAP_DAY * DAY + 12 * HOUR + 34 * 60_000_000 + 56_789_000
JUNE, SECOND = 18428 * DAY + 10 * HOUR, (NEW_YEAR + 1) * DAY
MORNING = SECOND + 3 * HOUR + 4 * 60_000_000 + 5_000_000
ROWS: list[tuple[Any, ...]] = [
    (0, *[None] * 12),
    (1, True, 1, 2**53, float32(0.1), 0.1, Decimal("1.10"), NEW_YEAR, NEW_YEAR * DAY, NEW_YEAR * DAY, "abc", b"a", (1, "q")),
    (2, False, 2, 2**53 + 1, math.nan, math.nan, Decimal("0.10"), -1, -1, NEW_YEAR * DAY + 12 * HOUR, "a%c", b"", (None, "a")),
    (3, True, -1, -5, -0.0, -0.0, Decimal("-1.00"), NEW_YEAR - 1, JUNE, NEW_YEAR * DAY - HOUR, "", b"\xff\x00", None),
    (4, False, 0, 0, 0.0, 0.0, Decimal("0.00"), 0, 0, 0, "ABC", b"ab", (0, None)),
    (5, None, 2**31 - 1, 2**63 - 1, math.inf, math.inf, Decimal("9999999.99"), LEAP_DAY, NOON, NOON, "5", b"z", (7, "it's")),
    (6, True, -(2**31), -(2**63), 2.0**24, 1e300, Decimal("-9999999.99"), NEW_YEAR + 1, SECOND, MORNING, "true", b"abc", (3, "")),
]  # fmt: skip


# A filter reads one table; Spark would hold FALSE what is unknown for NULL.
REFUSED = {"i = (SELECT 1)", "l >= 9223372036854775808"}
# Spark asks for a cast; what it means is not in doubt.
ACCEPTED: dict[str, list[int]] = {"NULL": []}


def ours(text: str) -> list[int]:
    keeps = row_filter(bind(SCHEMA, parse_where(text)))
    return [row[0] for row in ROWS if keeps(row)]


@pytest.mark.parametrize("text", [t for t, answer in ANSWERS.items() if isinstance(answer, list)])
def test_a_where_keeps_the_rows_that_spark_keeps(text: str) -> None:
    if text in REFUSED:
        with pytest.raises(WhereError):
            ours(text)
    else:
        assert ours(text) == ANSWERS[text]


@pytest.mark.parametrize("text", [t for t, answer in ANSWERS.items() if isinstance(answer, str)])
def test_a_where_that_spark_refuses_is_refused(text: str) -> None:
    if text in ACCEPTED:
        assert ours(text) == ACCEPTED[text]
    else:
        with pytest.raises(WhereError):
            ours(text)


@pytest.mark.parametrize("text", [t for t, answer in ANSWERS.items() if isinstance(answer, list)])
def test_a_bound_where_survives_json(text: str) -> None:
    if text not in REFUSED:
        bound = bind(SCHEMA, parse_where(text))
        assert bind(SCHEMA, expression_from_json(json.loads(json.dumps(expression_to_json(bound))))) == bound
