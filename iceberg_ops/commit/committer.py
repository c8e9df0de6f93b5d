"""The one loop that commits: refresh, look for an earlier success, validate, stage, swap; again, until it is done or can not be.

1. A snapshot that carries our run key means that we already won (a lost answer, a retried task, a double submit): it is returned.
2. Only snapshots that no earlier attempt validated are validated. Once a swap was refused, the loop looks again before it stages,
   and validates what came while it validated, so that little can come between the last look and the swap. Without that a slow
   committer that waited for its turn would have more to validate each time, and be late for ever.
3. A refused swap starts again on fresh metadata, with jitter and under a time budget (``retry``).
4. An unknown outcome is looked up by snapshot id and run key. It counts as failed only when the branch has moved on without us, so
   that our swap can not succeed any more; as long as it might, nothing is swapped again and nothing is deleted.
5. Files that losing attempts wrote are deleted when, and only when, the outcome is known.
"""

from __future__ import annotations

import logging
import random as random_module
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.history import History, base_of, naming_the_remover
from iceberg_ops.commit.operation import Committed, Operation, StagedCommit
from iceberg_ops.commit.retry import RetryPolicy
from iceberg_ops.commit.run_keys import find_run
from iceberg_ops.config.properties import COMMIT_STATUS_CHECKS, COMMIT_STATUS_CHECKS_MIN_WAIT_MS
from iceberg_ops.errors import (
    BadInputError,
    CommitFailedError,
    CommitStateUnknownError,
    RetryableError,
    TerminalError,
    ValidationError,
)
from iceberg_ops.spec.updates import AddSnapshot
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

MOST_LOOKS = 10
"""Each has fewer snapshots to validate than the one before, unless they come faster than they can be read."""


def commit(
    catalog: Catalog,
    table: Table,
    operation: Operation,
    *,
    just_loaded: bool = False,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    random: Callable[[], float] = random_module.random,
) -> Committed:
    """Commit ``operation`` to the table; ``table`` is it as the caller saw it. ``clock`` gives seconds. ``just_loaded``: the caller
    has loaded it this moment, so the first attempt takes it as it is (and is refused, as ever, if it is not so any more).

    Raises ValidationError (a conflict: nothing was committed), CommitFailedError and CatalogUnavailableError (gave up: nothing was
    committed), CommitStateUnknownError (it may have been committed: nothing was deleted), BadInputError.
    """
    return _Loop(catalog, table, operation, sleep, clock, random, just_loaded).run()


@dataclass
class _Loop:
    catalog: Catalog
    callers_table: Table
    operation: Operation
    sleep: Callable[[float], None]
    clock: Callable[[], float]
    random: Callable[[], float]
    just_loaded: bool = False
    prepared: Any = None
    attempts: int = 0
    validated_id: int | None = None
    leftovers: list[str] = field(default_factory=list)
    swapped: list[StagedCommit] = field(default_factory=list)

    def run(self) -> Committed:
        policy = RetryPolicy.of(self.callers_table.properties)
        started = self.clock()
        failures = 0
        while True:
            try:
                return self._attempt()
            except RetryableError as e:
                failures += 1
                wait = policy.wait_seconds(failures, self.clock() - started, self.random)
                if wait is None:
                    self._clean(keep=())
                    raise
                log.info("%s on %s, attempt %d: %s; next in %.2f s", self.operation.name, self._name, failures, e, wait)
                self.sleep(wait)

    @property
    def _name(self) -> str:
        return ".".join(self.callers_table.identifier)

    def _attempt(self) -> Committed:
        table = self.callers_table if self.just_loaded else self.catalog.load_table(self.callers_table.identifier[1:])
        self.just_loaded = False
        if (done := self._earlier_success(table)) is not None:
            return done
        self.attempts += 1
        try:
            _check_same_table(self.callers_table, table)
            if self.prepared is None:
                self.prepared = self.operation.prepare(self.callers_table)
            self._validate(table)
            for _ in range(MOST_LOOKS if self.attempts > 1 else 0):
                now = self.catalog.load_table(self.callers_table.identifier[1:])
                if self._head_id(now) == self.validated_id:
                    break
                if (done := self._earlier_success(now)) is not None:
                    return done
                _check_same_table(self.callers_table, now)
                self._validate(now)
                table = now
            staged = self.operation.stage(self.prepared, table)
        except RetryableError:
            raise
        except ValidationError as e:
            self._clean(keep=())
            history = History(table, self.operation.branch, self.operation.starting_snapshot_id)
            raise naming_the_remover(e, history) from e.__cause__
        except Exception:
            self._clean(keep=())
            raise
        if not staged.updates:
            self._clean(keep=())
            return self._committed(table, staged)
        return self._swap(table, staged)

    def _validate(self, table: Table) -> None:
        operation = self.operation
        operation.validate(table, History(table, operation.branch, operation.starting_snapshot_id, self.validated_id))
        self.validated_id = self._head_id(table)

    def _head_id(self, table: Table) -> int | None:
        head = base_of(table.metadata, self.operation.branch)
        return None if head is None else head.snapshot_id

    def _swap(self, table: Table, staged: StagedCommit) -> Committed:
        self.swapped.append(staged)
        try:
            committed = self.catalog.commit_table(table, staged.requirements, staged.updates)
        except CommitStateUnknownError as e:
            return self._resolve(staged, e)
        except (TerminalError, BadInputError):
            self._clean(keep=())
            raise
        return self._won(committed, staged)

    def _won(self, table: Table, staged: StagedCommit) -> Committed:
        self._clean(keep=staged.referenced)
        return self._committed(table, staged)

    def _committed(self, table: Table, staged: StagedCommit) -> Committed:
        return Committed(table=table, snapshot=staged.snapshot, attempts=self.attempts, leftovers=tuple(self.leftovers))

    def _earlier_success(self, table: Table) -> Committed | None:
        run = find_run(table.metadata, self.operation.run_key)
        if run is None:
            return None
        mine = [staged for staged in self.swapped if staged.snapshot is not None and staged.snapshot.snapshot_id == run.snapshot_id]
        for staged in mine:
            if (
                run.snapshot is not None
                and staged.snapshot is not None
                and staged.snapshot.manifest_list == run.snapshot.manifest_list
            ):
                # A swap of ours that was reported as refused did happen: what it refers to is live.
                return self._won(table, staged)
        if not mine:
            self._clean(keep=())
        return Committed(
            table=table,
            snapshot=run.snapshot,
            attempts=self.attempts,
            already_committed=True,
            leftovers=tuple(self.leftovers),
        )

    def _resolve(self, staged: StagedCommit, unknown: CommitStateUnknownError) -> Committed:
        """Find out what an unanswered swap did. Raises CommitFailedError where it certainly did nothing."""
        properties = self.callers_table.properties
        checks = COMMIT_STATUS_CHECKS.of(properties)
        for check in range(checks + 1):
            if check:
                self.sleep(COMMIT_STATUS_CHECKS_MIN_WAIT_MS.of(properties) * 2 ** (check - 1) / 1000)
            try:
                table = self.catalog.load_table(self.callers_table.identifier[1:])
            except RetryableError as e:
                log.warning("status check %d of %s: %s", check, self._name, e)
                continue
            if self._is_in(table, staged):
                return self._won(table, staged)
            if _can_not_happen_any_more(table, staged):
                raise CommitFailedError(
                    f"{self.operation.name} on {self._name} got no answer and was not committed: {unknown}"
                ) from unknown
        what = f"snapshot {staged.snapshot.snapshot_id}" if staged.snapshot is not None else "the change"
        raise CommitStateUnknownError(
            f"{self.operation.name} on {self._name}: the outcome is unknown after {checks + 1} checks ({unknown}); it was "
            f"committed if {what} "
            f"is in the table; nothing was deleted"
        ) from unknown

    def _is_in(self, table: Table, staged: StagedCommit) -> bool:
        run = find_run(table.metadata, self.operation.run_key)
        if staged.snapshot is not None:
            snapshot_id = staged.snapshot.snapshot_id
            return snapshot_id in table.metadata.snapshots_by_id or (run is not None and run.snapshot_id == snapshot_id)
        if run is not None:
            return True
        try:
            return not self.operation.stage(self.prepared, table).updates
        except (TerminalError, BadInputError):
            return False

    def _clean(self, *, keep: Iterable[str]) -> None:
        """Delete what was written and is not kept. Called only where the outcome is known."""
        if self.prepared is None:
            return
        kept = frozenset(keep)
        gone = [f for f in self.prepared.written if f not in kept]
        if gone:
            self.leftovers += [f.location for f in self.callers_table.io.delete_many(gone)]


def _check_same_table(callers: Table, current: Table) -> None:
    """Prevents a commit to another table that took the name meanwhile."""
    if callers.metadata.table_uuid != current.metadata.table_uuid:
        raise ValidationError(
            f"table {'.'.join(current.identifier)} is not the one this work was planned on: "
            f"its uuid is {current.metadata.table_uuid}, was {callers.metadata.table_uuid}"
        )


def _can_not_happen_any_more(table: Table, staged: StagedCommit) -> bool:
    """Another snapshot has the sequence number of one of ours: the swap was or will be refused.

    A branch that is somewhere else would not be enough: this may be an older state of the table. Nor would a number that is over
    and held by nobody: ours may have been there and have expired. In v1 snapshots have no numbers, so that nothing is ever sure.
    """
    taken = {s.sequence_number: s.snapshot_id for s in table.metadata.snapshots}
    mine = [update.snapshot for update in staged.updates if isinstance(update, AddSnapshot)]
    return any(s.sequence_number > 0 and taken.get(s.sequence_number, s.snapshot_id) != s.snapshot_id for s in mine)
