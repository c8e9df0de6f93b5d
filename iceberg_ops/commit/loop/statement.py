"""Re-evaluates a statement that finds and changes rows until it is committed, although others change the table at the same time.

A delete, update or merge is evaluated on one snapshot and names files and positions of it. If another commit replaced one of these
files (most often a compaction), or under ``serializable`` added rows that the statement should have seen, its commit is correctly
refused. The statement itself is not wrong: re-evaluated on the current table it gives the result of a slightly later start. So it
is re-evaluated here, until it is committed or a limit is reached.

The rule: a commit always holds the whole result of one evaluation on one snapshot, validated at the statement's own isolation level
against everything since; nothing of a refused evaluation is kept. The caller does the evaluation, and deletes its files when it is
refused.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.protocol.history import base_snapshot
from iceberg_ops.config.properties import COMMIT_TOTAL_RETRY_TIME_MS
from iceberg_ops.errors import BadInputError, ValidationError
from iceberg_ops.table.same_table import same_table
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

MOST_EVALUATIONS = 10
"""A compaction can refuse an evaluation once, at its swap. Ten refusals in a row mean that writers are always faster than the
statement."""

Result = TypeVar("Result")


def evaluate_until_committed(
    catalog: Catalog,
    table: Table,
    branch: str,
    evaluate: Callable[[Table, int], Result],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Result:
    """The result of ``evaluate``, which gets the table and the number of the evaluation (from 1), commits, and deletes its files if
    its commit is refused.

    It is re-evaluated only after a conflict with a concurrent commit (an upgrade of the table is one), at most MOST_EVALUATIONS
    times and not after ``commit.retry.total-timeout-ms`` have passed. Raises the last ValidationError, which then gives the number
    of attempts; every other error of ``evaluate`` is raised at once (above all an unknown outcome).
    """
    begun, budget = clock(), COMMIT_TOTAL_RETRY_TIME_MS.of(table.properties) / 1000
    number = 1
    while True:
        try:
            return evaluate(table, number)
        except (ValidationError, BadInputError) as e:
            now = catalog.load_table(table.identifier[1:])
            if not _upgraded(table, now) and (isinstance(e, BadInputError) or not _may_help(table, now, branch)):
                raise
            if number >= MOST_EVALUATIONS or clock() - begun >= budget:
                if isinstance(e, BadInputError):
                    raise
                raise _given_up(e, number, clock() - begun) from e
            log.info("%s: re-evaluated, because of a conflict: %s", ".".join(table.identifier), e)
            table, number = now, number + 1


def _may_help(before: Table, now: Table, branch: str) -> bool:
    """Whether it is still the same table, and others committed to the branch or changed the columns. If not, the statement itself
    caused the conflict."""
    was, is_ = base_snapshot(before.metadata, branch), base_snapshot(now.metadata, branch)
    moved = (None if was is None else was.snapshot_id) != (None if is_ is None else is_.snapshot_id)
    changed = before.metadata.current_schema_id != now.metadata.current_schema_id
    return same_table(before, now) and (moved or changed)


def _upgraded(before: Table, now: Table) -> bool:
    """Whether it is the same table in another format version: files that were staged for one version may not be committed to the
    other (position deletes, from v3 on)."""
    return same_table(before, now) and before.metadata.format_version != now.metadata.format_version


def _given_up(e: ValidationError, evaluations: int, seconds: float) -> ValidationError:
    return ValidationError(
        f"{e}; evaluated {evaluations} times in {seconds:.0f} s, and each time another commit came first",
        snapshot_id=e.snapshot_id,
        operation=e.operation,
        file_path=e.file_path,
        partition=e.partition,
        file_paths=e.file_paths,
    )
