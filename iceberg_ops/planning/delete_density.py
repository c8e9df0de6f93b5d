"""The number of rows of a data file that its deletes remove, as far as the metadata shows.

Deletes scoped to one file (deletion vectors, position deletes that name their file) are counted exactly. Position deletes of a
whole partition are distributed over the data files they may affect in proportion to their rows. The reference implementation
ignores them, so its compaction does not detect a partition with many of them. Equality deletes cannot be counted without reading
and count nothing here; ``delete-file-threshold`` limits the number of delete files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from iceberg_ops.scan.delete_index import scoped_path
from iceberg_ops.scan.live_entries import delete_key
from iceberg_ops.scan.tasks import FileScanTask


def deleted_shares(tasks: Iterable[FileScanTask]) -> Mapping[str, float]:
    """For each data file with countable deletes the share of its rows they remove, from 0 to 1, by file path.

    ``tasks`` must be all tasks of the snapshot, or shared deletes would be distributed over too few files.
    """
    tasks = [task for task in tasks if task.deletes]
    touched_rows: dict[tuple[str, int | None], int] = defaultdict(int)
    for task in tasks:
        for delete in task.deletes:
            if not delete.is_equality and scoped_path(delete.data_file) is None:
                touched_rows[delete_key(delete)] += task.record_count
    shares: dict[str, float] = {}
    for task in tasks:
        if task.record_count <= 0:
            continue
        rows = 0.0
        for delete in task.deletes:
            if scoped_path(delete.data_file) is not None:
                rows += delete.data_file.record_count
            elif not delete.is_equality:
                rows += delete.data_file.record_count * task.record_count / touched_rows[delete_key(delete)]
        if rows:
            shares[task.file_path] = min(1.0, rows / task.record_count)
    return shares
