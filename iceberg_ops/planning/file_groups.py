"""File groups: the input of one unit of rewriting, and the packing that forms them.

Pure values and functions; ``rewrite_data_files`` decides which files are selected. Tasks of a group are whole files without
residual: a rewrite keeps every live row of a file, also rows that a WHERE does not match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from iceberg_ops.scan.tasks import FileScanTask

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files that are rewritten together.

    ``partition`` is the one tuple (of spec ``spec_id``) of all outputs; None if partition values must be computed from the rows,
    because the files were written with another spec. ``output_spec_id`` is the spec of the outputs. ``estimated_bytes`` is
    the expected total size of the outputs, ``target_file_size`` the size at which the writer rolls. ``reason`` says why the group
    was selected.
    """

    group_id: str
    spec_id: int
    output_spec_id: int
    partition: tuple[Any, ...] | None
    partition_path: str
    tasks: tuple[FileScanTask, ...]
    reason: str
    input_bytes: int
    estimated_bytes: int
    expected_output_files: int
    target_file_size: int
    strategy: str

    @property
    def input_files(self) -> int:
        return len(self.tasks)

    @property
    def input_rows(self) -> int:
        """Rows of the files before deletes."""
        return sum(task.record_count for task in self.tasks)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that the plan does not rewrite, and why."""

    file_path: str
    reason: str


UNEVEN = (
    "it applies to a data file that is live several times, and not to all of its entries alike: "
    "rewrite_data_files with rewrite-all = true makes one of them, if they are in one partition"
)
"""Why a delete file is not rewritten (``scan.live_entries``)."""


def pack(
    items: Iterable[T], weight: Callable[[T], int], max_weight: int, max_items: int, *, count: Callable[[T], int] = lambda _: 1
) -> list[list[T]]:
    """Cut items, in order, into runs of at most ``max_weight`` and ``max_items`` (Java: ListPacker with look-back 1). ``count``:
    the number of items that one item counts as. An item that exceeds a limit is a run of its own."""
    runs: list[list[T]] = []
    held = counted = 0
    for item in items:
        if not runs or (runs[-1] and (held + weight(item) > max_weight or counted + count(item) > max_items)):
            runs.append([])
            held = counted = 0
        runs[-1].append(item)
        held += weight(item)
        counted += count(item)
    return runs


class Sized(Protocol):
    """A group of any items that are rewritten together."""

    @property
    def input_bytes(self) -> int: ...
    @property
    def input_files(self) -> int: ...


S = TypeVar("S", bound=Sized)


def in_job_order(groups: Sequence[S], order: str) -> list[S]:
    """Groups in the order of ``rewrite-job-order``; ``none`` keeps the order of the scan."""
    if order == "none":
        return list(groups)
    kind, _, direction = order.partition("-")
    size: Callable[[S], int] = (lambda g: g.input_bytes) if kind == "bytes" else (lambda g: g.input_files)
    return sorted(groups, key=size, reverse=direction == "desc")


def numbered(groups: Iterable[FileGroup]) -> tuple[FileGroup, ...]:
    """Groups with the ids for reports: ``g0001`` and so on."""
    return tuple(replace(group, group_id=f"g{i:04d}") for i, group in enumerate(groups, 1))
