"""Imports beside other imports, beside deletions, and beside late attempts of the same import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.actions import add_files
from iceberg_ops.actions.run.context import Run
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.refs import RollBack
from iceberg_ops.deletion import gate
from iceberg_ops.deletion.leases import Lease, acquire_lease, active_leases, lease_location, release_lease
from iceberg_ops.deletion.notes import DELETIONS, deletion_noted, forbid_running_deletion
from iceberg_ops.deletion.places import notes_folder
from iceberg_ops.errors import CatalogUnavailableError, DataError, IncompleteError, ValidationError
from iceberg_ops.io.memory import MemoryFileIO
from tests.actions.lake import NOW, Lake, make_lake
from tests.catalog.wrappers import Meddles

DAY_MS = 24 * 3600 * 1000


def place(lake: Lake, folder: str, count: int = 2) -> str:
    for number in range(count):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": [number], "data": ["x"], "region": ["eu"]}), sink)
        lake.table.io.write(f"{folder}/{number}.parquet", bytes(sink.getvalue()))
    return folder


def test_two_imports_of_one_folder_at_once_do_not_double_its_rows() -> None:
    lake = make_lake()
    folder = place(lake, "memory://import")
    other = Meddles(lake.catalog, lambda: lake.run("add_files", source_path=folder))
    with pytest.raises(
        ValidationError, match=r"Cannot add a file that was added concurrently: memory://import/0\.parquet \(snapshot \d+"
    ):
        lake.run("add_files", catalog=other, source_path=folder)
    assert len(lake.rows()) == 2
    other = Meddles(lake.catalog, lambda: lake.run("add_files", source_path=folder, check_duplicate_files="false"))
    assert lake.run("add_files", catalog=other, source_path=folder, check_duplicate_files="false").status == "committed"
    assert len(lake.rows()) == 6, "whoever asks for it gets them"


def written_again(lake: Lake, folder: str) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [100, 101], "data": ["x", "y"], "region": ["eu", "eu"]}), sink)
    lake.table.io.write(f"{folder}/0.parquet", bytes(sink.getvalue()), overwrite=True)


def touched(lake: Lake, folder: str) -> None:
    """Other values may take as many bytes."""
    io = lake.table.io
    assert isinstance(io, MemoryFileIO)
    io.set_modified_ms(f"{folder}/0.parquet", 1)


@pytest.mark.parametrize("change", [written_again, touched])
def test_a_file_that_changes_while_it_is_imported_is_not_recorded_as_it_was(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Lake, str], None]
) -> None:
    lake = make_lake()
    folder, operation_of = place(lake, "memory://import"), add_files._operation

    def operation(*given: Any) -> Any:
        change(lake, folder)
        return operation_of(*given)

    monkeypatch.setattr(add_files, "_operation", operation)
    with pytest.raises(ValidationError, match=r"0\.parquet was changed below memory://import while it was imported: nothing was"):
        lake.run("add_files", source_path=folder)
    assert lake.rows() == []


@pytest.mark.parametrize("change", [written_again, touched])
def test_a_file_that_changes_at_the_moment_of_its_import_is_said(change: Callable[[Lake, str], None]) -> None:
    lake = make_lake()
    folder = place(lake, "memory://import")
    with pytest.raises(IncompleteError, match=r"0\.parquet was changed at the same time"):
        lake.run("add_files", catalog=Meddles(lake.catalog, lambda: change(lake, folder)), source_path=folder)


class Interposes(MemoryFileIO):
    """Calls ``then`` once, right before the first file that ``when`` names is deleted."""

    when: str
    then: Callable[[], object] | None

    def delete_many(self, locations: Any) -> Any:
        found = list(locations)
        if self.then is not None and any(self.when in f for f in found):
            then, self.then = self.then, None
            then()
        return super().delete_many(found)


def interposing(lake: Lake, when: str, then: Callable[[], object]) -> None:
    io: Any = lake.table.io
    io.__class__ = Interposes
    io.when, io.then = when, then


def staged_by_a_running_job(lake: Lake) -> tuple[Any, tuple[Any, ...], Lease]:
    """The table as the job planned on it, its uncommitted files in the table's folder, and its lease on them."""
    lake.append([(9, "x", "eu")])
    before, staged = lake.table, lake.written([(1, "x", "n"), (2, "x", "n")])
    lease = Lease(holder="job", snapshot_id=before.metadata.current_snapshot_id, expires_at_ms=2**62, marks=("append-1",))
    acquire_lease(before, lease)
    return before, staged, lease


@pytest.mark.parametrize("options", [{}, {"check_duplicate_files": "false"}], ids=["new files only", "any files"])
def test_an_import_waits_for_the_job_whose_uncommitted_files_are_in_the_folder(options: dict[str, str]) -> None:
    lake = make_lake(partitioned=True)
    before, staged, lease = staged_by_a_running_job(lake)
    staged_folder = {"source_path": f"{before.location}/data", "partition_filter": "region=n", **options}
    for dry_run in (False, True):
        with pytest.raises(CatalogUnavailableError, match=r"region=n/.* was written by run job.*: try again when it has ended"):
            lake.run("add_files", dry_run=dry_run, **staged_folder)
    commit(lake.catalog, before, AppendFiles(added=staged))
    assert [row[0] for row in lake.rows()] == [1, 2, 9]
    release_lease(before, lease)
    if not options:
        with pytest.raises(DataError, match=r"is in table .* already"):
            lake.run("add_files", **staged_folder)


def test_an_import_never_takes_in_what_a_refused_job_is_about_to_delete(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes after the job has proven that nothing refers to its files, and before they are deleted."""
    lake = make_lake(partitioned=True)
    before, staged, _ = staged_by_a_running_job(lake)
    proven = gate._Proof.of

    def of(self: Any, found: Any) -> Any:
        answer = proven(self, found)
        with pytest.raises(CatalogUnavailableError, match="was written by run job"):
            lake.run("add_files", source_path=f"{before.location}/data", partition_filter="region=n")
        return answer

    monkeypatch.setattr(gate._Proof, "of", of)
    gone = gate.discard_staged(before, lambda: lake.table, [f.file_path for f in staged], mark="append-1")
    assert len(gone.deleted) == 1
    assert [row[0] for row in lake.rows()] == [9]


def test_files_of_a_job_that_died_are_imported_once_its_lease_has_run_out() -> None:
    lake = make_lake(partitioned=True)
    before, _, lease = staged_by_a_running_job(lake)
    acquire_lease(before, replace(lease, expires_at_ms=1))
    report = lake.run("add_files", source_path=f"{before.location}/data", partition_filter="region=n")
    assert report.status == "committed"
    assert [row[0] for row in lake.rows()] == [1, 2, 9]


def test_an_import_waits_while_orphans_are_deleted() -> None:
    lake = make_lake()
    lake.append([(9, "x", "eu")])
    folder = place(lake, f"{lake.table.location}/incoming")
    refused: list[str] = []

    def importing() -> None:
        with pytest.raises(CatalogUnavailableError, match="a job is deleting files right now") as e:
            lake.run("add_files", source_path=folder)
        refused.append(str(e.value))

    interposing(lake, "/incoming/", importing)
    report = lake.run("remove_orphan_files", now=lambda: NOW * 2)
    assert (len(report.files), len(refused)) == (2, 1)
    assert len(lake.rows()) == 1


def test_orphan_removal_keeps_what_an_import_has_begun_to_take_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The import begins after the orphans were found, and commits before they are deleted; or it is still at it."""
    original = gate.deletion_noted
    for commits in (True, False):
        lake = make_lake()
        lake.append([(9, "x", "eu")])
        folder = place(lake, f"{lake.table.location}/incoming")

        def late(table: Any, lake: Lake = lake, folder: str = folder, commits: bool = commits) -> Any:
            monkeypatch.setattr(gate, "deletion_noted", original)
            if commits:
                lake.run("add_files", source_path=folder)
            else:
                acquire_lease(lake.table, Lease(holder="i", snapshot_id=None, expires_at_ms=2**62, folders=(folder,)))
            return original(table)

        monkeypatch.setattr(gate, "deletion_noted", late)
        report = lake.run("remove_orphan_files", now=lambda: NOW * 2)
        assert report.files == []
        reasons = {s.reason.split()[0] for s in report.skipped if "/incoming/" in s.file_path}
        assert reasons == ({"snapshot"} if commits else {"run"})
        assert len(lake.rows()) == (3 if commits else 1)


def test_expiry_keeps_files_that_an_import_takes_in_again() -> None:
    lake = make_lake(properties={"iceberg-ops.owns-imported-files": "true"})
    lake.append([(9, "x", "eu")])
    first = lake.table.metadata.current_snapshot_id
    folder = place(lake, "memory://import")
    lake.run("add_files", source_path=folder)
    commit(lake.catalog, lake.table, RollBack(snapshot_id=first))
    acquire_lease(lake.table, Lease(holder="import", snapshot_id=None, expires_at_ms=2**62, folders=(folder,)))
    report = lake.run("expire_snapshots", older_than="0s", retain_last=1)
    assert report.metrics["kept-files-count"] == 2
    assert {s.reason for s in report.skipped} == {"run import is working on it"}
    assert all(lake.table.io.exists(f"{folder}/{n}.parquet") for n in range(2))
    for lease in active_leases(lake.table):
        release_lease(lake.table, lease)
    assert lake.run("expire_snapshots", older_than="0s", retain_last=1).metrics["resumed-expirations-count"] == 1
    assert not lake.table.io.exists(f"{folder}/0.parquet")


def test_a_zombie_and_its_retry_have_leases_of_their_own() -> None:
    lake = make_lake()
    lake.append([(9, "x", "eu")])
    job = lake.job("rewrite_data_files", run_key="night")
    runs = [
        Run(job=job, catalog=lake.catalog, table=lake.table, runner=None, run_key="night", now_ms=lambda: NOW, outcome=None)  # type: ignore[arg-type]
        for _ in range(2)
    ]
    with runs[0].lease(lake.table.metadata.current_snapshot_id):
        with runs[1].lease(lake.table.metadata.current_snapshot_id):
            assert len(active_leases(lake.table, NOW)) == 2
        (left,) = active_leases(lake.table, NOW)
        assert left.marks == (runs[0].operation_id,)
    assert active_leases(lake.table, NOW) == []


@pytest.mark.parametrize("holder", ["a/b", "..", "x" * 500, "日本" * 200, "a%2Fb", "", "%" * 100], ids=lambda h: h[:8])
def test_any_run_key_may_hold_a_lease(holder: str) -> None:
    lake = make_lake()
    lease = Lease(holder=holder, snapshot_id=None, expires_at_ms=2**62)
    acquire_lease(lake.table, lease)
    assert active_leases(lake.table) == [lease]
    location = lease_location(lake.table, lease)
    assert location.startswith(f"{notes_folder(lake.table)}/leases/")
    assert len(location.rpartition("/")[2].encode()) < 200
    assert location != lease_location(lake.table, Lease(holder=holder + "y", snapshot_id=None, expires_at_ms=1))
    release_lease(lake.table, lease)
    assert active_leases(lake.table) == []


def test_a_lease_that_cannot_be_read_protects_everything_for_a_day() -> None:
    lake = make_lake()
    lake.append([(9, "x", "eu")])
    stray = f"{lake.table.location}/data/stray"
    lake.table.io.write(stray, b"x")
    broken = f"{notes_folder(lake.table)}/leases/broken.json"
    io: Any = lake.table.io
    io.write(broken, b"{")
    report = lake.run("remove_orphan_files", now=lambda: NOW * 2)
    assert [s.reason for s in report.skipped if s.file_path == stray] == [f"run unreadable lease {broken} is working on it"]
    io.set_modified_ms(broken, 0)
    assert stray in lake.run("remove_orphan_files", now=lambda: NOW * 2).files


def test_the_note_of_a_deletion_that_died_keeps_imports_waiting_for_an_hour_and_is_then_an_orphan() -> None:
    lake = make_lake()
    lake.append([(9, "x", "eu")])
    with pytest.raises(ZeroDivisionError), deletion_noted(lake.table):
        raise ZeroDivisionError
    forbid_running_deletion(lake.table)
    note = f"{notes_folder(lake.table, DELETIONS)}/dead.json"
    lake.table.io.write(note, b'{"expires-at-ms": 99999999999999}')
    with pytest.raises(CatalogUnavailableError, match=f"note {note}"):
        forbid_running_deletion(lake.table)
    lake.table.io.write(note, b'{"expires-at-ms": 1}', overwrite=True)
    forbid_running_deletion(lake.table)
    assert note in lake.run("remove_orphan_files", now=lambda: NOW * 2).files


def test_metadata_only_expiry_beside_a_lease_keeps_what_the_lease_needs() -> None:
    from iceberg_ops.commit.operations.expiry import expire

    lake = make_lake()
    for number in range(3):
        lake.append([(number, "x", "eu")])
    first = lake.table.metadata.snapshots[0]
    operation = ExpireSnapshots(older_than_ms=2**60, retain_last=1)
    taking = Meddles(
        lake.catalog,
        lambda: acquire_lease(lake.table, Lease(holder="late", snapshot_id=first.snapshot_id, expires_at_ms=2**62)),
    )
    result = expire(taking, lake.table, operation, clean="metadata-only")
    assert result.deletion.deleted == ()
    assert lake.table.io.exists(first.manifest_list or "")
