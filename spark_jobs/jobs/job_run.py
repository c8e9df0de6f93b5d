"""One run of a job on a table: the catalog, the pinned table, the steps and how long each took, and the report that comes of it."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from iceberg_ops.actions.context import Outcome
from iceberg_ops.actions.run_identity import run_of, work_summary
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.catalog.neighbours import forbid_copy
from iceberg_ops.commit.history import base_of
from iceberg_ops.commit.operation import Committed
from iceberg_ops.commit.run_keys import ACTION, PLAN_ID, find_run_now
from iceberg_ops.commit.run_keys import WAP_ID as SUMMARY_WAP_ID
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.report import ActionReport, Status, Step
from iceberg_ops.config.row_options import WAP_ID
from iceberg_ops.deletion.gate import outcome_unknown
from iceberg_ops.deletion.held_lease import HeldLease
from iceberg_ops.deletion.leases import Lease
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.table.state import state_if_readable
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

LEASE_MS = 3_600_000
"""How long a lease lasts that is not renewed; it is renewed four times as often."""


@dataclass
class JobRun:
    """What a job function gets. ``session`` is its own (``job_session``); ``table`` is the state its start is pinned to;
    ``operation_id`` names every file it stages.

    A statement that a conflict sends back to its start (``start_again``) is pinned to the table as it is then."""

    session: SparkSession
    job: JobSpec
    catalog: Catalog
    table: Table
    operation_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    steps: list[Step] = field(default_factory=list)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    metrics: dict[str, int] = field(default_factory=dict)
    starts: int = 1
    pinned_rows: list[DataFrame] = field(default_factory=list)
    """What temporary views, and a source that is a table, read of pinned snapshots of tables."""
    outcome: Outcome = field(default_factory=Outcome)
    """The commit, from the moment it is one: what fails afterwards (a clean-up, an interrupt) does not hide it."""
    _first: Table | None = field(default=None, init=False)
    _held: HeldLease | None = field(default=None, init=False)

    @classmethod
    def start(cls, session: SparkSession, job: JobSpec, outcome: Outcome | None = None) -> JobRun:
        """Load the catalog and the table. Raises NoSuchTableError, CatalogUnavailableError, OptionError, UnsupportedError."""
        catalog = load_catalog(job.catalog)
        outcome = outcome or Outcome()
        table = outcome.reads.load(lambda: catalog.load_table(job.identifier))
        forbid_copy(catalog, table)
        return cls(session, job, catalog, table, outcome=outcome)

    @contextmanager
    def lease(self) -> Iterator[None]:
        """Hold the starting snapshot and every file this run stages against expiry and orphan removal, renewed while it works.

        Given back at the end. After an unknown outcome, or when the driver dies, it runs out by itself: until then what may still
        be committed stays."""
        self._held = HeldLease(lambda: (self.table, self._lease()), LEASE_MS)
        error: BaseException | None = None
        try:
            self._held.begin()
            yield
        except BaseException as e:
            error = e
            raise
        finally:
            self._held.end(give_back=outcome_unknown(error) is None)

    def check_files(self, staged: Collection[str]) -> None:
        """Called right before each swap: see ``HeldLease.check_files``."""
        if self._held is not None:
            self._held.check_files(staged)

    def _lease(self) -> Lease:
        return Lease(
            holder=self.job.run_key or self.job.job,
            snapshot_id=self.base.snapshot_id if self.base else None,
            expires_at_ms=time.time_ns() // 1_000_000 + LEASE_MS,
            marks=(self.operation_id,),
            instance=self.operation_id,
        )

    def start_again(self, table: Table) -> None:
        """Pin the run to ``table`` instead and hold that snapshot; called while the lease is held. What was counted is forgotten,
        files staged from now on have names of their own."""
        self._first = self._first or self.table
        self.table = table
        self.outcome.reads.add(table, lambda: self.catalog.load_table(table.identifier[1:]))
        self.starts += 1
        self.metrics.clear()
        if self._held is not None:
            self._held.renew()

    @property
    def files_id(self) -> str:
        """What names the files staged since the last start; it holds ``operation_id``."""
        return self.operation_id if self.starts == 1 else f"{self.operation_id}-{self.starts}"

    @property
    def head(self) -> Snapshot | None:
        """Head of the job's branch at the start."""
        return self.table.metadata.branch_head(self.job.branch)

    @property
    def base(self) -> Snapshot | None:
        """What the job's commit builds on: the head of its branch, or main's where the branch is yet to be made."""
        return base_of(self.table.metadata, self.job.branch)

    @property
    def summary(self) -> dict[str, str]:
        """What goes into the snapshot summary beside the run key."""
        found = {"engine-name": "spark", "engine-version": self.session.version, ACTION: self.job.job, **work_summary(self.job)}
        if WAP_ID in self.job.options:
            found[SUMMARY_WAP_ID] = self.job.options[WAP_ID]
        return found | ({PLAN_ID: self.job.plan_id} if self.job.plan_id else {})

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step; it stands in the report also when it fails."""
        started = time.monotonic()
        log.info("%s %s: %s", self.job.job, self.job.table, name)
        try:
            yield
        finally:
            self.steps.append(Step(name=name, duration_ms=round((time.monotonic() - started) * 1000)))

    def already_committed(self) -> ActionReport | None:
        """The report to give where an earlier run with this run key has committed."""
        found = find_run_now(lambda: self.catalog.load_table(self.table.identifier[1:]), self.table, run_of(self.job))
        if found is None:
            return None
        log.info("run key %s was committed before, as snapshot %s: nothing to do", self.job.run_key, found.snapshot_id)
        return self.report("already-committed", snapshot_ids=[] if found.snapshot_id is None else [found.snapshot_id])

    def committed(self, result: Committed) -> ActionReport:
        """The report of a commit. What was counted for one that another process made first is not in the table."""
        if result.already_committed:
            self.metrics = {k: v for k, v in self.metrics.items() if k == "evaluations-count"}
        status: Status = "already-committed" if result.already_committed else "committed"
        ids = [result.snapshot.snapshot_id] if result.snapshot else []
        return self.report(status, snapshot_ids=ids, attempts=result.attempts, after=result.table)

    def report(
        self, status: Status, *, snapshot_ids: list[int] | None = None, attempts: int = 0, after: Table | None = None
    ) -> ActionReport:
        """The report so far."""
        before, now_table = self._first or self.table, after or self.table
        return ActionReport(
            action=self.job.job,
            table=self.job.table,
            status=status,
            started_at=self.started_at.isoformat(timespec="seconds"),
            duration_ms=round((datetime.now(UTC) - self.started_at).total_seconds() * 1000),
            run_key=self.job.run_key,
            plan_id=self.job.plan_id,
            lane="spark",
            dry_run=self.job.dry_run,
            branch=self.job.branch,
            starting_snapshot_id=self.head.snapshot_id if self.head else None,
            snapshot_ids=snapshot_ids or [],
            attempts=attempts,
            metrics=self.metrics,
            before=state_if_readable(before, before.metadata.branch_head(self.job.branch)),
            after=state_if_readable(now_table, now_table.metadata.branch_head(self.job.branch)),
            steps=self.steps,
        )
