"""``iceberg-ops policy``: checks maintenance policies, and shows the settings for a table and the source of each value."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iceberg_ops.cli.output import print_json, print_rows
from iceberg_ops.cli.target import json_option
from iceberg_ops.config.plurals import counted
from iceberg_ops.config.table_name import TableName
from iceberg_ops.errors import OptionError

if TYPE_CHECKING:
    from iceberg_ops.config.policy import EffectivePolicy, EffectiveStep, SourcedValue


@click.group()
def policy() -> None:
    """Check and explain maintenance policies (YAML)."""


@policy.command("lint")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@json_option
def lint(files: tuple[str, ...], as_json: bool) -> int:
    """Check policy documents: every problem with its line and path; exit code 1 if there is one."""
    from iceberg_ops.config.policy_lint import problems_in

    problems_by_file = {file: problems_in(read(file), file) for file in files}
    if as_json:
        print_json([{"file": file, "problems": problems} for file, problems in problems_by_file.items()])
    else:
        for file, problems in problems_by_file.items():
            for line in problems or [f"{file}: right"]:
                click.echo(line)
    if wrong := {file: counted(len(problems), "problem") for file, problems in problems_by_file.items() if problems}:
        raise OptionError("; ".join(f"policy {file} has {how_many}" for file, how_many in wrong.items()))
    return 0


@policy.command("explain")
@click.argument("file", metavar="FILE")
@click.argument("table", metavar="CATALOG.NAMESPACE.NAME")
@json_option
def explain(file: str, table: str, as_json: bool) -> int:
    """Show the settings of one table in FILE, and which layer each value comes from."""
    effective = effective_policy(file, table)
    if as_json:
        print_json(document(effective))
        return 0
    rows = [{"setting": name, "value": str(s.value), "source": s.source} for name, s in sorted(effective.settings.items())]
    print_rows(rows, title=f"{table}: settings", empty=f"{table}: no layer sets anything")
    rows = [
        {
            "step": step.label,
            "schedule": step.schedule or "",
            "lane": step.lane,
            "option": name,
            "value": "" if option is None else option.value,
            "source": step.source if option is None else option.source,
        }
        for step in effective.steps
        for name, option in _listed(step)
    ]
    print_rows(rows, title=f"{table}: maintenance, in order", empty=f"{table}: no maintenance")
    return 0


def effective_policy(file: str, table: str) -> EffectivePolicy:
    """The policy's settings for a table. Raises OptionError for a name that is not catalog.namespace.name, and for a
    catalog that the policy does not name, because nothing in it applies there."""
    from iceberg_ops.config.policy import effective
    from iceberg_ops.config.policy_lint import load_policy

    name = TableName.parse(table)
    policy = load_policy(read(file), file)
    policy.catalog_config(name.catalog)
    return effective(policy, table)


def _listed(step: EffectiveStep) -> list[tuple[str, SourcedValue | None]]:
    """A step's options by name; one empty row for a step without options."""
    return [*sorted(step.options.items())] or [("", None)]


def read(file: str) -> bytes:
    """The document's bytes. Raises OptionError if there is no such file."""
    try:
        return Path(file).read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        raise OptionError(f"policy {file}: no such file") from None


def document(effective: EffectivePolicy) -> dict[str, Any]:
    """An effective policy as JSON."""
    return {
        "table": effective.table,
        "enabled": effective.enabled,
        "settings": {name: {"value": s.value, "source": s.source} for name, s in sorted(effective.settings.items())},
        "maintenance": [
            {
                "action": step.action,
                "name": step.label,
                "schedule": step.schedule,
                "lane": step.lane,
                "branch": step.branch,
                "where": step.where,
                "enabled": step.enabled,
                "source": step.source,
                "options": {name: {"value": o.value, "source": o.source} for name, o in sorted(step.options.items())},
            }
            for step in effective.steps
        ],
    }
