"""Bounds of geometry and geography columns (spec: "Bounds for Geometry and Geography").

A box over all coordinates; NaN adds nothing, and a dimension without values is left out. No bounds are better than wrong ones:
there are none if x or y has no value, if a value is not WKB, and, for geographies, if a shape has edges (a curved edge may lie
outside the box of its end points) or a coordinate lies outside its canonical range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.spec.values import geo_bound_to_bytes
from iceberg_ops.spec.wkb import Shape, parse_wkb

_POINT_XY, _POINT_XY_BYTES = b"\x01\x01\x00\x00\x00", 21
_NO_EDGES = frozenset({"POINT", "MULTIPOINT"})
_PLACES = {"": (0, 1), "Z": (0, 1, 2), "M": (0, 1, 3), "ZM": (0, 1, 2, 3)}
_RANGES = ((-180.0, 180.0), (-90.0, 90.0))


@dataclass
class BoundingBox:
    """The box of the values seen so far. ``on_sphere`` for geographies."""

    on_sphere: bool
    low: list[float] = field(default_factory=lambda: [math.inf] * 4)
    high: list[float] = field(default_factory=lambda: [-math.inf] * 4)
    seen: list[bool] = field(default_factory=lambda: [False] * 4)
    unbounded: bool = False

    def extend(self, values: pa.Array) -> None:
        """Add WKB values; nulls are ignored."""
        values = values.drop_null()
        if self.unbounded or not len(values):
            return
        if (points := _plain_points(values)) is not None:
            self._take((0, 1), points)
            return
        try:
            for value in values.to_pylist():
                self._shape(value)
        except CorruptTableError:
            self.unbounded = True

    def corners(self) -> tuple[bytes, bytes] | None:
        """Lower and upper bound in stored form; None if there are none."""
        outside = self.on_sphere and any(
            self.seen[i] and (self.low[i] < least or self.high[i] > most) for i, (least, most) in enumerate(_RANGES)
        )
        if self.unbounded or outside or not (self.seen[0] and self.seen[1]):
            return None
        low, high = ([v if there else None for v, there in zip(side, self.seen, strict=True)] for side in (self.low, self.high))
        return geo_bound_to_bytes(*low), geo_bound_to_bytes(*high)  # type: ignore[arg-type]

    def _shape(self, value: bytes) -> None:
        shape = parse_wkb(value)
        if self.on_sphere and not shape.kinds() <= _NO_EDGES:
            self.unbounded = True
            return
        self._parts(shape)

    def _parts(self, shape: Shape) -> None:
        if shape.points:
            self._take(_PLACES[shape.axes], np.array(shape.points))
        for part in shape.parts:
            self._parts(part)

    def _take(self, places: tuple[int, ...], points: npt.NDArray[np.float64]) -> None:
        for place, column in zip(places, points.T, strict=True):
            known = column[~np.isnan(column)]
            if len(known):
                self.low[place] = min(self.low[place], float(known.min()))
                self.high[place] = max(self.high[place], float(known.max()))
                self.seen[place] = True


def _plain_points(values: pa.Array) -> npt.NDArray[np.float64] | None:
    """The coordinates of values that are all little-endian XY points; None if one is not."""
    values = values.cast(pa.binary())
    lengths = pc.min_max(pc.binary_length(values)).as_py()
    if lengths["min"] != _POINT_XY_BYTES or lengths["max"] != _POINT_XY_BYTES:
        return None
    fixed = values.cast(pa.binary(_POINT_XY_BYTES))
    rows = np.frombuffer(fixed.buffers()[1], np.uint8)[fixed.offset * _POINT_XY_BYTES :][: len(fixed) * _POINT_XY_BYTES]
    rows = rows.reshape(-1, _POINT_XY_BYTES)
    if (rows[:, : len(_POINT_XY)] != np.frombuffer(_POINT_XY, np.uint8)).any():
        return None
    return np.ascontiguousarray(rows[:, 5:]).view("<f8")
