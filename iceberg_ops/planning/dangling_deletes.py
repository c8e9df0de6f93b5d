"""Finds the delete files that apply to no file once certain data files are removed.

A delete file attached to data files of a snapshot is dangling exactly if all of them are replaced: rows added later have later
sequence numbers, so no past delete can apply to them. That holds for deletion vectors, position deletes and equality deletes alike.
A concurrent rewrite that would keep one of these data files' rows under an old sequence number replaces the same file and
conflicts. The reference implementation removes only deletion vectors in the commit and the others, on request, by comparing
sequence numbers, which leaves deletes of the starting snapshot behind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from iceberg_ops.scan.live_entries import delete_key
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask
from iceberg_ops.spec.content_files import DataFile


def deletes_of_only(tasks: Iterable[FileScanTask], replaced: Collection[str]) -> tuple[DataFile, ...]:
    """Delete files attached to files of ``replaced`` (paths) and to no other. ``tasks`` are all tasks of the snapshot."""
    inside: dict[tuple[str, int | None], DeleteFile] = {}
    outside: set[tuple[str, int | None]] = set()
    for task in tasks:
        for delete in task.deletes:
            if task.file_path in replaced:
                inside[delete_key(delete)] = delete
            else:
                outside.add(delete_key(delete))
    return tuple(delete.data_file for key, delete in inside.items() if key not in outside)


def attached_to_nothing(live: Iterable[DeleteFile], tasks: Iterable[FileScanTask]) -> tuple[DataFile, ...]:
    """Live delete files of a snapshot that no task has: they are already dangling."""
    attached = {delete_key(delete) for task in tasks for delete in task.deletes}
    return tuple(delete.data_file for delete in live if delete_key(delete) not in attached)
