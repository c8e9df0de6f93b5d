"""Expiry, orphan removal and manifest rewrites, with real files that exist or are really deleted."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.config.document import from_json
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import NoSuchTableError, OptionError, UnsupportedError, ValidationError
from iceberg_ops.io.file_io import DeleteFailure
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.scan.planning import Scan
from tests.actions.lake import NOW, Lake, make_lake, numbered
from tests.builders import make_table

DAY = 86_400_000


def later(days: float) -> int:
    """A clock that is ``days`` ahead of the wall."""
    return time.time_ns() // 1_000_000 + round(days * DAY)


def plant(lake: Lake, name: str = "data/stray.parquet") -> str:
    path = f"{lake.table.location}/{name}"
    lake.table.io.write(path, b"stray")
    return path


def test_expired_snapshots_are_gone_with_the_files_only_they_used() -> None:
    lake = make_lake()
    lake.append(*(numbered(100 * i, 100) for i in range(6)))
    old = {task.file_path for task in lake.tasks()}
    lake.run("rewrite_data_files")
    rows = lake.rows()
    report = lake.run("expire_snapshots", now=lambda: later(6), older_than="1d")
    assert report.status == "committed"
    assert lake.rows() == rows
    assert old.isdisjoint(lake.paths())
    assert report.metrics["expired-snapshots-count"] == 1
    assert report.metrics["deleted-data-files-count"] == 6
    assert report.metrics["deleted-manifest-lists-count"] == 1
    assert set(report.files) >= old
    assert len(lake.table.metadata.snapshots) == 1


def test_a_dry_run_of_expiry_names_the_files_and_deletes_none() -> None:
    lake = make_lake()
    lake.append(*(numbered(100 * i, 100) for i in range(6)))
    lake.run("rewrite_data_files")
    before = lake.paths()
    planned = lake.run("expire_snapshots", now=lambda: later(6), dry_run=True)
    assert (planned.status, lake.paths()) == ("planned", before)
    done = lake.run("expire_snapshots", now=lambda: later(6))
    assert sorted(planned.files) == sorted(done.files)


def test_nothing_expires_within_the_tables_age() -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    lake.append(numbered(10, 10))
    assert lake.run("expire_snapshots", now=lambda: later(1)).status == "nothing-to-do"


@pytest.mark.parametrize("action", ["expire_snapshots", "remove_orphan_files"])
def test_a_table_without_gc_is_left_alone(action: str) -> None:
    lake = make_lake(properties={"gc.enabled": "false"})
    with pytest.raises(ValidationError, match=r"(?i)gc"):
        lake.run(action)


def test_delete_orphan_removes_a_planted_orphan_and_nothing_else() -> None:
    lake = make_lake(partitioned=True)
    for i in range(6):
        lake.append(numbered(100 * i, 100))
    lake.delete_positions((lake.tasks()[0], [0]))
    lake.delete_ids(150, partition=("a",))
    lake.run("rewrite_data_files", rewrite_all=True)
    lake.run("rewrite_manifests")
    rows, before = lake.rows(), lake.paths()
    orphan = plant(lake, "data/region=a/stray.parquet")
    report = lake.run("remove_orphan_files", now=lambda: later(4))
    assert (report.status, report.files) == ("committed", [orphan])
    assert lake.paths() == before
    assert lake.rows() == rows
    for snapshot in lake.table.metadata.snapshots:
        lake.rows(Scan(snapshot_id=snapshot.snapshot_id))


def test_a_dry_run_names_orphans_and_deletes_none() -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    orphan = plant(lake)
    report = lake.run("remove_orphan_files", now=lambda: later(4), dry_run=True)
    assert (report.status, report.files, report.metrics["orphan-files-count"]) == ("planned", [orphan], 1)
    assert orphan in lake.paths()


def test_young_files_stay_and_a_day_is_the_least_age() -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    plant(lake)
    report = lake.run("remove_orphan_files", now=lambda: later(2))
    assert (report.status, report.skipped[0].reason) == ("nothing-to-do", "it was changed after older-than")
    with pytest.raises(OptionError, match="unsafe-allow-recent"):
        lake.run("remove_orphan_files", now=lambda: later(2), older_than="1h")
    assert lake.run("remove_orphan_files", now=lambda: later(2), older_than="1h", unsafe_allow_recent=True).status == "committed"


def test_another_tables_metadata_below_the_location_stops_orphan_removal() -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    other = make_table(lake.catalog, identifier=("ns", "u"))
    lake.table.io.write(f"{lake.table.location}/u/metadata/v1.metadata.json", other.io.read(other.metadata_location))
    plant(lake)
    before = lake.paths()
    with pytest.raises(UnsupportedError, match="another table"):
        lake.run("remove_orphan_files", now=lambda: later(4))
    assert lake.paths() == before


def test_files_of_a_running_job_are_no_orphans() -> None:
    from iceberg_ops.deletion.leases import Lease, acquire_lease

    lake = make_lake()
    lake.append(numbered(0, 10))
    mine = plant(lake, "data/00000-operation-7-00001.parquet")
    lease = Lease(holder="night", snapshot_id=None, expires_at_ms=later(5), marks=("operation-7",))
    acquire_lease(lake.table, lease)
    report = lake.run("remove_orphan_files", now=lambda: later(4))
    assert (report.status, mine in lake.paths()) == ("nothing-to-do", True)
    assert "run night is working on it" in {s.reason for s in report.skipped}


def test_the_lease_of_a_job_that_died_goes_once_its_time_is_over() -> None:
    from iceberg_ops.deletion.leases import Lease, acquire_lease

    lake = make_lake()
    lake.append(numbered(0, 10))
    living = acquire_lease(lake.table, Lease(holder="night", snapshot_id=None, expires_at_ms=later(9)))
    dead = acquire_lease(lake.table, Lease(holder="died/1", snapshot_id=None, expires_at_ms=later(1)))
    report = lake.run("remove_orphan_files", now=lambda: later(4))
    assert report.files == [dead]
    assert living in lake.paths()
    assert "a note of a running or interrupted job" in {s.reason for s in report.skipped}


def test_manifests_become_fewer_and_come_to_rest() -> None:
    lake = make_lake(partitioned=True)
    for i in range(6):
        lake.append(numbered(100 * i, 100, "ab"[i % 2]))
    lake.delete_positions((lake.tasks()[0], [0]))
    rows = lake.rows()
    report = lake.run("rewrite_manifests")
    assert (report.status, lake.rows()) == ("committed", rows)
    assert (report.metrics["rewritten-manifests-count"], report.metrics["added-manifests-count"]) == (6, 1)
    assert report.after is not None
    assert report.after.manifests == 2
    again = lake.run("rewrite_manifests")
    assert (again.status, {s.reason for s in again.skipped}) == (
        "nothing-to-do",
        {"its size is right and it does not overlap others"},
    )


def test_manifests_are_clustered_by_an_existing_partition_field_only() -> None:
    lake = make_lake(partitioned=True)
    lake.append(numbered(0, 10))
    with pytest.raises(OptionError, match="the partition fields of spec 0 are region"):
        lake.run("rewrite_manifests", sort_by="day")


def test_a_dry_run_of_manifests_writes_nothing() -> None:
    lake = make_lake()
    for i in range(6):
        lake.append(numbered(100 * i, 100))
    before = lake.paths()
    report = lake.run("rewrite_manifests", dry_run=True)
    assert (report.status, report.metrics["planned-manifests-count"], lake.paths()) == ("planned", 6, before)


def test_on_disk_with_version_hints_only_the_stray_file_goes(tmp_path: Path) -> None:
    import os

    from iceberg_ops.io.local import LocalFileIO

    catalog = FileSystemCatalog("test", LocalFileIO(), warehouse=str(tmp_path))
    catalog.create_namespace(("ns",))
    make_table(catalog)
    lake = Lake(catalog)
    lake.append(*(numbered(100 * i, 100) for i in range(6)))
    lake.run("rewrite_data_files")
    rows = lake.rows()
    stray = Path(lake.table.location.removeprefix("file:").replace("///", "/")) / "data" / "stray.parquet"
    stray.write_bytes(b"stray")
    beside = tmp_path / "ns" / "t_backup" / "data" / "x.parquet"
    beside.parent.mkdir(parents=True)
    beside.write_bytes(b"x")
    for path in tmp_path.rglob("*"):
        os.utime(path, (1, 1))
    before = {p for p in tmp_path.rglob("*") if p.is_file()}
    report = lake.run("remove_orphan_files")
    assert {p for p in tmp_path.rglob("*") if p.is_file()} == before - {stray}
    assert report.metrics["deleted-orphan-files-count"] == 1
    assert lake.rows() == rows


def test_a_failure_is_written_to_the_report_and_raised(tmp_path: Path) -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    path = tmp_path / "report.json"
    with pytest.raises(OptionError):
        lake.run("remove_orphan_files", older_than="1h", now=lambda: NOW, report=str(path))
    report = from_json(path.read_bytes(), ActionReport, str(path))
    assert report.status == "failed"
    assert report.error is not None
    assert (report.error.code, bool(report.error.next_step)) == ("BAD_OPTION", True)


@pytest.mark.parametrize(
    ("action", "more", "error"),
    [
        ("merge", {}, OptionError),
        ("expire_snapshots", {"where": "id > 1"}, OptionError),
        ("remove_orphan_files", {"branch": "audit"}, OptionError),
        ("rewrite_data_files", {"targets": "1"}, OptionError),
    ],
)
def test_jobs_that_can_not_be_are_refused_before_the_table_is_read(
    action: str, more: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        make_lake().run(action, **more)


def test_a_missing_table_is_named() -> None:
    lake = make_lake()
    lake.identifier = ("ns", "nowhere")
    with pytest.raises(NoSuchTableError, match="nowhere"):
        lake.run("rewrite_data_files")


def test_orphans_that_can_not_be_deleted_are_not_reported_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    stray, denied = plant(lake), plant(lake, "data/denied.parquet")
    real = MemoryFileIO.delete_many

    def delete_many(io: MemoryFileIO, locations: Sequence[str]) -> list[DeleteFailure]:
        return [*real(io, [x for x in locations if x != denied]), *(DeleteFailure(x, "denied") for x in locations if x == denied)]

    monkeypatch.setattr(MemoryFileIO, "delete_many", delete_many)
    report = lake.run("remove_orphan_files", now=lambda: later(6))
    assert (report.status, report.files) == ("partially-committed", [stray])
    assert [(failure.file_path, failure.reason) for failure in report.failures] == [(denied, "denied")]
