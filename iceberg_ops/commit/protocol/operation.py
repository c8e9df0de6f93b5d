"""The protocol of an operation towards the committer, and the result of a commit.

An operation is a value: what to add and remove, on which branch, since which snapshot, under which run key. The committer calls
three methods: ``prepare`` once (files that do not depend on the attempt), then on every attempt ``validate`` (is it still correct,
given concurrent commits?) and ``stage`` (requirements and updates for the current table).

``starting_snapshot_id`` is the snapshot that the work was planned on; None means that the table had none, so that everything in its
history counts as concurrent. A ``run_key`` names one piece of work in all its retries, in any process: at most one commit of an
action on a branch carries it (``run_keys``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from iceberg_ops.commit.protocol.history import History
from iceberg_ops.commit.protocol.run_keys import ACTION, MADE_UP, WORK, RunIdentity, ledger_entries, not_committed_yet
from iceberg_ops.spec.requirements import AssertRefSnapshotId, AssertSameRef, AssertTableUUID, TableRequirement
from iceberg_ops.spec.snapshots import MAIN_BRANCH, Snapshot, SnapshotRef
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.updates import RemoveSnapshotRef, SetProperties, SetSnapshotRef, TableUpdate
from iceberg_ops.table.table import Table


class Prepared(Protocol):
    """What an operation keeps between attempts. ``written`` lists every file that any attempt has written."""

    @property
    def written(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedCommit:
    """One attempt. ``snapshot`` is the new snapshot, if there is one; ``referenced`` are the written files that a success keeps.
    Without updates there is nothing to do."""

    requirements: tuple[TableRequirement, ...] = ()
    updates: tuple[TableUpdate, ...] = ()
    snapshot: Snapshot | None = None
    referenced: frozenset[str] = frozenset()
    unused: frozenset[str] = frozenset()
    """Files given by the caller that this attempt does not use."""


class Operation(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def branch(self) -> str: ...
    @property
    def run_key(self) -> str | None: ...
    @property
    def run(self) -> RunIdentity | None: ...
    @property
    def starting_snapshot_id(self) -> int | None: ...
    @property
    def summary(self) -> Mapping[str, str]: ...
    @property
    def property_changes(self) -> Mapping[str, str | None]:
        """Table properties that the operation sets, or removes (None)."""
        ...

    def prepare(self, table: Table) -> Any:
        """Called once, with the table as the caller saw it. Returns the operation's ``Prepared``."""
        ...

    def validate(self, table: Table, history: History) -> None:
        """Raise ValidationError if a concurrent change makes this commit wrong. ``history`` shows only changes that are not yet
        validated."""
        ...

    def stage(self, prepared: Any, table: Table) -> StagedCommit:
        """The attempt's files, requirements and updates, for the current table."""
        ...

    def in_force(self, prepared: Any, table: Table) -> bool:
        """Whether the current table already has the change of an operation without a snapshot."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The result of an operation.

    ``snapshot`` is the one it made, now or (``already_committed``) earlier under the same run key; None for an operation that makes
    none. ``leftovers`` are files of losing attempts that could not be deleted, for the orphan job. ``unused`` are files that the
    caller wrote for the operation and that it did not use: the caller deletes them (``staged_files.commit_staged`` does)."""

    table: Table
    snapshot: Snapshot | None
    attempts: int
    already_committed: bool = False
    leftovers: tuple[str, ...] = ()
    unused: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class OperationFields:
    """The fields that all operations share."""

    branch: str = MAIN_BRANCH
    run_key: str | None = None
    starting_snapshot_id: int | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    staged: bool = False
    name: str = ""

    def stage(self, prepared: Any, table: Table) -> StagedCommit:
        """See ``Operation``."""
        raise NotImplementedError

    @property
    def run(self) -> RunIdentity | None:
        """The run key with the work under it; None without a key."""
        if self.run_key is None:
            return None
        action, work = self.summary.get(ACTION, self.name), self.summary.get(WORK)
        return RunIdentity(
            key=self.run_key, action=action, branch=self.branch, staged=self.staged, work=work, made_up=MADE_UP in self.summary
        )

    @property
    def property_changes(self) -> Mapping[str, str | None]:
        """See ``Operation``."""
        return {}

    def in_force(self, prepared: Any, table: Table) -> bool:
        """Staging a change that is already in force gives no updates."""
        return not self.stage(prepared, table).updates


@dataclass(frozen=True, slots=True)
class CallersView:
    """``Prepared`` of operations that change metadata only: the table's metadata as the caller saw it."""

    metadata: TableMetadata
    written: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MetadataOperation(OperationFields):
    """Base of operations that make no snapshot: they write no files, and by default validate nothing.

    Staging one on a table where it is already in force gives no updates; this resolves a lost answer."""

    def prepare(self, table: Table) -> CallersView:
        return CallersView(table.metadata)

    def validate(self, table: Table, history: History) -> None:
        return None


def staged_updates(
    metadata: TableMetadata,
    *updates: TableUpdate,
    requirements: tuple[TableRequirement, ...] = (),
    run: RunIdentity | None = None,
) -> StagedCommit:
    """A commit of metadata updates on a table that must still be the same one; empty without updates. A ``run`` goes into the
    ledger."""
    if not updates:
        return StagedCommit()
    entered = {} if run is None else ledger_entries({run: None}, time.time_ns() // 1_000_000)
    more = [SetProperties(entered)] if entered else []
    needed = (AssertTableUUID(metadata.table_uuid), *requirements, *not_committed_yet(run, metadata))
    return StagedCommit(requirements=needed, updates=(*updates, *more))


def still_there(snapshot_id: int) -> tuple[TableUpdate, ...]:
    """Prevents a commit that names a snapshot which expired after it was read: setting and removing a tag on it is refused then."""
    name = f"iceberg-ops-needed-{snapshot_id}"
    return SetSnapshotRef(name, SnapshotRef(snapshot_id=snapshot_id, type="tag")), RemoveSnapshotRef(name)


def ref_as_seen(metadata: TableMetadata, name: str) -> tuple[TableRequirement, ...]:
    """For a commit that changes this ref: no other commit has moved it, or changed its kind or its retention."""
    ref = metadata.ref(name)
    asked = AssertRefSnapshotId(name, None if ref is None else ref.snapshot_id)
    return (asked,) if ref is None else (asked, AssertSameRef(name, ref))
