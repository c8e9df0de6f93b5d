"""Branches and tags: create, replace, remove, rename, fast-forward, retention; and the position of main (Java: ManageSnapshots).

Each operation is re-applied to the current table, and requires that the ref is unchanged since it was read, so that no concurrent
commit or change of retention is lost unnoticed. An operation that follows another ref requires that one too: if it were rolled back
between the read and the swap, the branch would get the rows that were just rolled back. An operation that moves an existing branch,
or main, requires the schema that its rows were compared with. A ref that was removed since the caller saw it is not created again.
RollBack and SetCurrentSnapshot undo every commit until then; that is their purpose.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from iceberg_ops.commit.protocol.operation import CallersView, MetadataOperation, StagedCommit, ref_as_seen, staged_updates
from iceberg_ops.commit.protocol.run_keys import RunIdentity, entries_of_moving
from iceberg_ops.commit.validation.schema_conflicts import former_rows
from iceberg_ops.errors import (
    AlreadyExistsError,
    BadInputError,
    FormerTypesError,
    NoSuchSnapshotError,
    NotAncestorError,
    ValidationError,
)
from iceberg_ops.spec.requirements import AssertCurrentSchemaId, AssertRefSnapshotId
from iceberg_ops.spec.snapshots import MAIN_BRANCH, SnapshotRef
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.updates import RemoveSnapshotRef, SetProperties, SetSnapshotRef, TableUpdate
from iceberg_ops.table.table import Table


class _OfRef(MetadataOperation):
    """An operation on a ref: its run key counts for that ref, not for the branch of the commit."""

    ref: str

    @property
    def run(self) -> RunIdentity | None:
        run = super().run
        return None if run is None else replace(run, branch=self.ref)


@dataclass(frozen=True, kw_only=True)
class SetRef(_OfRef):
    """Create a branch or tag (``type``) at ``snapshot_id``, or with ``replace_existing`` move it there. None: an existing ref keeps
    its current snapshot (only its retention is set), a new one starts at main's head.

    Retention fields that are None keep the values of an existing ref. An existing ref with the same values is not changed. A ref
    that another process has moved since the caller saw it is not moved: it would lose a commit that the caller does not know. Then
    ValidationError is raised."""

    ref: str
    snapshot_id: int | None = None
    type: str = "branch"
    replace_existing: bool = False
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None
    name: str = "set_ref"

    def stage(self, prepared: CallersView, table: Table) -> StagedCommit:
        metadata = table.metadata
        current = metadata.ref(self.ref)
        _forbid_removed(prepared, table, self.ref)
        place = self._place(table, current)
        new_ref = replace(
            SnapshotRef(snapshot_id=place, type=self.type) if current is None else current,
            snapshot_id=place,
            **{
                k: v
                for k in ("min_snapshots_to_keep", "max_snapshot_age_ms", "max_ref_age_ms")
                if (v := getattr(self, k)) is not None
            },
        )
        if current is not None:
            _check_kind(table, self.ref, current, self.type)
            if current != new_ref and not self.replace_existing:
                raise AlreadyExistsError(f"ref {self.ref} already exists in table {table.name} at snapshot {current.snapshot_id}")
            if place != current.snapshot_id:
                _forbid_moved(prepared, table, current, self.ref)
        return _set(table, self.ref, current, new_ref, self.run)

    def _place(self, table: Table, current: SnapshotRef | None) -> int:
        if self.snapshot_id is not None:
            return table.metadata.snapshot(self.snapshot_id).snapshot_id
        if current is not None:
            return current.snapshot_id
        if (head := table.metadata.current_snapshot) is None:
            raise NoSuchSnapshotError(f"table {table.name} has no snapshot yet")
        return head.snapshot_id


@dataclass(frozen=True, kw_only=True)
class RemoveRef(_OfRef):
    """Remove a branch or tag; its snapshots stay until they expire. ``type`` branch or tag: only if the ref has this type."""

    ref: str
    type: str | None = None
    name: str = "remove_ref"

    def stage(self, prepared: CallersView, table: Table) -> StagedCommit:
        current = table.metadata.ref(self.ref)
        if self.ref == MAIN_BRANCH:
            raise BadInputError(f"main of table {table.name} cannot be removed")
        if current is None:
            if prepared.metadata.ref(self.ref) is not None:
                return StagedCommit()
            raise NoSuchSnapshotError(f"table {table.name} has no ref {self.ref}")
        if self.type is not None:
            _check_kind(table, self.ref, current, self.type)
        requirement = AssertRefSnapshotId(self.ref, current.snapshot_id)
        return staged_updates(table.metadata, RemoveSnapshotRef(self.ref), requirements=(requirement,), run=self.run)


@dataclass(frozen=True, kw_only=True)
class RenameBranch(MetadataOperation):
    old: str
    new: str
    name: str = "rename_branch"

    @property
    def run(self) -> RunIdentity | None:
        run = super().run
        return None if run is None else replace(run, branch=f"{_coded(self.old)} to {_coded(self.new)}")

    def stage(self, prepared: CallersView, table: Table) -> StagedCommit:
        metadata = table.metadata
        current, taken = metadata.ref(self.old), metadata.ref(self.new)
        if self.old == MAIN_BRANCH:
            raise BadInputError(f"main of table {table.name} cannot be renamed")
        if current is None and taken is not None and taken == prepared.metadata.ref(self.old):
            return StagedCommit()
        if current is None:
            raise NoSuchSnapshotError(f"table {table.name} has no ref {self.old}")
        _check_kind(table, self.old, current, "branch")
        if taken is not None:
            raise AlreadyExistsError(f"ref {self.new} already exists in table {table.name}")
        requirements = (*ref_as_seen(metadata, self.old), *ref_as_seen(metadata, self.new))
        if self.new == MAIN_BRANCH:
            _forbid_former_columns(table, self.new, None, current.snapshot_id)
            requirements = (*requirements, AssertCurrentSchemaId(metadata.current_schema_id))
        updates = (RemoveSnapshotRef(self.old), SetSnapshotRef(self.new, current))
        return staged_updates(metadata, *updates, requirements=requirements, run=self.run)


@dataclass(frozen=True, kw_only=True)
class FastForward(MetadataOperation):
    """Move ``branch`` to the head of ``to``, of which its own head must be an ancestor; a missing branch is created."""

    to: str
    name: str = "fast_forward"

    def stage(self, prepared: CallersView, table: Table) -> StagedCommit:
        metadata = table.metadata
        target = metadata.ref(self.to)
        if target is None:
            raise NoSuchSnapshotError(f"table {table.name} has no ref {self.to}")
        head = metadata.ref(self.branch)
        _forbid_removed(prepared, table, self.branch)
        if head is None:
            return _set(table, self.branch, None, SnapshotRef(snapshot_id=target.snapshot_id), self.run, follows=self.to)
        if not head.is_branch:
            raise BadInputError(f"{self.branch} of table {table.name} is a tag: only a branch can be fast-forwarded")
        if not _is_ancestor(metadata, head.snapshot_id, target.snapshot_id):
            raise NotAncestorError(
                f"Cannot fast-forward: {self.branch} ({head.snapshot_id}) is not an ancestor of {self.to} ({target.snapshot_id})",
                snapshot_id=head.snapshot_id,
            )
        moved = replace(head, snapshot_id=target.snapshot_id)
        return _set(table, self.branch, head, moved, self.run, follows=self.to)


@dataclass(frozen=True, kw_only=True)
class SetCurrentSnapshot(MetadataOperation):
    """Move ``branch`` to any snapshot of the table, or to the snapshot of ``ref``."""

    snapshot_id: int | None = None
    ref: str | None = None
    name: str = "set_current_snapshot"

    def stage(self, prepared: CallersView, table: Table) -> StagedCommit:
        metadata = table.metadata
        if (self.snapshot_id is None) == (self.ref is None):
            raise BadInputError("set current snapshot needs either a snapshot id or a ref")
        target = self.snapshot_id
        if self.ref is not None:
            pointed = metadata.ref(self.ref)
            if pointed is None:
                raise NoSuchSnapshotError(f"table {table.name} has no ref {self.ref}")
            target = pointed.snapshot_id
        _forbid_removed(prepared, table, self.branch)
        return _move(table, self.branch, metadata.snapshot(target or 0).snapshot_id, self.run, follows=self.ref)


@dataclass(frozen=True, kw_only=True)
class RollBack(MetadataOperation):
    """Move ``branch`` back to an ancestor of its head: ``snapshot_id``, or the latest one before ``timestamp_ms``."""

    snapshot_id: int | None = None
    timestamp_ms: int | None = None
    name: str = "rollback"

    def stage(self, prepared: CallersView, table: Table) -> StagedCommit:
        metadata = table.metadata
        head = metadata.branch_head(self.branch)
        if (self.snapshot_id is None) == (self.timestamp_ms is None) or head is None:
            raise BadInputError(f"rollback of {self.branch} needs either a snapshot id or a time, and a branch with snapshots")
        if self.snapshot_id is not None:
            target = metadata.snapshot(self.snapshot_id).snapshot_id
            if not _is_ancestor(metadata, target, head.snapshot_id):
                raise NotAncestorError(
                    f"Cannot roll back to snapshot, not an ancestor of the current state: {target}", snapshot_id=target
                )
        else:
            before = (s for s in metadata.ancestors(head.snapshot_id) if s.timestamp_ms < (self.timestamp_ms or 0))
            ancestor = next(before, None)
            if ancestor is None:
                raise NoSuchSnapshotError(f"Cannot roll back, no valid snapshot older than {self.timestamp_ms} on {self.branch}")
            target = ancestor.snapshot_id
        return _move(table, self.branch, target, self.run)


def _coded(name: str) -> str:
    """The name of a branch as one word: names may contain spaces, and two different renames must not have the same text."""
    return name.replace("%", "%25").replace(" ", "%20")


def _move(table: Table, branch: str, snapshot_id: int, run: RunIdentity | None, follows: str | None = None) -> StagedCommit:
    head = table.metadata.ref(branch)
    if head is not None and not head.is_branch:
        raise BadInputError(f"{branch} of table {table.name} is a tag: tags never move")
    new_ref = SnapshotRef(snapshot_id=snapshot_id) if head is None else replace(head, snapshot_id=snapshot_id)
    return _set(table, branch, head, new_ref, run, follows=follows)


def _set(
    table: Table,
    name: str,
    current: SnapshotRef | None,
    new_ref: SnapshotRef,
    run: RunIdentity | None,
    follows: str | None = None,
) -> StagedCommit:
    """``follows``: the ref that ``wanted`` was read from; it must not have moved."""
    metadata = table.metadata
    if current == new_ref:
        return StagedCommit()
    requirements = list(ref_as_seen(metadata, name))
    is_moved = name == MAIN_BRANCH if current is None else current.snapshot_id != new_ref.snapshot_id
    if new_ref.is_branch and is_moved:
        _forbid_former_columns(table, name, current, new_ref.snapshot_id)
        requirements.append(AssertCurrentSchemaId(metadata.current_schema_id))
    if follows is not None:
        requirements.append(AssertRefSnapshotId(follows, new_ref.snapshot_id))
    updates: list[TableUpdate] = [SetSnapshotRef(name, new_ref)]
    if new_ref.is_branch:
        entries = entries_of_moving(metadata, name, None if current is None else current.snapshot_id, new_ref.snapshot_id)
        updates += [SetProperties(entries)] if entries else []
    return staged_updates(metadata, *updates, requirements=tuple(requirements), run=run)


def _forbid_removed(prepared: CallersView, table: Table, name: str) -> None:
    """Prevents creating a ref again that was removed, or renamed, after the caller had seen it."""
    if prepared.metadata.ref(name) is not None and table.metadata.ref(name) is None:
        raise ValidationError(f"ref {name} of table {table.name} was removed or renamed since it was read: nothing was changed")


def _forbid_moved(prepared: CallersView, table: Table, current: SnapshotRef, name: str) -> None:
    """Prevents removing a commit from a branch that was made after the caller had read the branch."""
    seen = prepared.metadata.ref(name)
    if seen is None or seen.snapshot_id != current.snapshot_id:
        was = "was not there" if seen is None else f"was at snapshot {seen.snapshot_id}"
        raise ValidationError(
            f"ref {name} of table {table.name} {was} when it was read, and is now at snapshot {current.snapshot_id}: nothing was "
            "changed; check it, and move it if that is still correct",
            snapshot_id=current.snapshot_id,
        )


def _forbid_former_columns(table: Table, name: str, current: SnapshotRef | None, snapshot_id: int) -> None:
    """Prevents a branch whose rows cannot be read, or are read wrongly: another engine has replaced the table since they were
    written, and branches are read with the table's columns (``schema_conflicts``). Rows that are already in the branch's history
    do not count."""
    metadata = table.metadata
    line = {s.snapshot_id for s in metadata.ancestors(None if current is None else current.snapshot_id)}
    if former := former_rows(table, metadata.snapshot(snapshot_id), line):
        made, why = former
        which = "it" if made == snapshot_id else f"snapshot {made}, from which it has rows,"
        advice = "read that one by its id, and write its rows again"
        if made not in metadata.snapshots_by_id:
            which, advice = f"snapshot {made}, from which it has rows and which has expired,", "write its rows again"
        raise FormerTypesError(
            f"Cannot move branch {name} to snapshot {snapshot_id}: {why} when {which} was made; {advice}", snapshot_id=snapshot_id
        )


def _is_ancestor(metadata: TableMetadata, ancestor_id: int, snapshot_id: int) -> bool:
    return any(s.snapshot_id == ancestor_id for s in metadata.ancestors(snapshot_id))


def _check_kind(table: Table, name: str, current: SnapshotRef, expected_type: str) -> None:
    """Prevents taking a branch for a tag of the same name, or a tag for a branch."""
    if current.type != expected_type:
        raise BadInputError(f"ref {name} of table {table.name} is a {current.type}, not a {expected_type}")
