"""``iceberg-ops append``, ``overwrite``, ``upsert``, ``delete``, ``update`` and ``merge``: row operations in one line.

Each builds the job spec that Airflow would write and runs it (``maintenance.run_and_show``); the job interprets and checks the
options.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from iceberg_ops.cli.action_help import RowCommand
from iceberg_ops.cli.completion import table_argument
from iceberg_ops.cli.maintenance import job_for, run_and_show
from iceberg_ops.cli.source import parse_source, source_options
from iceberg_ops.cli.target import json_option, open_in_catalog, parse_options
from iceberg_ops.config.lanes import LANES
from iceberg_ops.config.properties import WRITE_MODES
from iceberg_ops.errors import NoSuchTableError, OptionError

if TYPE_CHECKING:
    from iceberg_ops.config.job_spec import JobSpec, MergeClause

F = TypeVar("F", bound=Callable[..., Any])
_MODE = click.option("--mode", type=click.Choice(WRITE_MODES), help="Default: the table's property.")


def _job_options(command: F) -> F:
    for option in reversed(
        (
            click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="An option of the job (repeatable)."),
            click.option("--branch", default="main", show_default=True, help="The branch to work on."),
            click.option("--wap-id", metavar="ID", help="Stage the snapshot with this id; iceberg-ops publish makes it current."),
            click.option("--run-key", metavar="KEY", help="Key of this run: another run with the same key changes nothing."),
            click.option("--dry-run", is_flag=True, help="Show which files the job would read; read and write no rows."),
            click.option("--lane", type=click.Choice(LANES), default="auto", help="Where the job runs; auto chooses by size."),
            click.option("--report", metavar="PATH", help="Also write the report to this file."),
            table_argument,
        )
    ):
        command = option(command)
    return json_option(command)


@click.command(cls=RowCommand)
@_job_options
@source_options
def append(**given: Any) -> int:
    """Append the rows of --from, --query or --from-table to TABLE."""
    return _run("append", given)


@click.command(cls=RowCommand)
@_job_options
@source_options
@click.option("--where", metavar="SQL", help="The rows to replace; default: the partitions of the new rows.")
def overwrite(where: str | None, **given: Any) -> int:
    """Replace rows of TABLE by those of --from, --query or --from-table, in one commit."""
    return _run("overwrite", given, where=where)


@click.command(cls=RowCommand)
@_job_options
@source_options
@click.option("--keys", metavar="A,B", help="The key columns; default: the table's identifier fields.")
def upsert(keys: str | None, **given: Any) -> int:
    """Replace the rows of TABLE that have the keys of --from's rows, without reading TABLE (equality deletes)."""
    if keys is not None:
        given["options"] = (*given["options"], f"upsert-keys={keys}")
    return _run("upsert", given)


@click.command(cls=RowCommand)
@_job_options
@_MODE
@click.option("--where", required=True, metavar="SQL", help="The rows to delete; true: all.")
def delete(where: str, mode: str | None, **given: Any) -> int:
    """Delete rows of TABLE."""
    return _run("delete", given, where=where, mode=mode)


@click.command(cls=RowCommand)
@_job_options
@_MODE
@click.option("--set", "assignments", multiple=True, required=True, metavar="COLUMN = SQL", help="A new value (repeatable).")
@click.option("--where", metavar="SQL", help="The rows to update; default: all.")
def update(assignments: tuple[str, ...], where: str | None, mode: str | None, **given: Any) -> int:
    """Update rows of TABLE."""
    from iceberg_ops.cli.merge_clauses import names_target, of_columns, parse_assignments

    values = parse_assignments(assignments)
    if names_target(values):
        values = of_columns(values, open_in_catalog(given["target"])[1].schema)
    return _run("update", given, where=where, mode=mode, set=values)


@click.command(cls=RowCommand)
@_job_options
@source_options
@_MODE
@click.option("--on", required=True, metavar="SQL", help="The join condition, such as target.id = source.id")
@click.option(
    "--when",
    "clauses",
    multiple=True,
    required=True,
    metavar="CLAUSE",
    help="A clause (repeatable); for each row the first that matches applies.",
)
def merge(on: str, clauses: tuple[str, ...], mode: str | None, **given: Any) -> int:
    """Merge the rows of --from, --query or --from-table into TABLE.

    \b
    CLAUSE is, as in Spark's MERGE INTO,
      MATCHED [AND condition] THEN UPDATE SET * | UPDATE SET a = expression, ... | DELETE
      NOT MATCHED [AND condition] THEN INSERT * | INSERT (a, ...) VALUES (expression, ...)
      NOT MATCHED BY SOURCE [AND condition] THEN UPDATE SET ... | DELETE
    """
    from iceberg_ops.cli.merge_clauses import parse_when

    parsed = _of_columns(given["target"], [parse_when(text) for text in clauses])
    return _run("merge", given, mode=mode, on=on, clauses=parsed)


def _of_columns(target: str, clauses: list[MergeClause]) -> list[MergeClause]:
    """The clauses with the table's own column names. The table is opened only if a name is ambiguous."""
    from msgspec.structs import replace

    from iceberg_ops.cli.merge_clauses import names_target, of_columns

    if not any(names_target(clause.assignments) for clause in clauses):
        return clauses
    schema = open_in_catalog(target)[1].schema
    return [
        clause if clause.assignments is None else replace(clause, assignments=of_columns(clause.assignments, schema))
        for clause in clauses
    ]


def _run(job: str, given: dict[str, Any], *, where: str | None = None, **change: Any) -> int:
    """Raises OptionError for a wap id that is given twice, and the errors of the job."""
    from iceberg_ops.config.job_spec import RowChange

    as_json, target, wap_id = given.pop("as_json"), given.pop("target"), given.pop("wap_id")
    options = parse_options(given.pop("options"))
    if wap_id is not None:
        if "wap-id" in options:
            raise OptionError("give --wap-id or --option wap-id, not both")
        options["wap-id"] = wap_id
    more = {name: given.pop(name) for name in ("branch", "run_key", "lane", "report", "dry_run")}
    source = parse_source(**given) if given else None
    if given and source is None:
        raise OptionError(f"{job} needs rows: --from PATH, --query SQL or --from-table TABLE")
    if change:
        more["change"] = RowChange(**change)
    spec = job_for(job, target, None, options, where=where, source=source, **more)
    try:
        return run_and_show(spec, as_json)
    except NoSuchTableError as e:
        raise NoSuchTableError(f"{e}{_how_to_create(spec)}") from None


def _how_to_create(job: JobSpec) -> str:
    """The hint for rows of Parquet files whose target table does not exist."""
    files = job.source.paths if job.source is not None and job.source.format == "parquet" else []
    file = next((path for path in files if path.endswith(".parquet") and not set("*?[{") & set(path)), None)
    if job.job not in ("append", "overwrite", "upsert") or file is None:
        return ""
    return f". To create it: {shlex.join(['iceberg-ops', 'create', job.table, '--like', file, '--create-namespace'])}"
