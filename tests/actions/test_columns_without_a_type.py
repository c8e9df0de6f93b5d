"""A Parquet column without any value may have the type ``null``, if the writing program does not know its type.

Such a column is read as NULLs, whatever type the table's column has.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.config.job_spec import MergeClause, RowChange
from iceberg_ops.errors import NeedsSparkError
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    VARIANT,
    DecimalType,
    FixedType,
    GeometryType,
    MapType,
    NestedField,
    StructType,
    list_of,
)
from tests.actions.rows_place import RowsPlace

PLAIN = (STRING, INT, BINARY, BOOLEAN, DATE, TIME, TIMESTAMPTZ, UUID, DecimalType(9, 2), FixedType(4))
NESTED = (
    list_of(20, INT),
    StructType((NestedField(30, "x", INT),)),
    MapType(NestedField(40, "key", STRING, required=True), NestedField(41, "value", INT)),
)
OF_V3 = (TIMESTAMP_NS, VARIANT, GeometryType())
SCHEMA = Schema.of(
    NestedField(1, "id", LONG, required=True), *(NestedField(n, f"c{n}", t) for n, t in enumerate((*PLAIN, *NESTED, *OF_V3), 2))
)
EMPTY = {f.name: None for f in SCHEMA.fields}
WITHOUT_TYPE = pa.schema([("id", pa.int64()), *((f.name, pa.null()) for f in SCHEMA.fields[1:])])
ALL = RowChange(
    mode="copy-on-write",
    on="target.id = source.id",
    clauses=[MergeClause(when="matched", action="update"), MergeClause(when="not-matched", action="insert")],
)
JOBS: dict[str, dict[str, Any]] = {
    "append": {},
    "overwrite": {},
    "upsert": {"options": {"upsert-keys": "id"}},
    "merge": {"change": ALL},
}


@pytest.mark.parametrize("job", JOBS)
def test_a_column_without_a_type_is_null_in_a_column_of_any_type(place: RowsPlace, job: str) -> None:
    place.create(SCHEMA, format__version="3")
    place.run(job, source=place.source([{"id": 1}, {"id": 2}], WITHOUT_TYPE), **JOBS[job])
    assert sorted(place.rows(), key=lambda r: r["id"]) == [EMPTY | {"id": 1}, EMPTY | {"id": 2}]


@pytest.mark.parametrize("job", JOBS)
def test_so_are_the_parts_of_a_list_a_struct_and_a_map(place: RowsPlace, job: str) -> None:
    schema = Schema.of(SCHEMA.fields[0], *(NestedField(n, f"c{n}", t) for n, t in enumerate(NESTED, 2)))
    place.create(schema)
    stored = pa.schema(
        [
            ("id", pa.int64()),
            ("c2", pa.list_(pa.null())),
            ("c3", pa.struct([("x", pa.null())])),
            ("c4", pa.map_(pa.string(), pa.null())),
        ]
    )
    row = {"id": 1, "c2": [None], "c3": {"x": None}, "c4": [("k", None)]}
    place.run(job, source=place.source([row], stored), **JOBS[job])
    assert place.rows() == [row]


@pytest.mark.parametrize("job", JOBS)
def test_a_required_column_is_not_without_a_type(place: RowsPlace, job: str) -> None:
    place.create(Schema.of(SCHEMA.fields[0], NestedField(2, "c", STRING, required=True)))
    source = place.source([{"id": 1, "c": None}], pa.schema([("id", pa.int64()), ("c", pa.null())]))
    with pytest.raises(Exception, match=r"'?c'?\b.*(null|no value)|required column c") as e:
        place.run(job, source=source, **JOBS[job])
    assert getattr(e.value, "code", "") in ("UNSUPPORTED", "BAD_DATA")
    assert place.rows() == []


def test_a_partition_and_a_key_without_a_type_are_null(place: RowsPlace) -> None:
    schema = Schema.of(NestedField(1, "id", LONG), NestedField(2, "c", STRING))
    place.create(schema, PartitionSpec(1, (PartitionField((2,), 1000, IDENTITY, "c"),)))
    typed, without = pa.schema([("id", pa.int64()), ("c", pa.string())]), pa.schema([("id", pa.int64()), ("c", pa.null())])
    place.run("append", source=place.source([{"id": 1, "c": None}, {"id": 1, "c": "x"}, {"id": 2, "c": None}], typed))
    deletes = {"options": {"upsert-keys": "id,c", "delete-when": "c IS NULL"}}
    report = place.run("upsert", source=place.source([{"id": 1, "c": None}], without), **deletes)
    assert (report.metrics["upserted-keys"], report.metrics["added-records"]) == (1, 0)
    assert sorted((r["id"], r["c"]) for r in place.rows()) == [(1, "x"), (2, None)]


def test_a_comparison_with_another_type_is_sparks(place: RowsPlace) -> None:
    place.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, "c", STRING)))
    source = place.source([{"id": 1}], pa.schema([("id", pa.int64()), ("c", pa.null())]))
    on = RowChange(mode="copy-on-write", on="target.c = source.c", clauses=[MergeClause(when="not-matched", action="insert")])
    with pytest.raises(NeedsSparkError, match="types string and unknown"):
        place.run("merge", source=source, change=on)
