"""Maintenance, with Spark's executors and in the local lane, changes no row of any reader and writes the files that its plan
promised."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.actions.workers.runner import RewriteRunner
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.config.report import ActionReport
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from spark_jobs.runners.rewrite import SparkRewriteRunner
from tests.data.test_oracles import by_duckdb, by_pyiceberg
from tests.interop.lake import Lake, Rows, same, texts

pytestmark = [pytest.mark.oracle, pytest.mark.java, pytest.mark.spark]

SCHEMA = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "town", STRING), NestedField(3, "text", STRING))
ROWS_A_FILE = 1500
TARGET = 200_000
"""Bytes of a data file to aim at; a file of ``ROWS_A_FILE`` rows has about half of that, most of it random text."""


@pytest.fixture(params=["local", "spark"])
def runner(request: pytest.FixtureRequest) -> RewriteRunner:
    if request.param == "local":
        return LocalRunner(workers=1)
    return SparkRewriteRunner(request.getfixturevalue("session"))


def rows(chance: random.Random, first: int) -> list[Sequence[Any]]:
    ids = list(range(first, first + ROWS_A_FILE))
    chance.shuffle(ids)
    return [(i, chance.choice(("Oslo", "Rome", None)), f"{chance.getrandbits(256):064x}") for i in ids]


def act(lake: Lake, runner: RewriteRunner, action: str, **options: Any) -> ActionReport:
    named = {k.replace("_", "-"): str(v) for k, v in options.items()}
    job = JobSpec(job=action, table=lake.sql_name, catalog=CatalogConfig(name="lake", type="sql"), options=named)
    return run_job(job, catalog=lake.catalog, runner=runner)


def all_read(lake: Lake, expected: Rows, after: str) -> None:
    same(lake.our_rows(), expected, f"read here, after {after}")
    same(lake.java_rows(), expected, f"read by Java, after {after}")
    same(texts(by_duckdb(lake.table)), expected, f"read by DuckDB, after {after}")
    if not any(d.data_file.equality_ids for task in plan(lake.table, Scan()).tasks for d in task.deletes):
        same(texts(by_pyiceberg(lake.table)), expected, f"read by PyIceberg, after {after}")


def promised(report: ActionReport, live: float = 1.0) -> None:
    """Files and bytes are within 10 % of the plan's; ``live`` is the share of rows that no delete took."""
    assert report.status == "committed"
    m = report.metrics
    assert abs(m["added-data-files-count"] - m["planned-output-files-count"]) <= 0.1 * m["planned-output-files-count"]
    assert m["rewritten-data-files-count"] == m["planned-input-files-count"]
    expected = live * m["planned-input-bytes-count"]
    assert abs(m["added-bytes-count"] - expected) <= 0.1 * expected, m


@pytest.mark.parametrize("version", [2, 3])
def test_every_action_keeps_the_rows_and_its_promise(lake: Lake, runner: RewriteRunner, version: int) -> None:
    chance = random.Random(version)
    lake.create(SCHEMA, version=version, write_target__file__size__bytes=str(TARGET))
    size = {"target_file_size_bytes": TARGET, "min_input_files": 2}
    for n in range(8):
        lake.append(rows(chance, n * ROWS_A_FILE))
    expected = lake.our_rows()
    report = act(lake, runner, "rewrite_data_files", rewrite_all="true", **size)
    promised(report)
    all_read(lake, expected, "bin-pack")

    count = 8 * ROWS_A_FILE
    gone = set(range(0, count, 20))
    lake.delete_positions(set(range(0, count, 40)))
    lake.delete_positions(set(range(20, count, 40)))
    expected = lake.our_rows()
    assert len(expected) == count - len(gone)
    report = act(lake, runner, "rewrite_position_delete_files", rewrite_all="true")
    if version == 2:
        assert report.status == "committed"
        assert report.metrics["rewritten-delete-files-count"] == report.metrics["planned-delete-files-count"]
    all_read(lake, expected, "rewrite_position_delete_files")

    lake.delete_equal(["id"], [(i,) for i in range(1, count, 20)])
    expected = lake.our_rows()
    assert len(expected) == count - 2 * len(gone)
    all_read(lake, expected, "an equality delete")
    report = act(lake, runner, "convert_equality_deletes")
    assert report.status == "committed"
    assert report.metrics["deleted-positions-count"] == len(gone)
    all_read(lake, expected, "convert_equality_deletes")

    promised(act(lake, runner, "rewrite_data_files", rewrite_all="true", sort_order="town, id", **size), live=0.9)
    all_read(lake, expected, "sort")
    promised(act(lake, runner, "rewrite_data_files", rewrite_all="true", sort_order="zorder(id, town)", **size))
    all_read(lake, expected, "z-order")

    assert act(lake, runner, "rewrite_manifests").status in ("committed", "nothing-to-do")
    all_read(lake, expected, "rewrite_manifests")
    soon = lake.table.metadata.last_updated_ms + 1
    assert act(lake, runner, "expire_snapshots", older_than=soon, retain_last=1).status == "committed"
    assert len(lake.table.metadata.snapshots) == 1
    all_read(lake, expected, "expire_snapshots")
    lost = Path(lake.table.location.removeprefix("file:")) / "data" / "lost.parquet"
    lost.write_bytes(b"PAR1")
    os.utime(lost, (0, 0))
    assert act(lake, runner, "remove_orphan_files").metrics["deleted-orphan-files-count"] == 1
    assert not lost.exists()
    all_read(lake, expected, "remove_orphan_files")
