"""Every cause of a bad record, at every level: it fails the job by column, file and row, or is diverted with its reason."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.config.job_spec import Source
from iceberg_ops.errors import DataError, SchemaError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    BINARY,
    DATE,
    INT,
    LONG,
    STRING,
    UUID,
    DecimalType,
    FixedType,
    ListType,
    MapType,
    NestedField,
    StructType,
)
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

POINT = StructType((NestedField(11, "x", INT, required=True), NestedField(12, "y", STRING)))
LINE = ListType(NestedField(21, "element", POINT, required=True))
COUNTS = MapType(NestedField(31, "key", STRING, required=True), NestedField(32, "value", INT, required=True))
POINTS = pa.struct([("x", pa.int64()), ("y", pa.string())])
HUGE = 2**40

# Type of the column, type in the source, a good value, and bad ones with what is said of each.
CASES: dict[str, tuple[Any, pa.DataType, Any, dict[str, Any]]] = {
    "int": (INT, pa.int64(), 7, {"column 'v': 1099511627776 does not fit int": HUGE}),
    "decimal": (
        DecimalType(5, 2),
        pa.decimal128(9, 2),
        Decimal("1.25"),
        {"'v': 12345.67 does not fit decimal": Decimal("12345.67")},
    ),
    "uuid": (UUID, pa.string(), "0f8fad5b-d9cb-469f-a165-70867728950e", {"'v': no-uuid does not fit uuid": "no-uuid"}),
    "fixed": (FixedType(2), pa.binary(), b"ab", {r"'v': FF0000 does not fit fixed\[2\]": b"\xff\0\0"}),
    "struct": (
        POINT,
        POINTS,
        {"x": 1, "y": None},
        {
            "'v.x': 1099511627776 does not fit int": {"x": HUGE, "y": "a"},
            "'v.x' is required and has no value": {"x": None, "y": "a"},
        },
    ),
    "struct-of-the-same-type": (
        POINT,
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
        {"x": 1, "y": None},
        {"'v.x' is required and has no value": {"x": None, "y": "a"}},
    ),
    "list": (
        LINE,
        pa.list_(POINTS),
        [{"x": 1, "y": "a"}],
        {
            "'v.element' is required and has no value": [{"x": 1, "y": "a"}, None],
            "'v.element.x': 1099511627776 does not fit int": [{"x": 1, "y": "a"}, {"x": HUGE, "y": "a"}],
            "'v.element.x' is required and has no value": [{"x": None, "y": "a"}],
        },
    ),
    "map": (
        COUNTS,
        pa.map_(pa.string(), pa.int64()),
        [("a", 1)],
        {"'v.value' is required": [("a", None)], "'v.value': 1099511627776 does not fit": [("b", 1), ("a", HUGE)]},
    ),
    "map-keys": (
        MapType(NestedField(31, "key", INT, required=True), NestedField(32, "value", STRING)),
        pa.map_(pa.int64(), pa.string()),
        [(1, "a"), (2, None)],
        {"'v.key': 1099511627776 does not fit int": [(1, "a"), (HUGE, "b")]},
    ),
}


def source_of(place: Place, stored: pa.DataType, values: list[Any]) -> Source:
    rows = pa.table({"id": pa.array(range(len(values)), pa.int64()), "v": pa.array(values, stored)})
    pq.write_table(rows, place.folder / "in.parquet")
    return Source(format="parquet", paths=[str(place.folder / "in.parquet")])


def to_quarantine(place: Place) -> dict[str, str]:
    return {"bad-records": "quarantine", "quarantine-path": str(place.folder / "quarantine")}


def quarantined(place: Place) -> list[dict[str, Any]]:
    files = sorted(p for p in (place.folder / "quarantine").rglob("*") if p.is_file())
    return [json.loads(line) for p in files for line in p.read_text().splitlines()]


@pytest.mark.parametrize("name", CASES)
def test_what_does_not_fit_is_named_and_diverted_at_any_level(place: Place, name: str) -> None:
    wanted, stored, good, bad = CASES[name]
    place.create("t", Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", wanted)))
    source = source_of(place, stored, [good, *bad.values(), None])
    first = next(iter(bad))
    with pytest.raises(DataError, match=rf"in\.parquet, row 1: column .*{first.removeprefix('column ')}") as failed:
        place.run("append", "t", source=source)
    assert "\n" not in str(failed.value)
    assert not [f for f in place.files_on_disk("t") if f.startswith("data/")]
    report = place.run("append", "t", source=source, options=to_quarantine(place))
    assert [r["id"] for r in place.rows("t")] == [0, len(bad) + 1]
    assert report.metrics["quarantined-records"] == len(bad)
    found = quarantined(place)
    assert [r["row"] for r in found] == list(range(1, len(bad) + 1))
    for record, says in zip(found, bad, strict=True):
        assert re.search(says, record["reason"]), record


def test_a_required_field_that_the_source_s_struct_lacks_is_refused_at_once(place: Place) -> None:
    place.create("t", Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", POINT)))
    with pytest.raises(SchemaError, match=r"required column 'v\.x' is not in the source"):
        place.run("append", "t", source=source_of(place, pa.struct([("y", pa.string())]), [{"y": "a"}]))


TEXT = Schema.of(
    NestedField(1, "id", LONG, required=True),
    NestedField(2, "small", INT),
    NestedField(3, "day", DATE),
    NestedField(4, "price", DecimalType(5, 2)),
    NestedField(5, "raw", BINARY),
    NestedField(6, "point", POINT),
)
BAD_JSON = [
    '{"id": 1, "small": 99999999999}',
    '{"id": 2, "small": 1.5}',
    '{"id": 3, "small": "x"}',
    '{"id": 4, "day": "2024-02-30"}',
    '{"id": 5, "price": 123456.78}',
    '{"id": 6, "point": {"x": null, "y": "a"}}',
    '{"id": 7, "point": {"x": 99999999999}}',
    '{"id": 8, "point": 5}',
    '{"small": 1}',
    '{"id": 10, ',
    "nonsense",
    '{"id": "12"}x',
]
BAD_CSV = [
    "1,99999999999,,",
    "2,1.5,,",
    "3,x,,",
    "4,,2024-02-30,",
    "5,,,123456.78",
    ",1,,",
    "7,1,2024-01-01,1.5,too,many",
    "8,1",
    "abc,1,,",
]


@pytest.mark.parametrize("form", ["json", "csv"])
def test_every_malformed_text_record_is_diverted(place: Place, form: Any) -> None:
    columns = [f.name for f in TEXT.fields][: 6 if form == "json" else 4]
    place.create("t", TEXT.select(columns))
    good = ['{"id": 90, "small": 5, "day": "2024-01-02", "price": 1.25, "point": {"x": 1}}', '{"id": 91}'] if form == "json" else [
        "90,5,2024-01-02,1.25", "91,,,"
    ]  # fmt: skip
    bad = BAD_JSON if form == "json" else BAD_CSV
    header = [",".join(columns)] if form == "csv" else []
    (place.folder / "in.txt").write_text("\n".join([*header, good[0], *bad, good[1]]) + "\n")
    source = Source(format=form, paths=[str(place.folder / "in.txt")], options={"header": "true"} if form == "csv" else {})
    with pytest.raises(DataError, match=r"in\.txt") as failed:
        place.run("append", "t", source=source)
    assert "\n" not in str(failed.value)
    report = place.run("append", "t", source=source, options=to_quarantine(place))
    assert [r["id"] for r in place.rows("t")] == [90, 91]
    found = quarantined(place)
    assert (report.metrics["quarantined-records"], len(found)) == (len(bad), len(bad)), found
    assert all(r["reason"] and r["file"].endswith("in.txt") for r in found)
