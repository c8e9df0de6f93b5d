"""Sort orders (spec: "Sorting")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from iceberg_ops.spec.transforms import Transform


class SortDirection(str, Enum):
    ASC = "asc"
    DESC = "desc"


class NullOrder(str, Enum):
    NULLS_FIRST = "nulls-first"
    NULLS_LAST = "nulls-last"


@dataclass(frozen=True, slots=True)
class SortField:
    """One sort key. ``source_ids`` has one id, except for multi-argument transforms (v3)."""

    source_ids: tuple[int, ...]
    transform: Transform
    direction: SortDirection
    null_order: NullOrder
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def source_id(self) -> int:
        return self.source_ids[0]


@dataclass(frozen=True, slots=True)
class SortOrder:
    """``order_id`` 0 is the unsorted order and has no fields."""

    order_id: int = 0
    fields: tuple[SortField, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_unsorted(self) -> bool:
        return not self.fields


UNSORTED = SortOrder()
