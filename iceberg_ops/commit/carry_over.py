"""Saving a rewrite from deletes that came meanwhile: they are carried over to the new files and committed with them.

While files are rewritten, others delete rows of the old ones. Iceberg Java then throws the rewrite away. Here, as long as it is
known where each row went (``RowMap``), the positions that are deleted *now* and were still copied are translated and written as
deletes for the new files; the same commit adds both. Equality deletes need nothing: the new files keep the data sequence number
they were read at. What comes between writing the deletes and the swap is found by the committer's own check, and the round begins
again.

The rule upheld: a row is in the table afterwards exactly if it is live in the old files at the moment of the swap.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.history import base_of
from iceberg_ops.commit.operation import Committed
from iceberg_ops.commit.removals import PartitionPruning
from iceberg_ops.commit.rewrite_files import RewriteFiles
from iceberg_ops.data.position_deletes import deleted_positions
from iceberg_ops.data.row_deletes import write_row_deletes
from iceberg_ops.data.write_context import WriteContext
from iceberg_ops.errors import CommitStateUnknownError, IcebergOpsError, ValidationError, VerificationError
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
    """Where the rows of one rewritten group went, for a rewrite that keeps their order (bin-pack).

    ``inputs`` are the old files in the order they were read, each with the positions that were *not* copied (ascending);
    ``outputs`` the new files in the order they were written. ``order``, for a sorted rewrite: the new place of each copied row,
    counted over all outputs, in the order the rows were read. Raises VerificationError where the counts do not agree.
    """

    inputs: Sequence[tuple[DataFile, Positions]]
    outputs: Sequence[DataFile]
    order: Positions | None = None

    def __post_init__(self) -> None:
        copied = sum(f.record_count - len(dropped) for f, dropped in self.inputs)
        written = sum(f.record_count for f in self.outputs)
        if copied != written or (self.order is not None and len(self.order) != copied):
            raise VerificationError(f"a row map of {copied} rows read and {written} rows written can not be right")

    def moved(self, deleted: Mapping[str, Positions]) -> dict[str, Positions]:
        """Positions in the new files, by path, of the old rows ``deleted`` (by path of the old file) that were copied."""
        before = 0
        places: list[Positions] = []
        for file, dropped in self.inputs:
            gone = np.setdiff1d(deleted.get(file.file_path, np.empty(0, np.int64)), dropped, assume_unique=True)
            places.append(before + gone - np.searchsorted(dropped, gone))
            before += file.record_count - len(dropped)
        flat = np.sort(np.concatenate(places)) if places else np.empty(0, np.int64)
        if self.order is not None:
            flat = np.sort(self.order[flat])
        ends = list(accumulate(f.record_count for f in self.outputs))
        found: dict[str, Positions] = {}
        for f, end in zip(self.outputs, ends, strict=True):
            low, high = np.searchsorted(flat, [end - f.record_count, end])
            if low < high:
                found[f.file_path] = flat[low:high] - (end - f.record_count)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOver:
    """A committed rewrite. ``rows`` deletes of rows were carried over, in ``rounds`` rounds (0: nothing had come meanwhile)."""

    committed: Committed
    rows: int = 0
    rounds: int = 0


def commit_carrying_over(
    catalog: Catalog,
    table: Table,
    operation: RewriteFiles,
    maps: Sequence[RowMap],
    *,
    committer: Callable[[Catalog, Table, RewriteFiles], Committed] = commit,
) -> CarriedOver:
    """Commit a rewrite of which every replaced data file is in one of ``maps``, carrying over what was deleted meanwhile.

    ``operation.data_sequence_number`` must be the starting snapshot's, so that equality deletes stay valid. Raises what ``commit``
    raises for every other conflict.
    """
    operation = replace(operation, removed_deletes=_not_taken_along(operation, table))
    rows = 0
    for turn in range(MOST_ROUNDS):
        try:
            return CarriedOver(committed=committer(catalog, table, operation), rows=rows, rounds=turn)
        except ValidationError as e:
            _delete_carried(table, operation)
            if turn == MOST_ROUNDS - 1 or not _is_carriable(e, operation, maps, table):
                raise
        except CommitStateUnknownError:
            raise
        except IcebergOpsError:
            _delete_carried(table, operation)
            raise
        now = catalog.load_table(table.identifier[1:])
        operation, rows = _carried(now, operation, maps)
    raise AssertionError("unreachable")


def _carried(now: Table, operation: RewriteFiles, maps: Sequence[RowMap]) -> tuple[RewriteFiles, int]:
    """The operation as it is on the table now: with deletes for all that is deleted now, and nothing before now to validate."""
    head = base_of(now.metadata, operation.branch)
    deleted = dict(_deleted_now(now, operation))
    outputs = {f.file_path: f for m in maps for f in m.outputs}
    moved = {path: positions for m in maps for path, positions in m.moved(deleted).items()}
    tasks = [(FileScanTask(outputs[path], operation.data_sequence_number or 0), positions) for path, positions in moved.items()]
    written = (
        write_row_deletes(now.io, WriteContext.for_table(now.metadata), tasks, operation_id=str(uuid.uuid4())) if tasks else None
    )
    return (
        replace(
            operation,
            starting_snapshot_id=None if head is None else head.snapshot_id,
            carried_deletes=() if written is None else written.added,
        ),
        sum(len(positions) for positions in moved.values()),
    )


def _deleted_now(now: Table, operation: RewriteFiles) -> Iterator[tuple[str, Positions]]:
    """Positions that position deletes and vectors of the branch's head remove from each replaced file."""
    pruning = PartitionPruning(now.metadata, operation.removed_data)
    identity = identity_under(now.io)
    wanted = {identity(f.file_path) for f in operation.removed_data}
    data: dict[str, int] = {}
    deletes: list[DeleteFile] = []
    for manifest in manifests_of(now, base_of(now.metadata, operation.branch)):
        if not pruning.may_hold(manifest):
            continue
        for entry in entries_of(now, manifest, live_only=True):
            f = entry.data_file
            if manifest.content is ManifestContent.DATA:
                if identity(f.file_path) in wanted:
                    data[identity(f.file_path)] = entry.sequence_number or 0
            elif f.content is FileContent.POSITION_DELETES and (
                not (p := scoped_path(f)) or not f.is_deletion_vector or identity(p) in wanted
            ):
                deletes.append(DeleteFile(f, entry.sequence_number or 0))
    specs, fields = now.metadata.specs_by_id, now.metadata.all_fields_by_id
    index = DeleteIndex(deletes, specs_by_id=specs, fields_by_id=fields, identity=identity)
    for file in operation.removed_data:
        found = index.for_data_file(file, data.get(identity(file.file_path), 0))
        yield file.file_path, deleted_positions(now.io, found, file.file_path)


def _is_carriable(conflict: ValidationError, operation: RewriteFiles, maps: Sequence[RowMap], table: Table) -> bool:
    """Whether the conflict is one of new deletes for replaced files whose rows can be followed."""
    if operation.data_sequence_number is None or not conflict.file_paths or "for replaced data file" not in str(conflict):
        return False
    identity = identity_under(table.io)
    followed = {identity(f.file_path) for m in maps for f, _ in m.inputs}
    return all(identity(f.file_path) in followed for f in operation.removed_data)


def _not_taken_along(operation: RewriteFiles, table: Table) -> tuple[DataFile, ...]:
    """Removed delete files but for those of replaced data files: these go with the data file, in whatever form they are by then."""
    identity = identity_under(table.io)
    replaced = {identity(f.file_path) for f in operation.removed_data}
    return tuple(f for f in operation.removed_deletes if not ((path := scoped_path(f)) and identity(path) in replaced))


def _delete_carried(table: Table, operation: RewriteFiles) -> None:
    table.io.delete_many([f.file_path for f in operation.carried_deletes])
