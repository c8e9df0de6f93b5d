"""Well-known binary is parsed and shown as well-known text; anything else is corrupt (TYPE-39, TYPE-22, TYPE-23)."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.spec.wkb import Shape, parse_wkb, point_wkt, wkt

NAN = float("nan")


def wkb(code: int, *parts: bytes | float, order: str = "<") -> bytes:
    """Header, then numbers as doubles and bytes as they are."""
    body = b"".join(p if isinstance(p, bytes) else struct.pack(f"{order}d", p) for p in parts)
    return struct.pack(f"{order}BI", order == "<", code) + body


def n(count: int, order: str = "<") -> bytes:
    return struct.pack(f"{order}I", count)


RING = n(3) + struct.pack("<6d", 0, 0, 4, 0, 0, 4)
TEXTS = [
    (wkb(1, 30, 10), "POINT (30 10)"),
    (wkb(1, 30, 10, order=">"), "POINT (30 10)"),
    (wkb(1, -0.5, 1e300), "POINT (-0.5 1e+300)"),
    (wkb(1001, 1, 2, 3), "POINT Z (1 2 3)"),
    (wkb(2001, 1, 2, 4), "POINT M (1 2 4)"),
    (wkb(3001, 1, 2, 3, 4), "POINT ZM (1 2 3 4)"),
    (wkb(0x80000001, 1, 2, 3), "POINT Z (1 2 3)"),
    (wkb(0xE0000001, n(4326), 1, 2, 3, 4), "POINT ZM (1 2 3 4)"),
    (wkb(1, NAN, NAN), "POINT EMPTY"),
    (wkb(1, 1, NAN), "POINT (1 NaN)"),
    (wkb(2, n(2), 1, 2, 3, 4), "LINESTRING (1 2, 3 4)"),
    (wkb(2, n(0)), "LINESTRING EMPTY"),
    (wkb(3, n(2), RING, n(0)), "POLYGON ((0 0, 4 0, 0 4), EMPTY)"),
    (wkb(3, n(0)), "POLYGON EMPTY"),
    (wkb(4, n(2), wkb(1, 1, 2), wkb(1, NAN, NAN)), "MULTIPOINT ((1 2), EMPTY)"),
    (wkb(5, n(1), wkb(2, n(2), 1, 2, 3, 4)), "MULTILINESTRING ((1 2, 3 4))"),
    (wkb(6, n(1), wkb(3, n(1), RING)), "MULTIPOLYGON (((0 0, 4 0, 0 4)))"),
    (wkb(1007, n(1), wkb(1001, 1, 2, 3)), "GEOMETRYCOLLECTION Z (POINT Z (1 2 3))"),
    (wkb(7, n(0)), "GEOMETRYCOLLECTION EMPTY"),
    (wkb(17, n(1), RING), "TRIANGLE ((0 0, 4 0, 0 4))"),
]


@pytest.mark.parametrize(("data", "text"), TEXTS, ids=[t for _, t in TEXTS])
def test_every_kind_has_its_text(data: bytes, text: str) -> None:
    assert wkt(parse_wkb(data)) == text


DAMAGED = {
    "empty": b"",
    "byte order": b"\x02" + wkb(1, 1, 2)[1:],
    "kind": wkb(8, 1, 2),
    "dimension": wkb(4001, 1, 2),
    "short point": wkb(1, 1),
    "trailing bytes": wkb(1, 1, 2) + b"\x00",
    "too many points": wkb(2, n(2**32 - 1)),
    "too many parts": wkb(7, n(2**32 - 1)),
    "parts cut short": wkb(7, n(2), wkb(1, 1, 2)),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=list(DAMAGED))
def test_what_is_no_wkb_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptTableError, match="WKB value"):
        parse_wkb(data)


def test_endless_nesting_is_corrupt() -> None:
    data = wkb(7, n(0))
    for _ in range(100):
        data = wkb(7, n(1), data)
    with pytest.raises(CorruptTableError, match="nested more than"):
        parse_wkb(data)


@given(st.binary(max_size=60) | st.builds(wkb, st.sampled_from([1, 2, 3, 7]), st.binary(max_size=60)))
def test_any_bytes_are_a_shape_or_corrupt(data: bytes) -> None:
    with contextlib.suppress(CorruptTableError):
        assert isinstance(parse_wkb(data), Shape)


def test_bounds_are_shown_as_points() -> None:
    assert point_wkt(1, 2) == "POINT (1 2)"
    assert point_wkt(1, 2, None, 4) == "POINT M (1 2 4)"
