"""Partition and sort transforms (spec: "Partition Transforms", Appendix B).

A transform maps a canonical value of its source type to a canonical value of ``result_type``; null maps to null.
``iceberg_ops.expressions.projection`` projects predicates through a transform.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from iceberg_ops.config.whole_numbers import INT_MAX, whole_number
from iceberg_ops.spec.types import DATE, INT, STRING, IcebergType, PrimitiveType

_PARAMETERISED = re.compile(r"(bucket|truncate)\[(\d+)\]", re.IGNORECASE)
_DATES = frozenset({"date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_HASHABLE = _DATES | {"int", "long", "decimal", "time", "string", "uuid", "fixed", "binary"}
_SOURCES = {
    "identity": _HASHABLE | {"boolean", "float", "double", "unknown"},
    "bucket": _HASHABLE,
    "truncate": frozenset({"int", "long", "decimal", "string", "binary"}),
    "year": _DATES,
    "month": _DATES,
    "day": _DATES,
    "hour": _DATES - {"date"},
    "void": _HASHABLE | {"boolean", "float", "double", "unknown", "variant", "geometry", "geography"},
}
_PLAIN_NAMES = frozenset({"identity", "year", "month", "day", "hour", "void"})


@dataclass(frozen=True, slots=True)
class Transform:
    """``name`` is identity, bucket, truncate, year, month, day, hour, void or, for an unknown transform, its complete
    text. ``parameter`` is N of bucket[N] or W of truncate[W]."""

    name: str
    parameter: int | None = None

    def __str__(self) -> str:
        return self.name if self.parameter is None else f"{self.name}[{self.parameter}]"

    @property
    def is_identity(self) -> bool:
        return self.name == "identity"

    @property
    def is_void(self) -> bool:
        return self.name == "void"

    @property
    def is_known(self) -> bool:
        return self.name in _PLAIN_NAMES or self.parameter is not None

    def can_transform(self, source: IcebergType) -> bool:
        """Whether the spec allows this transform for values of ``source``; False for an unknown transform."""
        return isinstance(source, PrimitiveType) and source.name in _SOURCES.get(self.name, frozenset())

    def result_type(self, source: IcebergType) -> IcebergType:
        """Type of the transform's values; a date for ``day``, string for unknown transforms."""
        if self.name in ("identity", "truncate", "void"):
            return source
        if self.name == "day":
            return DATE
        if self.name in ("bucket", "year", "month", "hour"):
            return INT
        return STRING


IDENTITY = Transform("identity")
VOID = Transform("void")
YEAR, MONTH, DAY, HOUR = Transform("year"), Transform("month"), Transform("day"), Transform("hour")


def bucket(n: int) -> Transform:
    return Transform("bucket", n)


def truncate(width: int) -> Transform:
    return Transform("truncate", width)


def transform_from_text(text: str) -> Transform:
    """Parse the spec's text form; an unknown transform keeps its text and is readable, never writable."""
    if (m := _PARAMETERISED.fullmatch(text)) and (parameter := whole_number(m[2], INT_MAX)) is not None:
        return Transform(m[1].lower(), parameter)
    return Transform(text.lower()) if text.lower() in _PLAIN_NAMES else Transform(text)
