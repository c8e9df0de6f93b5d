"""Parquet files that an import takes unchanged are read by Iceberg Java with the same rows, whatever form their values have."""

from __future__ import annotations

import itertools
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.fresh_ids import with_fresh_ids
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
    IcebergType,
    NestedField,
    StructType,
    child_fields,
    list_of,
)
from tests.interop.lake import Lake

pytestmark = [pytest.mark.oracle, pytest.mark.java]

WHOLE = (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.int64())
PRICES = (DecimalType(9, 2), DecimalType(18, 2), DecimalType(38, 2))
STAMPS = (pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"))


def struct_of(type_: IcebergType) -> StructType:
    return StructType((NestedField(3, "v", type_),))


def forms() -> list[tuple[IcebergType, pa.Array]]:
    """Columns of the table, and what files have for them: each value twice, so that it may be in a dictionary."""
    wholes = [(wanted, pa.array([1, 1, 100, 100], form)) for wanted, kinds in ((INT, WHOLE[:-2]), (LONG, WHOLE)) for form in kinds]
    prices = [
        (wanted, pa.array([Decimal("1.25"), Decimal("1.25"), Decimal("-2.50"), None], pa.decimal128(digits, 2)))
        for wanted in PRICES for digits in (7, 9, 18, 20, 38) if digits <= wanted.precision
    ]  # fmt: skip
    stamps = [(TIMESTAMP, pa.array([0, 0, -(10**4), None], form)) for form in STAMPS]
    stamps += [(TIMESTAMPTZ, column.cast(pa.timestamp(form.unit, "UTC"))) for (_, column), form in zip(stamps, STAMPS, strict=True)]
    others = [
        (FLOAT, pa.array([1.5, 1.5, -2.0, None], pa.float32())),
        (FLOAT, pa.array([1.5, 1.5, -2.0, None], pa.float32()).cast(pa.float16())),
        (DOUBLE, pa.array([1.5, 1.5, -2.0, None], pa.float32())),
        (DATE, pa.array([0, 0, -1, None], pa.date32())),
        (BOOLEAN, pa.array([True, True, False, None])),
        (BINARY, pa.array([b"\xff", b"\xff", b"", None])),
        (STRING, pa.array(["a", "a", "é", None], pa.large_string())),
        (STRING, pa.array(["a", "a", "é", None]).dictionary_encode()),
    ]
    plain: list[tuple[IcebergType, pa.Array]] = [*wholes, *prices, *stamps, *others]
    inside = [column for column in plain if column[0] in (LONG, TIMESTAMP, FLOAT)]
    plain += [(struct_of(wanted), pa.StructArray.from_arrays([column], ["v"])) for wanted, column in inside]
    plain += [(list_of(3, wanted), pa.ListArray.from_arrays([0, 1, 1, 2, 4], column)) for wanted, column in inside]
    return plain


def is_taken(lake: Lake, folder: Path, type_: IcebergType, column: pa.Array, written: dict[str, Any]) -> bool:
    """Whether an import takes a file with that column: what it refuses here is what Iceberg Java misreads."""
    folder.mkdir()
    # In a catalog of its own: an import looks at all tables of a catalog.
    catalog = SqlCatalog("own", f"sqlite:///{folder}/catalog.db", lake.catalog.io, warehouse=f"{folder}/warehouse")
    catalog.create_namespace(("ns",))
    own = replace(lake, catalog=catalog)
    own.create(Schema.of(NestedField(1, "c", type_)))
    (folder / "files").mkdir()
    pq.write_table(pa.table({"c": column}), folder / "files" / "a.parquet", **written)
    try:
        own.maintain("add_files", source_path=folder / "files")
    except SchemaError as e:
        assert "Iceberg Java, and Spark with it" in str(e)  # noqa: PT017
        return False
    return True


@pytest.mark.parametrize(
    ("written", "refused"),
    [({}, 20), ({"use_dictionary": False}, 16), ({"use_deprecated_int96_timestamps": True, "store_decimal_as_integer": True}, 16)],
)
def test_what_is_imported_is_read_by_java(lake: Lake, tmp_path: Path, written: dict[str, Any], refused: int) -> None:
    all_ = list(enumerate(forms()))
    taken = [(f"c{n}", *form) for n, form in all_ if is_taken(lake, tmp_path / f"{n}", *form, written)]
    assert len(taken) == len(all_) - refused
    # Spark reads a table without nested columns in batches, and others row by row.
    for kind in (False, True):
        columns = [c for c in taken if c[1].is_nested == kind]
        own = replace(lake, name=f"{lake.name}_{kind}")
        fields = StructType(tuple(NestedField(0, name, type_) for name, type_, _ in columns))
        ids = itertools.count(1)
        own.create(Schema.of(*child_fields(with_fresh_ids(fields, ids.__next__))))
        (tmp_path / str(kind)).mkdir()
        pq.write_table(pa.table({name: column for name, _, column in columns}), tmp_path / str(kind) / "a.parquet", **written)
        own.maintain("add_files", source_path=tmp_path / str(kind))
        own.agree(4)
