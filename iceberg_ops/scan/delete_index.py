"""Which delete files apply to a data file.

The rules are the spec's "Scan Planning": a position delete applies at the same or a later data sequence number, an equality
delete only at a later one, and a deletion vector replaces position deletes for its file. Partition and spec id must agree
unless an equality delete is global (written under a spec without partition fields).

Reading delete files is not done here (see iceberg_ops.data), nor is comparing column bounds (``delete_overlap``). If bounds are
missing, a delete is assumed to apply: reading one file too many is slow, missing one gives wrong data. Paths are compared by
identity (``iceberg_ops.io.locations``), because writers of one table spell them differently.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Mapping

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.locations import Identity, location_identity
from iceberg_ops.scan.delete_overlap import may_hold_deleted_rows
from iceberg_ops.scan.tasks import DeleteFile
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.metadata_columns import DELETE_FILE_PATH_ID
from iceberg_ops.spec.partition_keys import PartitionKey, partition_key
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionSpec
from iceberg_ops.spec.types import NestedField

_DATA_FILE_ENDINGS = tuple(f".{form.value}" for form in FileFormat)


def path_bounds(delete: DataFile) -> tuple[str | None, str | None]:
    """Lower and upper bound of the data file paths that a position delete file names; None if not recorded."""
    return _text(delete.lower_bounds), _text(delete.upper_bounds)


def _text(bounds: Mapping[int, bytes] | None) -> str | None:
    bound = None if bounds is None else bounds.get(DELETE_FILE_PATH_ID)
    if bound is None:
        return None
    try:
        return bound.decode()
    except UnicodeDecodeError:
        return None


def scoped_path(delete: DataFile) -> str | None:
    """The one data file, as recorded, whose rows a delete can remove; None if it may be several (Java: isFileScoped).

    Equal path bounds name one file only if they are a complete path: a bound may have been cut without being rounded up, so one
    that does not end like a data file name counts as a prefix."""
    if delete.content is not FileContent.POSITION_DELETES:
        return None
    if delete.referenced_data_file is not None:
        return delete.referenced_data_file
    lower, upper = path_bounds(delete)
    return lower if lower is not None and lower == upper and lower.endswith(_DATA_FILE_ENDINGS) else None


class DeleteIndex:
    """The live deletes of one snapshot, looked up by data file.

    ``specs_by_id`` identifies global equality deletes; ``fields_by_id`` (fields of every schema) gives the types of bounds.
    Building raises
    CorruptTableError for a deletion vector without its data file and for two vectors of one data file.
    """

    def __init__(
        self,
        deletes: Iterable[DeleteFile],
        *,
        specs_by_id: Mapping[int, PartitionSpec],
        fields_by_id: Mapping[int, NestedField],
        identity: Identity = location_identity,
    ) -> None:
        self._identity = identity
        self._fields_by_id = fields_by_id
        self._vectors: dict[str, DeleteFile] = {}
        self._by_path: dict[str, _Ordered] = {}
        self._positions: dict[PartitionKey, _Ordered] = {}
        self._equality: dict[PartitionKey, _Ordered] = {}
        self._global = _Ordered()
        for delete in deletes:
            self._add(delete, specs_by_id)
        for group in (self._by_path, self._positions, self._equality):
            for ordered in group.values():
                ordered.sort()
        self._global.sort()

    def _add(self, delete: DeleteFile, specs_by_id: Mapping[int, PartitionSpec]) -> None:
        file = delete.data_file
        if file.is_deletion_vector:
            self._add_vector(delete)
        elif file.content is FileContent.EQUALITY_DELETES:
            if specs_by_id.get(file.spec_id, UNPARTITIONED).is_unpartitioned:
                self._global.add(delete)
            else:
                self._equality.setdefault(partition_key(file.spec_id, file.partition), _Ordered()).add(delete)
        elif (path := scoped_path(file)) is not None:
            self._by_path.setdefault(self._identity(path), _Ordered()).add(delete)
        else:
            self._positions.setdefault(partition_key(file.spec_id, file.partition), _Ordered()).add(delete)

    def _add_vector(self, delete: DeleteFile) -> None:
        path = delete.data_file.referenced_data_file
        if path is None:
            raise CorruptTableError(f"deletion vector in {delete.file_path} does not name its data file (referenced_data_file)")
        other = self._vectors.setdefault(self._identity(path), delete)
        if other is not delete:
            raise CorruptTableError(
                f"data file {path} has two deletion vectors, in {_place(other)} and {_place(delete)}: at most one may be live"
            )

    @property
    def is_empty(self) -> bool:
        return not (self._vectors or self._by_path or self._positions or self._equality or self._global.deletes)

    def for_data_file(self, file: DataFile, sequence_number: int) -> tuple[DeleteFile, ...]:
        """The deletes that may remove rows of ``file``, equality deletes first, each kind by sequence number."""
        key = partition_key(file.spec_id, file.partition)
        later = [*self._global.since(sequence_number + 1)]
        if key in self._equality:
            later += self._equality[key].since(sequence_number + 1)
        deletes = [d for d in later if may_hold_deleted_rows(file, d.data_file, self._fields_by_id)]
        if self._vectors or self._by_path or key in self._positions:
            deletes += self._position_deletes(file, sequence_number, key)
        return tuple(deletes)

    def _position_deletes(self, file: DataFile, sequence_number: int, key: PartitionKey) -> list[DeleteFile]:
        path = self._identity(file.file_path)
        vector = self._vectors.get(path)
        if vector is not None and vector.sequence_number >= sequence_number and _partition_key(vector) == key:
            return [vector]
        deletes: list[DeleteFile] = []
        if path in self._by_path:
            deletes += self._by_path[path].since(sequence_number)
        deletes = [d for d in deletes if _partition_key(d) == key]
        if key in self._positions:
            deletes += [d for d in self._positions[key].since(sequence_number) if self._may_name(d.data_file, file.file_path)]
        return deletes

    def _may_name(self, delete: DataFile, path: str) -> bool:
        """Whether a position delete's path bounds admit ``path``.

        Bounds are texts, and one file may have several spellings. So they only exclude a data file in the folder that both bounds
        share, with the same spelling, and only if no name below that folder can begin with a dot or a slash (``./f``, ``//f``)."""
        lower, upper = path_bounds(delete)
        if lower is None or upper is None:
            return True
        shared = os.path.commonprefix([lower, upper]).rpartition("/")[0] + "/"  # noqa: RUF071 - texts, which may be cut anywhere
        if path.rpartition("/")[0] + "/" != shared or lower[len(shared) : len(shared) + 1] <= "/":
            return True
        return lower <= path and (path <= upper or path.startswith(upper))


class _Ordered:
    """Deletes by ascending sequence number."""

    __slots__ = ("deletes", "numbers")

    def __init__(self) -> None:
        self.deletes: list[DeleteFile] = []
        self.numbers: list[int] = []

    def add(self, delete: DeleteFile) -> None:
        self.deletes.append(delete)

    def sort(self) -> None:
        self.deletes.sort(key=lambda d: d.sequence_number)
        self.numbers = [d.sequence_number for d in self.deletes]

    def since(self, sequence_number: int) -> list[DeleteFile]:
        """Those with that sequence number or a later one."""
        if not self.numbers or self.numbers[-1] < sequence_number:
            return []
        return self.deletes[bisect_left(self.numbers, sequence_number) :]


def _partition_key(delete: DeleteFile) -> PartitionKey:
    return partition_key(delete.data_file.spec_id, delete.data_file.partition)


def _place(delete: DeleteFile) -> str:
    return f"{delete.file_path} at offset {delete.data_file.content_offset}"
