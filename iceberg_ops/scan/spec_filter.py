"""A scan's filter for one partition spec: it selects manifests, partitions and files.

Each manifest is tested with the spec it was written with, never with the table's current one (PART-11). Everything here is
inclusive: whatever may hold a matching row stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import repeat
from typing import Any

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.expressions.evaluators import manifest_may_match, metrics_may_match, partition_matches, residual
from iceberg_ops.expressions.predicates import ALWAYS_FALSE, ALWAYS_TRUE, AlwaysTrue, Expression, field_ids
from iceberg_ops.expressions.projection import project_inclusive
from iceberg_ops.scan.former_types import FormerTypes
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import ManifestFile
from iceberg_ops.spec.partition_keys import PartitionKey, partition_key
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.promotion import moved_by_promotion
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.transforms import VOID
from iceberg_ops.spec.types import DATE, NestedField, PrimitiveType, StructType
from iceberg_ops.table.table import Table

_EQUAL_IS_SAME = frozenset({"boolean", "int", "long", "date", "timestamp", "timestamptz", "string"})


class SpecFilter:
    """``bound`` (an expression bound to the scan's schema) under one spec. The values of ``moved`` partition fields say nothing
    about their rows (``moved_dates``)."""

    def __init__(
        self,
        bound: Expression,
        spec: PartitionSpec,
        fields_by_id: Mapping[int, NestedField],
        moved: Collection[PartitionField] = (),
    ) -> None:
        self.bound = bound
        self.spec = spec
        self._telling = replace(spec, fields=tuple(replace(f, transform=VOID) if f in moved else f for f in spec.fields))
        self._fields_by_id = fields_by_id
        self._residuals: dict[PartitionKey, Expression] = {}

    @property
    def is_trivial(self) -> bool:
        """Whether it keeps everything."""
        return isinstance(self.bound, AlwaysTrue)

    @cached_property
    def partition_type(self) -> StructType:
        return self.spec.partition_type(self._fields_by_id)

    @cached_property
    def projected(self) -> Expression:
        """The inclusive projection over the partition's fields."""
        return ALWAYS_TRUE if self.is_trivial else project_inclusive(self.bound, self._telling, self._fields_by_id)

    @cached_property
    def _has_floats(self) -> bool:
        """Whether equal partition tuples may be different partitions."""
        return any(f.type.name not in _EQUAL_IS_SAME for f in self.partition_type.fields if isinstance(f.type, PrimitiveType))

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        """Tested by the manifest's partition summaries."""
        return self.is_trivial or manifest_may_match(self.projected, manifest, self.partition_type)

    def keeps_partition(self, partition: tuple[Any, ...]) -> bool:
        return isinstance(self.projected, AlwaysTrue) or partition_matches(self.projected, partition)

    def keeps_metrics(self, file: DataFile) -> bool:
        return self.is_trivial or metrics_may_match(self.bound, file)

    def residual(self, partition: tuple[Any, ...]) -> Expression:
        """The part of the filter that the partition does not decide."""
        if self.is_trivial:
            return ALWAYS_TRUE
        key = partition_key(self.spec.spec_id, partition) if self._has_floats else partition
        known = self._residuals.get(key)
        if known is None:
            known = self._residuals[key] = residual(self.bound, self._telling, partition)
        return known

    def residuals(self, partitions: Sequence[tuple[Any, ...]]) -> Iterable[Expression]:
        """The residual of each of these partitions."""
        if self.is_trivial:
            return repeat(ALWAYS_TRUE, len(partitions))
        if self._has_floats:
            return map(self.residual, partitions)
        known = {partition: self.residual(partition) for partition in set(partitions)}
        return map(known.__getitem__, partitions)

    def keeps(self, file: DataFile) -> bool:
        """Whether the file may hold a matching row, by its partition and metrics."""
        return self.keeps_partition(file.partition) and self.residual(file.partition) != ALWAYS_FALSE and self.keeps_metrics(file)


class SpecFilters:
    """The filters of one scan, one per partition spec, created on first use."""

    def __init__(self, bound: Expression, table: Table) -> None:
        self.bound = bound
        self._metadata = table.metadata
        self._former = FormerTypes(table, field_ids(bound))
        self._filters: dict[int, SpecFilter] = {}

    def of_manifest(self, manifest: ManifestFile) -> SpecFilter:
        """The filter of a manifest's spec. Raises FormerColumnsError if it cannot judge the manifest's files."""
        self._former.forbid(manifest)
        return self.of(manifest.partition_spec_id)

    def of(self, spec_id: int) -> SpecFilter:
        """The filter of that spec. Raises CorruptTableError for a spec id that the metadata does not have."""
        known = self._filters.get(spec_id)
        if known is None:
            spec = self._metadata.specs_by_id.get(spec_id)
            if spec is None:
                raise CorruptTableError(
                    f"table {self._metadata.location}: a manifest has partition spec {spec_id}, which is not in the metadata"
                )
            known = self._filters[spec_id] = SpecFilter(
                self.bound, spec, self._metadata.all_fields_by_id, moved_dates(self._metadata, spec)
            )
        return known


def moved_dates(metadata: TableMetadata, spec: PartitionSpec) -> list[PartitionField]:
    """Partition fields whose older files may have been placed by a date although the column now holds timestamps: another writer
    promoted it, and bucket and identity of the two differ. The projection itself handles integers under truncate."""
    moved = moved_by_promotion(metadata.schemas, metadata.schema, [spec], metadata.format_version)
    return [m.field for m in moved if m.old == DATE]
