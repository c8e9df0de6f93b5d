"""Actions whose work is divided among Spark tasks give the same result as the local lane."""

from __future__ import annotations

import io as bytes_io
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.workers import listing
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.actions.workers.runner import Progress, RewriteRunner
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateStatistics
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.serde.puffins.puffin import read_footer
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import LONG, STRING, NestedField
from spark_jobs.runners.rewrite import SparkRewriteRunner
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(NestedField(1, "id", LONG, required=True), NestedField(2, "_year", STRING), NestedField(3, "month", STRING))
SPEC = PartitionSpec(1, (PartitionField((2,), 1000, IDENTITY, "_year"), PartitionField((3,), 1001, IDENTITY, "month")))
LONG_AGO = 1_500_000_000
STRAYS = [
    "stray.parquet",
    "data/stray.parquet",
    "data/_year=1/stray a.parquet",
    "data/_year=1/month=2/stray.parquet",
    "data/_year=9/month=9/day=9/hour=9/deep.parquet",
    "data/é/ü.parquet",
    "metadata/stray.avro",
]
HIDDEN = ["data/_tmp/x.parquet", "data/.hidden/month=1/x.parquet", "data/_year=1/_x.parquet", "data/_year=2/.x.parquet"]


def filled(place: Place) -> Path:
    """A table of twelve partitions with strays, hidden files and a young file; where it lies."""
    place.create("t", SCHEMA, SPEC)
    rows = [(i, str(i % 3), str(i % 4)) for i in range(240)]
    for part in (rows[:120], rows[60:]):
        ids, years, months = zip(*part, strict=True)
        place.fill("t", pa.table({"id": ids, "_year": years, "month": months}))
    root = Path(place.table("t").location.removeprefix("file://").removeprefix("file:"))
    for name in (*STRAYS, *HIDDEN, "data/young.parquet"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
        if "young" not in name:
            os.utime(root / name, (LONG_AGO, LONG_AGO))
    return root


def run(place: Place, runner: RewriteRunner, job: str, progress: list[Progress] | None = None, **more: Any) -> ActionReport:
    spec = JobSpec(job=job, table="test.db.t", catalog=place.config, **more)
    return run_job(spec, runner=runner, progress=None if progress is None else progress.append)


def test_executors_list_what_one_process_lists(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_FOLDERS_PER_SHARE", 1)
    monkeypatch.setattr(listing, "_SHARES_PER_TASK", 2)
    root, rows = filled(place), place.rows("t")
    local = run(place, LocalRunner(), "remove_orphan_files", dry_run=True)
    seen: list[Progress] = []
    spark = run(place, SparkRewriteRunner(place.session), "remove_orphan_files", seen, dry_run=True)
    by_prefix = run(
        place, SparkRewriteRunner(place.session), "remove_orphan_files", dry_run=True, options={"prefix-listing": "true"}
    )
    assert sorted(f.removeprefix(f"{root}/") for f in spark.files) == sorted(STRAYS)
    for other in (spark, by_prefix):
        assert (other.files, other.metrics, other.skipped) == (local.files, local.metrics, local.skipped)
    assert {s.reason for s in spark.skipped if "hidden" in s.reason} != set()
    assert spark.metrics["kept-files-count"] == len(HIDDEN) + 1
    assert (seen[-1].what, seen[-1].works_done) == ("listing", seen[-1].works)
    done = run(place, SparkRewriteRunner(place.session), "remove_orphan_files")
    assert (done.lane, done.status, done.metrics["deleted-orphan-files-count"]) == ("spark", "committed", len(STRAYS))
    assert not any((root / name).exists() for name in STRAYS)
    assert all((root / name).exists() for name in HIDDEN)
    assert place.rows("t") == rows


def test_tasks_sketch_what_one_process_sketches(place: Place) -> None:
    filled(place)
    sketches = []
    for runner in (LocalRunner(), LocalRunner(workers=2, inline_bytes=0), SparkRewriteRunner(place.session)):
        seen: list[Progress] = []
        report = run(place, runner, "compute_table_stats", seen)
        assert (report.metrics["ndv.id"], report.metrics["ndv.month"], report.metrics["rows-count"]) == (240, 4, 300)
        assert (seen[-1].works_done, seen[-1].bytes_done) == (seen[-1].works, seen[-1].bytes)
        (file,) = place.table("t").metadata.statistics
        data = place.table("t").io.read(file.statistics_path)
        footer = read_footer(bytes_io.BytesIO(data), "stats")
        sketches.append([data[b.offset : b.offset + b.length] for b in footer.blobs])
        commit(place.catalog, place.table("t"), UpdateStatistics(removed=(file.snapshot_id,)))
    assert sketches[0] == sketches[1] == sketches[2]


@pytest.mark.parametrize("lane", ["local", "spark"])
def test_a_file_that_does_not_read_is_named_by_whoever_read_it(place: Place, lane: str) -> None:
    root = filled(place)
    broken = next(p for p in root.glob("data/_year=0/month=0/*.parquet"))
    broken.write_bytes(b"no parquet at all")
    runner = LocalRunner(workers=2, inline_bytes=0) if lane == "local" else SparkRewriteRunner(place.session)
    with pytest.raises(CorruptTableError, match=broken.name):
        run(place, runner, "compute_table_stats")
    assert not place.table("t").metadata.statistics
