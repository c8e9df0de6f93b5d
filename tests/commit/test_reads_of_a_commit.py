"""What a commit reads, counted by request: of what others did, one manifest list for each of their snapshots. No list is read again
for staging, nor by the next attempt. An append beside appenders does not look at their snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.spec.requirements import TableRequirement
from iceberg_ops.spec.updates import TableUpdate
from iceberg_ops.table import manifests
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, make_table, position_deletes
from tests.catalog.wrappers import Wrapped

OTHERS = 3
"""Snapshots that others append each time."""


class CountingFileIO(MemoryFileIO):
    """``lists`` and ``manifests`` are the locations read."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.lists: list[str] = []
        self.manifests: list[str] = []

    def read(self, location: str) -> bytes:
        if location.endswith(".avro"):
            (self.lists if "/snap-" in location else self.manifests).append(location)
        return super().read(location)

    def forget(self) -> None:
        """As a new process, which has read nothing."""
        manifests.CACHE.clear()
        self.lists, self.manifests = [], []


class Beside(Wrapped):
    """Others append before each of the first ``swaps``, in processes of their own. ``lists`` and ``manifests`` are what was read
    until the last swap."""

    def __init__(self, inner: MemoryCatalog, io: CountingFileIO, swaps: int) -> None:
        super().__init__(inner)
        self.io, self.swaps = io, swaps
        self.lists: list[str] = []
        self.manifests: list[str] = []

    def commit_table(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        if self.swaps:
            self.swaps -= 1
            append(self.inner, self.io, f"{self.swaps}")
        self.lists, self.manifests = list(self.io.lists), list(self.io.manifests)
        return self.inner.commit_table(table, requirements, updates)  # type: ignore[no-any-return]


def append(catalog: MemoryCatalog, io: CountingFileIO, name: str) -> None:
    read = list(io.lists), list(io.manifests)
    for i in range(OTHERS):
        commit(catalog, catalog.load_table(IDENTIFIER), AppendFiles(added=(data_file(f"other-{name}-{i}"),), merge=False))
    manifests.CACHE.clear()
    io.lists, io.manifests = read


Makes = Callable[[int], Operation]
OPERATIONS: dict[str, Makes] = {
    "append": lambda start: AppendFiles(added=(data_file("new"),)),
    "rewrite": lambda start: RewriteFiles(
        removed_data=(data_file("old"),), added_data=(data_file("new"),), starting_snapshot_id=start
    ),
    "delta": lambda start: RowDelta(
        added_deletes=(position_deletes("deletes", "old"),),
        referenced_data_files=("old",),
        isolation="snapshot",
        starting_snapshot_id=start,
    ),
}


@pytest.mark.parametrize("before", [0, 1], ids=["none came before", "appends came before"])
@pytest.mark.parametrize("lost", [0, 1, 2], ids=["first swap", "second swap", "third swap"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_list_is_read_once(name: str, lost: int, before: int) -> None:
    io = CountingFileIO(f"reads-{name}-{lost}-{before}")
    catalog = MemoryCatalog("reads", io, sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    table = make_table(catalog)
    table = commit(catalog, table, AppendFiles(added=(data_file("old"),))).table
    if before:
        append(catalog, io, "before")
    io.forget()
    beside = Beside(catalog, io, lost)
    done = commit(beside, table, OPERATIONS[name](table.metadata.current_snapshot_id or 0), sleep=lambda _: None)
    assert done.attempts == lost + 1
    came = OTHERS * (before + lost)
    if name == "append":
        heads = done.attempts
        assert (len(beside.lists), beside.manifests) == (heads, [])
    else:
        start = 1
        assert len(beside.lists) == len(set(beside.lists)) == start + came
        assert len(beside.manifests) == len(set(beside.manifests)) <= start + came
