"""Applies one snapshot's changes to a branch again (Java: CherryPickOperation), and publishes a staged one (WAP).

An append is re-applied; so is a dynamic partition overwrite, as long as no commit added files to its partitions since its parent.
Neither may have added deletes, nor an append have removed files, whatever another engine calls its commit.
Any other snapshot is picked only if the branch can be fast-forwarded to it. Nothing is applied twice: not a snapshot that is
already an ancestor, not one that was picked, not a WAP id that was published.

The picked snapshot must still be in the table when the commit takes effect: if it expired between reading it and the swap, its
files would be deleted as unreachable. The catalog has no requirement for this, so the commit sets a tag to the snapshot and removes
that tag again; the catalog refuses this if the snapshot is not in the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iceberg_ops.commit.manifests.removals import PartitionPruning, Removals
from iceberg_ops.commit.manifests.snapshot_draft import Changes, NewFile, SnapshotDraft
from iceberg_ops.commit.manifests.snapshot_operation import SnapshotOperationFields
from iceberg_ops.commit.operations.replace_partitions import REPLACE_PARTITIONS
from iceberg_ops.commit.protocol.changed_entries import snapshot_changes
from iceberg_ops.commit.protocol.history import ADDS_DATA, History, base_snapshot
from iceberg_ops.commit.protocol.ledger import entries_whose_name, ledger_entry
from iceberg_ops.commit.protocol.operation import StagedCommit, ref_as_seen, staged_updates, still_there
from iceberg_ops.commit.protocol.run_keys import (
    FIRST_SOURCE,
    PUBLISHED_WAP_ID,
    SOURCE,
    WAP_ID,
    Publication,
    entries_of_made,
    first_source,
    oldest_origin,
    publisher,
    snapshot_wap_ids,
)
from iceberg_ops.commit.validation.promoted_dates import date_beyond_nanoseconds
from iceberg_ops.commit.validation.remembered_copies import Origins
from iceberg_ops.commit.validation.schema_conflicts import may_be_null, of_another_type, without_required
from iceberg_ops.errors import NoSuchSnapshotError, NotPublishableError
from iceberg_ops.io.locations import identity_under
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent
from iceberg_ops.spec.partition_keys import partition_key
from iceberg_ops.spec.requirements import AssertCurrentSchemaId
from iceberg_ops.spec.snapshots import Snapshot, SnapshotOperation, SnapshotRef
from iceberg_ops.spec.updates import SetProperties, SetSnapshotRef
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table


@dataclass(frozen=True, kw_only=True)
class CherryPick(SnapshotOperationFields):
    """``snapshot_id``, or the staged snapshot whose summary has ``wap_id``."""

    snapshot_id: int | None = None
    wap_id: str | None = None
    name: str = "cherrypick_snapshot"

    def validate(self, table: Table, history: History) -> None:
        picked = self._picked(table)
        no_former_columns(table, picked)
        no_double_publish(table, self.branch, picked, is_moved_to=self._is_fast_forward(table, picked))
        if _replaces_partitions(picked) and not self._is_fast_forward(table, picked):
            no_replaced_rows(table, self.branch, picked)

    def stage(self, prepared: SnapshotDraft, table: Table) -> StagedCommit:
        picked = self._picked(table)
        prepared.forbid_removed_branch(table, self.branch)
        head = table.metadata.branch_head(self.branch)
        if head is not None and head.snapshot_id == picked.snapshot_id:
            return StagedCommit()
        if self._is_fast_forward(table, picked):
            return self._fast_forward(table, picked)
        gone = tuple(e.data_file for e in snapshot_changes(table, picked, ManifestContent.DATA, EntryStatus.DELETED))
        if (why := _not_applied_again(table, picked, gone)) is not None:
            raise NotPublishableError(
                f"Cannot cherry-pick snapshot {picked.snapshot_id}: not append, dynamic overwrite, or fast-forward{why}",
                snapshot_id=picked.snapshot_id,
                operation=picked.operation,
            )
        properties = {SOURCE: str(picked.snapshot_id)}
        if (first := first_source(table.metadata, picked)) is not None:
            properties[FIRST_SOURCE] = first
        if (wap_id := picked.summary.get(WAP_ID, picked.summary.get(PUBLISHED_WAP_ID))) is not None:
            properties[PUBLISHED_WAP_ID] = wap_id
        if _replaces_partitions(picked):
            properties[REPLACE_PARTITIONS] = "true"
        changes = Changes(
            operation=SnapshotOperation(picked.operation or "append"),
            data=tuple(NewFile(f) for f in _added_by(table, picked)),
            removals=Removals(files=gone, must_exist=True, every_entry=True),
            properties=properties,
        )
        staged = prepared.stage(table, self.target, changes)
        return replace(staged, updates=(*still_there(picked.snapshot_id), *staged.updates))

    def in_force(self, prepared: SnapshotDraft, table: Table) -> bool:
        """A fast-forward has happened once the picked snapshot is in the branch's history."""
        head, picked = table.metadata.branch_head(self.branch), self._picked(table)
        line = table.metadata.ancestors(None if head is None else head.snapshot_id)
        return any(snapshot.snapshot_id == picked.snapshot_id for snapshot in line)

    def _picked(self, table: Table) -> Snapshot:
        if self.wap_id is not None:
            staged = [s for s in table.metadata.snapshots if s.summary.get(WAP_ID) == self.wap_id]
            if not staged:
                raise NoSuchSnapshotError(f"table {table.name} has no staged snapshot with wap.id {self.wap_id}")
            if len(staged) > 1:
                ids = ", ".join(str(s.snapshot_id) for s in staged)
                raise NotPublishableError(
                    f"wap.id {self.wap_id} is that of snapshots {ids}: say which one by its snapshot id",
                    snapshot_id=staged[-1].snapshot_id,
                )
            return staged[0]
        return table.metadata.snapshot(self.snapshot_id or 0)

    def _is_fast_forward(self, table: Table, picked: Snapshot) -> bool:
        head = table.metadata.branch_head(self.branch)
        return picked.parent_snapshot_id == (None if head is None else head.snapshot_id)

    def _fast_forward(self, table: Table, picked: Snapshot) -> StagedCommit:
        head = table.metadata.ref(self.branch)
        moved = SnapshotRef(snapshot_id=picked.snapshot_id) if head is None else replace(head, snapshot_id=picked.snapshot_id)
        entries = entries_of_made(picked)
        more = [SetProperties(entries)] if entries else []
        updates = (SetSnapshotRef(self.branch, moved), *more)
        requirements = (*ref_as_seen(table.metadata, self.branch), AssertCurrentSchemaId(table.metadata.current_schema_id))
        return staged_updates(table.metadata, *updates, requirements=requirements, run=self.run)


def no_double_publish(table: Table, branch: str, picked: Snapshot, *, is_moved_to: bool) -> None:
    """Prevents doubled rows (Java: CherrypickAncestorCommitException, DuplicateWAPCommitException). A copy that was picked to
    another branch counts as its original (Java treats it as a separate change), and so does a file that was imported into both
    branches. ``is_moved_to``: the branch is fast-forwarded to the snapshot itself, and no file is added again."""
    metadata, head, origins = table.metadata, base_snapshot(table.metadata, branch), Origins(table)
    published = Publication(origins.of(picked), snapshot_wap_ids(picked))
    name, first, oldest = str(picked.snapshot_id), head, oldest_origin(metadata, picked)
    is_sure = oldest is not None
    for snapshot in metadata.ancestors(None if head is None else head.snapshot_id):
        first = snapshot
        if same := published.sources & origins.of(snapshot):
            if snapshot.snapshot_id == picked.snapshot_id:
                why = "already an ancestor"
            elif name in same:
                why = f"already picked to create ancestor {snapshot.snapshot_id}"
            else:
                why = f"it is a copy of {min(same)}, which is an ancestor or was picked to create one: {snapshot.snapshot_id}"
            raise NotPublishableError(f"Cannot cherrypick snapshot {name}: {why}", snapshot_id=snapshot.snapshot_id)
        if twice := published.wap_ids & snapshot_wap_ids(snapshot):
            raise NotPublishableError(
                f"Duplicate request to cherry pick wap id that was published already: {min(twice)}",
                snapshot_id=snapshot.snapshot_id,
            )
        is_sure = is_sure and (snapshot.sequence_number < (oldest or 0) or oldest_origin(metadata, snapshot) is not None)
    if first is not None and first.parent_snapshot_id is not None:
        _no_double_publish_before(first, table, branch, picked, published)
        is_sure = False
    adds_again = not is_moved_to and (picked.operation == SnapshotOperation.APPEND.value or _replaces_partitions(picked))
    if not is_sure or adds_again:
        _no_live_file_again(table, branch, picked, published)


def _no_live_file_again(table: Table, branch: str, picked: Snapshot, published: Publication) -> None:
    """The same if neither the history nor the ledger shows it: a folder was imported into both branches, or another engine expired
    a snapshot in the middle of the history, or made a copy of a copy that has expired. Files of other snapshots of the WAP id count
    as well. Manifests that these inherited are not read: a file in one of them is there twice already."""
    same = [s for s in table.metadata.snapshots if s is picked or published.wap_ids & snapshot_wap_ids(s)]
    known = set[str].intersection(*(_had_before(table, s) for s in same))
    added = {f: s.snapshot_id for s in same for f in _added_by(table, s)}
    pruning, identity, specs = PartitionPruning(table.metadata, added), identity_under(table.io), {f.spec_id for f in added}
    snapshot_ids = {identity(f.file_path): snapshot_id for f, snapshot_id in added.items()}
    for manifest in manifests_of(table, base_snapshot(table.metadata, branch)) if snapshot_ids else ():
        if manifest.content is not ManifestContent.DATA or manifest.manifest_path in known:
            continue
        if manifest.partition_spec_id in specs and not pruning.may_hold(manifest):  # another spec gives a file another partition
            continue
        for entry in entries_of(table, manifest, live_only=True):
            path = entry.data_file.file_path
            if (source := snapshot_ids.get(identity(path))) is not None:
                whose = "its file" if source == picked.snapshot_id else f"of its wap id is snapshot {source}, whose file"
                raise NotPublishableError(
                    f"Cannot cherrypick snapshot {picked.snapshot_id}: {whose} {path} is live on {branch} already, and its rows "
                    f"would be there twice",
                    snapshot_id=picked.snapshot_id,
                    file_path=path,
                    file_paths=(path,),
                )


def _no_double_publish_before(first: Snapshot, table: Table, branch: str, picked: Snapshot, published: Publication) -> None:
    """The same for the part of the history before ``first`` that has expired: the ledger remembers its publications. One that is
    later than ``first`` does not belong to that part: the branch was rolled back past it."""

    def counts(entry: str) -> bool:
        by = publisher(table.metadata, entry)
        return by is None or by.sequence_number <= first.sequence_number

    for name in (name for known_branch in (branch, "") for name in published.names(known_branch)):
        if (entry := ledger_entry(table, name)) is not None and counts(entry):
            raise NotPublishableError(
                f"Cannot cherrypick snapshot {picked.snapshot_id}: it was published on {branch} already, by snapshot "
                f"{entry.partition('@')[0]}, which has expired or lies before a snapshot that has",
                snapshot_id=picked.snapshot_id,
            )
    # The branch may come from the one where it was published: created from it, moved to it, or renamed.
    elsewhere = entries_whose_name(table, published.has)
    if entry := min(filter(counts, elsewhere.values()), default=""):
        raise NotPublishableError(
            f"Cannot cherrypick snapshot {picked.snapshot_id}: it was published on another branch, by snapshot "
            f"{entry.partition('@')[0]}, and the history of {branch} that would show whether its rows are there has expired; "
            f"write them again if they are not",
            snapshot_id=picked.snapshot_id,
        )


def no_former_columns(table: Table, picked: Snapshot) -> None:
    """Prevents publishing files that no reader of the table can read, because another engine has replaced the table since
    (``schema_conflicts``)."""
    metadata, written = table.metadata, table.metadata.schema_of(picked)
    if written.struct == metadata.schema.struct:
        return
    why = of_another_type(metadata, written)
    if why is None:
        added = _added_by(table, picked)
        why = without_required(metadata, written, lambda i: any(may_be_null(f, i) for f in added)) if added else None
        if why is None and (date := date_beyond_nanoseconds(metadata.schema, written, added)) is not None:
            raise NotPublishableError(f"Cannot cherrypick snapshot {picked.snapshot_id}: {date}", snapshot_id=picked.snapshot_id)
    if why is not None:
        raise NotPublishableError(
            f"Cannot cherrypick snapshot {picked.snapshot_id}: {why} when it was written: write its rows again",
            snapshot_id=picked.snapshot_id,
        )


def no_replaced_rows(table: Table, branch: str, picked: Snapshot) -> None:
    """Prevents a picked partition overwrite from losing rows that were added to its partitions since its parent."""
    partitions = {partition_key(f.spec_id, f.partition) for f in _added_by(table, picked)}
    history = History(table, branch, picked.parent_snapshot_id, callers=table.metadata)
    for snapshot, entry in history.added_data(ADDS_DATA, lambda m: True):
        f = entry.data_file
        if partition_key(f.spec_id, f.partition) in partitions:
            raise NotPublishableError(
                f"Cannot cherry-pick replace partitions with changed partition: {f.partition}",
                snapshot_id=snapshot.snapshot_id,
                operation=snapshot.operation,
                file_path=f.file_path,
                partition=str(f.partition),
            )


def _replaces_partitions(snapshot: Snapshot) -> bool:
    return snapshot.operation == "overwrite" and snapshot.summary.get(REPLACE_PARTITIONS) == "true"


def _not_applied_again(table: Table, picked: Snapshot, gone: Sequence[DataFile]) -> str | None:
    """Why the snapshot cannot be applied to another state of the table; None if it can. Its manifests decide, not its name:
    deletes would be lost, and rows of a replaced file that were deleted since would come back."""
    replaces = _replaces_partitions(picked)
    if picked.operation != SnapshotOperation.APPEND.value and not replaces:
        return ""
    if gone and not replaces:
        return f": it is called an append, and removed {gone[0].file_path}"
    deletes = snapshot_changes(table, picked, ManifestContent.DELETES, EntryStatus.ADDED)
    return f": it also added deletes, {deletes[0].data_file.file_path}" if deletes else None


def _had_before(table: Table, snapshot: Snapshot) -> set[str]:
    """Locations of the manifests that the snapshot inherited unchanged."""
    mine = snapshot.snapshot_id
    return {m.manifest_path for m in manifests_of(table, snapshot) if m.added_snapshot_id not in (None, mine)}


def _added_by(table: Table, snapshot: Snapshot) -> list[DataFile]:
    """Data files that the snapshot added."""
    return [e.data_file for e in snapshot_changes(table, snapshot, ManifestContent.DATA, EntryStatus.ADDED)]
