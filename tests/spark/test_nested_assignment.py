"""SET of fields inside structs: no assigned value is lost, and unassigned fields stay, as in Spark SQL."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.config.job_spec import MergeClause, RowChange
from iceberg_ops.errors import OptionError, SchemaError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import INT, LONG, STRING, ListType, NestedField, StructType
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

INNER = StructType((NestedField(5, "deep", INT),))
OUTER = StructType((NestedField(3, "x", INT), NestedField(4, "inner", INNER), NestedField(6, "name", STRING)))
SCHEMA = Schema.of(
    NestedField(1, "id", LONG, True),
    NestedField(2, "place", OUTER),
    NestedField(7, "many", ListType(NestedField(8, "element", StructType((NestedField(9, "y", INT),))))),
)
WHOLE = {"x": 1, "inner": {"deep": 2}, "name": "Oslo"}
PLACES = {1: WHOLE, 2: WHOLE | {"inner": None}, 3: None}
SETS: dict[str, tuple[dict[str, str], list[dict[str, Any]]]] = {
    "one": ({"place.x": "7"}, [WHOLE | {"x": 7}, WHOLE | {"x": 7, "inner": None}, {"x": 7, "inner": None, "name": None}]),
    "deep": (
        {"place.inner.deep": "id + 1"},
        [WHOLE, WHOLE | {"inner": {"deep": 3}}, {"x": None, "inner": {"deep": 4}, "name": None}],
    ),
    "two": (
        {"place.NAME": "'Rome'", "place.inner": "NULL"},
        [*[{"x": 1, "inner": None, "name": "Rome"}] * 2, {"x": None, "inner": None, "name": "Rome"}],
    ),
}  # fmt: skip


@pytest.fixture
def filled(place: Place) -> Place:
    place.create("t", SCHEMA)
    rows = [{"id": i, "place": value, "many": [{"y": i}]} for i, value in PLACES.items()]
    place.fill("t", pa.Table.from_pylist(rows, schema=_arrow()))
    return place


def _arrow() -> pa.Schema:
    inner = pa.struct([("deep", pa.int32())])
    outer = pa.struct([("x", pa.int32()), ("inner", inner), ("name", pa.string())])
    return pa.schema([("id", pa.int64()), ("place", outer), ("many", pa.list_(pa.struct([("y", pa.int32())])))])


@pytest.mark.parametrize("job", ["update", "merge"])
@pytest.mark.parametrize("case", SETS)
def test_a_field_is_set_also_where_its_struct_is_null(filled: Place, case: str, job: str) -> None:
    assigned, expected = SETS[case]
    if job == "update":
        filled.run("update", "t", change=RowChange(mode="merge-on-read", set=assigned))
    else:
        clause = MergeClause(
            when="matched", action="update", assignments={k: v.replace("id", "target.id") for k, v in assigned.items()}
        )
        source = filled.parquet(pa.table({"id": [1, 2, 3]}))
        filled.merge("t", source, "target.id = source.id", [clause], "merge-on-read")
    assert [row["place"] for row in filled.rows("t")] == expected


@pytest.mark.parametrize(
    ("assigned", "says"),
    [
        ({"place": "NULL", "place.x": "1"}, "'place' twice"),
        ({"place.inner.deep": "1", "place.inner": "NULL"}, "'place.inner' twice"),
        ({"place.x": "1", "place.X": "2"}, "'place.x' twice"),
        ({"many.element.y": "1"}, "'many', which is not a struct"),
        ({"place.x": "'far'"}, "place"),
    ],
)
def test_an_assignment_that_can_not_be_is_one_line(filled: Place, assigned: dict[str, str], says: str) -> None:
    with pytest.raises((OptionError, SchemaError), match=says) as raised:
        filled.run("update", "t", change=RowChange(mode="merge-on-read", set=assigned))
    assert "\n" not in str(raised.value)
    assert [row["place"] for row in filled.rows("t")] == list(PLACES.values())
