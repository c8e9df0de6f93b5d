"""What the ledger of run keys takes in, and what a rollback does to them (nothing)."""

from __future__ import annotations

from iceberg_ops.commit.append_files import AppendFiles
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.metadata_updates import UpdateProperties
from iceberg_ops.commit.refs import RollBack
from iceberg_ops.commit.run_keys import LEDGER_PREFIX, LEDGER_SIZE, find_run, made_up_run_key
from iceberg_ops.commit.transaction import Transaction
from tests.builders import data_file, live_paths, make_catalog, make_table
from tests.catalog.wrappers import LosesTheAnswer


def test_the_ledger_keeps_the_latest_64_however_many_expire_at_once() -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    for n in range(LEDGER_SIZE + 10):
        table = commit(catalog, table, AppendFiles(added=(data_file(f"f{n}"),), run_key=f"k{n}", merge=False)).table
    table = commit(catalog, table, ExpireSnapshots(older_than_ms=2**60, retain_last=1, run_key="expiry")).table
    known = {k.removeprefix(LEDGER_PREFIX) for k in table.properties if k.startswith(LEDGER_PREFIX)}
    assert known == {f"k{n}" for n in range(10, LEDGER_SIZE + 9)} | {"expiry"}


def test_keys_that_were_made_up_do_not_enter_the_ledger() -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    batch = f"{made_up_run_key()}/0123456789ab"
    for key in (made_up_run_key(), batch, "run-2026-07-01", "last"):
        table = commit(catalog, table, AppendFiles(added=(data_file(key),), run_key=key)).table
    table = commit(
        catalog, table, ExpireSnapshots(older_than_ms=2**60, retain_last=1, run_key=made_up_run_key())
    ).table  # fmt: skip
    assert [k for k in table.properties if k.startswith(LEDGER_PREFIX)] == [f"{LEDGER_PREFIX}run-2026-07-01"]


def test_a_rolled_back_run_is_not_done_again_under_its_key_before_and_after_its_snapshot_expired() -> None:
    catalog = make_catalog()
    table = commit(catalog, make_table(catalog), AppendFiles(added=(data_file("a"),))).table
    before = table.metadata.current_snapshot_id
    work = AppendFiles(added=(data_file("b"),), run_key="job/1")
    first = commit(catalog, table, work)
    table = commit(catalog, first.table, RollBack(snapshot_id=before)).table
    again = commit(catalog, table, work)
    assert (again.already_committed, again.snapshot, live_paths(again.table)) == (True, first.snapshot, {"a"})
    table = commit(catalog, table, ExpireSnapshots(older_than_ms=2**60, retain_last=1)).table
    again = commit(catalog, table, work)
    assert (again.already_committed, again.snapshot) == (True, None)
    found = find_run(again.table.metadata, "job/1")
    assert found is not None
    assert first.snapshot is not None
    assert found.snapshot_id == first.snapshot.snapshot_id
    anew = commit(catalog, table, AppendFiles(added=(data_file("b"),), run_key="job/2"))
    assert live_paths(anew.table) == {"a", "b"}


def test_a_repeated_transaction_finds_its_snapshot() -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    both = Transaction(operations=(AppendFiles(added=(data_file("a"),)), UpdateProperties(updates={"b": "c"})), run_key="job/1")
    first = commit(LosesTheAnswer(catalog), table, both, sleep=lambda _: None)
    again = commit(catalog, table, both)
    assert (again.already_committed, again.snapshot, live_paths(again.table)) == (True, first.snapshot, {"a"})
