"""One Spark session for all Spark tests, and tables in a sqlite catalog for their jobs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from iceberg_ops.actions.dispatch import run_job, wall_clock_ms
from iceberg_ops.actions.run.context import Outcome, Run
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, MergeClause, RowChange, Source
from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import UNSORTED, SortOrder
from iceberg_ops.table.table import Table
from spark_jobs.jobs.dispatch import run
from spark_jobs.jobs.spark_engine import SparkEngine
from spark_jobs.jobs.spark_run import SparkRun
from spark_jobs.session import job_session
from tests.spark.where_world import World, draw_world


@pytest.fixture(scope="session")
def world(session: SparkSession) -> World:
    """Generated WHERE conditions with Spark's answers."""
    return draw_world(session)


@dataclass
class Place:
    """A catalog on disk, and what tests do with its tables."""

    session: SparkSession
    folder: Path
    config: CatalogConfig
    catalog: Catalog

    def create(
        self,
        name: str,
        schema: Schema,
        spec: PartitionSpec = UNPARTITIONED,
        order: SortOrder = UNSORTED,
        **properties: str,
    ) -> Table:
        named = {key.replace("__", "-").replace("_", "."): value for key, value in properties.items()}
        return self.catalog.create_table(("db", name), schema, spec=spec, sort_order=order, properties=named)

    def table(self, name: str) -> Table:
        return self.catalog.load_table(("db", name))

    def parquet(self, rows: pa.Table, name: str = "source.parquet") -> Source:
        path = self.folder / name
        pq.write_table(rows, path)
        return Source(format="parquet", paths=[str(path)])

    def run(self, job: str, name: str, **parts: Any) -> ActionReport:
        spec = JobSpec(job=job, table=f"test.db.{name}", catalog=self.config, **parts)
        return run(self.session, spec)

    def run_on(self, catalog: Catalog, job: JobSpec) -> ActionReport:
        """The report of a job on ``catalog`` in place of this one."""
        return run_job(job, catalog=catalog, engine=SparkEngine(self.session))

    @contextmanager
    def spark_run(self, job: JobSpec) -> Iterator[SparkRun]:
        """The arguments of the functions of a job's evaluation, in its own session."""
        table = self.table(job.table.split(".")[-1])
        run = Run(job=job, catalog=self.catalog, table=table, runner=None, run_key="", now_ms=wall_clock_ms, outcome=Outcome())
        with job_session(self.session) as own:
            yield SparkRun(own, run)

    def append(self, name: str, rows: pa.Table, **parts: Any) -> ActionReport:
        return self.run("append", name, source=self.parquet(rows, f"{name}-source.parquet"), **parts)

    def fill(self, name: str, rows: pa.Table) -> None:
        """Rows that are there before the job that is tested: appended in this process, for a tenth of what a Spark job takes."""
        source = self.parquet(rows, f"{name}-source.parquet")
        run_job(JobSpec(job="append", table=f"test.db.{name}", catalog=self.config, source=source), catalog=self.catalog)

    def merge(self, name: str, source: Source, on: str, clauses: Sequence[MergeClause], mode: str, **parts: Any) -> ActionReport:
        change = RowChange(mode=mode, on=on, clauses=list(clauses))  # type: ignore[arg-type]
        return self.run("merge", name, source=source, change=change, **parts)

    def rows(self, name: str, scan: Scan | None = None) -> list[dict[str, Any]]:
        found = scan_table(self.table(name), scan).to_pylist()
        return sorted(found, key=lambda r: [(v is None, str(type(v)), v if v is not None else 0) for v in r.values()])

    def files_on_disk(self, name: str) -> set[str]:
        location = self.table(name).location.removeprefix("file://").removeprefix("file:")
        return {str(p.relative_to(location)) for p in Path(location).rglob("*") if p.is_file()}


def temporary_views(session: SparkSession) -> list[str]:
    """Asked of the catalog itself: ``listTables`` is a query."""
    found: Any = session._jsparkSession.sessionState().catalog().listLocalTempViews("*")
    return [found.apply(n).table() for n in range(found.size())]


def make_place(session: SparkSession, folder: Path) -> Place:
    """A separate place in an empty folder."""
    config = CatalogConfig(
        name="test", type="sql", properties={"uri": f"sqlite:///{folder}/catalog.db", "warehouse": str(folder / "warehouse")}
    )
    catalog = load_catalog(config)
    catalog.create_namespace(("db",))
    return Place(session, folder, config, catalog)


@pytest.fixture
def place(session: SparkSession, tmp_path: Path) -> Iterator[Place]:
    """No test, and no job, leaves a view in the session that all tests share."""
    yield make_place(session, tmp_path)
    left = temporary_views(session)
    for view in left:
        session.catalog.dropTempView(view)
    assert left == []


@pytest.fixture(params=["copy-on-write", "merge-on-read"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["2", "3"], ids=["v2", "v3"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What the rounds of the cluster's torture drew, added up."""
    total: dict[str, Counter[str]] = {}
    for report in (r for outcome in ("passed", "failed") for r in terminalreporter.stats.get(outcome, ())):
        for name, value in report.user_properties:
            if name == "cluster torture":
                for topic, counts in json.loads(value).items():
                    total.setdefault(topic, Counter()).update(counts)
    if total:
        terminalreporter.section("what the cluster torture drew")
        for topic, counts in total.items():
            terminalreporter.write_line(f"{topic}: {', '.join(f'{name} {n}' for name, n in sorted(counts.items()))}")
