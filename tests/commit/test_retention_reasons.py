"""An expiry reports for each kept snapshot the rule that keeps it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.commit.protocol.retention import expired
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.spec.snapshots import Snapshot, SnapshotRef
from iceberg_ops.spec.table_metadata import TableMetadata
from tests.builders import IDENTIFIER
from tests.commit.test_expiry import RETENTION, Setting, chain

TAG = SnapshotRef(snapshot_id=2, type="tag")
LONG_AGO = -(2**70)
YOUNG = "it is not older than 1970-01-01 00:00:00 UTC"


def with_staged(metadata: TableMetadata, snapshot_id: int) -> TableMetadata:
    staged = Snapshot(snapshot_id=snapshot_id, parent_snapshot_id=1, timestamp_ms=50)
    return replace(metadata, snapshots=(*metadata.snapshots, staged))


@pytest.mark.parametrize(
    ("metadata", "arguments", "kept"),
    [
        (chain(10, 20, 30), {"older_than_ms": 99}, {3: "held by branch main"}),
        (
            chain(10, 20, 30, refs={"t": TAG, "u": SnapshotRef(snapshot_id=3, type="tag")}),
            {"older_than_ms": 99},
            {2: "held by tag t", 3: "held by branch main, tag u"},
        ),
        (
            chain(10, 20, 30, 40),
            {"older_than_ms": 15, "retain_last": 2},
            {2: f"it is on branch main, and {YOUNG}", 3: "it is one of the last 2 of branch main", 4: "held by branch main"},
        ),
        (
            chain(10, 20, 30, refs={"b": SnapshotRef(snapshot_id=2, min_snapshots_to_keep=2)}),
            {"older_than_ms": 99},
            {1: "it is one of the last 2 of branch b", 2: "held by branch b", 3: "held by branch main"},
        ),
        (with_staged(chain(10, 20), 7), {"older_than_ms": 30}, {2: "held by branch main", 7: f"no branch has it, but {YOUNG}"}),
        (
            chain(10, 20, 30, 40),
            {"older_than_ms": 99, "leased": (2,)},
            {
                2: "a job that runs reads it (lease)",
                3: "it is on branch main after a snapshot that a running job reads (lease)",
                4: "held by branch main",
            },
        ),
        (
            chain(10, 20),
            {"older_than_ms": -(2**70)},
            {1: f"it is on branch main, and it is not older than {-(2**70)} ms since 1970"},
        ),
    ],
)
def test_the_rule_that_keeps_a_snapshot_is_told(metadata: TableMetadata, arguments: dict[str, int], kept: dict[int, str]) -> None:
    found = expired(metadata, now_ms=100, **arguments)  # type: ignore[arg-type]
    assert {i: reason for i, reason in found.kept.items() if i in kept} == kept
    assert [*found.kept] == [s.snapshot_id for s in metadata.snapshots if s.snapshot_id not in found.snapshot_ids]


@pytest.mark.parametrize("name", RETENTION)
def test_each_snapshot_goes_or_has_a_reason_to_stay(name: str) -> None:
    metadata, arguments, gone = RETENTION[name]
    found = expired(metadata, **{"now_ms": 100, **arguments})
    assert set(found.kept) == {s.snapshot_id for s in metadata.snapshots} - gone
    assert all(found.kept.values())


@pytest.mark.parametrize("dry_run", [True, False])
def test_the_report_of_an_expiry_says_why_snapshots_stay(dry_run: bool) -> None:
    setting = Setting()
    for number in range(4):
        setting.append(f"{number}.parquet")
    table = setting.catalog.load_table(IDENTIFIER)
    config = CatalogConfig(name=table.identifier[0], type="memory")
    options = {"retain-last": "2", "older-than": "2100-01-01T00:00:00Z"}
    job = JobSpec(job="expire_snapshots", table=".".join(table.identifier), catalog=config, options=options, dry_run=dry_run)
    report = run_job(job, catalog=setting.catalog)
    third, fourth = [s.snapshot_id for s in table.metadata.snapshots][2:]
    assert [(k.snapshot_id, k.reason) for k in report.kept_snapshots] == [
        (third, "it is one of the last 2 of branch main"),
        (fourth, "held by branch main"),
    ]
    assert report.metrics["kept-snapshots-count"] == 2
