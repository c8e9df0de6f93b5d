"""Finds the tables of a policy, and the work for each: ``python -m iceberg_airflow.discovery REQUEST ANSWER``.

It is a separate process, because it opens the catalog: neither the scheduler that parses DAGs nor the worker loads one. It gives a
verdict for every table of the catalog, also "nothing, because ...". Reads a ``Request``, writes a ``DiscoveryAnswer``; errors are
one line on standard error and exit code 1.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from iceberg_airflow.last_line import run_with_exit_code
from iceberg_airflow.work import DiscoveryAnswer, Request, StepWork, TableWork, read_policy
from iceberg_ops.catalog.catalog import Catalog, Identifier
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.document import from_json, to_json
from iceberg_ops.config.policy import EffectiveStep, Policy, effective
from iceberg_ops.errors import NoSuchNamespaceError, OptionError


def discover(request: Request, catalog: Catalog, policy: Policy) -> DiscoveryAnswer:
    """A verdict for each table, sorted by name. Raises OptionError for a catalog that the policy does not name: its defaults do
    not apply to every catalog of a connection."""
    if catalog.name not in policy.catalogs:
        known = ", ".join(policy.catalogs) or "none"
        raise OptionError(
            f"{Path(request.policy).name}: no catalog {catalog.name!r}, which is the connection's: the policy's catalogs are "
            f"{known}; name it there if the policy is meant for its tables"
        )
    return DiscoveryAnswer(
        tables=[_verdict(policy, catalog.name, identifier, request.schedule) for identifier in sorted(_tables(catalog, ()))]
    )


def verdict(policy: Policy, table: str, schedule: str | None) -> TableWork:
    """The steps due on this schedule, or the reason why there are none."""
    effective_policy = effective(policy, table)
    if not effective_policy.enabled:
        return TableWork(table=table, reason=f"disabled by {effective_policy.settings['enabled'].source}")
    enabled = [step for step in effective_policy.steps if step.enabled]
    due = [step for step in enabled if step.schedule == schedule]
    if not effective_policy.steps:
        reason = "no layer of the policy gives this table any maintenance"
    elif not enabled:
        reason = f"every step of {effective_policy.steps[0].source} is disabled"
    elif not due:
        others = ", ".join(sorted({step.schedule or "on demand" for step in enabled}))
        reason = f"its steps run {others}, not {schedule or 'on demand'}"
    else:
        reason = f"{len(due)} steps from {due[0].source}"
    return TableWork(table=table, steps=[_work(step) for step in due], reason=reason)


def main(arguments: list[str]) -> int:
    """Exit code 0, or 1 with one line on standard error."""
    request_path, answer_path = map(Path, arguments)

    def work() -> None:
        request = from_json(request_path.read_bytes(), Request, str(request_path))
        policy = read_policy(Path(request.policy))
        answer_path.write_bytes(to_json(discover(request, load_catalog(request.catalog), policy)))

    return run_with_exit_code(work)


def _verdict(policy: Policy, catalog: str, identifier: Identifier, schedule: str | None) -> TableWork:
    work = verdict(policy, ".".join((catalog, *identifier)), schedule)
    if not work.steps or not any("." in part for part in identifier):
        return work
    parts = " / ".join(identifier)
    refused = (
        f"not supported: maintaining {parts}, because a job names a table as "
        "catalog.namespace.name, and a name here has a dot: rename it, or disable the table in the policy"
    )
    return replace(work, refused=refused)


def _tables(catalog: Catalog, namespace: tuple[str, ...]) -> Iterator[Identifier]:
    """Every table below a namespace. A namespace that is dropped in the meantime is empty."""
    for child in catalog.list_namespaces(namespace):
        with contextlib.suppress(NoSuchNamespaceError):
            yield from catalog.list_tables(child)
            yield from _tables(catalog, child)


def _work(step: EffectiveStep) -> StepWork:
    return StepWork(
        action=step.action, label=step.label, options=step.option_texts(), where=step.where, branch=step.branch, lane=step.lane
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
