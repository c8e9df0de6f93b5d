"""Iceberg Java in Spark and this package on one REST server: each reads what the other commits, and commits on top of it; and all
write at the same time."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.rest.rest_catalog import RestCatalog
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, RowChange, Source
from iceberg_ops.data.reading.reader import scan_table
from tests.actions.lake import Lake
from tests.interop.at_once import PROPERTIES
from tests.interop.lake import Java
from tests.servers.rest.reference import ReferenceServer
from tests.torture.killed_operations import write_rows

pytestmark = [pytest.mark.java, pytest.mark.oracle, pytest.mark.slow]

COMMITS = 25 if "ICEBERG_OPS_TORTURE" in os.environ else 5
"""Of each writer."""


@dataclass(frozen=True)
class Shared:
    """``name`` is the catalog's in Spark and here."""

    java: Java
    ours: RestCatalog
    config: CatalogConfig

    @property
    def name(self) -> str:
        return self.config.name

    def java_rows(self) -> list[Any]:
        return sorted(tuple(row.values()) for row in self.java.rows(f"SELECT * FROM {self.name}.ns.t").to_pylist())

    def our_rows(self) -> list[Any]:
        found = scan_table(self.ours.load_table(("ns", "t")))
        return sorted(tuple(row.values()) for row in found.to_pylist())

    def run(self, job: str, **fields: Any) -> Any:
        return run_job(JobSpec(job=job, table=f"{self.name}.ns.t", catalog=self.config, lane="local", **fields))


@pytest.fixture
def shared(java_lake: tuple[Java, SqlCatalog], rest_server: ReferenceServer) -> Shared:
    java, _ = java_lake
    name = rest_server.new_name()
    uri = rest_server.uri(name)
    java(f"SET spark.sql.catalog.{name}=org.apache.iceberg.spark.SparkCatalog")
    for key, value in (("type", "rest"), ("uri", uri), ("cache-enabled", "false")):
        java(f"SET `spark.sql.catalog.{name}.{key}`=`{value}`")
    return Shared(java, RestCatalog(name, {"uri": uri}), CatalogConfig(name=name, type="rest", properties={"uri": uri}))


@pytest.mark.parametrize("version", [2, 3])
def test_java_and_we_write_one_table_in_turns(shared: Shared, version: int, tmp_path: Any) -> None:
    java, name = shared.java, shared.name
    java(f"CREATE NAMESPACE {name}.ns")
    java(f"CREATE TABLE {name}.ns.t (id bigint, city string) TBLPROPERTIES ('format-version'='{version}')")
    expected: list[tuple[int, str]] = []

    def ours(n: int) -> None:
        (tmp_path / f"{n}.csv").write_text(f"id,city\n{n},ours\n")
        source = Source(format="csv", paths=[str(tmp_path / f"{n}.csv")], options={"header": "true"})
        assert shared.run("append", source=source, run_key=f"r{n}").status == "committed"
        expected.append((n, "ours"))

    def theirs(n: int) -> None:
        java(f"INSERT INTO {name}.ns.t VALUES ({n}, 'java')")
        expected.append((n, "java"))

    turns: list[Callable[[int], None]] = [ours, theirs, ours, theirs, ours, theirs]
    for n, turn in enumerate(turns):
        turn(n)
        assert shared.java_rows() == shared.our_rows() == sorted(expected)
    java(f"DELETE FROM {name}.ns.t WHERE id = 1")
    assert shared.run("delete", where="id = 2").status == "committed"
    expected = [row for row in expected if row[0] not in (1, 2)]
    assert shared.java_rows() == shared.our_rows() == sorted(expected)
    assert shared.run("rewrite_data_files", options={"rewrite-all": "true"}).status == "committed"
    assert shared.java_rows() == shared.our_rows() == sorted(expected)
    report = shared.run("expire_snapshots", options={"older-than": "2100-01-01T00:00:00Z", "retain-last": "1"})
    assert report.status == "committed", report
    assert shared.java_rows() == shared.our_rows() == sorted(expected)
    assert java.rows(f"SELECT count(*) AS n FROM {name}.ns.t.snapshots").to_pylist() == [{"n": 1}]
    java(f"ALTER TABLE {name}.ns.t ADD COLUMN more int")
    theirs_and_more = [(*row, None) for row in expected]
    assert shared.java_rows() == shared.our_rows() == sorted(theirs_and_more)


def _mixed(uri: str, worker: int, log: str) -> None:
    """``COMMITS`` of a process: of five, three append a row, one deletes or updates a row of its own, one sets a property. Each is
    written down when it is acknowledged."""
    config = CatalogConfig(name="lake", type="rest", properties={"uri": uri})
    lake = Lake(RestCatalog("lake", {"uri": uri}))
    with open(log, "w", buffering=1) as file:
        for n in range(COMMITS):
            row, name = worker * 1_000 + n, f"{worker}-{n}"
            if n % 5 == 4:
                commit(lake.catalog, lake.table, UpdateProperties(updates={f"by.{worker}": name}))
                done = ["set", worker, name]
            elif n % 5 == 3:
                text = "" if (worker + n) % 2 else name
                job = JobSpec(job="update" if text else "delete", table="lake.ns.t", catalog=config, lane="local", run_key=name)
                set_ = RowChange(set={"data": f"'{text}'"}) if text else None
                assert run_job(replace(job, where=f"id = {row - 1}", change=set_), catalog=lake.catalog).status == "committed"
                done = ["has" if text else "gone", row - 1, text]
            else:
                commit(lake.catalog, lake.table, AppendFiles(added=write_rows(lake, [(row, name, "a")], name), run_key=name))
                done = ["has", row, name]
            file.write(json.dumps(done) + "\n")


def test_four_processes_and_java_commit_to_one_table(shared: Shared, tmp_path: Path) -> None:
    """As many times each: each acknowledged commit of rows is one snapshot, and every row and property is there."""
    java, name = shared.java, shared.name
    java(f"CREATE NAMESPACE {name}.ns")
    java(f"CREATE TABLE {name}.ns.t (id BIGINT NOT NULL, data STRING, region STRING) TBLPROPERTIES ({PROPERTIES})")
    context, uri = get_context("spawn"), shared.config.properties["uri"]
    logs = [tmp_path / f"{worker}.log" for worker in range(1, 5)]
    workers = [context.Process(target=_mixed, args=(uri, worker, str(log))) for worker, log in enumerate(logs, 1)]
    for worker in workers:
        worker.start()
    rows: dict[int, str] = {}
    for n in range(COMMITS):
        java(f"INSERT INTO {name}.ns.t VALUES ({n}, 'java', 'b')")
        rows[n] = "java"
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * len(workers)
    done = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    assert len(done) == len(workers) * COMMITS
    rows |= {row: text for what, row, text in done if what == "has"}
    rows = {row: text for row, text in rows.items() if ["gone", row, ""] not in done}
    assert [row[:2] for row in shared.our_rows()] == [row[:2] for row in shared.java_rows()] == sorted(rows.items())
    table = shared.ours.load_table(("ns", "t"))
    properties = {f"by.{worker}": text for what, worker, text in done if what == "set"}
    assert table.properties.items() >= properties.items()
    of_rows = COMMITS + sum(what != "set" for what, _, _ in done)
    assert len(table.metadata.snapshots) == of_rows == COMMITS + 4 * (COMMITS - COMMITS // 5)
    assert [s.sequence_number for s in table.metadata.snapshots] == list(range(1, of_rows + 1))
