"""What tells partitions apart (PART-15): NaN is one value, whatever its bits, and -0.0 is not 0.0. Python compares floats in other
ways, so partition tuples are not compared as they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

PartitionKey = tuple[Any, ...]


def partition_key(spec_id: int, partition: Sequence[Any]) -> PartitionKey:
    """A hashable key, equal exactly for equal partitions."""
    return (spec_id, *map(identity_of, partition))


def identity_of(value: Any) -> Any:
    """The same for one partition value."""
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else (value.hex(),)
    return value
