"""A MERGE's INSERT that omits a column stores its write default, and DEFAULT means the same, as in Spark's own SQL."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.config.job_spec import MergeClause, RowChange
from iceberg_ops.errors import OptionError, SchemaError
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
    UUID,
    DecimalType,
    FixedType,
    IcebergType,
    ListType,
    NestedField,
    StructType,
)  # fmt: skip
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

DEFAULTS: dict[str, tuple[IcebergType, Any]] = {
    "boolean": (BOOLEAN, True),
    "int": (INT, -5),
    "long": (LONG, 2**62 + 1),
    "float": (FLOAT, 2.0**127),
    "double": (DOUBLE, 0.1),
    "decimal": (DecimalType(9, 2), Decimal("-3.25")),
    "date": (DATE, -1),
    "timestamp": (TIMESTAMP, 1_700_000_000_123_456),
    "timestamptz": (TIMESTAMPTZ, -1),
    "string": (STRING, "O'Hare"),
    "uuid": (UUID, uuid.UUID(int=7)),
    "fixed": (FixedType(2), b"\x00\xff"),
    "binary": (BINARY, b"\xfe\x01"),
}
SCHEMA = Schema.of(
    NestedField(1, "id", LONG, True),
    *[NestedField(2 + i, name, kind, write_default=value) for i, (name, (kind, value)) in enumerate(DEFAULTS.items())],
    NestedField(30, "none", INT),
)
IDS = pa.table({"id": [1]})


def _insert(place: Place, **assigned: str) -> None:
    clause = MergeClause(when="not-matched", action="insert", assignments={"id": "source.id", **assigned})
    place.merge("t", place.parquet(IDS, "ids.parquet"), "target.id = source.id", [clause], "copy-on-write")


def test_every_type_s_default_is_what_an_append_stores(place: Place) -> None:
    for name in ("t", "appended"):
        place.create(name, SCHEMA, format__version="3")
    _insert(place)
    place.append("appended", IDS)
    assert place.rows("t") == place.rows("appended")
    assert place.rows("t")[0]["string"] == "O'Hare"
    assert place.rows("t")[0]["none"] is None


def test_default_is_a_word_of_its_own(place: Place) -> None:
    place.create("t", SCHEMA, format__version="3")
    _insert(place, int="1", string="Default", none="DEFAULT", double="NULL")
    (row,) = place.rows("t")
    assert (row["int"], row["string"], row["none"], row["double"]) == (1, "O'Hare", None, None)
    place.run("update", "t", change=RowChange(set={"int": " default ", "none": "7", "double": "double"}))
    (row,) = place.rows("t")
    assert (row["int"], row["none"], row["double"]) == (-5, 7, None)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("kind", [FLOAT, DOUBLE])
def test_a_default_that_has_no_form_in_json_is_refused(place: Place, kind: IcebergType, value: float) -> None:
    schema = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "v", kind, write_default=value))
    with pytest.raises(SchemaError, match=r"column 'v': write-default .* has no form in JSON"):
        place.create("t", schema, format__version="3")


def test_a_default_of_a_list_is_refused_by_name(place: Place) -> None:
    many = NestedField(2, "many", ListType(NestedField(3, "element", INT)), write_default=[1])
    place.create("t", Schema.of(NestedField(1, "id", LONG, True), many), format__version="3")
    with pytest.raises(OptionError, match="write default of 'many'"):
        _insert(place)
    _insert(place, many="array(2)")
    assert place.rows("t") == [{"id": 1, "many": [2]}]


PLACE = StructType(
    (NestedField(4, "a", INT, write_default=7), NestedField(5, "b", STRING, True, write_default="x"), NestedField(6, "c", INT))
)
OF_PLACE = Schema.of(NestedField(1, "id", LONG), NestedField(2, "s", PLACE, write_default=(None, None, None)))
"""The write default of ``s`` is ``{}``: those of its fields."""


def test_a_struct_s_default_is_those_of_its_fields(place: Place) -> None:
    place.create("t", OF_PLACE, format__version="3")
    _insert(place)
    place.append("t", pa.table({"id": [2]}), lane="spark")
    assert [row["s"] for row in place.rows("t")] == [{"a": 7, "b": "x", "c": None}] * 2


def test_a_field_of_a_struct_that_the_source_lacks_is_its_write_default(place: Place) -> None:
    place.create("t", OF_PLACE, format__version="3")
    place.append("t", pa.table({"id": [1, 2], "s": [{"c": 9}, None]}), lane="spark")
    assert [row["s"] for row in place.rows("t")] == [{"a": 7, "b": "x", "c": 9}, None]
