"""``iceberg-ops health``: for each table the result of every maintenance action's dry run, and why an action is due or not.

It consists of dry runs: an action is due if ``run`` would find work with the same options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from iceberg_ops.cli.completion import tables
from iceberg_ops.cli.known_secrets import known_secrets
from iceberg_ops.cli.output import print_json, print_rows
from iceberg_ops.cli.policy import effective_policy
from iceberg_ops.cli.target import check_takes_mapping, is_path, json_option, map_location_option, open_table
from iceberg_ops.config.secrets import hide
from iceberg_ops.errors import IcebergOpsError, OptionError, UnsupportedError, ValidationError

if TYPE_CHECKING:
    from iceberg_ops.catalog.catalog import Catalog
    from iceberg_ops.config.report import ActionReport

_Verdict = tuple[dict[str, Any], IcebergOpsError | None]
"""A row of the result, and the error if there is no result."""


@click.command()
@click.argument("targets", nargs=-1, metavar="TABLE...", shell_complete=tables)
@click.option("--policy", "policy_file", metavar="FILE", help="Take actions and options from this policy.")
@map_location_option
@json_option
def health(targets: tuple[str, ...], policy_file: str | None, locations: tuple[str, ...], as_json: bool) -> int:
    """Show which maintenance each TABLE needs, and why. Exit code 2: some is due; 1: a table could not be checked.

    TABLE may also be a catalog, a namespace, or a glob over names; default: all tables of the catalogs of --policy.
    """
    from iceberg_ops.cli.table_choice import expand_targets

    if not targets and policy_file is None:
        raise click.UsageError("name a table, a namespace or a glob, or a --policy whose catalogs are meant")
    targets = tuple(expand_targets(targets or _policy_catalogs(policy_file or "")))
    for target in targets:
        check_takes_mapping(target, locations)
    opened: dict[str, Catalog] = {}
    verdicts = [pair for target in targets for pair in _verdicts(target, policy_file, locations, opened)]
    rows = [row for row, _ in verdicts]
    if as_json:
        print_json(rows)
    else:
        _print(rows)
    for _, error in verdicts:
        if error is not None:
            raise error
    return 2 if any(row["verdict"] == "due" for row in rows) else 0


def _print(rows: list[dict[str, Any]]) -> None:
    """The name of a single table is above its rows, which leaves more width for the reasons."""
    tables = list(dict.fromkeys(row["table"] for row in rows))
    if len(tables) == 1:
        rows = [{name: value for name, value in row.items() if name != "table"} for row in rows]
    print_rows(rows, title=f"maintenance of {tables[0]}" if len(tables) == 1 else "maintenance", empty="nothing to say")


def _policy_catalogs(policy_file: str) -> list[str]:
    from iceberg_ops.cli.policy import read
    from iceberg_ops.config.policy_lint import load_policy

    return list(load_policy(read(policy_file), policy_file).catalogs)


def _verdicts(target: str, policy_file: str | None, locations: tuple[str, ...], opened: dict[str, Catalog]) -> list[_Verdict]:
    return [_verdict(target, label, job, locations, opened) for label, job in _jobs(target, policy_file)]


def _jobs(target: str, policy_file: str | None) -> list[tuple[str, dict[str, Any]]]:
    """The dry runs: a step's name, and the fields of its job."""
    from iceberg_ops.config.actions import MAINTENANCE_ACTIONS

    if policy_file is None:
        return [(action, {"job": action}) for action in MAINTENANCE_ACTIONS]
    if is_path(target):
        raise OptionError(
            f"{target}: a path has no place in a policy; name the table as catalog.namespace.name, or leave out --policy"
        )
    effective = effective_policy(policy_file, target)
    return [
        (step.label, {"job": step.action, "options": step.option_texts(), "where": step.where, "branch": step.branch})
        for step in effective.steps
        if step.enabled and effective.enabled
    ]


def _verdict(target: str, label: str, job: dict[str, Any], locations: tuple[str, ...], opened: dict[str, Catalog]) -> _Verdict:
    row = {"table": target, "action": label}
    try:
        report = _dry_run(target, job, locations, opened)
    except (ValidationError, UnsupportedError) as e:
        # A refusal by the table itself (gc.enabled, a shared location) is a result, not an error: every later run has it too.
        return {**row, "verdict": "refused", "why": _shown(e)}, None
    except IcebergOpsError as e:
        return {**row, "verdict": "unknown", "why": _shown(e)}, e
    due = report.status == "planned"
    return {**row, "verdict": "due" if due else "not due", "why": _why(report)}, None


def _shown(error: IcebergOpsError) -> str:
    return hide(f"{error.code}: {error}", known_secrets())


def _dry_run(target: str, job: dict[str, Any], locations: tuple[str, ...], opened: dict[str, Catalog]) -> ActionReport:
    """Each catalog is opened once, and is in ``opened`` from then on: a catalog may have thousands of tables."""
    from iceberg_ops.actions.dispatch import run_job
    from iceberg_ops.catalog.configuration import find_catalog
    from iceberg_ops.catalog.load import load_catalog
    from iceberg_ops.cli.path_catalog import PathCatalog, job_table
    from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
    from iceberg_ops.io.machine_limits import typed_os_errors

    if is_path(target):
        table = open_table(target, locations)
        config = CatalogConfig(name="path", type="path")
        return run_job(JobSpec(table=job_table(table), catalog=config, dry_run=True, **job), catalog=PathCatalog(table))
    config = find_catalog(target.partition(".")[0])
    if config.name not in opened:
        with typed_os_errors():
            opened[config.name] = load_catalog(config)
    return run_job(JobSpec(table=target, catalog=config, dry_run=True, **job), catalog=opened[config.name])


def _why(report: ActionReport) -> str:
    """The first reasons of the plan, or the findings of the steps."""
    reasons = list(dict.fromkeys(group.reason for group in report.groups)) or list(
        dict.fromkeys(skipped.reason for skipped in report.skipped)
    )
    details = [step.detail for step in report.steps if step.detail]
    return "; ".join((details + reasons)[:3]) or "nothing to do"
