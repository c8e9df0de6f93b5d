"""Partition specs (spec: "Partitioning"): how partition values are computed from source columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from iceberg_ops.errors import UnsupportedError
from iceberg_ops.spec.transforms import Transform
from iceberg_ops.spec.types import UNKNOWN, IcebergType, NestedField, StructType

FIRST_PARTITION_FIELD_ID = 1000


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One partition field. ``source_ids`` has one id, except for multi-argument transforms (v3)."""

    source_ids: tuple[int, ...]
    field_id: int
    transform: Transform
    name: str
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def source_id(self) -> int:
        return self.source_ids[0]


@dataclass(frozen=True)
class PartitionSpec:
    """``spec_id`` and the fields in order. A partition tuple has one canonical value per field, in this order."""

    spec_id: int = 0
    fields: tuple[PartitionField, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_unpartitioned(self) -> bool:
        """No field, or only void ones: such a spec's equality deletes are global."""
        return all(f.transform.is_void for f in self.fields)

    @cached_property
    def last_assigned_field_id(self) -> int:
        return max((f.field_id for f in self.fields), default=FIRST_PARTITION_FIELD_ID - 1)

    def partition_type(self, fields_by_id: Mapping[int, NestedField]) -> StructType:
        """The struct type of partition tuples.

        ``fields_by_id`` should hold the fields of every known schema (TableMetadata.all_fields_by_id): a source column may have
        been dropped since, and the type of its partition values must stay known.
        """
        return StructType(
            tuple(NestedField(f.field_id, f.name, partition_field_type(f, fields_by_id)) for f in self.fields),
        )

    def compatible_with(self, other: PartitionSpec) -> bool:
        """Same sources, transforms and names in the same order; ids may differ (decides whether a spec is reused)."""
        return [(f.source_ids, f.transform, f.name) for f in self.fields] == [
            (f.source_ids, f.transform, f.name) for f in other.fields
        ]


def partition_field_type(f: PartitionField, fields_by_id: Mapping[int, NestedField]) -> IcebergType:
    """Type of a field's partition values; unknown if the source column is in no schema."""
    source = fields_by_id.get(f.source_id)
    return f.transform.result_type(source.type if source is not None else UNKNOWN)


def untyped_places(spec: PartitionSpec, fields_by_id: Mapping[int, NestedField]) -> tuple[int, ...]:
    """Indexes of values whose type is no longer known: their source column is in no schema. ``fields_by_id`` as for
    ``PartitionSpec.partition_type``."""
    types = spec.partition_type(fields_by_id).fields
    lost = (f.source_id not in fields_by_id and not f.transform.is_void for f in spec.fields)
    return tuple(place for place, is_lost in enumerate(lost) if is_lost and types[place].type == UNKNOWN)


def lost_type(what: str, field_name: str, spec_id: int) -> UnsupportedError:
    """The error for an operation that needs the type of such a value. Iceberg Java's expiry causes such values: it keeps every spec
    in use, but only the schemas of the remaining snapshots."""
    return UnsupportedError(
        f"not supported: {what}, because field {field_name!r} of partition spec {spec_id} has values of a column that no schema of "
        "the table has any more (another writer's expiry removed it), so their type is not known: rewrite all files of that spec "
        "(rewrite_data_files with rewrite-all = true)"
    )


UNPARTITIONED = PartitionSpec()
