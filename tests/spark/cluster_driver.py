"""A driver that ``spark-submit`` starts on the test's cluster: python cluster_driver.py FOLDER CASE,CASE..., answers in
FOLDER/answer.json.

The packages come from the archive of ``--py-files``; FOLDER/CASE/shared is the storage that executors share with the driver, and
the catalog is a file of the driver's alone. Each case has a table of its own; the executors are those of all. All cases but
``jobs`` wrap the writing task: the first attempt at one partition is killed after its files are written (``fail``), or is so slow
before (``late``), while (``half``) or after (``twin``) it writes that Spark starts it once more. With ``-direct`` the rows never
were Spark's.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import SparkSession

from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, MergeClause, RowChange, Source
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from iceberg_ops.table.reachable import reachable_files
from spark_jobs.jobs.dispatch import run
from spark_jobs.runners import changes, source_parts
from spark_jobs.session import spark_session

Writer = Callable[[Iterator[Any]], Iterator[Any]]
SCHEMA = Schema.of(NestedField(1, "id", LONG, required=True), NestedField(2, "name", STRING))


def wrapped(real: Callable[..., Writer], case: str, notes: str) -> Callable[..., Writer]:
    """A runner's ``_writer`` with a first attempt at the first partition that dies, or dawdles before, while or after it writes.
    Every attempt leaves a note when it begins, with its process, and when it has ended."""

    def make(*told: Any) -> Writer:
        write = real(*told)

        def attempt(given: Iterator[Any]) -> Iterator[Any]:
            import os
            import time
            from pathlib import Path

            from iceberg_ops.io.local import _AtomicOutput

            task = TaskContext.get()
            assert task is not None
            name = f"{task.partitionId()}-{task.attemptNumber()}"
            (Path(notes) / f"{name}.begun").write_text(str(os.getpid()))
            first = name == "0-0"
            while first and case.startswith("late") and not (Path(notes) / "job-is-over").exists():
                time.sleep(0.1)
            close = _AtomicOutput.close
            if first and case.startswith("half"):
                _AtomicOutput.close = lambda _: time.sleep(60)  # what was written has no name yet
            try:
                for answer in write(given):
                    if first and case.startswith("fail"):
                        os._exit(3)
                    if first and case.startswith("twin"):
                        time.sleep(20)
                    yield answer
            finally:
                _AtomicOutput.close = close
            (Path(notes) / f"{name}.ended").touch()

        return attempt

    return make


def wait_for_attempts(notes: Path) -> None:
    """Until every attempt has ended, or its process has."""
    deadline = time.monotonic() + 60
    for begun in notes.glob("*.begun"):
        process = Path(f"/proc/{begun.read_text()}")
        while process.exists() and not begun.with_suffix(".ended").exists() and time.monotonic() < deadline:
            time.sleep(0.1)


def where_from(_: Any) -> str:
    import iceberg_ops

    return str(iceberg_ops.__file__)


def python_of(_: Any) -> str:
    """Which interpreter an executor uses."""
    import os

    return os.environ.get("ICEBERG_OPS_TEST_PYTHON", "the driver's")


class Cluster:
    """Jobs on one table, and what is left of them."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self.session, self.shared = session, folder / "shared"
        properties = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": str(self.shared / "warehouse")}
        self.config = CatalogConfig(name="c", type="sql", properties=properties)
        self.catalog = load_catalog(self.config)
        self.catalog.create_namespace(("db",))
        self.catalog.create_table(("db", "t"), SCHEMA)

    def source(self, name: str, ids: range, text: str) -> Source:
        self.shared.mkdir(exist_ok=True)
        path = self.shared / f"{name}.parquet"
        pq.write_table(pa.table({"id": list(ids), "name": [text] * len(ids)}), path, row_group_size=500)
        return Source(format="parquet", paths=[str(path)])

    def job(self, job: str, **parts: Any) -> str:
        return str(run(self.session, JobSpec(job=job, table="c.db.t", catalog=self.config, **parts)).status)

    def plant(self, name: str) -> None:
        """An old file that belongs to nothing."""
        path = Path(self.catalog.load_table(("db", "t")).location.removeprefix("file://").removeprefix("file:")) / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
        os.utime(path, (1_500_000_000, 1_500_000_000))

    def state(self) -> dict[str, Any]:
        table = self.catalog.load_table(("db", "t"))
        rows = scan_table(table).to_pylist()
        owned = reachable_files(table, table.metadata.snapshots)
        known = {*owned.data, *owned.deletes}
        found = {str(p) for p in Path(table.location).rglob("*") if p.is_file() and p.parent.name != "metadata"}
        return {
            "rows": sorted((r["id"], r["name"]) for r in rows),
            "leaked": sorted(found - known),
            "missing": sorted(known - found),
        }


def played(session: SparkSession, folder: Path, case: str) -> dict[str, Any]:
    notes = folder / "notes"
    notes.mkdir(parents=True)
    cluster = Cluster(session, folder)
    statuses = []
    if case != "jobs":
        options = {} if case.endswith("-direct") else {"write-tasks": "4"}
        with mock.patch.object(changes, "_writer", wrapped(changes._writer, case, str(notes))):
            with mock.patch.object(source_parts, "_writer", wrapped(source_parts._writer, case, str(notes))):
                statuses.append(cluster.job("append", source=cluster.source("a", range(2000), "a"), options=options))
        (notes / "job-is-over").touch()
        wait_for_attempts(notes)
    else:
        statuses += [
            cluster.job("append", source=cluster.source("a", range(1000), "a"), options={"write-tasks": "4"}),
            cluster.job("append", source=cluster.source("b", range(1000, 2000), "b"), options={"write-tasks": "4"}),
            cluster.job(
                "merge",
                source=cluster.source("m", range(900, 2100), "m"),
                change=RowChange(
                    mode="merge-on-read",
                    on="target.id = source.id",
                    clauses=[MergeClause(when="matched", action="update"), MergeClause(when="not-matched", action="insert")],
                ),
            ),
            cluster.job("rewrite_data_files", options={"rewrite-all": "true", "remove-dangling-deletes": "true"}),
            cluster.job("compute_table_stats"),
        ]
        cluster.plant("data/day=1/old-stray.parquet")
        statuses.append(cluster.job("remove_orphan_files"))
    state = cluster.state()
    places = session.sparkContext.parallelize(range(8), 8).map(where_from).collect()
    pythons = session.sparkContext.parallelize(range(8), 8).map(python_of).collect()
    attempts = sorted(found.stem for found in notes.glob("*.begun"))
    return {"statuses": statuses, "places": sorted(set(places)), "pythons": sorted(set(pythons)), "attempts": attempts, **state}


def main(folder: Path, cases: list[str]) -> dict[str, dict[str, Any]]:
    """What each case came to, or how it failed."""
    session = spark_session("cluster test")
    answers = {}
    for case in cases:
        try:
            answers[case] = played(session, folder / case, case)
        except Exception:  # noqa: BLE001 - shown by the test of this case
            answers[case] = {"failed": traceback.format_exc()}
    session.stop()
    return answers


if __name__ == "__main__":
    answer = main(Path(sys.argv[1]), sys.argv[2].split(","))
    (Path(sys.argv[1]) / "answer.json").write_text(json.dumps(answer))
