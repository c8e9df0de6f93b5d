"""Saves a rewrite from concurrent deletes: they are carried over to the new files and committed with them.

While files are rewritten, others delete rows of the old ones. Iceberg Java then discards the rewrite. Here, as long as the new
place of each row is known (``RowMap``), the positions that are deleted *now* and were still copied are translated and written as
deletes for the new files; the same commit adds both. Equality deletes need no translation: the new files keep the data sequence
number at which they were read. Deletes between the translation and the swap are found by the committer's own check, and then the
next round starts.

The rule: a row is in the table afterwards exactly if it is live in the old files at the moment of the swap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.manifests.removals import PartitionPruning
from iceberg_ops.commit.manifests.staged_files import discard
from iceberg_ops.commit.operations.carried_over import CarriedOver
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.protocol.history import History, base_snapshot
from iceberg_ops.commit.protocol.operation import Committed
from iceberg_ops.data.deletes.position_deletes import EMPTY, deleted_positions, read_positions
from iceberg_ops.data.writing.row_deletes import write_row_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.errors import UnsupportedError, ValidationError, VerificationError
from iceberg_ops.io.locations import identity_under
from iceberg_ops.scan.delete_index import DeleteIndex, scoped_path
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.manifests import ManifestContent
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table

Positions = npt.NDArray[np.int64]
MOST_ROUNDS = 50


@dataclass(frozen=True, eq=False)
class RowMap:
    """The new places of the rows of some rewritten files.

    ``inputs`` are the old files in the order they were read, each with the positions that were *not* copied (ascending);
    ``outputs`` are the new files in the order they were written. ``order``, if the order of rows changed: the new place of each
    copied row, counted over all outputs, in the order the rows were read. Raises VerificationError if the counts do not agree.
    """

    inputs: Sequence[tuple[DataFile, Positions]]
    outputs: Sequence[DataFile]
    order: npt.NDArray[np.integer[Any]] | None = None

    def __post_init__(self) -> None:
        copied = sum(f.record_count - len(dropped) for f, dropped in self.inputs)
        written = sum(f.record_count for f in self.outputs)
        if copied != written or (self.order is not None and len(self.order) != copied):
            raise VerificationError(f"a row map of {copied} rows read and {written} rows written cannot be right")

    def moved(self, deleted: Mapping[str, Positions]) -> dict[str, Positions]:
        """Positions in the new files, by path, of the old rows ``deleted`` (by path of the old file) that were copied."""
        before = 0
        places: list[Positions] = []
        for file, dropped in self.inputs:
            gone = np.setdiff1d(deleted.get(file.file_path, np.empty(0, np.int64)), dropped, assume_unique=True)
            gone = gone[gone < file.record_count]
            places.append(before + gone - np.searchsorted(dropped, gone))
            before += file.record_count - len(dropped)
        flat = np.sort(np.concatenate(places)) if places else np.empty(0, np.int64)
        if self.order is not None:
            flat = np.sort(self.order[flat].astype(np.int64))
        ends = list(accumulate(f.record_count for f in self.outputs))
        positions: dict[str, Positions] = {}
        for f, end in zip(self.outputs, ends, strict=True):
            low, high = np.searchsorted(flat, [end - f.record_count, end])
            if low < high:
                positions[f.file_path] = flat[low:high] - (end - f.record_count)
        return positions


MapsOf = Callable[[Collection[str]], Sequence[RowMap]]
"""Maps that hold all of the old files at these locations. Raises ValidationError that names (``file_paths``) the files whose rows
cannot be followed."""


def commit_carrying_over(
    catalog: Catalog,
    table: Table,
    operation: RewriteFiles,
    maps_of: MapsOf,
    *,
    operation_id: str,
    mark: str = "",
    committer: Callable[[Catalog, Table, RewriteFiles], Committed] = commit,
) -> CarriedOver:
    """Commit a rewrite, and carry over the deletes that were committed against the replaced files in the meantime.

    ``operation.data_sequence_number`` must be the starting snapshot's, so that equality deletes stay valid. ``operation_id`` is in
    the names of the delete files and must be unique to this call; ``mark`` is that of the run's own lease. Raises the errors of
    ``commit`` and ``maps_of``; every conflict except deletes that can be carried over is raised as well. The files it wrote are
    then deleted, unless the outcome is unknown."""
    operation = replace(operation, removed_deletes=_not_taken_along(operation, table))
    deletes = _Deletes(table, operation.removed_data)
    rows: Mapping[str, int] = {}
    for turn in range(MOST_ROUNDS):
        try:
            done = committer(catalog, table, operation)
        except BaseException as e:
            discard(catalog, table, [f.file_path for f in operation.carried_deletes], mark=mark, after=e)
            if not isinstance(e, ValidationError) or turn == MOST_ROUNDS - 1 or not _is_carriable(e, operation):
                raise
            deletes.hit.update(deletes.replaced(e.file_paths))
        else:
            if done.already_committed:
                discard(catalog, table, [f.file_path for f in operation.carried_deletes], mark=mark)
                return CarriedOver(committed=done, rounds=turn)
            return CarriedOver(committed=done, rounds=turn, rows=rows, deletes=operation.carried_deletes)
        now = catalog.load_table(table.identifier[1:])
        deletes.hit.update(_hit_until(now, operation, table))
        try:
            operation, rows = _carried(now, operation, maps_of(deletes.hit), deletes, f"{operation_id}-{turn}")
        except UnsupportedError as e:
            hit = tuple(sorted(deletes.hit))
            raise ValidationError(f"concurrent deletes cannot be carried over: {e}", file_paths=hit) from e
    raise AssertionError("unreachable")


class _Deletes:
    """The deletes that one commit knows for the files it replaces. Delete files do not change, so each is read once in all rounds,
    and only its part that affects replaced files is kept.

    ``hit`` are the old files with new deletes."""

    def __init__(self, table: Table, replaced: Sequence[DataFile]) -> None:
        self.hit: set[str] = set()
        self._io, self._identity = table.io, identity_under(table.io)
        self._replaced = {self._identity(f.file_path) for f in replaced}
        self._read: dict[tuple[str, int | None], dict[str, Positions]] = {}

    def replaced(self, file_paths: Iterable[str]) -> set[str]:
        """Those that are files of this commit."""
        return {path for path in file_paths if self._identity(path) in self._replaced}

    def positions(self, deletes: Sequence[DeleteFile], file_path: str) -> Positions:
        """The same as ``deleted_positions``."""
        vectors = [d for d in deletes if d.is_deletion_vector]
        if len(vectors) > 1:
            return deleted_positions(self._io, vectors, file_path)
        name = self._identity(file_path)
        parts = [self._read_positions(d, name).get(name, EMPTY) for d in (vectors or deletes)]
        return parts[0] if len(parts) == 1 else np.unique(np.concatenate([EMPTY, *parts]))

    def _read_positions(self, delete: DeleteFile, name: str) -> dict[str, Positions]:
        f = delete.data_file
        key = (f.file_path, f.content_offset)
        if key not in self._read:
            if delete.is_deletion_vector:
                self._read[key] = {name: deleted_positions(self._io, [delete], name)}
            else:
                every = read_positions(self._io, f)
                self._read[key] = {path: positions for path, positions in every.items() if path in self._replaced}
        return self._read[key]


def _carried(
    now: Table, operation: RewriteFiles, maps: Sequence[RowMap], deletes: _Deletes, operation_id: str
) -> tuple[RewriteFiles, dict[str, int]]:
    """The operation on the current table: with deletes for everything that is deleted now, and with now as its starting point."""
    head = base_snapshot(now.metadata, operation.branch)
    deleted = dict(_deleted_now(now, operation.branch, [file for m in maps for file, _ in m.inputs], deletes))
    outputs = {f.file_path: f for m in maps for f in m.outputs}
    moved = {path: positions for m in maps for path, positions in m.moved(deleted).items()}
    tasks = [(FileScanTask(outputs[path], operation.data_sequence_number or 0), positions) for path, positions in moved.items()]
    written = write_row_deletes(now.io, WriteContext.for_table(now.metadata), tasks, operation_id=operation_id) if tasks else None
    return (
        replace(
            operation,
            starting_snapshot_id=None if head is None else head.snapshot_id,
            carried_deletes=() if written is None else written.added,
        ),
        {path: len(positions) for path, positions in moved.items()},
    )


def _deleted_now(now: Table, branch: str, files: Sequence[DataFile], known: _Deletes) -> Iterator[tuple[str, Positions]]:
    """Positions that position deletes and vectors of the branch's head remove from each of the replaced files."""
    pruning = PartitionPruning(now.metadata, files)
    identity = identity_under(now.io)
    identities = {identity(f.file_path) for f in files}
    data: dict[str, int] = {}
    deletes: list[DeleteFile] = []
    for manifest in manifests_of(now, base_snapshot(now.metadata, branch)):
        if not pruning.may_hold(manifest):
            continue
        for entry in entries_of(now, manifest, live_only=True):
            f = entry.data_file
            if manifest.content is ManifestContent.DATA:
                if identity(f.file_path) in identities:
                    data[identity(f.file_path)] = entry.sequence_number or 0
            elif f.content is FileContent.POSITION_DELETES and (
                not (p := scoped_path(f)) or not f.is_deletion_vector or identity(p) in identities
            ):
                deletes.append(DeleteFile(f, entry.sequence_number or 0))
    specs, fields = now.metadata.specs_by_id, now.metadata.all_fields_by_id
    index = DeleteIndex(deletes, specs_by_id=specs, fields_by_id=fields, identity=identity)
    for file in files:
        of_file = index.for_data_file(file, data.get(identity(file.file_path), 0))
        yield file.file_path, known.positions(of_file, file.file_path)


def _hit_until(now: Table, operation: RewriteFiles, callers: Table) -> tuple[str, ...]:
    """Old files with new deletes until ``now``, which is later than the state that the committer refused. Commits in between are
    not validated again, because the operation then starts at ``now``. Raises every other conflict."""
    try:
        operation = replace(operation, carried_deletes=())
        operation.validate(now, History(now, operation.branch, operation.starting_snapshot_id, callers=callers.metadata))
    except ValidationError as e:
        if not _is_carriable(e, operation):
            raise
        return e.file_paths
    return ()


def _is_carriable(conflict: ValidationError, operation: RewriteFiles) -> bool:
    """Whether the conflict is about new position deletes for replaced files, or about carried-over deletes in the format of a table
    that has been upgraded since."""
    if not conflict.file_paths or operation.data_sequence_number is None:
        return False
    carried = {f.file_path for f in operation.carried_deletes}
    return carried.issuperset(conflict.file_paths) or "found new position delete for replaced data file" in str(conflict)


def _not_taken_along(operation: RewriteFiles, table: Table) -> tuple[DataFile, ...]:
    """Removed delete files except those of replaced data files: these are removed with the data file, in whatever form they are."""
    identity = identity_under(table.io)
    replaced = {identity(f.file_path) for f in operation.removed_data}
    return tuple(f for f in operation.removed_deletes if not ((path := scoped_path(f)) and identity(path) in replaced))
