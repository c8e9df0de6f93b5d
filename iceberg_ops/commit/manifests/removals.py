"""The files a commit removes from a table, and the test whether a manifest or an entry is affected.

Files are named by value (whose partition shows where to search), by path, by partition, or by a filter that must match all rows of
a file or none. A file is identified by its location's identity, a deletion vector by its offset in its Puffin file. Spec:
"Manifests"
(entries are removed by writing them as DELETED), "Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from iceberg_ops.errors import CorruptTableError, PartialMatchError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.evaluators import metrics_all_match
from iceberg_ops.expressions.ordering import order_key_function
from iceberg_ops.expressions.predicates import ALWAYS_FALSE, ALWAYS_TRUE, AlwaysFalse, Expression
from iceberg_ops.io.locations import Identity
from iceberg_ops.scan.spec_filter import SpecFilter, SpecFilters
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.manifests import ManifestFile
from iceberg_ops.spec.partition_keys import PartitionKey, partition_key
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.types import StructType
from iceberg_ops.spec.values import from_bytes
from iceberg_ops.table.table import Table

FileKey = tuple[str, int | None]


def file_key(file: DataFile, identity: Identity) -> FileKey:
    """The identity of a file: the location's identity and, for deletion vectors, the offset."""
    if file.content is FileContent.DATA:
        return identity(file.file_path), None
    return identity(file.file_path), file.content_offset if file.is_deletion_vector else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Removals:
    """``files`` and ``deletes`` by value, ``paths`` of data files, whole ``partitions``, or rows ``matching`` a filter.

    ``must_exist``: a named file that is not live is an error (Java: failMissingDeletePaths). ``must_be_empty``: removing anything
    is an error (Java: failAnyDelete). ``every_entry``: ``files`` name a file once for each of its live entries, because the rows of
    each entry were read; any other number is an error."""

    files: tuple[DataFile, ...] = ()
    deletes: tuple[DataFile, ...] = ()
    paths: tuple[str, ...] = ()
    partitions: frozenset[PartitionKey] = frozenset()
    matching: Expression = ALWAYS_FALSE
    case_sensitive: bool = False
    must_exist: bool = False
    must_be_empty: bool = False
    every_entry: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.files or self.deletes or self.paths or self.partitions) and isinstance(self.matching, AlwaysFalse)

    @property
    def concerns_data(self) -> bool:
        return bool(self.files or self.paths or self.partitions) or not isinstance(self.matching, AlwaysFalse)


class RowFilter:
    """A filter over the rows of a table, applied to manifests and files. ``ALWAYS_FALSE`` matches nothing."""

    def __init__(self, table: Table, expression: Expression, *, case_sensitive: bool = False) -> None:
        self.expression = expression
        self._filters = SpecFilters(bind(table.schema, expression, case_sensitive=case_sensitive), table)
        self._never = isinstance(self._filters.bound, AlwaysFalse)

    def may_match_manifest(self, manifest: ManifestFile) -> bool:
        return not self._never and self._filters.of_manifest(manifest).keeps_manifest(manifest)

    def may_match(self, file: DataFile) -> bool:
        """Whether a data file may hold a matching row."""
        return not self._never and self._filters.of(file.spec_id).keeps(file)

    def may_match_partition(self, file: DataFile) -> bool:
        """Whether the partition of a file may hold a matching row."""
        return (
            not self._never and self._filters.of(file.spec_id).keeps_partition(file.partition) and self._left(file) != ALWAYS_FALSE
        )

    def matches_partition(self, file: DataFile) -> bool:
        """Whether every row of the file's partition matches."""
        return not self._never and self._left(file) == ALWAYS_TRUE

    def matches_all(self, file: DataFile) -> bool:
        """Whether every row of the file certainly matches."""
        if self._never:
            return False
        left = self._left(file)
        return left == ALWAYS_TRUE or metrics_all_match(left, file)

    def _left(self, file: DataFile) -> Expression:
        return self._spec_filter(file.spec_id).residual(file.partition)

    def _spec_filter(self, spec_id: int) -> SpecFilter:
        return self._filters.of(spec_id)

    def forbid_partial(self, file: DataFile) -> None:
        """Prevents losing rows that do not match: a file is removed as a whole or not at all. Raises PartialMatchError."""
        if not self.matches_all(file):
            raise PartialMatchError(
                f"Cannot delete file where some, but not all, rows match filter: {file.file_path}; use a row-level delete",
                file_path=file.file_path,
                partition=str(file.partition),
                file_paths=(file.file_path,),
            )


class PartitionPruning:
    """Which manifests may hold files of given partitions, by their partition summaries."""

    def __init__(self, metadata: TableMetadata, files: Iterable[DataFile], extra: Iterable[PartitionKey] = ()) -> None:
        self._metadata = metadata
        self._wanted: dict[int, set[PartitionKey]] = {}
        self._values: dict[PartitionKey, tuple[Any, ...]] = {}
        for f in _one_of_each_partition(files):
            key = partition_key(f.spec_id, f.partition)
            self._values[key] = f.partition
            self._wanted.setdefault(f.spec_id, set()).add(key)
        for key in extra:
            self._wanted.setdefault(key[0], set()).add(key)

    @property
    def partitions(self) -> frozenset[PartitionKey]:
        """All given partitions."""
        return frozenset(key for keys in self._wanted.values() for key in keys)

    def may_hold(self, manifest: ManifestFile) -> bool:
        known_ranges = self._wanted.get(manifest.partition_spec_id)
        if not known_ranges:
            return False
        if manifest.partitions is None:
            return True
        spec = self._metadata.specs_by_id.get(manifest.partition_spec_id)
        if spec is None:
            raise CorruptTableError(
                f"{manifest.manifest_path} has partition spec {manifest.partition_spec_id}, which is not in the metadata"
            )
        ranges = _ranges(manifest, spec.partition_type(self._metadata.all_fields_by_id))
        return any(key not in self._values or _within(self._values[key], ranges) for key in known_ranges)


def _one_of_each_partition(files: Iterable[DataFile]) -> list[DataFile]:
    """At least one file per partition; all files if a value is a float: Python treats some floats as equal that Iceberg does
    not."""
    chosen: list[DataFile] = []
    seen: set[tuple[int, tuple[Any, ...]]] = set()
    for f in files:
        key = (f.spec_id, f.partition)
        if key not in seen:
            chosen.append(f)
            if not any(isinstance(v, float) for v in f.partition):
                seen.add(key)
    return chosen


_Range = tuple[Any, bool, Any, Any]


def _ranges(manifest: ManifestFile, partition_type: StructType) -> list[_Range | None]:
    """Per field (order key, contains null, lowest, highest); None if the summary cannot be used."""
    ranges: list[_Range | None] = []
    for summary, f in zip(manifest.partitions or (), partition_type.fields, strict=False):
        if summary.lower_bound is None or summary.upper_bound is None:
            ranges.append(None)
            continue
        try:
            key = order_key_function(f.type)
            ranges.append(
                (
                    key,
                    summary.contains_null,
                    key(from_bytes(f.type, summary.lower_bound)),
                    key(from_bytes(f.type, summary.upper_bound)),
                )
            )
        except (CorruptTableError, TypeError):
            ranges.append(None)
    return ranges


def _within(partition: tuple[Any, ...], ranges: list[_Range | None]) -> bool:
    for value, known in zip(partition, ranges, strict=False):
        if known is None or (isinstance(value, float) and value != value):  # noqa: PLR0124 - NaN is never in a bound
            continue
        key, has_null, low, high = known
        if value is None:
            if not has_null:
                return False
        elif not low <= key(value) <= high:
            return False
    return True
