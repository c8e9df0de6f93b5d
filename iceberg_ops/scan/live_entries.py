"""Files that several live entries of one snapshot refer to.

The files of a folder that was imported twice are live twice, and their rows count once for each entry. The entries may differ in
data sequence number, and so in the deletes that apply to them, in row ids and even in partition. A commit removes a file by its
location, and a position delete names it by its location: both reach every entry. So a plan that replaces a file, or deletes rows of
it by position, includes all of its entries; if that is not possible for all of them in the same way, the plan leaves the file out
or is refused.

Locations are compared by identity (``iceberg_ops.io.locations``): two spellings are one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from iceberg_ops.io.locations import Identity
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask
from iceberg_ops.spec.partition_keys import partition_key

T = TypeVar("T")
DeleteKey = tuple[str, int | None]


def delete_key(delete: DeleteFile) -> DeleteKey:
    """The identity of a delete file: several DVs share a path."""
    return delete.file_path, delete.data_file.content_offset


def by_file(tasks: Iterable[FileScanTask], identity: Identity) -> list[list[FileScanTask]]:
    """The tasks of each file, in the order of the files' first tasks."""
    by_path: dict[str, list[FileScanTask]] = {}
    for task in tasks:
        by_path.setdefault(identity(task.file_path), []).append(task)
    return list(by_path.values())


def live_several_times(tasks: Iterable[FileScanTask], identity: Identity) -> list[list[FileScanTask]]:
    """The tasks of each file that has more than one."""
    return [entries for entries in by_file(tasks, identity) if len(entries) > 1]


def with_other_entries(
    chosen: Sequence[tuple[FileScanTask, T]], tasks: Iterable[FileScanTask], identity: Identity, nothing: T
) -> list[tuple[FileScanTask, T]]:
    """``chosen``, and the other entries among ``tasks`` of the files that it names, paired with ``nothing``."""
    named = {identity(task.file_path) for task, _ in chosen}
    taken = {id(task) for task, _ in chosen}
    several = live_several_times((task for task in tasks if identity(task.file_path) in named), identity)
    return [*chosen, *((task, nothing) for entries in several for task in entries if id(task) not in taken)]


def have_the_same_deletes(entries: Sequence[FileScanTask]) -> bool:
    """Whether the same delete files apply to all entries of a file, so that the same rows of each are live."""
    first = {delete_key(d) for d in entries[0].deletes}
    return all({delete_key(d) for d in task.deletes} == first for task in entries[1:])


def are_in_one_partition(entries: Sequence[FileScanTask]) -> bool:
    """Whether all entries of a file are in one partition of one spec. A position delete reaches only the entries of its own
    partition, and some engines apply it by location alone."""
    return len({partition_key(task.spec_id, task.data_file.partition) for task in entries}) == 1


def unevenly_applied(tasks: Iterable[FileScanTask], identity: Identity) -> set[DeleteKey]:
    """Keys of the deletes that apply to a file whose entries do not all have the same deletes, or are not all in one partition:
    rewritten as position deletes, they would reach other rows than now."""
    several = live_several_times(tasks, identity)
    uneven = (entries for entries in several if not (have_the_same_deletes(entries) and are_in_one_partition(entries)))
    return {delete_key(d) for entries in uneven for task in entries for d in task.deletes}
