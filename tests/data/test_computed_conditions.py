"""Conditions computed from rows, over Arrow columns: which rows are evaluated, and the errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from iceberg_ops.data.columns.row_filter import rows_where
from iceberg_ops.errors import DataError, NeedsSparkError, WhereError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.scalars.functions import FUNCTIONS
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import INT, STRING, NestedField

SCHEMA = Schema.of(NestedField(1, "a", INT), NestedField(2, "b", INT), NestedField(3, "s", STRING))
BATCH = pa.RecordBatch.from_arrays(
    [
        pa.array([1, 2, None, 4], pa.int32()),
        pa.array([0, 1, 2, None], pa.int32()),
        pa.array(["x", "Σ", None, "y"]).dictionary_encode(),
    ],
    names=["a", "b", "s"],
)


def kept(where: str, batch: pa.RecordBatch = BATCH) -> list[int]:
    return np.flatnonzero(rows_where(bind(SCHEMA, parse_where(where)), batch, SCHEMA)).tolist()


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("a + b > 2", [1]),
        ("NOT (a + b > 2)", [0]),
        ("(a + b > 2) IS NULL", [2, 3]),
        ("upper(coalesce(s, 'none')) = 'NONE' OR s = 'y'", [2, 3]),
        ("b <> 0 AND a / b > 1", [1]),
        ("b = 0 OR a / b > 1", [0, 1]),
        ("NOT (b = 0 OR a / b > 1)", []),
        ("s <> 'Σ' AND lower(s) = 'x'", [0]),
        ("upper('a') = 'A' AND a = 1", [0]),
        ("1 + 1 = 3 OR a = 1", [0]),
        ("NULL OR a + 0 = 1", [0]),
        ("b > 0 AND a / b > 1", [1]),
        ("a > 1 AND 1 / b = 1", [1]),
        ("nullif(b, 0) > 0 AND a / b > 1", [1]),
        ("(nullif(b, 0) > 0) = (a / b > 1)", [1]),
        ("a IS NULL AND s LIKE concat('\\\\', s)", []),
    ],
)
def test_rows_are_kept_for_which_the_condition_is_true(where: str, rows: list[int]) -> None:
    assert kept(where) == rows
    assert kept(where, pa.RecordBatch.from_pylist(BATCH.to_pylist(), BATCH.schema.set(2, pa.field("s", pa.string())))) == rows
    assert kept(where, BATCH.slice(0, 0)) == []


def test_an_error_of_a_row_says_the_condition_and_why() -> None:
    with pytest.raises(DataError, match="a / b > 1: division by zero"):
        kept("a / b > 1 AND b <> 0")


def test_a_value_of_which_only_spark_knows_is_left_to_spark_by_name() -> None:
    with pytest.raises(NeedsSparkError, match="lower case of 'Σ': run it with --lane spark"):
        kept("lower(s) = 'x'")


def test_values_of_a_dictionary_that_no_row_has_are_not_evaluated() -> None:
    batch = BATCH.filter(pa.array([True, False, True, True]))
    assert batch.column(2).dictionary.to_pylist() == ["x", "Σ", "y"]
    assert kept("lower(s) = 'x'", batch) == [0]


def test_a_condition_that_is_null_in_every_row_but_computed_is_sparks() -> None:
    with pytest.raises(WhereError, match="only Spark evaluates a condition of type unknown"):
        kept("CASE WHEN a = b THEN NULL END")


def test_a_computed_part_is_evaluated_for_the_rows_that_are_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    known = FUNCTIONS["upper"]

    def noted(text: str) -> str:
        seen.append(text)
        return text.upper()

    monkeypatch.setitem(FUNCTIONS, "upper", replace(known, evaluation=lambda arguments, result: noted))
    assert kept("a = 4 AND upper(s) = 'Y'") == [3]
    assert kept("NOT (a <> 4 OR upper(s) <> 'Y')") == [3]
    assert seen == ["y", "y"]
    assert kept("a = 4 OR upper(s) = 'X'") == [0, 3]
    assert seen[2:] == ["x", "Σ"]


def test_a_pattern_that_is_none_is_an_error_of_its_row() -> None:
    with pytest.raises(DataError, match="escape character"):
        kept("s LIKE concat('\\\\', s)")


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("CAST(s AS DATE) = DATE '2020-02-29'", [0]),
        ("NOT (CAST(s AS DATE) = '2020-02-29')", [2]),
        ("CAST(s AS DATE) IN ('2020-02-29', DATE '1969-12-31')", [0, 2]),
        ("CAST(s AS DATE) NOT IN (DATE '1969-12-31', DATE '1970-01-01')", [0]),
        ("CAST(s AS DATE) IS NULL", [1]),
        ("CAST(s AS DATE) IS NOT NULL", [0, 2]),
        ("CAST(s AS DATE) <=> DATE '1969-12-31'", [2]),
        ("year(s) = 2020", [0]),
        ("year(s) < 2000", [2]),
        ("CAST(s AS DATE) BETWEEN DATE '2020-01-01' AND DATE '2021-01-01'", [0]),
    ],
)
def test_a_text_is_cast_to_a_date_before_it_is_compared(where: str, rows: list[int]) -> None:
    texts = pa.RecordBatch.from_pydict({
        "a": pa.array([1, 2, 3], pa.int32()), "b": pa.array([1, 2, 3], pa.int32()), "s": ["2020-02-29", None, " 1969-12-31"],
    })  # fmt: skip
    assert kept(where, texts) == rows


def test_a_text_that_is_no_date_is_an_error_and_a_transform_takes_no_text() -> None:
    with pytest.raises(DataError, match="CAST"):
        kept("CAST(s AS DATE) = DATE '2020-02-29'")
    with pytest.raises(WhereError, match="transform day cannot take column 's'"):
        kept("system.days(s) = DATE '2020-02-29'")
