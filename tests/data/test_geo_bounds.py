"""Bounds of geometry and geography columns (MANIFEST-60): the box of all coordinates, or none if a bound might be wrong."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.data.arrow.arrow_schema import stored_schema
from iceberg_ops.data.columns.geo_bounds import BoundingBox
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import GeographyType, GeometryType, ListType, NestedField
from iceberg_ops.spec.values import geo_bound_from_bytes
from tests.data.files import new_io, write, write_context
from tests.spec.test_wkb import n, wkb

NAN = math.nan
GEOMETRY, GEOGRAPHY = GeometryType(), GeographyType()
LINE = wkb(2, n(2), 1, 9, 5, -3)
Corner = tuple[float, float, float | None, float | None]


def _bounds(type_: Any, *values: bytes | None, properties: dict[str, str] | None = None) -> tuple[Corner, Corner] | None:
    schema = Schema.of(NestedField(2, "g", type_))
    (file,) = write(write_context(schema, properties=properties), new_io(), [(v,) for v in values])
    low, high = (file.lower_bounds or {}).get(2), (file.upper_bounds or {}).get(2)
    assert (low is None) == (high is None)
    return None if low is None or high is None else (geo_bound_from_bytes(low), geo_bound_from_bytes(high))


def _box(*numbers: float | None) -> tuple[Corner, Corner]:
    return numbers[:4], numbers[4:]  # type: ignore[return-value]


CASES: dict[str, tuple[Any, list[bytes | None], tuple[Corner, Corner] | None]] = {
    "points": (GEOMETRY, [wkb(1, 1, 2), None, wkb(1, -1, 9)], _box(-1, 2, None, None, 1, 9, None, None)),
    "big-endian": (GEOMETRY, [wkb(1, 1, 2, order=">"), wkb(1, 0, 3)], _box(0, 2, None, None, 1, 3, None, None)),
    "NaN adds nothing": (GEOMETRY, [wkb(1, 1, NAN), wkb(1, NAN, 5)], _box(1, 5, None, None, 1, 5, None, None)),
    "no y anywhere": (GEOMETRY, [wkb(1, 1, NAN)], None),
    "empty points": (GEOMETRY, [wkb(1, NAN, NAN), None], None),
    "nulls": (GEOMETRY, [None], None),
    "z and m of some": (
        GEOMETRY,
        [wkb(1001, 1, 2, 3), wkb(2001, 4, 5, 6), wkb(3001, 0, 0, 7, 8)],
        _box(0, 0, 3, 6, 4, 5, 7, 8),
    ),
    "m without z": (GEOMETRY, [wkb(2001, 4, 5, 6)], _box(4, 5, None, 6, 4, 5, None, 6)),
    "a line": (GEOMETRY, [LINE], _box(1, -3, None, None, 5, 9, None, None)),
    "a collection": (GEOMETRY, [wkb(7, n(2), LINE, wkb(1001, 7, 7, 7))], _box(1, -3, 7, None, 7, 9, 7, None)),
    "no WKB": (GEOMETRY, [wkb(1, 1, 2), b"\x01\x02"], None),
    "points on the sphere": (GEOGRAPHY, [wkb(1, -180, 2), wkb(1, 180, -90)], _box(-180, -90, None, None, 180, 2, None, None)),
    "multipoint on the sphere": (GEOGRAPHY, [wkb(4, n(1), wkb(1, 3, 4))], _box(3, 4, None, None, 3, 4, None, None)),
    "edges on the sphere bulge": (GEOGRAPHY, [LINE], None),
    "beyond the sphere": (GEOGRAPHY, [wkb(1, 181, 0)], None),
}


@pytest.mark.parametrize(("type_", "values", "expected"), CASES.values(), ids=list(CASES))
def test_bounds_are_the_box_of_all_coordinates(type_: Any, values: list[bytes | None], expected: Any) -> None:
    assert _bounds(type_, *values) == expected


@pytest.mark.parametrize("mode", ["none", "counts"])
def test_modes_without_bounds_have_none(mode: str) -> None:
    assert _bounds(GEOMETRY, wkb(1, 1, 2), properties={"write.metadata.metrics.default": mode}) is None


def test_shapes_inside_lists_have_no_bounds() -> None:
    schema = Schema.of(NestedField(2, "l", ListType(NestedField(3, "element", GEOMETRY))))
    (file,) = write(write_context(schema), new_io(), [([wkb(1, 1, 2)],)])
    assert not file.lower_bounds


NUMBERS = st.floats(-1e6, 1e6) | st.sampled_from([NAN, 0.0, -0.0])
POINTS = st.builds(lambda x, y: wkb(1, x, y), NUMBERS, NUMBERS)
LINES = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=3).map(lambda ps: wkb(2, n(len(ps)), *(v for p in ps for v in p)))
SOLIDS = st.builds(lambda x, y, z: wkb(1001, x, y, z), NUMBERS, NUMBERS, NUMBERS)


@given(st.lists(POINTS | LINES | SOLIDS | st.none(), max_size=6), st.integers(0, 6))
def test_arrows_own_statistics_agree(values: list[bytes | None], cut: int) -> None:
    """Arrow's Parquet writer is the oracle: it computes boxes too."""
    box = BoundingBox(on_sphere=False)
    array = pa.array(values, pa.binary())
    box.extend(array.slice(0, cut))
    box.extend(array.slice(cut))
    theirs = _arrows_box(values)
    ours = box.corners()
    if ours is None:
        assert theirs is None or theirs[0] is None or theirs[1] is None or math.isinf(theirs[0][0]) or math.isinf(theirs[1][0])
        return
    low, high = map(geo_bound_from_bytes, ours)
    assert theirs is not None
    for place in range(3):
        pair = theirs[place]
        if low[place] is not None and pair is not None:
            assert (low[place], high[place]) == pair


def _arrows_box(values: list[bytes | None]) -> list[tuple[float, float] | None] | None:
    schema = stored_schema(Schema.of(NestedField(2, "g", GEOMETRY)))
    table = pa.table([pa.array(values, pa.binary())], ["g"]).cast(schema)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, store_schema=False)
    found = pq.read_metadata(pa.BufferReader(sink.getvalue())).row_group(0).column(0).geo_statistics
    if found is None:
        return None
    return [
        None if a is None else (a, b) for a, b in ((found.xmin, found.xmax), (found.ymin, found.ymax), (found.zmin, found.zmax))
    ]


def test_points_are_taken_in_whole_arrays() -> None:
    """Both ways of reading points agree."""
    rows = [(float(i), float(-i)) for i in range(50)]
    fast, slow = BoundingBox(False), BoundingBox(False)
    fast.extend(pa.array([wkb(1, *r) for r in rows]).slice(7))
    slow.extend(pa.array([b"\x00" + struct.pack(">I2d", 1, *r) for r in rows]).slice(7))
    assert fast == slow
    assert fast.low[0] == 7.0
