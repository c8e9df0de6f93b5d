"""Leases and deletion notes are found in every former metadata folder of the table, and last as long as the work that they
describe."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import expire, resume_expiry, write_intent
from iceberg_ops.commit.operations.metadata_updates import UpdateLocation, UpdateProperties
from iceberg_ops.deletion import gate, notes
from iceberg_ops.deletion.gate import delete_unreferenced
from iceberg_ops.deletion.leases import Lease, acquire_lease, active_leases, release_lease
from iceberg_ops.deletion.notes import DELETION_NOTE_MS, DELETIONS, deletion_noted, forbid_running_deletion
from iceberg_ops.deletion.places import notes_folders
from iceberg_ops.errors import CatalogUnavailableError
from iceberg_ops.io.file_io import DeleteFailure
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.table.table import Table
from tests.actions.lake import Lake, make_lake, numbered
from tests.actions.test_housekeeping import later
from tests.builders import make_table

ALL = ExpireSnapshots(older_than_ms=2**60, retain_last=1)
FOR_EVER = 2**62


def other_metadata_path(table: Table) -> Any:
    return UpdateProperties(updates={"write.metadata.path": f"{table.location}/meta2"})


def other_location(table: Table) -> Any:
    return UpdateLocation(location=f"{table.location}-moved")


MOVES: dict[str, Callable[[Table], Any]] = {"write.metadata.path": other_metadata_path, "location": other_location}


def moved(lake: Lake, move: Callable[[Table], Any], *, then: int = 0) -> None:
    commit(lake.catalog, lake.table, move(lake.table))
    for n in range(then):
        commit(lake.catalog, lake.table, UpdateProperties(updates={"n": str(n)}))


@pytest.mark.parametrize("then", [0, 5], ids=["at once", "after the log has forgotten it"])
@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_a_lease_holds_though_the_metadata_moves(move: Callable[[Table], Any], then: int) -> None:
    lake = make_lake(properties={"write.metadata.previous-versions-max": "1" if then else "100"})
    lake.append(numbered(0, 10))
    held = lake.table
    (task,) = lake.tasks()
    lease = Lease(holder="job", snapshot_id=held.metadata.current_snapshot_id, expires_at_ms=FOR_EVER, marks=("op-of-the-job",))
    acquire_lease(held, lease)
    uncommitted = f"{held.location}/data/op-of-the-job-1.parquet"
    held.io.write(uncommitted, b"uncommitted")
    moved(lake, move, then=then)
    commit(lake.catalog, lake.table, DeleteFiles(paths=(task.file_path,)))
    assert active_leases(lake.table) == [lease]
    expire(lake.catalog, lake.table, ALL)
    assert held.metadata.current_snapshot_id in lake.table.metadata.snapshots_by_id
    lake.run("remove_orphan_files", now=lambda: later(9))
    assert held.io.exists(task.file_path)
    assert held.io.exists(uncommitted)
    release_lease(held, lease)
    assert active_leases(lake.table) == []


@pytest.mark.parametrize("begins", ["", "meta1"], ids=["default metadata path", "a metadata path"])
@pytest.mark.parametrize("moves", [["path"], ["location"], ["path", "location", "path"], ["location", "location"]], ids="-".join)
def test_a_lease_holds_though_the_table_forgets_where_its_metadata_was(begins: str, moves: list[str]) -> None:
    """Without a snapshot, and with a log of one entry, nothing in the metadata names a file where the job began."""
    paths = {"write.metadata.path": f"memory://elsewhere/{begins}"} if begins else {}
    lake = make_lake(properties={"write.metadata.previous-versions-max": "1", **paths})
    held = lake.table
    lease = Lease(holder="job", snapshot_id=None, expires_at_ms=FOR_EVER, marks=("op-of-the-job",))
    acquire_lease(held, lease)
    for number, what in enumerate(moves):
        path = UpdateProperties(updates={"write.metadata.path": f"memory://elsewhere/m{number}"})
        change = path if what == "path" else UpdateLocation(location=f"{held.location}-{number}")
        moved(lake, lambda _, change=change: change, then=3)  # type: ignore[misc]
    assert active_leases(lake.table) == [lease]
    uncommitted = f"{lake.table.location}/data/op-of-the-job-1.parquet"
    held.io.write(uncommitted, b"uncommitted")
    lake.run("remove_orphan_files", now=lambda: later(9))
    assert held.io.exists(uncommitted)
    release_lease(held, lease)
    assert active_leases(lake.table) == []


def test_a_lease_holds_in_a_filesystem_catalog_whatever_the_metadata_path_is_said_to_be(tmp_path: Path) -> None:
    catalog = FileSystemCatalog("fs", LocalFileIO(), warehouse=str(tmp_path))
    catalog.create_namespace(("ns",))
    make_table(catalog)
    lake = Lake(catalog)
    lease = Lease(holder="job", snapshot_id=None, expires_at_ms=FOR_EVER)
    commit(catalog, lake.table, UpdateProperties(updates={"write.metadata.path": f"{tmp_path}/first"}))
    acquire_lease(lake.table, lease)
    commit(catalog, lake.table, UpdateProperties(updates={"write.metadata.path": f"{tmp_path}/second"}))
    assert active_leases(lake.table) == [lease]


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_an_import_sees_a_deletion_that_was_noted_before_or_after_the_metadata_moved(move: Callable[[Table], Any]) -> None:
    lake = make_lake()
    before = lake.table
    with deletion_noted(before):
        moved(lake, move)
        with pytest.raises(CatalogUnavailableError, match="a job is deleting files right now"):
            forbid_running_deletion(lake.table)
    with deletion_noted(lake.table), pytest.raises(CatalogUnavailableError, match="a job is deleting files "):
        lake.run("add_files", source_path=landing(lake))
    forbid_running_deletion(lake.table)


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_a_deletion_that_knows_an_older_table_sees_leases_that_were_taken_after_a_move(move: Callable[[Table], Any]) -> None:
    lake = make_lake()
    before = lake.table
    before.io.write(f"{before.location}/data/mine", b"x")
    moved(lake, move)
    acquire_lease(lake.table, Lease(holder="import", snapshot_id=None, expires_at_ms=FOR_EVER, marks=("mine",)))
    done = delete_unreferenced(before, lambda: lake.table, [f"{before.location}/data/mine"])
    assert [k.reason for k in done.kept] == ["run import is working on it"]


def test_an_expiry_that_died_is_finished_though_the_metadata_moved() -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    (task,) = lake.tasks()
    commit(lake.catalog, lake.table, DeleteFiles(paths=(task.file_path,)))
    write_intent(lake.table, ALL)
    commit(lake.catalog, lake.table, ALL)
    moved(lake, other_metadata_path)
    assert resume_expiry(lake.catalog, lake.table).finished == 1
    assert not lake.table.io.exists(task.file_path)


def test_former_folders_in_a_store_that_is_not_served_have_no_notes(tmp_path: Path) -> None:
    catalog = FileSystemCatalog("fs", LocalFileIO(), warehouse=str(tmp_path))
    catalog.create_namespace(("ns",))
    table = make_table(catalog)
    log = commit(catalog, table, UpdateProperties(updates={"a": "1"})).table.metadata.metadata_log[0]
    from dataclasses import replace

    far = replace(log, metadata_file="s3://bucket/t/metadata/v0.metadata.json")
    registered = replace(table, metadata=replace(table.metadata, metadata_log=(far,)))
    assert notes_folders(registered, "x") == [f"{table.location}/metadata/x", "s3://bucket/t/metadata/x"]
    assert active_leases(registered) == []


def landing(lake: Lake, count: int = 3) -> str:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1, 2], "data": ["x", "y"], "region": ["a", "a"]}), sink)
    for n in range(count):
        lake.table.io.write(f"{lake.table.location}/landing/{n}.parquet", bytes(sink.getvalue()))
    return f"{lake.table.location}/landing"


class Clock:
    """The machine's clock, put forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead_ms, real = 0, time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real() + self.ahead_ms * 1_000_000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(gate, "DELETED_BETWEEN_LOOKS", 1)
    return Clock(monkeypatch)


def test_a_deletion_of_many_batches_renews_its_note(clock: Clock) -> None:
    lake = make_lake()
    folder = landing(lake, 20)
    refused: list[str] = []

    def delete(io: Any, locations: Any) -> list[DeleteFailure]:
        clock.ahead_ms += DELETION_NOTE_MS // 2
        with pytest.raises(CatalogUnavailableError) as e:
            lake.run("add_files", source_path=folder)
        refused.append(str(e.value))
        return list(io.delete_many(locations))

    files = [f"{folder}/{n}.parquet" for n in range(20)]
    done = delete_unreferenced(lake.table, lambda: lake.table, files, delete=delete)
    assert (len(done.deleted), len(refused)) == (20, 20)
    forbid_running_deletion(lake.table)


def test_a_deletion_whose_note_ran_out_proves_the_rest_again(clock: Clock) -> None:
    lake = make_lake()
    folder = landing(lake, 3)
    calls: list[Any] = []

    def delete(io: Any, locations: Any) -> list[DeleteFailure]:
        failures = list(io.delete_many(locations))
        calls.append(locations)
        if len(calls) == 1:  # a call that takes longer than the note lasts
            clock.ahead_ms += DELETION_NOTE_MS + 1
            assert lake.run("add_files", source_path=folder).status == "committed"
        return failures

    done = delete_unreferenced(lake.table, lambda: lake.table, [f"{folder}/{n}.parquet" for n in range(3)], delete=delete)
    assert done.deleted == (f"{folder}/0.parquet",)
    assert {k.location for k in done.kept} == {f"{folder}/1.parquet", f"{folder}/2.parquet"}
    assert len(lake.rows()) == 4


def test_a_note_that_somebody_took_away_counts_as_run_out(clock: Clock) -> None:
    lake = make_lake()
    with deletion_noted(lake.table) as note:
        assert note.renew()
        lake.table.io.delete(note.location)
        assert not note.renew()
        assert note.renew()


def test_a_lease_that_is_taken_between_two_batches_keeps_its_files(clock: Clock) -> None:
    lake = make_lake()
    folder = landing(lake, 3)

    def delete(io: Any, locations: Any) -> list[DeleteFailure]:
        acquire_lease(lake.table, Lease(holder="job", snapshot_id=None, expires_at_ms=FOR_EVER, marks=("/2.parquet",)))
        return list(io.delete_many(locations))

    done = delete_unreferenced(lake.table, lambda: lake.table, [f"{folder}/{n}.parquet" for n in range(3)], delete=delete)
    assert [k.reason for k in done.kept] == ["run job is working on it"]
    assert lake.table.io.exists(f"{folder}/2.parquet")


def test_an_error_between_two_batches_keeps_the_rest_and_reports_what_is_deleted(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake()
    folder = landing(lake, 3)

    def down(self: Any) -> bool:
        raise CatalogUnavailableError("Injected: down")

    monkeypatch.setattr(notes.DeletionNote, "renew", down)
    done = delete_unreferenced(lake.table, lambda: lake.table, [f"{folder}/{n}.parquet" for n in range(3)])
    assert done.deleted == (f"{folder}/0.parquet",)
    assert all("it could not be checked whether it is still unreferenced: Injected: down" in k.reason for k in done.kept)
    assert list(lake.table.io.list_prefix(f"{lake.table.location}/metadata/{DELETIONS}")) == []
