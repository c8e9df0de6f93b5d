"""Iceberg types (spec: "Schemas and Data Types").

Above this module, values of a type are always held in one canonical Python form:

==================================  ==========================================================
boolean, int, long, float, double   bool, int, int, float (already rounded to 32 bit), float
decimal(P, S)                       decimal.Decimal with exactly S fraction digits
date                                int, days from 1970-01-01
time                                int, microseconds of the day
timestamp, timestamptz              int, microseconds from 1970-01-01 (UTC for timestamptz)
timestamp_ns, timestamptz_ns        int, nanoseconds from 1970-01-01
string, uuid                        str, uuid.UUID
fixed(L), binary                    bytes
geometry, geography                 bytes (WKB)
variant                             iceberg_ops.data's Variant value; never a literal
unknown                             None
struct, list, map                   tuple in field order, list, list of (key, value) pairs
==================================  ==========================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from iceberg_ops.config.whole_numbers import INT_MAX, whole_number
from iceberg_ops.errors import SchemaError


class IcebergType:
    """Base of all types. Equality is structural; ``str(type)`` is the spec's JSON name for a primitive."""

    __slots__ = ()

    @property
    def is_primitive(self) -> bool:
        return isinstance(self, PrimitiveType)

    @property
    def is_nested(self) -> bool:
        return isinstance(self, StructType | ListType | MapType)


@dataclass(frozen=True, slots=True)
class PrimitiveType(IcebergType):
    """A type without parameters, identified by ``name``; parameterised ones are subclasses."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class FixedType(PrimitiveType):
    """``fixed[L]``: exactly ``length`` bytes."""

    name: str = field(init=False, default="fixed")
    length: int = 0

    def __str__(self) -> str:
        return f"fixed[{self.length}]"


@dataclass(frozen=True, slots=True)
class DecimalType(PrimitiveType):
    """``decimal(P, S)``; P is at most 38. Raises SchemaError outside that."""

    name: str = field(init=False, default="decimal")
    precision: int = 0
    scale: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.precision <= 38:
            raise SchemaError(f"decimal({self.precision}, {self.scale}): precision must be from 1 to 38")

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class GeometryType(PrimitiveType):
    """``geometry(C)`` (v3); the coordinate reference system defaults to OGC:CRS84."""

    name: str = field(init=False, default="geometry")
    crs: str = "OGC:CRS84"

    def __str__(self) -> str:
        return "geometry" if self.crs == "OGC:CRS84" else f"geometry({self.crs})"


@dataclass(frozen=True, slots=True)
class GeographyType(PrimitiveType):
    """``geography(C, A)`` (v3); the edge algorithm defaults to spherical."""

    name: str = field(init=False, default="geography")
    crs: str = "OGC:CRS84"
    algorithm: str = "spherical"

    def __str__(self) -> str:
        if self.algorithm != "spherical":
            return f"geography({self.crs}, {self.algorithm})"
        return "geography" if self.crs == "OGC:CRS84" else f"geography({self.crs})"


BOOLEAN = PrimitiveType("boolean")
INT = PrimitiveType("int")
LONG = PrimitiveType("long")
FLOAT = PrimitiveType("float")
DOUBLE = PrimitiveType("double")
DATE = PrimitiveType("date")
TIME = PrimitiveType("time")
TIMESTAMP = PrimitiveType("timestamp")
TIMESTAMPTZ = PrimitiveType("timestamptz")
TIMESTAMP_NS = PrimitiveType("timestamp_ns")
TIMESTAMPTZ_NS = PrimitiveType("timestamptz_ns")
STRING = PrimitiveType("string")
UUID = PrimitiveType("uuid")
BINARY = PrimitiveType("binary")
VARIANT = PrimitiveType("variant")
UNKNOWN = PrimitiveType("unknown")

_PLAIN = {
    t.name: t
    for t in (
        BOOLEAN, INT, LONG, FLOAT, DOUBLE, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS, STRING, UUID, BINARY,
        VARIANT, UNKNOWN,
    )
}  # fmt: skip
_NO_KEYS = frozenset({"float", "double", "unknown", "variant", "geometry", "geography"})
V3_TYPE_NAMES = frozenset({"timestamp_ns", "timestamptz_ns", "variant", "unknown", "geometry", "geography"})
_ALGORITHMS = frozenset({"spherical", "vincenty", "thomas", "andoyer", "karney"})
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_GEOMETRY = re.compile(r"geometry(?:\(\s*([^,)]*?)\s*\))?")
_GEOGRAPHY = re.compile(r"geography(?:\(\s*([^,)]*?)\s*(?:,\s*(\w+)\s*)?\))?")


def can_be_key(type_: IcebergType) -> bool:
    """Whether a column of that type can identify rows: one stored value, whose equality is that of its bytes."""
    return isinstance(type_, PrimitiveType) and type_.name not in _NO_KEYS


def primitive_from_name(text: str) -> PrimitiveType:
    """The primitive with the spec's JSON name ``text``. Raises SchemaError."""
    if plain := _PLAIN.get(text):
        return plain
    if (m := _FIXED.fullmatch(text)) and (length := whole_number(m[1], INT_MAX)) is not None:
        return FixedType(length=length)
    if m := _DECIMAL.fullmatch(text):
        precision, scale = whole_number(m[1], INT_MAX), whole_number(m[2], INT_MAX)
        if precision is not None and scale is not None:
            return DecimalType(precision=precision, scale=scale)
    if m := _GEOMETRY.fullmatch(text):
        return GeometryType(crs=m[1] or "OGC:CRS84")
    if m := _GEOGRAPHY.fullmatch(text):
        algorithm = m[2] or "spherical"
        if algorithm.lower() not in _ALGORITHMS:
            raise SchemaError(f"unknown edge algorithm {algorithm!r} in {text!r}: must be one of {', '.join(sorted(_ALGORITHMS))}")
        return GeographyType(crs=m[1] or "OGC:CRS84", algorithm=algorithm.lower())
    raise SchemaError(f"unknown type {text[:60]!r}")


class _Missing:
    """Distinguishes "no default" from a default of null."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING = _Missing()


@dataclass(frozen=True, slots=True)
class NestedField:
    """A struct field, a list's element, or a map's key or value.

    ``initial_default`` and ``write_default`` (v3) are canonical values (see the module docstring), MISSING if there is none.
    ``extra`` holds unknown JSON keys, which survive a rewrite.
    """

    field_id: int
    name: str
    type: IcebergType
    required: bool = False
    doc: str | None = None
    initial_default: Any = MISSING
    write_default: Any = MISSING
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for default in ("initial_default", "write_default"):
            if getattr(self, default) is None:
                object.__setattr__(self, default, MISSING)

    @property
    def optional(self) -> bool:
        return not self.required


@dataclass(frozen=True, slots=True)
class StructType(IcebergType):
    """A struct; its fields in order. ``extra`` holds unknown JSON keys, here and on the other nested types."""

    fields: tuple[NestedField, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __str__(self) -> str:
        return "struct<" + ", ".join(f"{f.field_id}: {f.name}: {f.type}" for f in self.fields) + ">"

    def __iter__(self) -> Iterator[NestedField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def field(self, field_id: int) -> NestedField | None:
        """The direct child with that id."""
        return next((f for f in self.fields if f.field_id == field_id), None)


@dataclass(frozen=True, slots=True)
class ListType(IcebergType):
    """A list; ``element`` is a field named "element"."""

    element: NestedField
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __str__(self) -> str:
        return f"list<{self.element.type}>"


@dataclass(frozen=True, slots=True)
class MapType(IcebergType):
    """A map; ``key`` (always required) and ``value`` are fields with those names."""

    key: NestedField
    value: NestedField
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __str__(self) -> str:
        return f"map<{self.key.type}, {self.value.type}>"


def list_of(element_id: int, element_type: IcebergType, *, element_required: bool = False) -> ListType:
    """A list type from its element's id and type."""
    return ListType(NestedField(element_id, "element", element_type, element_required))


def map_of(key_id: int, key_type: IcebergType, value_id: int, value_type: IcebergType, *, value_required: bool = False) -> MapType:
    """A map type from its key's and value's ids and types."""
    return MapType(NestedField(key_id, "key", key_type, True), NestedField(value_id, "value", value_type, value_required))


def child_fields(type_: IcebergType) -> tuple[NestedField, ...]:
    """The direct child fields of any type; empty for a primitive."""
    if isinstance(type_, StructType):
        return type_.fields
    if isinstance(type_, ListType):
        return (type_.element,)
    if isinstance(type_, MapType):
        return (type_.key, type_.value)
    return ()
