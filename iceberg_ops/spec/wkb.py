"""Geometries and geographies: parses well-known binary, and writes well-known text (spec: Appendix G).

ISO forms of every dimension (XY, XYZ, XYM, XYZM) and kind; the flags of extended WKB (EWKB) are understood, its SRID is
ignored. The meaning of a shape is not checked: rings need not close, and coordinates may be NaN (an empty point is all NaN).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from iceberg_ops.errors import CorruptTableError

POINT = "POINT"
_KINDS = {
    1: POINT, 2: "LINESTRING", 3: "POLYGON", 4: "MULTIPOINT", 5: "MULTILINESTRING", 6: "MULTIPOLYGON", 7: "GEOMETRYCOLLECTION",
    15: "POLYHEDRALSURFACE", 16: "TIN", 17: "TRIANGLE",
}  # fmt: skip
_OF_RINGS, _OF_POINTS = frozenset({"POLYGON", "TRIANGLE"}), frozenset({"LINESTRING"})
_RING = ""
_Z_FLAG, _M_FLAG, _SRID_FLAG = 0x80000000, 0x40000000, 0x20000000
_DEEPEST = 64
_AXES = {"": 2, "Z": 3, "M": 3, "ZM": 4}

Coordinates = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape: ``axes`` beyond x and y ("", "Z", "M", "ZM"), and its points, or its parts (rings of a polygon, members of a
    collection)."""

    kind: str
    axes: str
    points: tuple[Coordinates, ...] = ()
    parts: tuple[Shape, ...] = ()

    def coordinates(self) -> Iterator[Coordinates]:
        """Every point of the shape, in its order."""
        yield from self.points
        for part in self.parts:
            yield from part.coordinates()

    def kinds(self) -> set[str]:
        """The kinds of the shape and of all its parts."""
        return {self.kind}.union(*(part.kinds() for part in self.parts))


def parse_wkb(data: bytes) -> Shape:
    """The shape of a WKB value. Raises CorruptTableError if it is not exactly one shape."""
    try:
        shape, end = _shape(data, 0, 0)
    except (struct.error, IndexError) as e:
        raise CorruptTableError(f"WKB value of {len(data)} bytes is cut short: {e}") from None
    if end != len(data):
        raise CorruptTableError(f"WKB value of {len(data)} bytes ends at byte {end}")
    return shape


def wkt(shape: Shape) -> str:
    """ISO well-known text: ``POINT (30 10)``, ``LINESTRING Z (1 2 3, 4 5 6)``, ``POLYGON EMPTY``."""
    head = " ".join(part for part in (shape.kind, shape.axes) if part)
    return f"{head} {_body(shape)}".lstrip()


def point_wkt(x: float, y: float, z: float | None = None, m: float | None = None) -> str:
    """The text of a single point, for bounds."""
    axes = ("" if z is None else "Z") + ("" if m is None else "M")
    return wkt(Shape(POINT, axes, (tuple(v for v in (x, y, z, m) if v is not None),)))


def _body(shape: Shape) -> str:
    if shape.kind == POINT and all(math.isnan(v) for point in shape.points for v in point):
        return "EMPTY"
    if shape.points:
        return f"({', '.join(' '.join(map(_number, point)) for point in shape.points)})"
    if not shape.parts:
        return "EMPTY"
    bare = shape.kind != "GEOMETRYCOLLECTION"
    return f"({', '.join(_body(part) if bare else wkt(part) for part in shape.parts)})"


def _number(value: float) -> str:
    text = repr(value)
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text.removesuffix(".0"))


def _shape(data: bytes, at: int, depth: int) -> tuple[Shape, int]:
    if depth > _DEEPEST:
        raise CorruptTableError(f"WKB value is nested more than {_DEEPEST} levels deep")
    if data[at] > 1:
        raise CorruptTableError(f"WKB value has byte order {data[at]}, only 0 and 1 are defined")
    order = "<" if data[at] else ">"
    code, at = struct.unpack_from(f"{order}I", data, at + 1)[0], at + 5
    if code & _SRID_FLAG:
        at += 4
    plain = code & ~(_Z_FLAG | _M_FLAG | _SRID_FLAG)
    kind, dimensions = _KINDS.get(plain % 1000), plain // 1000
    if kind is None or dimensions > 3:
        raise CorruptTableError(f"WKB value has type {code}, which is not defined")
    axes = ("Z" if code & _Z_FLAG or dimensions in (1, 3) else "") + ("M" if code & _M_FLAG or dimensions in (2, 3) else "")
    if kind == POINT:
        points, at = _points(data, at, order, axes, 1)
        return Shape(kind, axes, points), at
    count, at = _count(data, at, order)
    if kind in _OF_POINTS:
        points, at = _points(data, at, order, axes, count)
        return Shape(kind, axes, points), at
    parts = []
    for _ in range(count):
        part, at = _ring(data, at, order, axes) if kind in _OF_RINGS else _shape(data, at, depth + 1)
        parts.append(part)
    return Shape(kind, axes, (), tuple(parts)), at


def _ring(data: bytes, at: int, order: str, axes: str) -> tuple[Shape, int]:
    count, at = _count(data, at, order)
    points, at = _points(data, at, order, axes, count)
    return Shape(_RING, axes, points), at


def _count(data: bytes, at: int, order: str) -> tuple[int, int]:
    count = struct.unpack_from(f"{order}I", data, at)[0]
    if count > len(data) - at:
        raise CorruptTableError(f"WKB value of {len(data)} bytes has no room for {count} parts")
    return count, at + 4


def _points(data: bytes, at: int, order: str, axes: str, count: int) -> tuple[tuple[Coordinates, ...], int]:
    width = _AXES[axes]
    if count * width * 8 > len(data) - at:
        raise CorruptTableError(f"WKB value of {len(data)} bytes has no room for {count} points")
    flat = struct.unpack_from(f"{order}{count * width}d", data, at)
    return tuple(flat[i : i + width] for i in range(0, len(flat), width)), at + 8 * len(flat)
