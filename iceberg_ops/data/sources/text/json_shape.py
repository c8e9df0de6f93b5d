"""Finds the fields in JSON records, with their names and possible types.

The types of the table's columns are known; those of other fields are derived from the records.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from iceberg_ops.config.whole_numbers import EXACT_MAX, LONG_MAX
from iceberg_ops.data.sources.text.json_values import Number
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.spec.types import (
    BOOLEAN,
    DOUBLE,
    LONG,
    MISSING,
    STRING,
    DecimalType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    child_fields,
)

_MOST_DIGITS = 38
_MOST_LEVELS = 60
"""The depth limit of a derived type: neither Arrow nor a table supports many more levels. Deeper values are text."""
_ANY_KEY = ""
"""Stands for all keys of a map that the table has."""
_SCALARS: dict[str, IcebergType] = {
    "boolean": BOOLEAN,
    "long": LONG,
    "large": LONG,
    "decimal": DecimalType(_MOST_DIGITS, 0),
    "double": DOUBLE,
    "string": STRING,
}


@dataclass(frozen=True, slots=True)
class MapPlaces:
    """Where values of a type contain maps: in ``fields``, by name in lower case, in the elements of a list or the values of a
    map (``inner``), or the value itself (``is_map``)."""

    fields: Mapping[str, MapPlaces] = field(default_factory=dict)
    inner: MapPlaces | None = None
    is_map: bool = False

    def below(self, name: str) -> MapPlaces | None:
        """The maps in the value that an object has under ``name``."""
        return self.inner if self.is_map else self.fields.get(name.lower())


def maps_in(type_: IcebergType) -> MapPlaces | None:
    """The maps of a type; None: it has none."""
    if isinstance(type_, StructType):
        fields = {f.name.lower(): maps for f in type_.fields if (maps := maps_in(f.type)) is not None}
        return MapPlaces(fields) if fields else None
    if isinstance(type_, ListType):
        inner = maps_in(type_.element.type)
        return None if inner is None else MapPlaces(inner=inner)
    return MapPlaces(inner=maps_in(type_.value.type), is_map=True) if isinstance(type_, MapType) else None


@dataclass(slots=True)
class ObservedValues:
    """The values at one place of the records: kinds of scalars, fields of objects by name, items of arrays."""

    kinds: set[str] = field(default_factory=set)
    fields: dict[str, ObservedValues] | None = None
    element: ObservedValues | None = None

    def add(self, value: Any, maps: MapPlaces | None = None) -> None:
        """Add a value. Keys of the table's ``maps`` are not kept: there may be as many as there are records."""
        if isinstance(value, dict):
            self.fields = {} if self.fields is None else self.fields
            for name, inner in value.items():
                if maps is None:
                    self.fields.setdefault(name, ObservedValues()).add(inner)
                else:
                    place = _ANY_KEY if maps.is_map else name
                    self.fields.setdefault(place, ObservedValues()).add(inner, maps.below(name))
        elif isinstance(value, list):
            self.element = ObservedValues() if self.element is None else self.element
            for inner in value:
                self.element.add(inner, None if maps is None else maps.inner)
        elif value is not None:
            self.kinds.add(_kind(value))

    def merge(self, other: ObservedValues) -> None:
        """Add the values found in another part."""
        self.kinds |= other.kinds
        if other.fields is not None:
            self.fields = {} if self.fields is None else self.fields
            for name, inner in other.fields.items():
                self.fields.setdefault(name, ObservedValues()).merge(inner)
        if other.element is not None:
            self.element = ObservedValues() if self.element is None else self.element
            self.element.merge(other.element)

    def levels(self) -> int:
        """The depth of its values."""
        inside = [*(self.fields or {}).values(), *([] if self.element is None else [self.element])]
        return 1 + max(map(ObservedValues.levels, inside), default=0)

    def to_json(self) -> dict[str, Any]:
        return {
            "kinds": sorted(self.kinds),
            "fields": None if self.fields is None else {name: inner.to_json() for name, inner in self.fields.items()},
            "element": None if self.element is None else self.element.to_json(),
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> ObservedValues:
        fields, element = value["fields"], value["element"]
        return ObservedValues(
            set(value["kinds"]),
            None if fields is None else {name: ObservedValues.from_json(inner) for name, inner in fields.items()},
            None if element is None else ObservedValues.from_json(element),
        )


def json_records(value: Any) -> list[dict[str, Any]] | None:
    """The records in a JSON value: an object, or an array of objects; None: it is neither."""
    if isinstance(value, dict):
        return [value]
    return value if isinstance(value, list) and all(isinstance(item, dict) for item in value) else None


def source_fields(occurring: ObservedValues, table: StructType, *, as_text: bool = False) -> tuple[NestedField, ...]:
    """The columns of a source: the fields in its records in their first spelling, with the table's type if the table has
    the field. A field that the table does not have and that is always empty is left out, and so is a missing field of a struct with
    a write default. Field ids are the table's, and new ones for the others."""
    ids = itertools.count(-1, -1)
    return _fields(occurring.fields or {}, table, ids, as_text=as_text)


def has_nested_keys(type_: IcebergType) -> bool:
    """Whether a map in it has keys that are not scalars."""
    return _nested_key(type_) is not None


def check_map_keys(f: NestedField) -> None:
    """Raise UnsupportedError for a column whose map keys cannot be names of JSON fields."""
    if (key := _nested_key(f.type)) is not None:
        raise UnsupportedError(
            f"not supported: column {f.name!r} with a map of {key} keys in a JSON source, because names of fields are text: give "
            "the rows by Parquet or a query"
        )


def _nested_key(type_: IcebergType) -> IcebergType | None:
    if isinstance(type_, MapType) and type_.key.type.is_nested:
        return type_.key.type
    return next((key for f in child_fields(type_) if (key := _nested_key(f.type)) is not None), None)


def _fields(given: dict[str, ObservedValues], target: StructType, ids: Iterator[int], *, as_text: bool) -> tuple[NestedField, ...]:
    known = {f.name.lower(): f for f in target.fields}
    by_lower_name: dict[str, tuple[str, ObservedValues]] = {}
    for name, inner in given.items():
        _, united = by_lower_name.setdefault(name.lower(), (name, ObservedValues()))
        united.merge(inner)
    fields = []
    for lower, (name, inner) in by_lower_name.items():
        have = known.get(lower)
        type_ = _type(inner, None if have is None else have.type, ids, as_text=as_text)
        if type_ is not None:
            fields.append(NestedField(next(ids) if have is None else have.field_id, name, type_))
    return tuple(fields)


def _type(occurring: ObservedValues, target: IcebergType | None, ids: Iterator[int], *, as_text: bool) -> IcebergType | None:
    """None: its values are always empty, and the table has no such field."""
    if isinstance(target, StructType):
        fields = _fields(occurring.fields or {}, target, ids, as_text=as_text)
        there = {f.name.lower() for f in fields}
        return StructType((*fields, *(f for f in target.fields if f.name.lower() not in there and f.write_default is MISSING)))
    if isinstance(target, ListType):
        inner = _type(occurring.element or ObservedValues(), target.element.type, ids, as_text=as_text)
        return ListType(NestedField(target.element.field_id, "element", inner or target.element.type))
    if isinstance(target, MapType):
        values = ObservedValues()
        for value in (occurring.fields or {}).values():
            values.merge(value)
        inner = _type(values, target.value.type, ids, as_text=as_text)
        return MapType(target.key, NestedField(target.value.field_id, "value", inner or target.value.type))
    if target is not None:
        return target
    return STRING if occurring.levels() > _MOST_LEVELS else _unknown_type(occurring, ids, as_text=as_text)


def _unknown_type(occurring: ObservedValues, ids: Iterator[int], *, as_text: bool) -> IcebergType | None:
    """One type for values without a type in the table; text if they have no common type."""
    shapes = (bool(occurring.kinds), occurring.fields is not None, occurring.element is not None)
    if sum(shapes) > 1:
        return STRING
    if occurring.fields is not None:
        fields = _fields(occurring.fields, StructType(()), ids, as_text=as_text)
        return StructType(fields) if fields else None
    if occurring.element is not None:
        inner = _unknown_type(occurring.element, ids, as_text=as_text)
        return None if inner is None else ListType(NestedField(next(ids), "element", inner))
    return None if not occurring.kinds else STRING if as_text else _scalar(occurring.kinds)


def _scalar(kinds: Iterable[str]) -> IcebergType:
    order = ("long", "large", "decimal", "double")
    numbers = [kind for kind in kinds if kind in order]
    rounded = "double" in numbers and not {"large", "decimal"}.isdisjoint(numbers)
    if len(numbers) == len(list(kinds)) and not rounded:
        return _SCALARS[max(numbers, key=order.index)]
    return _SCALARS[next(iter(kinds))] if len(list(kinds)) == 1 else STRING


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if not isinstance(value, Number):
        return "string"
    digits = value.lstrip("-")
    if not digits.isdigit():
        return "double"
    if len(digits) > _MOST_DIGITS:
        return "string"
    number = int(value)
    if abs(number) <= EXACT_MAX:
        return "long"
    return "large" if -LONG_MAX - 1 <= number <= LONG_MAX else "decimal"
