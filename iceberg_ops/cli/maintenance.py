"""``iceberg-ops plan`` and ``iceberg-ops run``: maintenance from the command line, with the same jobs as on every other host.

``plan`` is the dry run: it exits with 2 if it found work. ``run`` takes an action and a table, or a complete job spec document. Row
operations (append, overwrite, delete, update, merge, upsert) run in this process, or on Spark if they need it; update and merge
take a job spec, the others a job spec or a source given in options.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from iceberg_ops.cli.action_help import ActionCommand
from iceberg_ops.cli.completion import actions_or_tables
from iceberg_ops.cli.exit_codes import STOPPED, WORK_FOUND
from iceberg_ops.cli.known_secrets import learn
from iceberg_ops.cli.output import print_json
from iceberg_ops.cli.source import parse_source, source_options
from iceberg_ops.cli.standard_output import only_shows, output_of_done_work
from iceberg_ops.cli.target import check_takes_mapping, is_path, json_option, map_location_option, open_table, parse_options
from iceberg_ops.config.actions import ACTIONS, ROW_OPERATIONS, TABLE_ACTIONS
from iceberg_ops.config.lanes import LANES, LOCAL, SPARK
from iceberg_ops.config.near_names import did_you_mean
from iceberg_ops.errors import CommitStateUnknownError, IcebergOpsError, NeedsSparkError, OptionError, RetryableError, error_of_code
from iceberg_ops.spec.snapshots import MAIN_BRANCH

if TYPE_CHECKING:
    from iceberg_ops.cli.spark_process import ProcessEnd
    from iceberg_ops.config.job_spec import JobSpec
    from iceberg_ops.config.report import ActionReport

F = TypeVar("F", bound=Callable[..., Any])


def _job_options(command: F) -> F:
    command = click.option("--branch", help="The branch to work on (default: main).")(command)
    command = click.option("--where", metavar="SQL", help="Only files that may hold matching rows (Spark SQL).")(command)
    command = click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="An option of the action (repeatable).")(
        command
    )
    command = click.option("--report", metavar="PATH", help="Also write the report to this file.")(command)
    return json_option(command)


def _listed(names: Iterable[str]) -> str:
    """Actions with their purpose, one per line; click does not re-wrap the lines."""
    width = max(map(len, TABLE_ACTIONS))
    return "\n".join(("\b", *(f"  {name.ljust(width)}  {ACTIONS[name].purpose}" for name in names)))


_PLAN_HELP = f"""Show what ACTION would do to TABLE, and change nothing. Exit code 2: there is work.

ACTION is one of:

{_listed(TABLE_ACTIONS)}
"""
_RUN_HELP = f"""Run ACTION on TABLE, or the job of --job-spec.

ACTION is one of:

{_listed(TABLE_ACTIONS)}

With --help, an ACTION shows its options.

It may also be append, overwrite or upsert with a source (--from, --query, --from-table), or delete; update and merge need a job
spec.
"""


@click.command(cls=ActionCommand, help=_PLAN_HELP)
@click.argument("action", shell_complete=actions_or_tables)
@click.argument("target", metavar="TABLE", shell_complete=actions_or_tables)
@map_location_option
@_job_options
def plan(
    action: str,
    target: str,
    locations: tuple[str, ...],
    options: tuple[str, ...],
    where: str | None,
    branch: str | None,
    report: str | None,
    as_json: bool,
) -> int:
    action, target = action_and_table(action, target)
    check_takes_mapping(target, locations)
    more: dict[str, Any] = {"where": where, "branch": MAIN_BRANCH if branch is None else branch, "report": report}
    return _plan_and_show(action, target, parse_options(options), as_json, locations=locations, **more)


def _plan_and_show(
    action: str, target: str, options: dict[str, str], as_json: bool, *, locations: tuple[str, ...] = (), **more: Any
) -> int:
    """The dry run of an action, also for a table given by its path."""
    from iceberg_ops.actions.dispatch import run_job
    from iceberg_ops.cli.path_catalog import PathCatalog, job_table

    if is_path(target):
        table = open_table(target, locations)
        job = job_for(action, job_table(table), {"type": "path"}, options, dry_run=True, **more)
        report = run_job(job, catalog=PathCatalog(table))
    else:
        report = run_job(job_for(action, target, None, options, dry_run=True, **more))
    show_report(report, as_json)
    return WORK_FOUND if report.status == "planned" else 0


@click.command(cls=ActionCommand, help=_RUN_HELP)
@click.argument("action", required=False, shell_complete=actions_or_tables)
@click.argument("target", metavar="[TABLE]", required=False, shell_complete=actions_or_tables)
@_job_options
@click.option("--lane", type=click.Choice(LANES), default=None, help="Where the job runs (auto: on this machine).")
@click.option("--run-key", metavar="KEY", help="Key of this run: another run with the same key changes nothing.")
@click.option("--dry-run", is_flag=True, help="Change nothing and show the plan; exit code 2: there is work.")
@click.option("--job-spec", "job_spec", metavar="FILE", help="Run the job of this document.")
@source_options
def run(
    action: str | None,
    target: str | None,
    options: tuple[str, ...],
    where: str | None,
    branch: str | None,
    report: str | None,
    as_json: bool,
    lane: str | None,
    run_key: str | None,
    dry_run: bool,
    job_spec: str | None,
    **given_source: Any,
) -> int:
    source = parse_source(**given_source)
    if job_spec is not None:
        if options or source or any(given is not None for given in (action, target, where, branch)):
            raise OptionError(
                "--job-spec: the document says action, table, options, where, branch and source; do not give any of them on the "
                "command line"
            )
        job = _read_job(job_spec, lane=lane, run_key=run_key, report=report, dry_run=dry_run or None)
    elif action is None or target is None:
        raise OptionError("run needs ACTION and TABLE, or --job-spec FILE")
    else:
        action, target = action_and_table(action, target)
        more: dict[str, Any] = {"where": where, "branch": MAIN_BRANCH if branch is None else branch, "report": report}
        if dry_run and action in TABLE_ACTIONS:
            return _plan_and_show(action, target, parse_options(options), as_json, run_key=run_key, **more)
        more |= {"lane": lane or "auto", "run_key": run_key, "source": source, "dry_run": dry_run}
        job = job_for(action, target, None, parse_options(options), **more)
    return run_and_show(job, as_json)


def action_and_table(first: str, second: str) -> tuple[str, str]:
    """ACTION and TABLE, in either order. The words of an action may also be joined by ``-``.
    Raises OptionError."""
    action, table = (second, first) if not _is_action(first) and _is_action(second) else (first, second)
    if not _is_action(action):
        raise OptionError(f"no action {action!r}{did_you_mean(action, ACTIONS)}: the actions are {', '.join(ACTIONS)}")
    return action.replace("-", "_"), table


def _is_action(name: str) -> bool:
    return name.replace("-", "_") in ACTIONS


def job_for(action: str, table: str, catalog: dict[str, str] | None, options: dict[str, str], **more: Any) -> JobSpec:
    """The job of the command line; ``catalog`` None: its table names a catalog of the catalogs file. Raises OptionError."""
    from iceberg_ops.catalog.configuration import find_catalog
    from iceberg_ops.config.job_spec import CatalogConfig, JobSpec

    has_source = more.get("source") or more.get("change") or (action == "delete" and more.get("where"))
    if action in ROW_OPERATIONS and not has_source:
        raise OptionError(f"run {action} cannot say what {action} needs: use iceberg-ops {action}, or run --job-spec FILE")
    if catalog is not None:
        config = CatalogConfig(name=table.partition(".")[0], type=catalog["type"])
    elif is_path(table):
        raise OptionError(f"{table}: a table given by its path is only read; name it as catalog.namespace.name to change it")
    else:
        config = find_catalog(table.partition(".")[0])
    job = JobSpec(job=action, table=table, catalog=config, options=options, **more)
    learn(job.secrets())
    return job


def _read_job(path: str, **given: Any) -> JobSpec:
    """The job of a document; given fields that are not None override its fields."""
    import msgspec

    from iceberg_ops.config.document import from_json
    from iceberg_ops.config.job_spec import JobSpec

    try:
        job = from_json(Path(path).read_bytes(), JobSpec, path)
    except FileNotFoundError:
        raise OptionError(f"job spec {path}: no such file") from None
    learn(job.secrets())
    return msgspec.structs.replace(job, **{name: value for name, value in given.items() if value is not None})


def run_and_show(job: JobSpec, as_json: bool) -> int:
    """Run the job in its lane, print the report, return the exit code."""
    if job.dry_run:
        only_shows()
        return _run_here(job, as_json)
    if job.job in ROW_OPERATIONS:
        return _run_rows(job, as_json)
    job = _in_lane(job) if job.lane == "auto" else job
    return _run_on_spark(job, as_json) if job.lane == SPARK else _run_here(job, as_json)


def _run_here(job: JobSpec, as_json: bool) -> int:
    from iceberg_ops.actions.dispatch import run_job
    from iceberg_ops.cli.progress import progress_line

    with progress_line(terminal=sys.stderr.isatty()) as progress:
        report = run_job(job, progress=progress)
    show_report(report, as_json)
    return WORK_FOUND if report.status == "planned" else 0


def _run_rows(job: JobSpec, as_json: bool) -> int:
    """A row operation. If its dry run refuses it, Spark is not started. Lane auto uses this process, except for much data and
    for work that only Spark does."""
    import msgspec

    from iceberg_ops.actions.lanes import LaneChoice, choose_row_lane

    if job.lane == LOCAL:
        return _run_here(job, as_json)
    planned = _planned_rows(job)
    if job.lane == "auto":
        choice = LaneChoice(LOCAL, "auto") if planned is None else choose_row_lane(job, planned)
        job = msgspec.structs.replace(job, lane=choice.lane, lane_reason=choice.reason)
    if job.lane == LOCAL:
        try:
            return _try_here(job, as_json)
        except NeedsSparkError as e:
            job = msgspec.structs.replace(job, lane=SPARK, lane_reason=f"auto: {e.what}")
    if job.lane_reason:
        print(f"lane spark ({job.lane_reason})", file=sys.stderr, flush=True)
    return _run_on_spark(job, as_json)


def _planned_rows(job: JobSpec) -> ActionReport | None:
    """The report of a dry run. None: the dry run refuses it and there is a run key, so the run may already be committed and its
    source gone. Without a run key the refusal ends the job, and is written to ``--report``, so that no earlier report remains
    there."""
    import tempfile

    import msgspec

    from iceberg_ops.actions.dispatch import run_job
    from iceberg_ops.actions.run.report_file import check_report_place, write_report

    check_report_place(job)
    with tempfile.TemporaryDirectory(prefix="iceberg-ops-") as folder:
        written = Path(folder) / "report.json"
        report = None if job.report is None else str(written)
        try:
            return run_job(msgspec.structs.replace(job, dry_run=True, report=report))
        except (IcebergOpsError, KeyboardInterrupt) as e:
            if job.run_key is not None and isinstance(e, IcebergOpsError):
                return None
            if (written_report := _read_own_report(job, written)) is not None:
                write_report(job, msgspec.structs.replace(written_report, dry_run=False))
            raise


def _try_here(job: JobSpec, as_json: bool) -> int:
    """Like ``_run_here``, but a job that needs Spark (NeedsSparkError) writes no report: Spark's job writes it then."""
    import tempfile

    import msgspec

    from iceberg_ops.actions.run.report_file import check_report_place, write_report

    if job.report is None:
        return _run_here(job, as_json)
    check_report_place(job)
    with tempfile.TemporaryDirectory(prefix="iceberg-ops-") as folder:
        written, is_ours = Path(folder) / "report.json", True
        try:
            return _run_here(msgspec.structs.replace(job, report=str(written)), as_json)
        except NeedsSparkError:
            is_ours = False
            raise
        finally:
            if is_ours and (report := _read_own_report(job, written)) is not None:
                write_report(job, report)


def _in_lane(job: JobSpec) -> JobSpec:
    import msgspec

    from iceberg_ops.actions.lanes import choose_lane
    from iceberg_ops.cli.spark_launcher import spark_master

    choice = choose_lane(job, spark_master())
    if choice.lane == SPARK:
        print(f"lane spark ({choice.reason})", file=sys.stderr, flush=True)
    return msgspec.structs.replace(job, lane=choice.lane, lane_reason=choice.reason)


def _run_on_spark(job: JobSpec, as_json: bool) -> int:
    import tempfile

    import msgspec

    from iceberg_ops.actions.run.report_file import check_report_place, write_report
    from iceberg_ops.cli.spark_launcher import spark_submit
    from iceberg_ops.cli.spark_process import ProcessEnd, stoppable
    from iceberg_ops.config.document import to_json
    from iceberg_ops.config.report import INTERRUPTED

    check_report_place(job)
    with stoppable(), tempfile.TemporaryDirectory(prefix="iceberg-ops-") as folder:
        # A separate file, which can be read again: --report may name a device.
        written = Path(folder) / "report.json"
        try:
            ended = spark_submit(to_json(msgspec.structs.replace(job, report=str(written))))
        except BaseException as e:
            # A report proves that the job ran, even if a signal came before this process knew that it had begun.
            if not written.exists():
                raise
            if not isinstance(e, KeyboardInterrupt):
                if (report := _read_own_report(job, written)) is not None:
                    write_report(job, report)
                raise
            ended = ProcessEnd(STOPPED)
        report = _read_own_report(job, written)
        if report is None:
            if ended.exit_code in (1, STOPPED) and ended.said_why:
                return ended.exit_code
            raise _lost(job, ended)
        write_report(job, report)
        if report.error is not None:
            is_interrupt = report.error.code == INTERRUPTED
            if ended.said_why:
                return STOPPED if is_interrupt else 1
            if is_interrupt:
                raise KeyboardInterrupt
            raise error_of_code(report.error.code, report.error.message)
        show_report(report, as_json)
        return WORK_FOUND if report.status == "planned" else 0


def _read_own_report(job: JobSpec, written: Path) -> ActionReport | None:
    """The report that the job wrote; None if there is none, only a part of one, or that of another job."""
    from iceberg_ops.config.document import from_json
    from iceberg_ops.config.report import ActionReport

    try:
        report = from_json(written.read_bytes(), ActionReport, "the report")
    except (FileNotFoundError, OptionError):
        return None
    is_own = (report.action, report.table) == (job.job, job.table) and job.run_key in (None, report.run_key)
    return report if is_own else None


def _lost(job: JobSpec, ended: ProcessEnd) -> IcebergOpsError:
    """The error of a job that ended without a report: it was killed, or could not start."""
    message = f"{job.job} on {job.table}: spark-submit ended with exit code {ended.exit_code} and without a report"
    if job.dry_run:
        return RetryableError(f"{message}: a dry run changes nothing, try again")
    if job.run_key is None:
        look = shlex.join(["iceberg-ops", "inspect", job.table, "snapshots"])
        return CommitStateUnknownError(
            f"{message}: it is not known whether it committed; check with {look} before you run it again"
        )
    again = f"--run-key {shlex.quote(job.run_key)}"
    return CommitStateUnknownError(f"{message}: it is not known whether it committed; run it again with {again}")


def show_report(report: ActionReport, as_json: bool) -> None:
    """Print a report for people, or as the JSON document."""
    with nullcontext() if report.dry_run else output_of_done_work():
        if as_json:
            import msgspec

            print_json(msgspec.to_builtins(report))
        else:
            from iceberg_ops.cli.report_view import print_report

            print_report(report)
