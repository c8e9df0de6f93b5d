"""A slow committer among fast appenders is not starved: only its first attempt takes time in proportion to its size.

Time is counted, not measured: every file that the slow committer reads or writes takes ``FILE_SECONDS`` of a clock. Another process
appends every ``PERIOD`` seconds of that clock, also between the slow committer's refresh and its swap.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.spec.requirements import TableRequirement
from iceberg_ops.spec.updates import AddSnapshot, TableUpdate
from iceberg_ops.table import manifests
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, live_paths, make_table
from tests.catalog.wrappers import Wrapped

PERIOD = 0.2
FILE_SECONDS = 0.02
"""A slow object store."""
MOST_ATTEMPTS = 6
"""A window of one file, the metadata, leaves it to chance, once in ten tries, whether an append falls into it. Without a second
look the windows grow with the waits to 23 files, and it never succeeds."""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.runs = False
        self.files = 0

    def file(self) -> None:
        if self.runs:
            self.files += 1
            self.now += FILE_SECONDS

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class SlowFileIO(MemoryFileIO):
    def __init__(self, name: str, clock: Clock) -> None:
        super().__init__(name)
        self.of_clock = clock

    def read(self, location: str) -> bytes:
        self.of_clock.file()
        return super().read(location)

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        self.of_clock.file()
        super().write(location, data, overwrite=overwrite)


class BusyCatalog(Wrapped):
    """Appends what is due by the clock before it answers, as ``theirs`` says. ``windows`` are files touched between a look and the
    swap after it, ``in_vain`` the swaps with a sequence number that the last look had shown to be taken."""

    def __init__(self, inner: MemoryCatalog, clock: Clock, theirs: Mapping[str, Any]) -> None:
        super().__init__(inner)
        self.clock = clock
        self.theirs = theirs
        self.number_seen = 0
        self.in_vain = 0
        self.appended = 0
        self.due = PERIOD
        self.looked_at = 0
        self.windows: list[int] = []

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        self._append_what_is_due()
        self.looked_at = self.clock.files
        seen: Table = self.inner.load_table(identifier)
        self.number_seen = seen.metadata.last_sequence_number
        return seen

    def commit_table(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        self._append_what_is_due()
        self.windows.append(self.clock.files - self.looked_at)
        self.in_vain += any(isinstance(u, AddSnapshot) and u.snapshot.sequence_number <= self.number_seen for u in updates)
        return self.inner.commit_table(table, requirements, updates)  # type: ignore[no-any-return]

    def _append_what_is_due(self) -> None:
        self.clock.runs = False
        while self.due <= self.clock.now:
            self.appended += 1
            self.due += PERIOD
            table = self.inner.load_table(IDENTIFIER)
            commit(self.inner, table, AppendFiles(added=(data_file(f"late{self.appended}"),), **self.theirs))
            manifests.CACHE.clear()  # it is another process: what it decoded is unknown here
        self.clock.runs = True


THEIRS: dict[str, dict[str, Any]] = {"to main": {}, "to another branch": {"branch": "audit"}, "staged": {"staged": True}}


@pytest.mark.parametrize("theirs", THEIRS)
@pytest.mark.parametrize("merge_at", ["100", "5"], ids=["appenders leave manifests", "appenders merge manifests"])
@pytest.mark.parametrize("commits", [10, 80])
def test_attempts_after_the_first_cost_what_is_new(commits: int, merge_at: str, theirs: str) -> None:
    clock = Clock()
    inner = MemoryCatalog("slow", SlowFileIO(f"slow-{commits}-{merge_at}-{id(clock)}", clock), sleep=clock.sleep)
    inner.create_namespace(("ns",))
    table = make_table(inner, properties={"commit.manifest.min-count-to-merge": merge_at})
    old: list[Any] = []
    for i in range(commits):
        added = tuple(data_file(f"old{i}-{n}") for n in range(5))
        old += added
        table = commit(inner, table, AppendFiles(added=added, merge=False)).table
    manifests.CACHE.clear()
    busy = BusyCatalog(inner, clock, THEIRS[theirs])
    operation = RewriteFiles(
        removed_data=tuple(old),
        added_data=(data_file("new", rows=sum(f.record_count for f in old)),),
        starting_snapshot_id=table.metadata.current_snapshot_id,
    )
    clock.runs = True
    jitter = random.Random(7).random
    done = commit(busy, table, operation, sleep=clock.sleep, clock=lambda: clock.now, random=jitter)
    assert busy.windows[0] > commits, "the first attempt reads every manifest"
    assert busy.appended >= 3
    assert max(busy.windows[1:]) == 1, "the others swap at once after a look that shows nothing new"
    assert not busy.in_vain, "a snapshot of another branch, or a staged one, takes a sequence number, too"
    assert done.attempts <= MOST_ATTEMPTS, busy.windows
    expected = {"new", *(f"late{i + 1}" for i in range(0 if THEIRS[theirs] else busy.appended))}
    assert live_paths(inner.load_table(IDENTIFIER)) == expected
