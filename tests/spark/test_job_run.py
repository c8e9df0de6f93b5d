"""The resources that a row operation holds while it runs."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.run import context
from iceberg_ops.actions.run.context import LEASE_MS
from iceberg_ops.commit.manifests import staged_files
from iceberg_ops.config.job_spec import JobSpec, MergeClause, RowChange
from iceberg_ops.deletion import held_lease
from iceberg_ops.deletion.leases import active_leases
from iceberg_ops.errors import DataError, IncompleteError, ValidationError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark
SCHEMA = Schema.of(NestedField(1, "id", LONG, required=True))


def test_a_running_job_protects_its_snapshot_and_the_files_it_stages(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.create("t", SCHEMA)
    place.append("t", pa.table({"id": [1]}))
    swap, table, held = staged_files.commit_staged, place.table("t"), []

    def noting(catalog: Any, now: Any, operation: Any, staged: Any, **named: Any) -> Any:
        (lease,) = active_leases(table, 0)
        held.append(lease.snapshot_id == table.metadata.current_snapshot_id)
        for path, is_held in ((staged[0], True), (f"{table.location}/data/00000-7-another-00001.parquet", False)):
            held.append(lease.covers(path, table.io) is is_held)
        held.append(lease.is_active(lease.expires_at_ms - LEASE_MS))
        return swap(catalog, now, operation, staged, **named)

    monkeypatch.setattr(staged_files, "commit_staged", noting)
    place.append("t", pa.table({"id": [2]}))
    assert held == [True] * 4
    assert active_leases(place.table("t"), 0) == []


def test_a_job_that_fails_gives_its_lease_back(place: Place) -> None:
    place.create("t", SCHEMA)
    with pytest.raises(DataError):
        place.append("t", pa.table({"id": pa.array([None], pa.int64())}))
    assert active_leases(place.table("t"), 0) == []


@pytest.mark.parametrize("job", ["append", "overwrite", "update", "merge"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(5, "EIO"), ValidationError("x")], ids=lambda e: type(e).__name__)
def test_a_commit_is_reported_whatever_fails_after_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, job: str, error: BaseException
) -> None:
    """A conflict that is reported after the commit does not have the statement done again, either."""
    place.create("t", SCHEMA)
    place.fill("t", pa.table({"id": [1]}))
    before, path = place.table("t").metadata.current_snapshot_id, place.folder / "report.json"

    def fails(*_: Any, **__: Any) -> None:
        raise error

    clause = MergeClause(when="not-matched", action="insert")
    parts: dict[str, dict[str, Any]] = {
        "update": {"change": RowChange(set={"id": "id + 1"})},
        "merge": {"change": RowChange(on="target.id = source.id", clauses=[clause])},
    }
    if job != "update":
        parts.setdefault(job, {})["source"] = place.parquet(pa.table({"id": [7]}))
    monkeypatch.setattr(staged_files, "discard", fails)
    with pytest.raises(IncompleteError, match=r"the work is committed .* only clean-up is left") as raised:
        place.run(job, "t", report=str(path), **parts[job])
    assert isinstance(raised.value, KeyboardInterrupt) is isinstance(error, KeyboardInterrupt)
    (snapshot,) = [s for s in place.table("t").metadata.snapshots if s.parent_snapshot_id == before]
    report = json.loads(path.read_text())
    assert (report["error"]["code"], report["snapshot-ids"]) == ("INCOMPLETE", [snapshot.snapshot_id])
    assert report["error"]["next-step"].startswith("do not run the job again without its run key")
    assert place.table("t").metadata.current_snapshot_id == snapshot.snapshot_id


def test_an_append_whose_lease_ran_out_and_whose_files_were_deleted_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create("t", SCHEMA)
    before = place.table("t").metadata_location
    swap = staged_files.commit_staged

    def late(*args: Any, **kwargs: Any) -> Any:
        time.sleep(1.2)
        removed = run_job(
            JobSpec(
                job="remove_orphan_files",
                table="test.db.t",
                catalog=place.config,
                options={"older-than": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "unsafe-allow-recent": "true"},
            )
        )
        assert [f for f in removed.files if f.endswith(".parquet")] != []
        return swap(*args, **kwargs)

    monkeypatch.setattr(context, "LEASE_MS", 1_000)
    monkeypatch.setattr(staged_files, "commit_staged", late)
    monkeypatch.setattr(held_lease.HeldLease, "_renew_until_ended", lambda self: None)
    with pytest.raises(ValidationError, match=r"lease of run run-\S+ expired before its commit"):
        place.append("t", pa.table({"id": [1]}))
    assert place.table("t").metadata_location == before
    monkeypatch.undo()
    place.append("t", pa.table({"id": [2]}))
    assert place.rows("t") == [{"id": 2}]


def test_a_job_without_a_run_key_is_done_once_under_the_key_of_its_report(place: Place) -> None:
    place.create("t", SCHEMA)
    source = place.parquet(pa.table({"id": [1]}))
    report = place.run("append", "t", source=source, plan_id="plan-1")
    summary = place.table("t").metadata.snapshot(report.snapshot_ids[0]).summary
    assert (summary["iceberg-ops.run-key"], summary["iceberg-ops.plan-id"]) == (report.run_key, "plan-1")
    assert (summary["engine-name"], summary["engine-version"]) == ("spark", place.session.version)
    assert place.run("append", "t", source=source, run_key=report.run_key).status == "already-committed"
    assert place.rows("t") == [{"id": 1}]


def test_the_report_of_a_failed_job_says_where_it_began_and_what_it_did(place: Place) -> None:
    place.create("t", SCHEMA)
    first = place.append("t", pa.table({"id": [1]}))
    path = place.folder / "report.json"
    with pytest.raises(DataError):
        place.run("update", "t", change=RowChange(set={"id": "cast('x' AS bigint)"}), report=str(path))
    report = json.loads(path.read_text())
    assert (report["status"], report["lane"], report["starting-snapshot-id"]) == ("failed", "spark", first.snapshot_ids[0])
    assert [step["name"] for step in report["steps"]] == ["plan", "evaluate"]
    assert report["before"] == report["after"]
