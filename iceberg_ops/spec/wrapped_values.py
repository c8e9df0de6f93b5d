"""Partition values that wrap around because writers with fixed-width arithmetic (Iceberg Java) compute them in 32 or 64 bits.

Such a value does not follow the order of its rows. Truncate wraps for the block that begins below the least int or long, and, in an
int column, for most numbers if its width is above 2**30. Hours wrap for timestamps more than 2**31 hours from 1970. A
long column may have been an int column: other writers promote it without regard to its partition values.
"""

from __future__ import annotations

from dataclasses import dataclass

from iceberg_ops.spec.epoch import MICROS_PER_SECOND
from iceberg_ops.spec.transform_functions import wrapped
from iceberg_ops.spec.transforms import Transform
from iceberg_ops.spec.types import INT, LONG, TIMESTAMP, TIMESTAMPTZ, IcebergType

WIDEST_OF_INTS = 1 << 30
"""The greatest W for which ``v % W + W`` fits an int."""
_TICKS_PER_HOUR = 3600 * MICROS_PER_SECOND
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1
_LEAST_INT, _GREATEST_INT = -(1 << 31), (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class WrappedValues:
    """Rows from ``first_row`` to ``last_row`` (source values) may be in partitions with values from ``low`` to ``high``.
    ``are_own``: the transform also gives those rows that value when it is applied to them now."""

    first_row: int
    last_row: int
    low: int
    high: int
    are_own: bool


def wrapped_values(transform: Transform, source: IcebergType) -> tuple[WrappedValues, ...]:
    """Every range of partition values that wrap around; none for most transforms and types."""
    if transform.name == "hour" and source in (TIMESTAMP, TIMESTAMPTZ):
        return _HOURS
    width = transform.parameter or 0
    if transform.name != "truncate" or source not in (INT, LONG) or not width:
        return ()
    blocks = []
    if width > WIDEST_OF_INTS:
        blocks.append(WrappedValues(_LEAST_INT, _GREATEST_INT, _LEAST_INT, _GREATEST_INT, False))
    elif (value := wrapped_truncation(transform, 32)) is not None:
        blocks.append(_least_block(32, width, value, source == INT))
    if source == LONG and (value := wrapped_truncation(transform, 64)) is not None:
        blocks.append(_least_block(64, width, value, True))
    return tuple(blocks)


def wrapped_truncation(transform: Transform, bits: int) -> int | None:
    """The value that writers with integers of that width give to the block of truncate that begins below the least number: it wraps
    around. None for another transform, or if no block does."""
    if transform.name != "truncate" or not transform.parameter:
        return None
    beyond = -(2 ** (bits - 1)) % transform.parameter
    return 2 ** (bits - 1) - beyond if beyond else None


def _least_block(bits: int, width: int, value: int, are_own: bool) -> WrappedValues:
    least = -(1 << (bits - 1))
    return WrappedValues(least, least - least % width + width - 1, value, value, are_own)


_HOURS = (
    WrappedValues((_GREATEST_INT + 1) * _TICKS_PER_HOUR, _GREATEST, _LEAST_INT, wrapped(_GREATEST // _TICKS_PER_HOUR, 32), True),
    WrappedValues(_LEAST, _LEAST_INT * _TICKS_PER_HOUR - 1, wrapped(_LEAST // _TICKS_PER_HOUR, 32), _GREATEST_INT, True),
)
