"""An expiry that finishes the deletions of an earlier one reports it; a damaged note or lease causes no deletion."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from iceberg_ops.commit.operations.expiry import ABANDONED_AFTER_MS, resume_expiry
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import CatalogUnavailableError, CommitFailedError, IncompleteError
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.table.reachable import reachable_files
from tests.actions.lake import Lake, make_lake, numbered
from tests.builders import IDENTIFIER, make_table

ALL = {"older_than": "2100-01-01T00:00:00Z", "retain_last": 1}


def interrupted(monkeypatch: pytest.MonkeyPatch, version: int = 2, *, has_uuid: bool = True) -> tuple[Lake, int]:
    """A table whose expiry died before it deleted a file; and how many files it would have deleted."""
    lake = make_lake(version=version, properties={"commit.retry.num-retries": "0"})
    for i in range(3):
        lake.append(numbered(10 * i, 3))
    lake.run("rewrite_data_files", rewrite_all="true")
    if not has_uuid:
        location, io = lake.table.metadata_location, lake.table.io
        text = json.loads(io.read(location))
        text.pop("table-uuid")
        io.write(location, json.dumps(text).encode(), overwrite=True)
    planned = len(lake.run("expire_snapshots", dry_run=True, **ALL).files)

    def died(io: MemoryFileIO, locations: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileIO, "delete_many", died)
        with pytest.raises(KeyboardInterrupt):
            lake.run("expire_snapshots", **ALL)
    return lake, planned


def deleted(report: ActionReport) -> int:
    return sum(n for name, n in report.metrics.items() if name.startswith("deleted-"))


def test_deletions_of_an_interrupted_expiry_are_in_the_report_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    lake, planned = interrupted(monkeypatch)
    before = lake.paths()
    report = lake.run("expire_snapshots", **ALL)
    assert report.status == "committed"
    assert report.metrics["resumed-expirations-count"] == 1
    assert deleted(report) == len(report.files) == planned
    assert set(report.files) <= before - lake.paths()


def test_they_are_added_to_what_expires_now(monkeypatch: pytest.MonkeyPatch) -> None:
    lake, planned = interrupted(monkeypatch)
    lake.append(numbered(100, 3))
    before = lake.paths()
    report = lake.run("expire_snapshots", **ALL)
    assert (report.metrics["resumed-expirations-count"], report.metrics["expired-snapshots-count"]) == (1, 1)
    assert deleted(report) == len(report.files) > planned
    assert set(report.files) <= before - lake.paths()


def test_where_the_commit_fails_after_them_the_job_is_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    lake, _ = interrupted(monkeypatch)
    lake.append(numbered(100, 3))
    before = lake.paths()

    def refused(*_: Any) -> Any:
        raise CommitFailedError("refused")

    lake.catalog.commit_table = refused  # type: ignore[method-assign]
    with pytest.raises(IncompleteError, match="COMMIT_FAILED"):
        lake.run("expire_snapshots", **ALL)
    assert lake.paths() < before


def test_where_deleting_stops_between_two_batches_the_job_is_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    lake, _ = interrupted(monkeypatch)
    real, calls = MemoryFileIO.delete_many, list[int]()

    def once(io: MemoryFileIO, locations: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            raise CatalogUnavailableError("the store is away")
        return real(io, locations)

    monkeypatch.setattr(MemoryFileIO, "delete_many", once)
    with pytest.raises(IncompleteError, match="CATALOG_UNAVAILABLE"):
        lake.run("expire_snapshots", **ALL)


LEASES = {
    "infinite": '{"holder": "a", "snapshot_id": null, "expires_at_ms": Infinity}',
    "deep": "[" * 200_000,
    "a mark that is a number": '{"holder": "a", "snapshot_id": null, "expires_at_ms": 4000000000000, "marks": [1]}',
    "marks that are a text": '{"holder": "a", "snapshot_id": null, "expires_at_ms": 4000000000000, "marks": "x"}',
    "no holder": '{"holder": null, "snapshot_id": null, "expires_at_ms": 4000000000000}',
    "a snapshot that is a text": '{"holder": "a", "snapshot_id": "1", "expires_at_ms": 4000000000000}',
    "a truth value for a time": '{"holder": "a", "snapshot_id": 1, "expires_at_ms": true}',
    "a number of 5,000 digits": '{"holder": "a", "snapshot_id": 1, "expires_at_ms": ' + "9" * 5000 + "}",
    "a list": "[]",
}
NOTES: dict[str, Callable[[dict[str, Any]], object]] = {
    "infinite": lambda n: n.update({"created-at-ms": float("inf")}),
    "snapshots without keys": lambda n: n.update(snapshots=[{"snapshot-id": 1}]),
    "no time": lambda n: n.pop("created-at-ms"),
    "no table": lambda n: n.pop("table-uuid"),
    "no snapshots": lambda n: n.pop("snapshots"),
    "an id that is a text": lambda n: n["snapshots"][0].update({"snapshot-id": "7"}),
    "statistics of one": lambda n: n.update(statistics=[[1]]),
    "manifests that are numbers": lambda n: n["snapshots"][0].update(manifests=[1]),
}


def lease_of(lake: Lake, text: str) -> str:
    location = f"{lake.table.location}/metadata/iceberg-ops/leases/x.json"
    lake.table.io.write(location, text.encode())
    return location


@pytest.mark.parametrize("text", LEASES.values(), ids=LEASES)
def test_a_damaged_lease_protects_every_file_and_is_named(text: str) -> None:
    lake = make_lake()
    for i in range(3):
        lake.append(numbered(10 * i, 3))
    lake.run("rewrite_data_files", rewrite_all="true")
    location, before = lease_of(lake, text), lake.paths()
    report = lake.run("expire_snapshots", now=_now, **ALL)
    assert report.status == "committed"
    assert before <= lake.paths()
    assert {f"unreadable lease {location}" in s.reason for s in report.skipped} == {True}
    lake.run("remove_orphan_files", now=_now, older_than="2020-01-01T00:00:00Z")
    assert lake.table.io.exists(location)


def _now() -> int:
    return time.time_ns() // 1_000_000


@pytest.mark.parametrize("text", ["{", "[" * 200_000, "[]", "\x00"], ids=["cut", "deep", "list", "noise"])
def test_a_note_that_is_no_note_is_kept_and_named(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    lake, _ = interrupted(monkeypatch)
    (note,) = [p for p in lake.paths() if "/expiry/" in p]
    lake.table.io.write(note, text.encode(), overwrite=True)
    check_kept(lake, note)


@pytest.mark.parametrize("change", NOTES.values(), ids=NOTES)
def test_a_damaged_note_is_kept_and_named_and_nothing_is_deleted_for_it(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[dict[str, Any]], object]
) -> None:
    lake, _ = interrupted(monkeypatch)
    (note,) = [p for p in lake.paths() if "/expiry/" in p]
    found = json.loads(lake.table.io.read(note))
    change(found)
    lake.table.io.write(note, json.dumps(found).encode(), overwrite=True)
    check_kept(lake, note)


def check_kept(lake: Lake, note: str) -> None:
    before = lake.paths()
    report = lake.run("expire_snapshots", **ALL)
    assert report.status == "nothing-to-do"
    assert lake.paths() == before
    assert [s.file_path for s in report.skipped] == [note]
    assert "cannot be finished" in report.skipped[0].reason
    lake.append(numbered(100, 3))
    lake.append(numbered(110, 3))
    report = lake.run("expire_snapshots", **ALL)
    assert report.status == "committed"
    assert note in {s.file_path for s in report.skipped}
    assert lake.table.io.exists(note)
    assert all(lake.table.io.exists(location) for location in reachable_files(lake.table))


@pytest.mark.parametrize("text", ['{"expires-at-ms": Infinity}', "[" * 200_000, '{"expires-at-ms": "1"}', "[]"])
def test_a_damaged_note_of_a_deletion_keeps_no_job_from_its_work(text: str) -> None:
    lake = make_lake()
    for i in range(3):
        lake.append(numbered(10 * i, 3))
    lake.table.io.write(f"{lake.table.location}/metadata/iceberg-ops/deletions/x.json", text.encode())
    assert lake.run("expire_snapshots", **ALL).status == "committed"
    assert lake.run("remove_orphan_files", older_than="2020-01-01T00:00:00Z").status == "nothing-to-do"


def test_an_expiry_that_gave_a_v1_table_its_uuid_is_finished_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its note was written when the table had none."""
    lake, planned = interrupted(monkeypatch, version=1, has_uuid=False)
    assert lake.table.metadata.table_uuid
    report = lake.run("expire_snapshots", **ALL)
    assert (report.metrics["resumed-expirations-count"], deleted(report)) == (1, planned)


@pytest.mark.parametrize("has_uuid", [True, False], ids=["with a uuid", "without"])
def test_the_note_of_another_table_in_the_same_place_is_left_to_that_table(monkeypatch: pytest.MonkeyPatch, has_uuid: bool) -> None:
    """A rename keeps a table's location, where the next table of its name is made."""
    lake, planned = interrupted(monkeypatch, version=1, has_uuid=has_uuid)
    lake.catalog.rename_table(IDENTIFIER, ("ns", "renamed"))
    other = make_table(lake.catalog)
    before = lake.paths()
    resumed = resume_expiry(lake.catalog, other, now_ms=time.time_ns() // 1_000_000 + 2 * ABANDONED_AFTER_MS)
    assert (resumed.finished, lake.paths()) == (0, before)
    finished = Lake(lake.catalog, ("ns", "renamed")).run("expire_snapshots", **ALL)
    assert (finished.metrics["resumed-expirations-count"], deleted(finished)) == (1, planned)
