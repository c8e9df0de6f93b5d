"""Reader options: patterns of dates and timestamps, and options that would change the meaning of values."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest

from iceberg_ops.data.sources.text.csv_rows import CsvShape, parse
from iceberg_ops.data.sources.text.text_options import csv_options, json_options
from iceberg_ops.errors import OptionError
from iceberg_ops.spec.types import DATE, TIMESTAMP, TIMESTAMPTZ, IcebergType

READ: list[tuple[IcebergType, str, str, Any]] = [
    (DATE, "dd.MM.yyyy", "01.07.2026", date(2026, 7, 1)),
    (DATE, "d.M.y", "1.7.2026", date(2026, 7, 1)),
    (DATE, "yyyyMMdd", "20260701", date(2026, 7, 1)),
    (DATE, "yyyy-MM-dd HH:mm", "2026-07-01 00:00", date(2026, 7, 1)),
    (DATE, "yyyy-MM-dd HH:mm", "2026-07-01 13:00", None),
    (DATE, "yyyy-MM-dd", "12026-07-01", None),
    (DATE, "yyyy-MM-dd", "+9999999-01-01", None),
    (DATE, "y-MM-dd", "9999999-01-01", None),
    (DATE, "yyyyMd", "2026111", None),
    (TIMESTAMP, "yyyyMMdd[HH]", "2026070115", datetime(2026, 7, 1, 15)),
    (TIMESTAMP, "yyyyMMdd[HH]", "20260701", datetime(2026, 7, 1)),
    (TIMESTAMP, "yyyyMMddHHmmssSSS", "20260701083000123", datetime(2026, 7, 1, 8, 30, 0, 123000)),
    (TIMESTAMP, "yyyy-MM-dd HH:mm:ss.S", "2026-07-01 00:00:00.123456000", datetime(2026, 7, 1, 0, 0, 0, 123456)),
    (TIMESTAMP, "yyyy-MM-dd HH:mm:ss.S", "2026-07-01 00:00:00.123456000009", None),
]


def read(type_: IcebergType, text: str, **options: str) -> Any:
    parsed = parse([text.encode()], CsvShape(("a",), (type_,), (0,), 1), csv_options(options))
    value = parsed.columns[0].to_pylist()[0]
    assert (value is None) == (0 in parsed.bad)
    return value


@pytest.mark.parametrize(("type_", "pattern", "text", "value"), READ)
def test_a_pattern_reads_what_it_says_and_cuts_nothing(type_: IcebergType, pattern: str, text: str, value: Any) -> None:
    option = "dateFormat" if type_ == DATE else "timestampFormat"
    assert read(type_, text, **{option: pattern}) == value


def test_timestamps_with_and_without_a_zone_have_a_pattern_each() -> None:
    both = {"timestampFormat": "MM/dd/yyyy", "timestampNTZFormat": "dd/MM/yyyy"}
    assert read(TIMESTAMP, "02/01/2026", **both) == datetime(2026, 1, 2)
    assert read(TIMESTAMPTZ, "02/01/2026", **both).replace(tzinfo=None) == datetime(2026, 2, 1)
    assert read(TIMESTAMP, "02/01/2026", timestampFormat="MM/dd/yyyy") == datetime(2026, 2, 1)
    assert read(TIMESTAMPTZ, "02/01/2026", timestampNTZFormat="dd/MM/yyyy") is None


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("timeZone", "Europe/Berlin", "UTC"),
        ("timezone", "+02:00", "+00:00"),
        ("locale", "de-DE", "en-US"),
        ("encoding", "base64", "windows-1252"),
        ("charset", "undefined", "UTF-16"),
        ("lineSep", ";", None),
    ],
)
def test_an_option_that_would_change_values_is_refused(option: str, value: str, allowed: str | None) -> None:
    for parse_options in (csv_options, json_options):
        with pytest.raises(OptionError, match=f"source option '?{option if option != 'charset' else 'encoding'}"):
            parse_options({option: value})
        if allowed is not None:
            parse_options({option: allowed})
