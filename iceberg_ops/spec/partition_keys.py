"""Keys that distinguish partitions (PART-15): all NaNs are one value, whatever their bits, and -0.0 is not 0.0. Python compares
floats differently, so partition tuples are not compared directly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

PartitionKey = tuple[Any, ...]


def partition_key(spec_id: int, partition: Sequence[Any]) -> PartitionKey:
    """A hashable key, equal exactly for equal partitions."""
    return (spec_id, *map(value_identity, partition))


def value_identity(value: Any) -> Any:
    """The key of one partition value."""
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else (value.hex(),)
    return value
