"""All partition fields a table ever had as one struct, for ``_partition`` and partition statistics (STAT-05).

Fields of several specs are one field if they have the same field id, the same sources and the same transform, or if one of them is
the void that v1 leaves of it (Java: Partitioning.partitionType). A field id alone is not enough: v1 specs may omit ids, and then
every spec counts from 1000 (PART-04). Such fields stay separate here, the later ones with ids that no spec has.

Names are those of the newest spec. If a column was dropped and another one with its name is used for partitioning, two fields have
one name: then the older one gets its id as a suffix (``region_1000``), like a void field in v1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iceberg_ops.spec.partitioning import FIRST_PARTITION_FIELD_ID, PartitionField, PartitionSpec, lost_type, partition_field_type
from iceberg_ops.spec.types import UNKNOWN, IcebergType, NestedField, StructType


@dataclass(frozen=True, slots=True)
class PartitionUnion:
    """``type``: the struct, its fields by field id. ``places``: for each spec id the index of each struct field's value in the
    spec's partition tuples, None if the spec has no such field. ``conflicts``: pairs of different fields that share an
    id."""

    type: StructType
    places: Mapping[int, tuple[int | None, ...]]
    conflicts: tuple[tuple[PartitionField, PartitionField], ...] = ()

    def values(self, spec_id: int, partition: Sequence[Any]) -> tuple[Any, ...]:
        """A partition tuple of that spec as a value of the struct. Raises UnsupportedError for a value without a type."""
        values = tuple(None if place is None else partition[place] for place in self.places[spec_id])
        for f, value in zip(self.type.fields, values, strict=True):
            if f.type == UNKNOWN and value is not None:
                raise lost_type("showing partition values", f.name, spec_id)
        return values


@dataclass(slots=True)
class _Merged:
    """One field of the union: the fields it is made of, oldest spec first."""

    fields: list[tuple[int, int, PartitionField]]
    field_id: int

    def is_same(self, f: PartitionField) -> bool:
        known = [field for _, _, field in self.fields if not field.transform.is_void] or [self.fields[0][2]]
        transforms = {known[0].transform, f.transform}
        return known[0].source_ids == f.source_ids and (len(transforms) == 1 or any(t.is_void for t in transforms))

    def type(self, fields_by_id: Mapping[int, NestedField]) -> IcebergType:
        """The type of the field itself, not of the void that is left of it."""
        live = [f for _, _, f in self.fields if not f.transform.is_void]
        types = [partition_field_type(f, fields_by_id) for f in (*reversed(live), *(f for _, _, f in self.fields))]
        return next((type_ for type_ in types if type_ != UNKNOWN), UNKNOWN)


def partition_union(specs: Iterable[PartitionSpec], fields_by_id: Mapping[int, NestedField]) -> PartitionUnion:
    """The union of ``specs``; ``fields_by_id`` as for ``PartitionSpec.partition_type``."""
    ordered = sorted(specs, key=lambda s: s.spec_id)
    merged: list[_Merged] = []
    conflicts: list[tuple[PartitionField, PartitionField]] = []
    free = max((s.last_assigned_field_id for s in ordered), default=FIRST_PARTITION_FIELD_ID)
    for spec in ordered:
        for place, f in enumerate(spec.fields):
            rivals = [m for m in merged if m.fields[0][2].field_id == f.field_id]
            match = next((m for m in rivals if m.is_same(f)), None)
            if match is None:
                if rivals:
                    free += 1
                    conflicts.append((rivals[0].fields[0][2], f))
                match = _Merged([], free if rivals else f.field_id)
                merged.append(match)
            match.fields.append((spec.spec_id, place, f))
    merged.sort(key=lambda m: m.field_id)
    names = _names(merged)
    struct = StructType(tuple(NestedField(m.field_id, n, m.type(fields_by_id)) for m, n in zip(merged, names, strict=True)))
    return PartitionUnion(struct, {s.spec_id: _places(s.spec_id, merged) for s in ordered}, tuple(conflicts))


def _places(spec_id: int, merged: Sequence[_Merged]) -> tuple[int | None, ...]:
    return tuple(next((place for field_spec_id, place, _ in m.fields if field_spec_id == spec_id), None) for m in merged)


def _names(merged: Sequence[_Merged]) -> list[str]:
    """Each field's newest name; if several have one name (ignoring case), the one of the newest spec keeps it."""
    newest = sorted(range(len(merged)), key=lambda i: (-merged[i].fields[-1][0], -merged[i].field_id))
    names: dict[int, str] = {}
    taken: set[str] = set()
    for i in newest:
        name = merged[i].fields[-1][2].name
        while name.lower() in taken:
            name = f"{name}_{merged[i].field_id}"
        taken.add(name.lower())
        names[i] = name
    return [names[i] for i in range(len(merged))]
