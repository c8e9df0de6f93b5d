"""The commits of others to a branch since an operation started, without those that were validated before.

For each snapshot only the manifests that it wrote itself are read. The walk goes from the branch's head back to the starting
snapshot. If it does not get there (expired, or rolled back past it), the commits in between are not known, and the call raises
ValidationError (Java: "Cannot determine history").

Another engine's manifests decide what it did, not what it says: which files were added and removed (``changed_entries``), and
whether an ``append`` or a ``delete`` is one. iceberg-go calls a copy-on-write delete ``delete``, although it adds files; versions
of iceberg-rust call a commit of delete files ``append``, and do not count them in its summary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from iceberg_ops.commit.protocol.changed_entries import Listed, ManifestTest, before, changed_entries, has, listed
from iceberg_ops.errors import FormerTypesError, IcebergOpsError, ValidationError
from iceberg_ops.io.locations import Identity, identity_under
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry
from iceberg_ops.spec.snapshots import Snapshot, SnapshotOperation
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import LastLists, Table

ADDS_DATA = frozenset({SnapshotOperation.APPEND.value, SnapshotOperation.OVERWRITE.value})
REMOVES_DATA = frozenset({SnapshotOperation.OVERWRITE.value, SnapshotOperation.REPLACE.value, SnapshotOperation.DELETE.value})
ADDS_DELETES = frozenset({SnapshotOperation.OVERWRITE.value, SnapshotOperation.DELETE.value})
REMOVES_ROWS = frozenset({SnapshotOperation.OVERWRITE.value, SnapshotOperation.DELETE.value})
"""Operations that remove data files together with their rows: a rewrite keeps the rows in other files."""
REPLACES = frozenset({SnapshotOperation.OVERWRITE.value, SnapshotOperation.REPLACE.value})
ANY_OPERATION = frozenset(SnapshotOperation(o).value for o in SnapshotOperation)

MOST_SEARCHED = 1000
"""The most snapshots that are read to find the commit that removed a file."""

Change = tuple[Snapshot, ManifestEntry]


def base_snapshot(metadata: TableMetadata, branch: str) -> Snapshot | None:
    """The snapshot that a commit to ``branch`` builds on: its head, or main's head for a new branch (like Java)."""
    return metadata.current_snapshot if metadata.ref(branch) is None else metadata.branch_head(branch)


class History:
    """The snapshots of ``branch`` after ``starting_snapshot_id`` (None: all of them), or after ``validated_id`` if an earlier
    attempt validated that head and it is still an ancestor. ``callers`` is the table as the operation's caller saw it: the
    operation's files were written with its schema and format version."""

    def __init__(
        self,
        table: Table,
        branch: str,
        starting_snapshot_id: int | None,
        validated_id: int | None = None,
        *,
        callers: TableMetadata,
    ) -> None:
        self.callers = callers
        self._table = table if table.lists is not None else replace(table, lists=LastLists())
        self._identity = identity_under(table.io)
        self._branch = branch
        self._starting_snapshot_id = starting_snapshot_id
        self._validated_id = validated_id
        self._known: dict[int, Listed] = {}

    @property
    def identity(self) -> Identity:
        """The identity function for locations of the table's files."""
        return self._identity

    @cached_property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """Oldest first. Raises ValidationError if the history is not known."""
        head = base_snapshot(self._table.metadata, self._branch)
        newest_first: list[Snapshot] = []
        last: Snapshot | None = None
        for snapshot in self._table.metadata.ancestors(None if head is None else head.snapshot_id):
            if snapshot.snapshot_id in (self._starting_snapshot_id, self._validated_id):
                return tuple(reversed(newest_first))
            newest_first.append(snapshot)
            last = snapshot
        if self._starting_snapshot_id is None and (last is None or last.parent_snapshot_id is None):
            return tuple(reversed(newest_first))
        raise ValidationError(
            f"Cannot determine history between starting snapshot {self._starting_snapshot_id} and the last known ancestor "
            f"{None if last is None else last.snapshot_id} of branch {self._branch}",
            snapshot_id=self._starting_snapshot_id,
        )

    @cached_property
    def _readable_snapshots(self) -> tuple[Snapshot, ...]:
        """The same. Raises FormerTypesError if the table now has columns of other types, because another engine replaced the table
        but not the branch: then no change of the snapshot can be compared."""
        metadata = self._table.metadata
        for snapshot in {s.schema_id: s for s in self.snapshots}.values():
            if not metadata.reads_columns_of(metadata.schema_of(snapshot)):
                raise FormerTypesError(
                    f"Cannot commit to branch {self._branch}: columns have other types now than when its snapshot "
                    f"{snapshot.snapshot_id} was made, because the table was replaced since",
                    snapshot_id=snapshot.snapshot_id,
                )
        return self.snapshots

    def no_other_line(self) -> None:
        """Prevents committing after a rollback moved the branch to another line of history: a statement did not see the rows that
        came back, and a delete that applied to nothing at the start may apply again. Raises ValidationError if the start is not in
        the branch's history."""
        if self._starting_snapshot_id is not None:
            self.snapshots  # noqa: B018 - raises

    def lost(self, snapshot_ids: Sequence[int]) -> int | None:
        """One of these snapshots that is no longer in the branch's history; None: all of them are in it."""
        if not snapshot_ids:
            return None
        head = base_snapshot(self._table.metadata, self._branch)
        line = {s.snapshot_id for s in self._table.metadata.ancestors(None if head is None else head.snapshot_id)}
        return next((i for i in snapshot_ids if i not in line), None)

    @property
    def start(self) -> Snapshot | None:
        """The starting snapshot; None if there was none or it is gone."""
        return self._table.metadata.snapshots_by_id.get(self._starting_snapshot_id or -1)

    def added_data(self, operations: frozenset[str], may_match: ManifestTest) -> Iterator[Change]:
        """Data files added by the window's snapshots of these operations."""
        return self._changes(operations, ManifestContent.DATA, EntryStatus.ADDED, may_match)

    def removed_data(self, operations: frozenset[str], may_match: ManifestTest) -> Iterator[Change]:
        """Data files removed by the window's snapshots of these operations."""
        return self._changes(operations, ManifestContent.DATA, EntryStatus.DELETED, may_match)

    def added_deletes(self, operations: frozenset[str], may_match: ManifestTest) -> Iterator[Change]:
        """Delete files and deletion vectors added by the window's snapshots of these operations."""
        return self._changes(operations, ManifestContent.DELETES, EntryStatus.ADDED, may_match)

    def effective_operation(self, snapshot: Snapshot) -> str:
        """The operation that a snapshot of the window counts as: an overwrite if it has no operation or one that the spec does not
        know, if it is an append that may remove data files or add deletes, or if it is a delete that may add data files."""
        operation, overwrite = snapshot.operation, SnapshotOperation.OVERWRITE.value
        if operation == SnapshotOperation.APPEND.value:
            return operation if self._only_adds_data(snapshot) else overwrite
        if operation == SnapshotOperation.DELETE.value:
            return overwrite if self._adds_data(snapshot) else operation
        return operation if operation in ANY_OPERATION else overwrite

    def _only_adds_data(self, snapshot: Snapshot) -> bool:
        listing = self._listed(snapshot)
        more = {ManifestContent.DATA: EntryStatus.DELETED, ManifestContent.DELETES: EntryStatus.ADDED}
        return len(listing.agrees) == len(ManifestContent) and not any(has(m, more[m.content]) for m in listing.wrote)

    def _adds_data(self, snapshot: Snapshot) -> bool:
        return any(m.content is ManifestContent.DATA and has(m, EntryStatus.ADDED) for m in self._listed(snapshot).wrote)

    def find_removal(self, location: str) -> Change | None:
        """The last removal of a data or delete file in the window; in a long window only the newest snapshots are searched. Raises
        ValidationError if the history is not known."""
        file_identity = self._identity(location)
        for snapshot in reversed(self.snapshots[-MOST_SEARCHED:]):
            for manifest in manifests_of(self._table, snapshot):
                if manifest.added_snapshot_id != snapshot.snapshot_id or not has(manifest, EntryStatus.DELETED):
                    continue
                for entry in entries_of(self._table, manifest):
                    if entry.status is EntryStatus.DELETED and self._identity(entry.data_file.file_path) == file_identity:
                        return snapshot, entry
        return None

    def _snapshots_with(self, operations: frozenset[str]) -> Iterator[Snapshot]:
        return (s for s in self._readable_snapshots if operations == ANY_OPERATION or self.effective_operation(s) in operations)

    def _listed(self, snapshot: Snapshot) -> Listed:
        """What the snapshot's manifest list shows, compared with its parent's."""
        if (known := self._known.get(snapshot.snapshot_id)) is None:
            old = before(self._table, snapshot)
            known = self._known[snapshot.snapshot_id] = listed(snapshot, old, manifests_of(self._table, snapshot))
        return known

    def _changes(
        self, operations: frozenset[str], content: ManifestContent, status: EntryStatus, may_match: ManifestTest
    ) -> Iterator[Change]:
        for snapshot in self._snapshots_with(operations):
            for entry in changed_entries(self._table, snapshot, self._listed(snapshot), content, status, may_match):
                yield snapshot, entry


def naming_the_remover(error: ValidationError, history: History) -> ValidationError:
    """A conflict about our files that are no longer live, with the commit that removed the first of them; the unchanged error if
    that commit is not known."""
    if error.snapshot_id is not None or not error.file_paths:
        return error
    try:
        removal = history.find_removal(error.file_paths[0])
    except IcebergOpsError:
        return error
    if removal is None:
        return error
    snapshot, entry = removal
    return conflict(f"{error}; {entry.data_file.file_path} was removed", snapshot, entry.data_file, error.file_paths)


def conflict(message: str, snapshot: Snapshot | None, f: DataFile, file_paths: tuple[str, ...] = ()) -> ValidationError:
    """A conflict about a file, with the snapshot that made it (None: it has expired)."""
    snapshot_id, operation = (None, None) if snapshot is None else (snapshot.snapshot_id, snapshot.operation)
    return ValidationError(
        f"{message} (snapshot {snapshot_id}, {operation}, partition {f.partition})",
        snapshot_id=snapshot_id,
        operation=operation,
        file_path=f.file_path,
        partition=str(f.partition),
        file_paths=file_paths,
    )
