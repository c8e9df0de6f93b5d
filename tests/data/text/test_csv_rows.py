"""CSV records as typed columns."""

from __future__ import annotations

import itertools

import pytest

from iceberg_ops.data.sources.text.csv_records import CsvRecord
from iceberg_ops.data.sources.text.csv_rows import CsvShape, column_type, first_record, guessed_types, parse, wider_guess
from iceberg_ops.data.sources.text.text_options import csv_options
from iceberg_ops.spec.types import STRING

OPTIONS = csv_options({})
GUESSED = {
    "true": "boolean",
    "5": "int",
    "5000000000": "long",
    "-9007199254740993": "large",
    "12345678901234567890": "decimal(38, 0)",
    "1.0": "double",
    "1e25": "double",
    "9" * 39: "string",
    "2026-07-01": "date",
    "2026-07-01 08:30": "timestamptz",
    "2026-07-01 00:00:00": "timestamptz",
}
TOGETHER = {
    ("int", "long"): "long",
    ("int", "double"): "double",
    ("long", "double"): "double",
    ("int", "decimal(38, 0)"): "decimal(38, 0)",
    ("long", "decimal(38, 0)"): "decimal(38, 0)",
    ("int", "large"): "long",
    ("long", "large"): "long",
    ("large", "decimal(38, 0)"): "decimal(38, 0)",
    ("date", "timestamptz"): "timestamptz",
}


def guess(*texts: str) -> str:
    found = guessed_types([text.encode() for text in texts], 1, OPTIONS, skip=frozenset())
    return str(column_type(found[0]))


@pytest.mark.parametrize(("a", "b"), list(itertools.product([*GUESSED, "text"], repeat=2)))
def test_a_guessed_type_takes_all_values_in_any_order(a: str, b: str) -> None:
    one, other = GUESSED.get(a, "string"), GUESSED.get(b, "string")
    wanted = one if one == other else TOGETHER.get((one, other)) or TOGETHER.get((other, one)) or "string"
    wanted = {"large": "long"}.get(wanted, wanted)
    assert guess(a, b) == wanted
    parts = [guessed_types([text.encode()], 1, OPTIONS, skip=frozenset())[0] for text in (a, b)]
    assert str(column_type(wider_guess(*parts))) == wanted


def test_only_where_a_file_begins_a_byte_order_mark_is_no_text() -> None:
    shape = CsvShape(("a",), (STRING,), (0,), 1)
    assert parse([b"x", "\ufeffy".encode()], shape, OPTIONS).columns[0].to_pylist() == ["x", "\ufeffy"]
    whole = parse(["\ufeffx\n\ufeffy".encode()], shape, csv_options({"multiLine": "true"}))
    assert whole.columns[0].to_pylist() == ["x", "\ufeffy"]


def test_no_name_of_a_header_stands_for_null() -> None:
    options = {"nullValue": "id", "header": "true"}
    assert first_record(b"id,v", csv_options(options)) == CsvRecord(["id", "v"], "id,v")
    assert first_record(b"id,v", csv_options({"nullValue": "id", "header": "false"})) == CsvRecord([None, "v"], "id,v")
