"""The one loop that commits: refresh, look for an earlier success, validate, stage, swap; repeated until it succeeds or gives up.

1. A snapshot that carries our run key means that the commit has already succeeded (a lost answer, a retried task, a double submit):
   it is returned. The same holds for a snapshot of one of our own swaps, whatever the catalog's answer was.
2. Only snapshots that no earlier attempt validated are validated. After a refused swap, the loop loads the table again once its
   commit is staged, and validates and stages the commits in between, to any branch, until there are none: then the swap follows at
   once. Otherwise a slow committer that waited for its turn would have more to validate and stage each time, and would always be
   late.
3. After a refused swap the loop starts again on fresh metadata, with jitter and under a time budget (``retry``). The same happens
   if an attempt did not find a file or a snapshot and the table has moved on since it was loaded: an expiry may have removed it
   correctly, and only the operation can decide what that means.
4. An unknown outcome is looked up by snapshot id and run key, in the same table: another table of its name proves nothing, nor does
   a copy of the table. So each load is compared with the latest known state (``table.same_table``). The swap counts as failed only
   if the branch has moved on without us, so that our swap cannot succeed any more, and no other name of the catalog has our
   snapshot (a table that was registered twice and whose names were exchanged). As long as the swap may still succeed, nothing is
   swapped again and nothing is deleted. From the call of the swap until its answer is handled, every exception is an unknown
   outcome: an interrupt, a lack of memory, an error of the look-up.
5. Files of losing attempts are deleted at the end, by the gate (``iceberg_ops.deletion``), which proves that the table does not
   refer to them."""

from __future__ import annotations

import logging
import random as random_module
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.neighbours import is_under_another_name
from iceberg_ops.catalog.outcomes import reason
from iceberg_ops.commit.protocol.history import History, base_snapshot, naming_the_remover
from iceberg_ops.commit.protocol.ledger import ledger_entry
from iceberg_ops.commit.protocol.operation import Committed, Operation, StagedCommit
from iceberg_ops.commit.protocol.retry import RetryPolicy
from iceberg_ops.commit.protocol.run_keys import RunIdentity, find_run
from iceberg_ops.deletion.gate import discard_staged, is_older
from iceberg_ops.errors import (
    BadInputError,
    CommitFailedError,
    CommitInterruptedError,
    CommitStateUnknownError,
    CorruptTableError,
    NoSuchSnapshotError,
    RetryableError,
    TerminalError,
    ValidationError,
)
from iceberg_ops.spec.updates import AddSnapshot, SetProperties
from iceberg_ops.table.same_table import difference
from iceberg_ops.table.table import LastLists, Table

log = logging.getLogger(__name__)

MOST_LOOKS = 4
"""Each reload has fewer snapshots to validate and stage than the one before, unless they are committed faster than they can be
read."""


def commit(
    catalog: Catalog,
    table: Table,
    operation: Operation,
    *,
    just_loaded: bool = False,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    random: Callable[[], float] = random_module.random,
    before_swap: Callable[[], None] = lambda: None,
    on_commit: Callable[[Committed], object] = lambda _: None,
) -> Committed:
    """Commit ``operation`` to the table; ``table`` is the table as the caller saw it. ``clock`` gives seconds. ``just_loaded``: the
    caller has just loaded it, so the first attempt does not load it again (and is refused if it is no longer current).
    ``before_swap`` is called before each swap, and raises if the swap must not be tried. ``on_commit`` receives the result before
    an interrupt stops being an unknown outcome, so a later interrupt finds the commit recorded.

    Raises ValidationError (a conflict: nothing was committed), CommitFailedError and CatalogUnavailableError (gave up: nothing was
    committed), CommitStateUnknownError (it may have been committed: nothing was deleted; of a Ctrl-C CommitInterruptedError),
    BadInputError.

    After CommitStateUnknownError the same operation, with the same files, may be committed again under the same run key: if the
    first commit happened, it is found. This does not hold without a key. Nor does it hold for a ``staged`` operation once an expiry
    may have removed its unpublished snapshot: the expiry deletes its files and forgets its key, because its work is undone. Then
    write the files again: no commit checks that the files it adds exist.
    """
    return _Loop(catalog, table, operation, sleep, clock, random, just_loaded, before_swap, on_commit).run()


@dataclass
class _Loop:
    catalog: Catalog
    callers_table: Table
    operation: Operation
    sleep: Callable[[float], None]
    clock: Callable[[], float]
    random: Callable[[], float]
    just_loaded: bool = False
    before_swap: Callable[[], None] = lambda: None
    on_commit: Callable[[Committed], object] = lambda _: None
    seen: Table | None = None
    latest: Table | None = None
    """The latest known state of the table; None: the caller's."""
    prepared: Any = None
    attempts: int = 0
    validated_id: int | None = None
    lists: LastLists = field(default_factory=LastLists)
    leftovers: list[str] = field(default_factory=list)
    swapped: list[StagedCommit] = field(default_factory=list)
    in_doubt: bool = False
    """A swap was tried, and its answer is not handled yet."""

    def run(self) -> Committed:
        try:
            committed = self._until_done()
            self.on_commit(committed)
        except BaseException as e:
            is_unknown = isinstance(e, CommitStateUnknownError)
            if self.in_doubt and (_is_interrupt(e) or not is_unknown):
                raise self._interrupted(e) from e
            if not is_unknown:
                self._clean(keep=(), after=e)
            raise
        return committed

    def _until_done(self) -> Committed:
        policy = RetryPolicy.of(self._properties)
        started = self.clock()
        failures = 0
        while True:
            try:
                return self._attempt()
            except (RetryableError, CorruptTableError, NoSuchSnapshotError) as e:
                if not isinstance(e, RetryableError) and not self._is_outdated():
                    raise
                failures += 1
                wait = policy.wait_seconds(failures, self.clock() - started, self.random)
                if wait is None:
                    raise
                log.info("%s on %s, attempt %d: %s; next in %.2f s", self.operation.name, self._name, failures, e, wait)
                self.sleep(wait)

    @property
    def _properties(self) -> Mapping[str, str]:
        """The table's properties after the operation: so an invalid retry property does not prevent the commit that removes it."""
        changed = {**self.callers_table.properties, **self.operation.property_changes}
        return {name: value for name, value in changed.items() if value is not None}

    @property
    def _name(self) -> str:
        return ".".join(self.callers_table.identifier)

    def _attempt(self) -> Committed:
        table = self.callers_table if self.just_loaded else self._load()
        self.seen, self.just_loaded = table, False
        self._check_same_table(table)
        if (done := self._earlier_success(table)) is not None:
            return done
        self.attempts += 1
        if self.prepared is None:
            self.prepared = self.operation.prepare(self.callers_table)
        try:
            staged = self._validated(table)
            for _ in range(MOST_LOOKS if self.attempts > 1 and staged.updates else 0):
                now = self._load()
                if self._is_as_staged(now, table):
                    break
                self._check_same_table(now)
                if (done := self._earlier_success(now)) is not None:
                    return done
                table = now
                staged = self._validated(table)
        except ValidationError as e:
            raise naming_the_remover(e, self._history(table)) from e.__cause__
        if not staged.updates:
            self._clean(keep=())
            return self._committed(table, staged)
        self.before_swap()
        return self._swap(table, staged)

    def _load(self) -> Table:
        self.seen = self.catalog.load_table(self.callers_table.identifier[1:])
        return self.seen

    def _is_outdated(self) -> bool:
        """Whether the missing files may have been deleted because the table has moved on since it was loaded."""
        seen = self.seen
        if self.in_doubt or seen is None:
            return False
        try:
            return self._load().metadata_location != seen.metadata_location
        except RetryableError:
            return True  # The next attempt loads it again.

    def _validated(self, table: Table) -> StagedCommit:
        """What to swap in; validation and staging share the manifest lists that they read."""
        near = replace(table, lists=self.lists)
        self.operation.validate(near, self._history(near, self.validated_id))
        self.validated_id = self._head_id(table)
        return self.operation.stage(self.prepared, near)

    def _is_as_staged(self, now: Table, table: Table) -> bool:
        """Whether a commit that was staged on ``table`` still fits. A snapshot of another branch, or a staged one, takes the
        sequence number of ours."""
        numbers = {t.metadata.last_sequence_number for t in (now, table)}
        return self._head_id(now) == self.validated_id and len(numbers) == 1

    def _history(self, table: Table, validated_id: int | None = None) -> History:
        operation, callers = self.operation, self.callers_table.metadata
        return History(table, operation.branch, operation.starting_snapshot_id, validated_id, callers=callers)

    def _head_id(self, table: Table) -> int | None:
        head = base_snapshot(table.metadata, self.operation.branch)
        return None if head is None else head.snapshot_id

    def _swap(self, table: Table, staged: StagedCommit) -> Committed:
        self.swapped.append(staged)
        self.in_doubt = True
        try:
            committed = self.catalog.commit_table(table, staged.requirements, staged.updates)
        except (RetryableError, TerminalError, BadInputError):
            self.in_doubt = False
            raise
        except Exception as e:  # the catalog's contract has no other refusal: the swap may have happened
            if _is_interrupt(e):
                raise
            return self._resolve(staged, e)
        return self._succeeded(committed, staged)

    def _succeeded(self, table: Table, staged: StagedCommit) -> Committed:
        self.in_doubt = True  # An exception from here on must not be taken for a refusal.
        self.latest = table
        self._clean(keep=staged.referenced)
        return self._committed(table, staged)

    def _committed(self, table: Table, staged: StagedCommit) -> Committed:
        return Committed(
            table=table,
            snapshot=staged.snapshot,
            attempts=self.attempts,
            leftovers=tuple(self.leftovers),
            unused=staged.unused,
        )

    def _earlier_success(self, table: Table) -> Committed | None:
        for staged in self.swapped:
            if self._is_in(table, staged):
                # A swap of ours that was reported as refused did happen: its files are live.
                return self._succeeded(table, staged)
        run = find_run(table, self.operation.run)
        if run is None:
            return None
        self._clean(keep=())
        return Committed(
            table=table,
            snapshot=run.snapshot,
            attempts=self.attempts,
            already_committed=True,
            leftovers=tuple(self.leftovers),
        )

    def _resolve(self, staged: StagedCommit, unknown: Exception) -> Committed:
        """Find out whether an unanswered swap happened. Raises CommitFailedError if it certainly did not."""
        policy, started, seen = RetryPolicy.of_status_checks(self._properties), self.clock(), ""
        for check in count(1):
            try:
                table = self._load()
                self._check_same_table(table)
                is_in = self._is_in(table, staged)
                is_out = not is_in and self._is_out(table, staged)
            except Exception as e:  # noqa: BLE001 - a look that fails proves nothing
                log.warning("status check %d of %s: %s", check, self._name, e)
                is_in, is_out, seen = False, False, f"; the last one: {e}"
            else:
                seen = ""
            if is_in:
                return self._succeeded(table, staged)
            if is_out:
                self.in_doubt = False
                raise CommitFailedError(
                    f"{self.operation.name} on {self._name} got no answer and was not committed: {unknown}"
                ) from unknown
            wait = policy.wait_seconds(check, self.clock() - started, lambda: 1.0)
            if wait is None:
                break
            self.sleep(wait)
        raise CommitStateUnknownError(
            f"{self.operation.name} on {self._name}: the outcome is unknown after {check} checks ({unknown}{seen}); it was "
            f"committed if {_what(staged)} is in the table of uuid {self.callers_table.metadata.table_uuid}; nothing was deleted"
        ) from unknown

    def _interrupted(self, e: BaseException) -> CommitStateUnknownError:
        """The unknown outcome of an exception between a swap and its answer. It reports the result of one more load of the table. A
        second interrupt ends that load, and the outcome stays unknown."""
        staged, outcome = self.swapped[-1], "it was committed if {} is in the table"
        try:
            table = self._load()
            self._check_same_table(table)
            if self._is_in(table, staged):
                outcome = "it was committed: {} is in the table"
        except (Exception, KeyboardInterrupt, SystemExit) as look:  # noqa: BLE001 - a look that fails proves nothing
            log.warning("status check of %s: %s", self._name, reason(look))
            if isinstance(look, KeyboardInterrupt):
                e = look
        cause = _cause(e)
        why = " ".join(f"{type(cause).__name__} {cause}".split())
        message = (
            f"{self.operation.name} on {self._name} was interrupted by {why}: {outcome.format(_what(staged))}; nothing was deleted"
        )
        return CommitInterruptedError(message) if isinstance(e, KeyboardInterrupt) else CommitStateUnknownError(message)

    def _is_in(self, table: Table, staged: StagedCommit) -> bool:
        """Whether the table contains the change of ``staged``."""
        if staged.snapshot is not None:
            run = find_run(table, self.operation.run)
            known = table.metadata.snapshots_by_id.get(staged.snapshot.snapshot_id)
            if known is not None:
                return known.manifest_list == staged.snapshot.manifest_list
            return run is not None and run.snapshot_id == staged.snapshot.snapshot_id
        if find_run(table, self.operation.run) is not None:
            return not _is_anothers(table, staged, self.operation.run)
        try:
            return self.operation.in_force(self.prepared, table)
        except (TerminalError, BadInputError):
            return False

    def _is_out(self, table: Table, staged: StagedCommit) -> bool:
        """Whether the swap certainly did not happen, and never will."""
        if not (_can_not_happen_any_more(table, staged) or _is_anothers(table, staged, self.operation.run)):
            return False
        mine = {update.snapshot.snapshot_id for update in staged.updates if isinstance(update, AddSnapshot)}

        def has_mine(other: Table) -> bool:
            return not mine.isdisjoint(other.metadata.snapshots_by_id)

        return not (mine and is_under_another_name(self.catalog, table, has_mine))

    def _clean(self, *, keep: Iterable[str], after: BaseException | None = None) -> None:
        """Delete the written files that are not kept; files that the gate keeps are left for remove_orphan_files."""
        if self.prepared is None:
            return
        kept = frozenset(keep)
        gone = [f for f in self.prepared.written if f not in kept]
        self.leftovers += discard_staged(self.callers_table, self._load, gone, after=after, seen=self.latest).left

    def _check_same_table(self, now: Table) -> None:
        """Prevents a commit to, or a look-up in, another table that has taken the name since."""
        latest = self.latest or self.callers_table
        if (why := difference(latest, now)) is not None:
            raise ValidationError(f"table {'.'.join(now.identifier)} is not the one this work was planned on: {why}")
        if not is_older(now, latest):
            self.latest = now


def _is_anothers(table: Table, staged: StagedCommit, run: RunIdentity | None) -> bool:
    """Whether another process with the run key certainly made the change of a swap that requires that no process has. Without a
    snapshot only the ledger's entry, which has its creation time, distinguishes the two."""
    if run is None or staged.snapshot is not None:
        return False
    names = set(run.ledger_names)
    entries = {
        n: v for update in staged.updates if isinstance(update, SetProperties) for n, v in update.updates.items() if n in names
    }
    return any(ledger_entry(table, name) not in (None, entry) for name, entry in entries.items())


def _is_interrupt(e: BaseException) -> bool:
    """Whether the process was asked to end, also if the catalog reports the interrupt as an unknown outcome: then status checks are
    skipped."""
    return isinstance(e, KeyboardInterrupt) or not isinstance(_cause(e), Exception)


def _cause(e: BaseException) -> BaseException:
    """The exception that interrupted a swap, if the catalog wrapped it in an unknown outcome."""
    return e.__cause__ if isinstance(e, CommitStateUnknownError) and e.__cause__ is not None else e


def _what(staged: StagedCommit) -> str:
    return f"snapshot {staged.snapshot.snapshot_id}" if staged.snapshot is not None else "the change"


def _can_not_happen_any_more(table: Table, staged: StagedCommit) -> bool:
    """Another snapshot has the sequence number of one of ours: the swap was or will be refused.

    A moved branch is not enough: this may be an older state of the table. Nor is a passed number that no snapshot has: our snapshot
    may have been there and have expired. In v1 snapshots have no numbers, so the result is always False.
    """
    taken = {s.sequence_number: s.snapshot_id for s in table.metadata.snapshots}
    mine = [update.snapshot for update in staged.updates if isinstance(update, AddSnapshot)]
    return any(s.sequence_number > 0 and taken.get(s.sequence_number, s.snapshot_id) != s.snapshot_id for s in mine)
