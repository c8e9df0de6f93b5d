"""The context of a running action: the job, the table, the lane, the clock, and the report's parts that it fills in.

``Outcome`` is written when things happen, so that the report of a failed run still shows the plan, the commits and the clean-up.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice

from iceberg_ops.actions.run.results import Committed as WorkCommitted
from iceberg_ops.actions.run.results import Findings, Result
from iceberg_ops.actions.run.run_identity import work_summary
from iceberg_ops.actions.run.tables_read import TablesRead
from iceberg_ops.actions.workers.progress import Meter
from iceberg_ops.actions.workers.runner import ProgressCallback, RewriteRunner
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.protocol.history import base_snapshot
from iceberg_ops.commit.protocol.operation import Committed
from iceberg_ops.commit.protocol.run_keys import ACTION, MADE_UP, PLAN_ID
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.report import GroupReport, KeptSnapshot, SkippedFile, Status, Step
from iceberg_ops.deletion.gate import outcome_unknown
from iceberg_ops.deletion.held_lease import HeldLease
from iceberg_ops.deletion.leases import Lease
from iceberg_ops.spec import summary_keys
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

LEASE_MS = 2 * 3_600_000
"""How long a lease lasts without renewal: less than until the next night's run. It is renewed four times within this time."""
LISTED = 1_000
"""The most files, skipped files and failures a report lists; counts in ``metrics`` are always complete."""


@dataclass(slots=True)
class Outcome:
    """The parts of an ActionReport that only the action knows. ``table`` is the table after the last commit."""

    status: Status = "nothing-to-do"
    plan_id: str | None = None
    starting_snapshot_id: int | None = None
    snapshot_ids: list[int] = field(default_factory=list)
    attempts: int = 0
    metrics: dict[str, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    groups: dict[str, GroupReport] = field(default_factory=dict)
    skipped: list[SkippedFile] = field(default_factory=list)
    kept_snapshots: list[KeptSnapshot] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    failures: list[SkippedFile] = field(default_factory=list)
    table: Table | None = None
    reads: TablesRead = field(default_factory=TablesRead)
    changed: bool = False
    """Whether this run has committed something or removed files, however it ends."""
    one_commit: bool = False
    """Whether the job makes only one commit: after it, only clean-up and the report remain."""
    made_up_key: str | None = None
    """The run key that was made up for this run, because its job has none."""
    listed: int = LISTED
    """The most files, skipped files and failures that the report names."""

    def list_files(self, locations: Iterable[str]) -> None:
        """Name files in the report, as many as it lists; only that many are iterated."""
        self.files.extend(islice(locations, max(0, self.listed - len(self.files))))

    def count(self, name: str, amount: int) -> None:
        """Add to a metric; it is then reported even if it is 0."""
        self.metrics[name] = self.metrics.get(name, 0) + amount

    def keep(self, findings: Findings) -> None:
        """The content of the report if the job fails after this point."""
        self.plan_id = findings.plan_id
        self.metrics = dict(findings.metrics)
        self.groups = {group.group_id: group for group in findings.groups}
        self.skipped = list(findings.skipped)
        self.kept_snapshots = list(findings.kept_snapshots)
        self.files = list(findings.files)
        self.failures = list(findings.failures)

    def findings(self) -> Findings:
        """The kept findings, with later additions."""
        return Findings(
            plan_id=self.plan_id,
            metrics=dict(self.metrics),
            groups=tuple(self.groups.values()),
            skipped=tuple(self.skipped),
            kept_snapshots=tuple(self.kept_snapshots),
            files=tuple(self.files),
            failures=tuple(self.failures),
        )

    def end(self, result: Result) -> None:
        """How the job ended: after this the report shows the result."""
        self.keep(result.findings)
        self.status = result.status
        if isinstance(result, WorkCommitted):
            self.table, self.attempts, self.snapshot_ids = result.table, result.attempts, list(result.snapshot_ids)

    def record(self, done: Committed) -> None:
        """Record status, snapshot, attempts, and the table afterwards, of the only commit."""
        self.status = "already-committed" if done.already_committed else "committed"
        self.enter(done)

    def enter(self, done: Committed) -> None:
        """Record snapshot, attempts, and the table afterwards, of one commit."""
        self.changed |= not done.already_committed
        self.table = done.table
        self.attempts += done.attempts
        if done.snapshot is not None:
            self.snapshot_ids.append(done.snapshot.snapshot_id)


@dataclass(slots=True)
class _Pinned:
    """The snapshot that a lease protects: it changes when a run is re-evaluated."""

    table: Table
    snapshot_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of one job. ``now_ms`` is the wall clock; ``operation_id`` is in the name of every file this run writes;
    ``engine_summary`` are the keys of a snapshot's summary that name the engine."""

    job: JobSpec
    catalog: Catalog
    table: Table
    runner: RewriteRunner | None
    run_key: str
    now_ms: Callable[[], int]
    outcome: Outcome
    progress: ProgressCallback | None = None
    engine_summary: Mapping[str, str] = field(default_factory=lambda: {summary_keys.ENGINE_NAME: "iceberg-ops"})
    operation_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    first_operation_id: str = ""
    """Of a re-evaluated run: the id that its later ids begin with."""
    held: list[tuple[HeldLease, _Pinned]] = field(default_factory=list)
    """Leases in force, of this run and of its evaluations."""

    def meter(self, what: str, total: int = 0, bytes_: int = 0, *, unit: str) -> Meter:
        """A meter of this run's work."""
        return Meter(what, total, bytes_, unit=unit, subject=f"{self.job.job} {self.job.table}", callback=self.progress)

    @contextmanager
    def step(self, name: str) -> Iterator[list[str]]:
        """Time a step; what is appended to the yielded list becomes its detail. Recorded also when it fails."""
        detail: list[str] = []
        begun = time.monotonic()
        log.info("%s %s: %s", self.job.job, self.job.table, name)
        try:
            yield detail
        finally:
            took = round((time.monotonic() - begun) * 1000)
            self.outcome.steps.append(Step(name=name, duration_ms=took, detail=", ".join(detail)))

    @contextmanager
    def afterwards(self, what: str) -> Iterator[None]:
        """A check after the work is done: an error in it is a step of the report, and does not fail the run."""
        try:
            yield
        except Exception as e:  # noqa: BLE001 - the work is committed; a report that lacks a count must not say otherwise
            log.warning("%s %s is done, but: %s: %s", self.job.job, self.job.table, what, e)
            self.outcome.steps.append(Step(name=what, duration_ms=0, detail=" ".join(f"failed: {e}".split())))

    @contextmanager
    def lease(self, snapshot_id: int | None, *, folders: tuple[str, ...] = ()) -> Iterator[None]:
        """Protect the snapshot that is read, every file this run writes, and the files in ``folders``, against expiry and orphan
        removal; renewed while the run works. Released at the end. After an unknown outcome, or a crash, the lease expires by
        itself: until then files that may still be committed stay."""
        instance = str(uuid.uuid4())
        pinned = _Pinned(self.table, snapshot_id)

        def needed() -> tuple[Table, Lease]:
            lease = Lease(
                holder=self.run_key,
                snapshot_id=pinned.snapshot_id,
                expires_at_ms=self.now_ms() + LEASE_MS,
                marks=(self.lease_mark,),
                folders=folders,
                instance=instance,
                action=self.job.job,
            )
            return pinned.table, lease

        held = HeldLease(needed, LEASE_MS, now_ms=self.now_ms)
        self.held.append((held, pinned))
        error: BaseException | None = None
        try:
            held.begin()
            yield
        except BaseException as e:
            error = e
            raise
        finally:
            self.held.remove((held, pinned))
            held.end(give_back=outcome_unknown(error) is None)

    def check_files(self, staged: Collection[str]) -> None:
        """Called right before each swap, with the files that it commits: see ``HeldLease.check_files``."""
        for held, _ in self.held:
            held.check_files(staged)

    @property
    def lease_mark(self) -> str:
        """The text that the names of all files of this run contain, in all its evaluations."""
        return self.first_operation_id or self.operation_id

    def for_evaluation(self, table: Table, number: int) -> Run:
        """The run pinned to ``table`` for its ``number``-th evaluation: its files get separate names, and its lease protects the
        snapshot that is read now. The counts of an earlier, refused evaluation are discarded. Raises the errors of the
        store."""
        self.outcome.metrics = {"evaluations-count": number}
        if number == 1:
            return self
        base = base_snapshot(table.metadata, self.job.branch)
        self.outcome.reads.add(table, lambda: self.catalog.load_table(table.identifier[1:]))
        for held, pinned in self.held:
            pinned.table, pinned.snapshot_id = table, None if base is None else base.snapshot_id
            held.renew()
        return replace(self, table=table, operation_id=f"{self.operation_id}-{number}", first_operation_id=self.lease_mark)

    @property
    def summary(self) -> dict[str, str]:
        """Snapshot summary keys every commit of this run carries beside its run key."""
        properties = {**self.engine_summary, ACTION: self.job.job, **work_summary(self.job)}
        if self.job.run_key is None:
            properties[MADE_UP] = "true"
        if self.outcome.plan_id:
            properties[PLAN_ID] = self.outcome.plan_id
        return properties
