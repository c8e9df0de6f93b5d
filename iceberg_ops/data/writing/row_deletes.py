"""Position deletes for the rows that a statement or a conversion found: delete files in v2, deletion vectors in v3.

A deletion vector includes everything that older deletes removed from its data file, so it replaces the existing vector and
file-scoped position deletes (DV-03); position delete files that name several data files stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iceberg_ops.data.deletes.position_deletes import EMPTY, deleted_positions
from iceberg_ops.data.writing.delete_files import delete_format, write_deletion_vectors, write_position_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.locations import identity_under
from iceberg_ops.scan.delete_index import scoped_path
from iceberg_ops.scan.live_entries import are_in_one_partition, have_the_same_deletes, live_several_times
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowDeletes:
    """``added`` delete files or vectors, and the older ones that they ``replaced``."""

    added: tuple[DataFile, ...]
    replaced: tuple[DataFile, ...] = ()


def check_row_deletes(context: WriteContext) -> None:
    """Raise UnsupportedError if rows cannot be deleted by position: in a v1 table, and with ORC delete files."""
    if context.format_version < 2:
        raise UnsupportedError("not supported: merge-on-read on a v1 table, because v1 has no row-level deletes: upgrade it to v2")
    if context.format_version == 2:
        delete_format(context)


def write_row_deletes(
    io: FileIO,
    context: WriteContext,
    deleted: Sequence[tuple[FileScanTask, Positions]],
    *,
    operation_id: str,
    granularity: str | None = None,
) -> RowDeletes:
    """Delete the positions of each task's data file. ``granularity`` (v2): file or partition; None: the table's.

    A file that is live several times gets one set of deletes, with the positions of all its entries, which must be among
    ``deleted``.

    Raises UnsupportedError for a v1 table, for ORC delete files, for a file that is live in several partitions, and in v3 for a
    file whose entries have different deletes.
    """
    check_row_deletes(context)
    deleted = _one_of_each_file(io, context, deleted)
    if context.format_version == 2:
        positions = {task.data_file: gone for task, gone in deleted}
        return RowDeletes(tuple(write_position_deletes(io, context, positions, granularity, operation_id=operation_id)))
    merged: dict[DataFile, Positions] = {}
    replaced: list[DataFile] = []
    for task, gone in deleted:
        earlier = [d for d in task.deletes if not d.is_equality]
        merged[task.data_file] = np.concatenate([gone, deleted_positions(io, earlier, task.file_path)])
        replaced += [d.data_file for d in earlier if d.is_deletion_vector or scoped_path(d.data_file) is not None]
    return RowDeletes(tuple(write_deletion_vectors(io, context, merged, operation_id=operation_id)), tuple(replaced))


def _one_of_each_file(
    io: FileIO, context: WriteContext, deleted: Sequence[tuple[FileScanTask, Positions]]
) -> Sequence[tuple[FileScanTask, Positions]]:
    """A position delete names a file, and so reaches all of its live entries in its partition; engines disagree whether it also
    reaches those in another partition. A row that is already deleted in one entry is not affected again. A deletion vector also
    includes the older deletes, so these must be equal for all entries."""
    identity = identity_under(io)
    several = live_several_times((task for task, _ in deleted), identity)
    if not several:
        return deleted
    for entries in several:
        if not are_in_one_partition(entries):
            raise UnsupportedError(
                f"not supported: deleting rows by position of {entries[0].file_path}, because it is live {len(entries)} times, in "
                f"different partitions, and a delete by position reaches one partition: write copy-on-write"
            )
        if context.format_version >= 3 and not have_the_same_deletes(entries):
            raise UnsupportedError(
                f"not supported: deleting rows by deletion vector of {entries[0].file_path}, because it is live {len(entries)} "
                f"times with different deletes, and a vector would reach all of them: run rewrite_data_files on it, or write "
                f"copy-on-write"
            )
    by_path: dict[str, list[tuple[FileScanTask, Positions]]] = {}
    for task, positions in deleted:
        by_path.setdefault(identity(task.file_path), []).append((task, positions))
    united = [(same[0][0], np.unique(np.concatenate([EMPTY, *(p for _, p in same)]))) for same in by_path.values()]
    return [(task, positions) for task, positions in united if len(positions)]
