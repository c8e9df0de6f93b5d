"""A lease stays in force as long as its job works, and a commit whose lease has expired checks its files first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from operator import contains

import pytest

from iceberg_ops.deletion import held_lease
from iceberg_ops.deletion.held_lease import HeldLease
from iceberg_ops.deletion.leases import Lease, acquire_lease, active_leases, release_lease
from iceberg_ops.deletion.notes import deletion_noted
from iceberg_ops.errors import CatalogUnavailableError, ValidationError
from iceberg_ops.table.table import Table
from tests.actions.lake import make_lake

DAY_MS = 24 * 3600 * 1000


@dataclass
class Store:
    """Takes leases, and fails when a test says so."""

    fails: Callable[[int], bool] = lambda number: False
    calls: int = 0

    def take(self, table: Table, lease: Lease) -> str:
        self.calls += 1
        if self.fails(self.calls):
            raise CatalogUnavailableError("the store does not answer just now")
        return acquire_lease(table, lease)


def held(table: Table, store: Store, *, lasts_ms: int = DAY_MS, now_ms: Callable[[], int] | None = None) -> HeldLease:
    lease = Lease(holder="append", snapshot_id=None, expires_at_ms=0, marks=("op",), instance="op")
    clock = now_ms or (lambda: time.time_ns() // 1_000_000)
    return HeldLease(lambda: (table, lease), lasts_ms, take=store.take, now_ms=clock)


def test_a_renewal_that_fails_is_tried_again_before_the_lease_runs_out() -> None:
    """Three leases at the same time, each of whose renewals fail in another order."""
    stores = [(failing, Store(partial(contains, failing))) for failing in ({2}, {2, 3, 4}, {3, 5, 6})]
    tables = [make_lake().table for _ in stores]
    leases = [held(table, store, lasts_ms=1_200) for table, (_, store) in zip(tables, stores, strict=True)]
    with ExitStack() as until_the_end:
        for lease in leases:
            lease.begin()
            until_the_end.callback(lease.end, give_back=True)
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            assert [len(active_leases(table)) for table in tables] == [1, 1, 1]
            time.sleep(0.05)
    for lease, table, (failing, store) in zip(leases, tables, stores, strict=True):
        assert store.calls > max(failing) + 3
        assert active_leases(table) == []
        lease.check_files(())


def test_no_thread_is_left_when_the_lease_ends() -> None:
    before = threading.active_count()
    lease = held(make_lake().table, Store(lambda number: number > 1), lasts_ms=400)
    lease.begin()
    time.sleep(0.3)
    lease.end(give_back=True)
    assert threading.active_count() == before


def test_a_renewal_that_the_store_does_not_answer_does_not_keep_the_job_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_lease, "_PATIENCE_S", 0.1)
    asked, answers = threading.Event(), threading.Event()

    def hangs(number: int) -> bool:
        if number > 1:
            asked.set()
            answers.wait(10)
        return number > 1

    table = make_lake().table
    lease = held(table, Store(hangs), lasts_ms=400)
    lease.begin()
    assert asked.wait(5)
    started = time.monotonic()
    lease.end(give_back=True)
    assert time.monotonic() - started < 5
    assert active_leases(table) == []
    answers.set()


def lapsed(table: Table) -> HeldLease:
    """A lease that ran out, because the machine slept for two days."""
    now = [time.time_ns() // 1_000_000 - 2 * DAY_MS]
    lease = held(table, Store(), now_ms=lambda: now[0])
    lease.begin()
    now[0] += 2 * DAY_MS
    return lease


def taken_away(table: Table) -> HeldLease:
    """A lease that another job's clock takes to have run out, so that orphan removal has deleted it."""
    lease = held(table, Store())
    lease.begin()
    release_lease(table, Lease(holder="append", snapshot_id=None, expires_at_ms=0, instance="op"))
    return lease


@pytest.mark.parametrize("lost", [lapsed, taken_away])
def test_a_lost_lease_is_taken_again_and_the_files_are_looked_at(lost: Callable[[Table], HeldLease]) -> None:
    table = make_lake().table
    there, gone = f"{table.location}/data/op-1.parquet", f"{table.location}/data/op-2.parquet"
    table.io.write(there, b"x")
    lease = lost(table)
    assert active_leases(table) == []
    lease.check_files([there])
    assert [found.instance for found in active_leases(table)] == ["op"]
    message = r"lease of run append expired before its commit, .*op-2.parquet.*nothing was committed"
    with pytest.raises(ValidationError, match=message) as refused:
        lease.check_files([there, gone])
    assert refused.value.file_paths == (gone,)
    lease.end(give_back=True)


def test_a_lost_lease_waits_for_a_running_deletion() -> None:
    table = make_lake().table
    lease = lapsed(table)
    with deletion_noted(table), pytest.raises(CatalogUnavailableError, match="deleting files right now"):
        lease.check_files(())
    lease.check_files(())
    lease.end(give_back=True)


def test_a_lease_in_force_costs_no_look_at_the_files() -> None:
    table = make_lake().table
    lease = held(table, Store())
    lease.begin()
    lease.check_files([f"{table.location}/data/never-looked-for.parquet"])
    lease.end(give_back=True)
