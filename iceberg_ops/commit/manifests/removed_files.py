"""The entries a commit removes from manifests, counted without an object for each.

If a manifest is read as columns, the removed entries stay rows of it: their keys show whether all named files were found, and the
summary adds up columns. Entry objects are created only where needed (deletes dropped with their data, partition summaries).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from iceberg_ops.commit.manifests.removals import FileKey
from iceberg_ops.serde.manifests.manifest_columnar import EntryColumns
from iceberg_ops.serde.manifests.manifest_rewriting import first_of_partitions
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import ManifestEntry
from iceberg_ops.spec.partition_keys import PartitionKey, partition_key

Place = tuple[str, PartitionKey]
"""A location's identity, and the partition of an entry."""


@dataclass(frozen=True, slots=True)
class RemovedRows:
    """Rows of a manifest of data files, with their keys."""

    columns: EntryColumns
    rows: list[int]
    keys: list[FileKey]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def records(self) -> int:
        return sum(self.columns.record_count[self.rows].tolist())

    @property
    def stored_bytes(self) -> int:
        return sum(self.columns.file_size_in_bytes[self.rows].tolist())

    def files(self) -> list[DataFile]:
        return [e.data_file for e in self.columns.entries(self.rows)]

    def places(self) -> Iterator[Place]:
        spec_id = self.columns.manifest.partition_spec_id
        for (location, _), partition in zip(self.keys, self.columns.partitions(self.rows), strict=True):
            yield location, partition_key(spec_id, partition)

    def of_each_partition(self) -> list[DataFile]:
        """At least one file of each partition."""
        return [e.data_file for e in self.columns.entries(first_of_partitions(self.columns, self.rows))]


@dataclass(frozen=True)
class RemovedFiles:
    """Everything that one attempt removes: rows of manifests and single files."""

    rows: tuple[RemovedRows, ...] = ()
    entries: tuple[ManifestEntry, ...] = ()
    entry_keys: tuple[FileKey, ...] = ()
    """The keys of ``entries``, in their order."""

    @classmethod
    def together(cls, parts: Iterable[RemovedFiles]) -> RemovedFiles:
        removals = list(parts)
        return cls(
            tuple(r for p in removals for r in p.rows),
            tuple(e for p in removals for e in p.entries),
            tuple(k for p in removals for k in p.entry_keys),
        )

    def __bool__(self) -> bool:
        return bool(self.entries) or any(self.rows)

    @cached_property
    def keys(self) -> list[FileKey]:
        return [*(key for part in self.rows for key in part.keys), *self.entry_keys]

    @cached_property
    def files(self) -> list[DataFile]:
        """All removed files as values."""
        return [f for part in self.rows for f in part.files()] + [e.data_file for e in self.entries]

    @cached_property
    def places(self) -> frozenset[Place]:
        """Where each of them was live. A file that is removed from one partition may stay live in another."""
        single = zip(self.entry_keys, self.entries, strict=True)
        of_entries = ((key[0], partition_key(e.data_file.spec_id, e.data_file.partition)) for key, e in single)
        return frozenset(chain(of_entries, *(part.places() for part in self.rows)))

    def of_each_partition(self) -> list[DataFile]:
        """At least one file of each partition."""
        return [f for part in self.rows for f in part.of_each_partition()] + [e.data_file for e in self.entries]

    @cached_property
    def duplicates(self) -> int:
        """The number of entries whose file another entry also names."""
        return len(self.keys) - len(set(self.keys))


NOTHING_REMOVED = RemovedFiles()
