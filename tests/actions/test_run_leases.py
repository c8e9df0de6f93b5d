"""A run holds its lease as long as it works; if the lease expired, the commit checks its files first."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import pytest

from iceberg_ops.actions import dispatch
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.actions.workers.runner import GroupFailure
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.deletion.held_lease import HeldLease
from iceberg_ops.deletion.leases import active_leases
from iceberg_ops.errors import ValidationError
from tests.actions.lake import Lake, make_lake, numbered

DAY_MS = 24 * 3600 * 1000


@dataclass
class Sleeps(LocalRunner):
    """The machine sleeps when a work was done; another host's job removes orphans then."""

    lake: Lake
    clock: list[int]
    removes: bool

    def __post_init__(self) -> None:
        super().__init__(workers=1)

    def limited(self, works_at_a_time: int) -> Sleeps:
        return self

    def run(self, works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
        for answer in super().run(works):
            assert isinstance(answer, GroupResult)
            self.clock[0] += DAY_MS
            assert active_leases(self.lake.table, self.clock[0]) == []
            if self.removes:
                self.lake.table.io.delete(str(answer.added[0]["file_path"]))
            yield answer


@pytest.mark.parametrize("removes", [False, True])
@pytest.mark.parametrize("partial", ["true", "false"])
def test_a_rewrite_whose_lease_ran_out_looks_whether_its_files_are_still_there(removes: bool, partial: str) -> None:
    lake = make_lake()
    lake.append(numbered(0, 10), numbered(10, 10), numbered(20, 10), numbered(30, 10), numbered(40, 10))
    before = lake.rows()
    clock = [dispatch.wall_clock_ms()]
    options = {"partial-progress.enabled": partial}
    runner = Sleeps(lake, clock, removes)
    if removes:
        with pytest.raises(ValidationError, match=r"the lease of run .* expired before its commit, and files that it had written"):
            lake.run("rewrite_data_files", runner=runner, now=lambda: clock[0], **options)
    else:
        assert lake.run("rewrite_data_files", runner=runner, now=lambda: clock[0], **options).status == "committed"
    assert lake.rows() == before


def test_an_interrupt_while_the_lease_begins_leaves_nothing_that_renews_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a program that runs jobs itself the thread would renew it for as long as the program lives."""
    lake = make_lake()
    lake.append(numbered(0, 10), numbered(10, 10), numbered(20, 10), numbered(30, 10), numbered(40, 10))
    begin = HeldLease.begin

    def interrupted(self: HeldLease) -> None:
        begin(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(HeldLease, "begin", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lake.run("rewrite_data_files", **{"rewrite-all": "true"})
    assert active_leases(lake.table) == []
    assert not [thread for thread in threading.enumerate() if thread.name == "lease"]
