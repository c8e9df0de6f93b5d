"""The types to which a column may be promoted (spec: "Schema Evolution").

int to long, float to double and wider decimals with the same scale in every version; from v3 on also unknown to any type and date
to timestamp or timestamp_ns. A promotion that would change a partition value is refused: for dates, and for an int whose truncate
partition of the least numbers has a value that wraps around.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iceberg_ops.spec.epoch import MICROS_PER_SECOND, NANOS_PER_SECOND, SECONDS_PER_DAY
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import Transform
from iceberg_ops.spec.types import (
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    TIMESTAMP,
    TIMESTAMP_NS,
    UNKNOWN,
    DecimalType,
    IcebergType,
    NestedField,
    PrimitiveType,
)
from iceberg_ops.spec.wrapped_values import wrapped_truncation

_ALWAYS = {(INT, LONG), (FLOAT, DOUBLE)}
_SINCE_V3 = {(DATE, TIMESTAMP), (DATE, TIMESTAMP_NS)}
_NARROWER: dict[IcebergType, IcebergType] = {LONG: INT, TIMESTAMP: DATE, TIMESTAMP_NS: DATE}
"""The type that a column may have had before, if it matters to partition values."""
_WIDTH = {"int": 1, "long": 2, "float": 1, "double": 2, "unknown": 0, "date": 1, "timestamp": 2, "timestamp_ns": 3}
_KEEP_DATES = frozenset({"year", "month", "day", "void"})


def can_promote(old: IcebergType, new: IcebergType, format_version: int) -> bool:
    """Whether a column of type ``old`` may become ``new``; an equal type may."""
    if old == new or (old, new) in _ALWAYS:
        return True
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return old.scale == new.scale and old.precision <= new.precision
    return format_version >= 3 and (old == UNKNOWN or (old, new) in _SINCE_V3)


def widest(type_: IcebergType, others: Iterable[IcebergType], format_version: int) -> IcebergType:
    """The widest of ``type_`` and those ``others`` to which ``type_`` may be promoted: it can hold the values of a column that has
    had all of them. A type to which it cannot be promoted belongs to another column with its id."""
    return max([type_, *(t for t in others if can_promote(type_, t, format_version))], key=_width)


def _width(type_: IcebergType) -> int:
    if isinstance(type_, DecimalType):
        return type_.precision
    return _WIDTH.get(type_.name, 1) if isinstance(type_, PrimitiveType) else 1


def fields_ever(schemas: Iterable[Schema], now: Schema, format_version: int) -> Mapping[int, NestedField]:
    """Every field of the schemas, by id: from ``now``, else from the newest schema, with the widest type it has had. A former
    schema may be current again, so the newest schema need not have the widest type."""
    ordered = sorted(schemas, key=lambda s: s.schema_id)
    fields: dict[int, NestedField] = {}
    for schema in ordered:
        fields.update(schema.fields_by_id)
    for i, f in fields.items():
        if i not in now.fields_by_id:
            type_ = widest(f.type, (s.fields_by_id[i].type for s in ordered if i in s.fields_by_id), format_version)
            fields[i] = in_type(f, type_)
    return {**fields, **now.fields_by_id}


def in_type(f: NestedField, type_: IcebergType) -> NestedField:
    """The same field with another type that it has had."""
    return f if f.type == type_ else replace(f, type=type_, initial_default=value_in_type(f.initial_default, f.type, type_))


def changed_partition_field(
    field_id: int, old: IcebergType, new: IcebergType, specs: Iterable[PartitionSpec]
) -> PartitionField | None:
    """A partition field whose values the promotion of its source column would change; None if there is none."""
    fields = (f for spec in specs for f in spec.fields if field_id in f.source_ids)
    return next((f for f in fields if _changes(f.transform, old, new)), None)


def _changes(transform: Transform, old: IcebergType, new: IcebergType) -> bool:
    if (old, new) in _SINCE_V3:
        return transform.name not in _KEEP_DATES
    return (old, new) == (INT, LONG) and wrapped_truncation(transform, 32) is not None


@dataclass(frozen=True, slots=True)
class MovedField:
    """A partition field whose values changed if another writer promoted its source column from ``old``. ``is_known``: a schema of
    the table has that type."""

    spec_id: int
    field: PartitionField
    old: IcebergType
    is_known: bool


def moved_by_promotion(
    schemas: Sequence[Schema], now: Schema, specs: Iterable[PartitionSpec], format_version: int
) -> list[MovedField]:
    """Partition fields for which rows with one source value may be in two partitions. ``schemas``: every schema that the table
    still has; ``now``: the current one.

    A promoted date, from v3 on: if a schema shows it, or if the first schemas of the column were removed. Earlier versions
    promote no dates: there, a timestamp column that was a date column belongs to a table that another engine has replaced since. A
    promoted int: always, because the live files show whether one was promoted (``commit.promoted_keys``)."""
    moved = []
    for spec in specs:
        for f in spec.fields:
            new = now.fields_by_id.get(f.source_id)
            old = None if new is None else _NARROWER.get(new.type)
            if new is None or old is None or not (f.transform.can_transform(old) and _changes(f.transform, old, new.type)):
                continue
            if old != INT and format_version < 3:
                continue
            is_known = any(s.fields_by_id[f.source_id].type == old for s in schemas if f.source_id in s.fields_by_id)
            is_possible = old == INT or not first_schemas(schemas, f.source_id).is_whole
            if is_known or is_possible:
                moved.append(MovedField(spec.spec_id, f, old, is_known))
    return moved


@dataclass(frozen=True, slots=True)
class FirstSchemas:
    """The schemas, by id, that show the first type of a column: the first schema that has it, and the one before, which does not.
    ``is_whole``: both exist, so no schema with another type of it can have been removed."""

    schema_ids: frozenset[int]
    is_whole: bool


def first_schemas(schemas: Iterable[Schema], field_id: int) -> FirstSchemas:
    """The first schemas of a column. A type only becomes wider, and schema ids count up from 0."""
    by_id = {s.schema_id: s for s in schemas}
    first = min((i for i, s in by_id.items() if field_id in s.fields_by_id), default=None)
    if first is None:
        return FirstSchemas(frozenset(), False)
    return FirstSchemas(frozenset({first, first - 1} & by_id.keys()), first == 0 or first - 1 in by_id)


def promoted_value(old: IcebergType, new: IcebergType, value: Any) -> Any:
    """A canonical value of ``old`` as one of ``new``, for a promotion that ``can_promote`` allows (a default, a read value)."""
    if isinstance(value, int) and (old, new) in _SINCE_V3:
        return value * _ticks_per_day(new)
    return value


def value_in_type(value: Any, type_: IcebergType, target: IcebergType) -> Any:
    """A canonical value of a column's type as one of another type that the column has had: values in older snapshots have the
    type from before a promotion."""
    if isinstance(value, int) and (target, type_) in _SINCE_V3:
        return value // _ticks_per_day(type_)
    return promoted_value(type_, target, value)


def _ticks_per_day(type_: IcebergType) -> int:
    return SECONDS_PER_DAY * (MICROS_PER_SECOND if type_ == TIMESTAMP else NANOS_PER_SECOND)
