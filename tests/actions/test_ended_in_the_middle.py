"""A job that ends between two calls to the store reports its changes: by its error code, and by its report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.commit.manifests import staged_files
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.protocol.operation import Committed
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.deletion.bulk import recorded
from iceberg_ops.errors import CatalogUnavailableError, IncompleteError
from iceberg_ops.io.file_io import DeleteFailure, FileIO
from iceberg_ops.io.memory import MemoryFileIO
from tests.actions.lake import Lake, make_lake, numbered

EVERYTHING = {"older_than": "2100-01-01T00:00:00Z", "retain_last": 1}
ENDS = [KeyboardInterrupt(), OSError(5, "EIO"), MemoryError()]


def with_orphans() -> Lake:
    lake = make_lake()
    lake.append(numbered(1, 3))
    for i in range(6):
        lake.table.io.write(f"{lake.table.location}/data/orphan-{i}.parquet", b"x")
    return lake


def with_unfinished_expiry(monkeypatch: pytest.MonkeyPatch) -> Lake:
    lake = make_lake()
    for i in range(2):
        lake.append(numbered(10 * i, 3))
    lake.run("rewrite_data_files", rewrite_all="true")

    def died(io: MemoryFileIO, locations: Sequence[str]) -> list[DeleteFailure]:
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(MemoryFileIO, "delete_many", died)
        with pytest.raises(KeyboardInterrupt):
            lake.run("expire_snapshots", **EVERYTHING)
    return lake


def end_at_the_third_file(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    one, gone = MemoryFileIO.delete, list[str]()

    def delete(io: MemoryFileIO, location: str) -> None:
        if "/iceberg-ops/" not in location:
            gone.append(location)
            if len(gone) == 3:
                raise error
        one(io, location)

    def delete_many(io: MemoryFileIO, locations: Sequence[str]) -> list[DeleteFailure]:
        for location in locations:
            delete(io, location)
        return []

    monkeypatch.setattr(MemoryFileIO, "delete", delete)
    monkeypatch.setattr(MemoryFileIO, "delete_many", delete_many)


@pytest.mark.parametrize("error", ENDS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("job", ["orphans", "quarantine", "resumed expiry"])
def test_a_deletion_that_ends_in_the_middle_of_a_batch_is_incomplete(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, job: str, error: BaseException
) -> None:
    lake = with_unfinished_expiry(monkeypatch) if job == "resumed expiry" else with_orphans()
    options: dict[str, Any] = {"older_than": "2029-01-01T00:00:00Z"} if job != "resumed expiry" else EVERYTHING
    if job == "quarantine":
        options["quarantine_path"] = "memory:///q"
    end_at_the_third_file(monkeypatch, error)
    name = "expire_snapshots" if job == "resumed expiry" else "remove_orphan_files"
    with pytest.raises(IncompleteError, match="a part of the work is done"):
        lake.run(name, report=str(tmp_path / "r.json"), **options)
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["error"]["code"] == "INCOMPLETE"
    if job == "orphans":
        assert report["metrics"]["deleted-orphan-files-count"] == len(report["files"]) == 2


def test_where_the_store_does_not_say_what_is_gone_something_may_be() -> None:
    class Silent(MemoryFileIO):
        def exists(self, location: str) -> bool:
            raise CatalogUnavailableError("no answer")

    def ended(io: FileIO, locations: Sequence[str]) -> list[DeleteFailure]:
        raise MemoryError

    said: list[tuple[Sequence[str], bool]] = []
    with pytest.raises(MemoryError):
        recorded(ended, lambda gone, in_doubt: said.append((gone, in_doubt)))(Silent(), ["memory://a"])
    assert said == [([], True)]


def test_a_deletion_note_that_stays_does_not_hide_what_was_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    lake, real = with_orphans(), MemoryFileIO.delete_many

    def fails_on_notes(io: MemoryFileIO, locations: Sequence[str]) -> list[DeleteFailure]:
        if any("/deletions/" in location for location in locations):
            raise CatalogUnavailableError("no answer")
        return real(io, locations)

    monkeypatch.setattr(MemoryFileIO, "delete_many", fails_on_notes)
    report = lake.run("remove_orphan_files", older_than="2029-01-01T00:00:00Z")
    assert (report.status, report.metrics["deleted-orphan-files-count"]) == ("committed", 6)


@pytest.mark.parametrize("name", ["delete", "compute_table_stats", "compute_partition_stats", "rewrite_data_files"])
def test_an_interrupt_while_the_lease_is_given_back_does_not_hide_the_commit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    lake, real = make_lake(partitioned=True), MemoryFileIO.delete_many
    lake.append(numbered(1, 5))
    job = JobSpec(
        job=name,
        table="test.ns.t",
        catalog=CatalogConfig(name="test", type="memory"),
        where="id = 2" if name == "delete" else None,
        options={"rewrite-all": "true"} if name == "rewrite_data_files" else {},
        report=str(tmp_path / "r.json"),
    )

    def ctrl_c(io: MemoryFileIO, locations: Sequence[str]) -> list[DeleteFailure]:
        if any("/leases/" in location for location in locations):
            raise KeyboardInterrupt
        return real(io, locations)

    monkeypatch.setattr(MemoryFileIO, "delete_many", ctrl_c)
    with pytest.raises(KeyboardInterrupt) as ended:
        run_job(job, catalog=lake.catalog, runner=LocalRunner(workers=1))
    assert isinstance(ended.value, IncompleteError)
    assert json.loads((tmp_path / "r.json").read_text())["error"]["code"] == "INCOMPLETE"


def test_a_commit_is_recorded_before_unused_files_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = make_lake()
    said: list[Committed] = []

    def ctrl_c(*args: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(staged_files, "discard", ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        staged_files.commit_staged(lake.catalog, lake.table, AppendFiles(added=()), [], on_commit=said.append)
    assert len(said) == 1
