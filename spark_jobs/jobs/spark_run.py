"""One evaluation of a row operation on Spark: the run, and its session."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from iceberg_ops.actions.run.context import Outcome, Run
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.table.table import Table


@dataclass(frozen=True, slots=True)
class SparkRun:
    """``session`` is the job's own (``job_session``); ``run`` is pinned to the table that this evaluation reads."""

    session: SparkSession
    run: Run
    pinned_rows: list[DataFrame] = field(default_factory=list)
    """Rows of pinned snapshots, read by temporary views and by a source that is a table."""

    @property
    def job(self) -> JobSpec:
        return self.run.job

    @property
    def catalog(self) -> Catalog:
        return self.run.catalog

    @property
    def table(self) -> Table:
        return self.run.table

    @property
    def outcome(self) -> Outcome:
        return self.run.outcome

    def step(self, name: str) -> AbstractContextManager[list[str]]:
        return self.run.step(name)
