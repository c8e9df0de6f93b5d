"""Which tables a policy is for, and what it wants done to each: run as ``python -m iceberg_airflow.discovery REQUEST ANSWER``.

A process of its own, because it opens the catalog: neither the scheduler that parses DAGs nor the worker loads one. It gives a
verdict for every table of the catalog, also "nothing, because ...". Reads a ``Request``, writes an ``Answer``; errors are one
line on standard error and exit code 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from iceberg_airflow.work import Answer, Request, StepWork, TableWork
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.document import from_json, to_json
from iceberg_ops.config.policy import EffectiveStep, Policy, effective, load_policy
from iceberg_ops.errors import IcebergOpsError


def discover(request: Request, catalog: Catalog, policy: Policy) -> Answer:
    """A verdict for each table, sorted by name."""
    return Answer(tables=[verdict(policy, f"{catalog.name}.{name}", request.schedule) for name in sorted(_tables(catalog, ()))])


def verdict(policy: Policy, table: str, schedule: str | None) -> TableWork:
    """The steps due on this schedule, or the reason why there are none."""
    found = effective(policy, table)
    if not found.enabled:
        return TableWork(table=table, reason=f"disabled by {found.settings['enabled'].source}")
    enabled = [step for step in found.steps if step.enabled]
    due = [step for step in enabled if step.schedule == schedule]
    if not found.steps:
        reason = "no layer of the policy gives this table any maintenance"
    elif not enabled:
        reason = f"every step of {found.steps[0].source} is disabled"
    elif not due:
        others = ", ".join(sorted({step.schedule or "on demand" for step in enabled}))
        reason = f"its steps run {others}, not {schedule or 'on demand'}"
    else:
        reason = f"{len(due)} steps from {due[0].source}"
    return TableWork(table=table, steps=[_work(step) for step in due], reason=reason)


def main(arguments: list[str]) -> int:
    """Exit code 0, or 1 with one line on standard error."""
    request_path, answer_path = map(Path, arguments)
    try:
        request = from_json(request_path.read_bytes(), Request, str(request_path))
        policy_path = Path(request.policy)
        policy = load_policy(policy_path.read_bytes(), policy_path.name)
        answer = discover(request, load_catalog(request.catalog), policy)
    except IcebergOpsError as e:
        print(f"error: {e.code}: {e}", file=sys.stderr)
        return 1
    answer_path.write_bytes(to_json(answer))
    return 0


def _tables(catalog: Catalog, namespace: tuple[str, ...]) -> Iterator[str]:
    for child in catalog.list_namespaces(namespace):
        yield from (".".join(identifier) for identifier in catalog.list_tables(child))
        yield from _tables(catalog, child)


def _work(step: EffectiveStep) -> StepWork:
    return StepWork(
        action=step.action, label=step.label, options=step.option_texts(), where=step.where, branch=step.branch, lane=step.lane
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
