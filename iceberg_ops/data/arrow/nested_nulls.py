"""Counts nulls of structs, lists, maps and variants separately from nulls of their content.

Manifests record only nulls of leaf columns: there a null struct equals one whose fields are null, and a null list equals an empty
one. So a rewrite counts these nulls itself, in the rows it reads and in those it stores.

A null counts if all its parents are present. A required column is stored without a null, whatever its rows say: Parquet would turn
a null into an empty value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from iceberg_ops.data.arrow.plain_types import as_lists
from iceberg_ops.spec.types import UNKNOWN, VARIANT, ListType, MapType, NestedField, StructType


@dataclass(slots=True)
class NestedNulls:
    """Counts by field id. ``stored``: the rows are in the form of a file."""

    stored: bool = False
    counts: dict[int, int] = field(default_factory=dict)

    def add(self, fields: Sequence[NestedField], columns: Sequence[pa.Array]) -> None:
        """Count canonical columns of those fields."""
        for f, column in zip(fields, columns, strict=True):
            self._add(f, column, 0)

    def _add(self, f: NestedField, array: pa.Array, around: int) -> None:
        """``around``: how many of the array's nulls belong to a parent struct."""
        if f.type == UNKNOWN or not (f.type.is_nested or f.type == VARIANT):
            return
        nulls = 0 if self.stored and f.required else array.null_count - around
        self.counts[f.field_id] = self.counts.get(f.field_id, 0) + nulls
        if isinstance(f.type, StructType):
            for child, part in zip(f.type.fields, array.flatten(), strict=True):
                self._add(child, part, array.null_count)
        elif isinstance(f.type, ListType) and _is_counted(f.type.element):
            self._add(f.type.element, array.flatten(), 0)
        elif isinstance(f.type, MapType) and _is_counted(f.type.value):
            self._add(f.type.value, map_entries(array).field(1), 0)


def _is_counted(f: NestedField) -> bool:
    return f.type.is_nested or f.type == VARIANT


def map_entries(array: pa.MapArray) -> pa.StructArray:
    """The keys and values of the maps that are present, as structs."""
    return as_lists(array).flatten()
