"""Runs one job from its spec to its report: plan, run, verify, commit, clean, report.

``run_job`` is the only entry point for every host: the command line, Airflow's local lane and the Spark job all call it and read
only the report. An engine evaluates the rows of a row operation (``row_engine``): lane local's, unless the host passes another.

The rules: a run key that is already in the table ends the job before any work. A dry run uses a read-only FileIO, so that writing
is impossible rather than skipped. A report is written also if the job fails, and then the error is raised. Committed work is never
reported as an error that says that nothing was changed.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from iceberg_ops.actions.run.context import Outcome, Run
from iceberg_ops.actions.run.ending_error import ending_error, until_reported
from iceberg_ops.actions.run.report_file import check_report_place, error_report, without_secrets, write_report
from iceberg_ops.actions.run.results import Result, committed_earlier
from iceberg_ops.actions.run.run_identity import job_run_identity
from iceberg_ops.actions.run.tables_read import has_lost_snapshots
from iceberg_ops.actions.workers.runner import ProgressCallback, RewriteRunner
from iceberg_ops.catalog.catalog import Catalog, KeepsTablesInFolders
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.catalog.near_tables import load_named
from iceberg_ops.catalog.neighbours import forbid_copy
from iceberg_ops.catalog.second_catalogs import forbid_second_catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.remember_run import RememberRun
from iceberg_ops.commit.protocol.run_keys import find_run, find_run_now, made_up_run_key
from iceberg_ops.config.actions import ACTIONS, ROW_OPERATIONS, TABLE_ACTIONS
from iceberg_ops.config.job_spec import JobSpec, check_fields, with_source_catalog
from iceberg_ops.config.lanes import LOCAL
from iceberg_ops.config.properties import GC_ENABLED
from iceberg_ops.config.report import ActionReport, TableState
from iceberg_ops.errors import CorruptTableError, NoSuchSnapshotError, OptionError
from iceberg_ops.io.locations import look_at_folders_again
from iceberg_ops.io.machine_limits import typed_os_errors
from iceberg_ops.io.read_only import ReadOnlyFileIO
from iceberg_ops.spec.snapshots import MAIN_BRANCH
from iceberg_ops.table.state import state_if_readable, table_state
from iceberg_ops.table.table import Table

if TYPE_CHECKING:
    from iceberg_ops.actions.rows.row_engine import RowEngine

log = logging.getLogger(__name__)

_MOST_LOADS = 3


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


_DELETING = frozenset({"expire_snapshots", "remove_orphan_files"})
"""Jobs that delete files which a second catalog may need."""


@dataclass(slots=True)
class _Record:
    """The state of a running job, from which the report is made."""

    job: JobSpec
    started_ms: int
    begun: float
    outcome: Outcome
    run_key: str | None = None
    lane: str = LOCAL
    before: TableState | None = None
    after: TableState | None = None

    def report(self, error: BaseException | None = None) -> ActionReport:
        """After a failure, the report has the parts of the outcome that were filled in."""
        outcome = self.outcome
        return ActionReport(
            action=self.job.job,
            table=self.job.table,
            status="failed" if error is not None else outcome.status,
            started_at=datetime.fromtimestamp(self.started_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            duration_ms=round((time.monotonic() - self.begun) * 1000),
            run_key=self.run_key,
            plan_id=outcome.plan_id,
            lane=self.lane,
            lane_reason=self.job.lane_reason,
            dry_run=self.job.dry_run,
            branch=self.job.branch,
            starting_snapshot_id=outcome.starting_snapshot_id,
            snapshot_ids=outcome.snapshot_ids,
            attempts=outcome.attempts,
            metrics=outcome.metrics,
            before=self.before,
            after=self.after,
            steps=outcome.steps,
            groups=list(outcome.groups.values()),
            skipped=outcome.skipped[: outcome.listed],
            kept_snapshots=outcome.kept_snapshots,
            files=outcome.files[: outcome.listed],
            failures=outcome.failures[: outcome.listed],
            error=None if error is None else error_report(error),
        )


def run_job(
    job: JobSpec,
    *,
    catalog: Catalog | None = None,
    runner: RewriteRunner | None = None,
    engine: RowEngine | None = None,
    now: Callable[[], int] = wall_clock_ms,
    progress: ProgressCallback | None = None,
) -> ActionReport:
    """Run a job. ``runner`` rewrites file groups and ``engine`` evaluates row operations; None: in this process. ``now`` gives
    milliseconds since the epoch.

    The report is also written to ``job.report``. Raises every error of the tree, KeyboardInterrupt and SystemExit, after the report
    of the failure is written. If some work of the run is, or may be, committed, these are CommitStateUnknownError and
    IncompleteError, also after a Ctrl-C, and after one that comes while the report is written.
    """
    look_at_folders_again()
    check_report_place(job, catalog)
    outcome = Outcome(one_commit=job.job in ROW_OPERATIONS)
    lane = runner if job.job in TABLE_ACTIONS else engine
    record = _Record(job, now(), time.monotonic(), outcome, job.run_key, LOCAL if lane is None else lane.name)
    with until_reported(outcome):
        try:
            with typed_os_errors():
                _run(record, catalog, runner, engine, now, progress)
        except BaseException as e:
            error = ending_error(record.outcome, e)
            write_report(job, record.report(error))
            if error is e or not isinstance(e, (Exception, KeyboardInterrupt)):
                raise
            raise error from e
        report = without_secrets(job, record.report())
        write_report(job, report)
        return report


def _run(
    record: _Record,
    catalog: Catalog | None,
    runner: RewriteRunner | None,
    engine: RowEngine | None,
    now: Callable[[], int],
    progress: ProgressCallback | None,
) -> None:
    do = _checked(record, engine)
    job = record.job
    catalog = load_catalog(job.catalog) if catalog is None else catalog
    reload = partial(catalog.load_table, job.identifier)
    table = _begun(record, partial(load_named, catalog, job.identifier))
    if not job.dry_run and (earlier := find_run_now(reload, table, job_run_identity(job))) is not None:
        log.info("run key %s was committed before, as snapshot %s: nothing to do", job.run_key, earlier.snapshot_id)
        record.outcome.end(committed_earlier(record.outcome.findings(), table, earlier.snapshot_id))
        record.after = record.before
        return
    if not job.dry_run:
        forbid_copy(catalog, table)
        deletes = job.job in _DELETING and GC_ENABLED.of(table.properties)  # Else the job itself refuses, also in a dry run.
        if deletes or isinstance(catalog, KeepsTablesInFolders):
            forbid_second_catalog(catalog, table)
    if record.outcome.starting_snapshot_id is None:
        _check_where(job, table)
    record.run_key = job.run_key or made_up_run_key()
    record.outcome.made_up_key = record.run_key if job.run_key is None else None
    record.outcome.reads.add(table, reload)
    run = Run(
        job=job,
        catalog=catalog,
        table=table,
        runner=runner,
        run_key=record.run_key,
        now_ms=now,
        outcome=record.outcome,
        progress=progress,
    )
    try:
        run.outcome.end(do(run))
        _remember(run)
    except CorruptTableError as e:
        if not record.outcome.changed and (expired := record.outcome.reads.lost_to_an_expiry(job.job, e)) is not None:
            raise expired from e
        raise
    finally:
        after = record.outcome.table or table
        record.after = state_if_readable(after, after.metadata.branch_head(job.branch))


def _checked(record: _Record, engine: RowEngine | None) -> Callable[[Run], Result]:
    """The function that does the job, after all checks that do not need the table. Raises OptionError, UnsupportedError."""
    job = record.job
    if job.job not in ROW_OPERATIONS:
        _check(job)
        return load_action(job.job)
    check_fields(job)
    record.job = with_source_catalog(job)
    record.outcome.plan_id = job.plan_id
    if job.dry_run:  # a dry run reads no row, so it needs no engine
        return load_action("plan_rows")
    if engine is None:
        engine = importlib.import_module("iceberg_ops.actions.local.local_engine").LocalEngine()
    engine.check(job)
    return partial(_evaluated_by, engine)


def _evaluated_by(engine: RowEngine, run: Run) -> Result:
    with engine.opened(run.job) as rows:
        return load_action(run.job.job)(replace(run, engine_summary=engine.summary), rows)


def _begun(record: _Record, reload: Callable[[], Table]) -> Table:
    """The table that the job works on; its first state is recorded. It is loaded again if an expiry removes files before they are
    read. Raises NoSuchSnapshotError, CorruptTableError."""
    job, times = record.job, 1
    while True:
        table = reload()
        if job.dry_run:
            table = replace(table, io=ReadOnlyFileIO(table.io))
        if job.branch != MAIN_BRANCH and job.job in TABLE_ACTIONS:
            _check_branch(table, job.branch)
        head = table.metadata.branch_head(job.branch)
        record.outcome.starting_snapshot_id = None if head is None else head.snapshot_id
        try:
            record.before = table_state(table, head)
        except CorruptTableError:
            if times >= _MOST_LOADS or not has_lost_snapshots(reload, table):
                raise
            times += 1
        else:
            return table


def _remember(run: Run) -> None:
    """Record the run's own key for a complete run whose commits all carry keys of their own (partial progress). The work is done,
    so a failure to record it is not a failure of the run: a repeated run finds nothing left to do."""
    outcome, done = run.outcome, job_run_identity(run.job)
    if done is None or outcome.table is None or outcome.status != "committed" or not outcome.snapshot_ids:
        return
    try:
        if find_run(outcome.table, done) is None:
            outcome.table = commit(run.catalog, outcome.table, RememberRun(done=done, snapshot_id=outcome.snapshot_ids[-1])).table
    except Exception as e:  # noqa: BLE001 - see above
        log.warning("%s %s is done, but its run key %s could not be recorded: %s", run.job.job, run.job.table, done.key, e)


def _check(job: JobSpec) -> None:
    """Refuse a maintenance job as far as possible without reading the table. Raises OptionError."""
    ACTIONS[job.job].check_option_names(job.options)
    if job.where is not None and "where" not in ACTIONS[job.job].takes:
        raise OptionError(f"{job.job} takes no where; it was given {job.where!r}")
    if job.branch != MAIN_BRANCH and "branch" not in ACTIONS[job.job].takes:
        raise OptionError(f"{job.job} works on the whole table and takes no branch; it was given {job.branch!r}")
    if job.source is not None or job.change is not None:
        raise OptionError(f"{job.job} takes neither source nor change")


def _check_where(job: JobSpec, table: Table) -> None:
    """Check the WHERE of a maintenance job if there are no files to plan, because then no plan checks it. The engine reads the
    WHERE of a row operation. Raises WhereError."""
    if job.where is None or job.job not in TABLE_ACTIONS:
        return
    from iceberg_ops.expressions.binding import bind  # noqa: PLC0415 - a job without WHERE loads no SQL parser
    from iceberg_ops.expressions.where import parse_where  # noqa: PLC0415 - a job without WHERE loads no SQL parser

    bind(table.schema, parse_where(job.where))


def load_action(name: str) -> Callable[..., Result]:
    """The function of an action: ``iceberg_ops.actions.<name>.<name>``. It takes the run and, for a row operation, the
    ``RowEvaluator``. Imported when it runs, so that expiring snapshots does not load Arrow."""
    action: Callable[..., Result] = getattr(importlib.import_module(f"iceberg_ops.actions.{name}"), name)
    return action


def _check_branch(table: Table, branch: str) -> None:
    ref = table.metadata.ref(branch)
    if ref is None:
        raise NoSuchSnapshotError(f"table {table.name} has no branch {branch!r}: it has {', '.join(table.metadata.refs) or 'none'}")
    if not ref.is_branch:
        raise NoSuchSnapshotError(f"{branch!r} is a tag of table {table.name}, not a branch: maintenance commits to branches only")
