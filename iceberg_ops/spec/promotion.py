"""Which type a column may be promoted to (spec: "Schema Evolution").

int to long, float to double and wider decimals of the same scale in every version; from v3 on also unknown to any type and date
to timestamp or timestamp_ns. A promotion that would change a partition value is refused: of dates, and of an int by whose truncate
the least numbers lie in a partition whose value wraps around.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from iceberg_ops.spec.epoch import MICROS_PER_SECOND, NANOS_PER_SECOND, SECONDS_PER_DAY
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import Transform
from iceberg_ops.spec.types import DATE, DOUBLE, FLOAT, INT, LONG, TIMESTAMP, TIMESTAMP_NS, UNKNOWN, DecimalType, IcebergType

_ALWAYS = {(INT, LONG), (FLOAT, DOUBLE)}
_SINCE_V3 = {(DATE, TIMESTAMP), (DATE, TIMESTAMP_NS)}
_KEEP_DATES = frozenset({"year", "month", "day", "void"})


def can_promote(old: IcebergType, new: IcebergType, format_version: int) -> bool:
    """Whether a column of type ``old`` may become ``new``; an equal type may."""
    if old == new or (old, new) in _ALWAYS:
        return True
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return old.scale == new.scale and old.precision <= new.precision
    return format_version >= 3 and (old == UNKNOWN or (old, new) in _SINCE_V3)


def changed_partition_field(
    field_id: int, old: IcebergType, new: IcebergType, specs: Iterable[PartitionSpec]
) -> PartitionField | None:
    """A partition field whose values the promotion of its source column would change; None where there is none."""
    fields = [f for spec in specs for f in spec.fields if field_id in f.source_ids]
    if (old, new) in _SINCE_V3:
        return next((f for f in fields if f.transform.name not in _KEEP_DATES), None)
    if (old, new) == (INT, LONG):
        return next((f for f in fields if wrapped_truncation(f.transform, 32) is not None), None)
    return None


def moved_by_promotion(schemas: Iterable[Schema], now: Schema, specs: Iterable[PartitionSpec]) -> tuple[PartitionField, str] | None:
    """A partition field of which rows of one source value lie in two partitions, because another writer promoted its column from
    the type that is named with it; None where there is none. ``schemas``: every schema of the table."""
    found = list(specs)
    for field_id in {i for spec in found for f in spec.fields for i in f.source_ids}:
        new = now.fields_by_id.get(field_id)
        for old in (schema.fields_by_id.get(field_id) for schema in schemas):
            if new is not None and old is not None and (f := changed_partition_field(field_id, old.type, new.type, found)):
                return f, str(old.type)
    return None


def wrapped_truncation(transform: Transform, bits: int) -> int | None:
    """Where writers of whole numbers of that width put the block of truncate that begins below the least number: their value wraps
    around. None for another transform, or where no block does."""
    if transform.name != "truncate" or not transform.parameter:
        return None
    beyond = -(2 ** (bits - 1)) % transform.parameter
    return 2 ** (bits - 1) - beyond if beyond else None


def promoted_value(old: IcebergType, new: IcebergType, value: Any) -> Any:
    """A canonical value of ``old`` as one of ``new``, for a promotion that ``can_promote`` allows (a default, a value read)."""
    if isinstance(value, int) and (old, new) in _SINCE_V3:
        return value * SECONDS_PER_DAY * (MICROS_PER_SECOND if new == TIMESTAMP else NANOS_PER_SECOND)
    return value
