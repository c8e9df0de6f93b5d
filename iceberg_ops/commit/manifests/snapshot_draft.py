"""A snapshot under construction, for all attempts of one operation (Java: SnapshotProducer and MergingSnapshotProducer).

The snapshot's id is chosen once. Manifests of new files are written once and used by every attempt, because sequence numbers and
row ids are inherited from the manifest list; only that list is rewritten each time. All other files of an attempt are cached by
their inputs (``manifest_filter``, ``manifest_merge``).

Order of an attempt: remove data files from the branch's manifests; drop deletes that no longer apply to any file; remove delete
files; leave out manifests without live files; merge; write the list.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from iceberg_ops.commit.manifests.appended_manifests import take_over
from iceberg_ops.commit.manifests.manifest_filter import (
    DataRemoval,
    DeleteRemoval,
    Filtered,
    ManifestFilter,
    collect_removed,
    count_replaced,
    split_content,
)
from iceberg_ops.commit.manifests.manifest_merge import ManifestMerge
from iceberg_ops.commit.manifests.manifest_writing import ManifestFolder
from iceberg_ops.commit.manifests.removals import PartitionPruning, Removals
from iceberg_ops.commit.manifests.removed_files import NOTHING_REMOVED, RemovedFiles
from iceberg_ops.commit.manifests.snapshot_summary import changes_summary, totals
from iceberg_ops.commit.protocol.history import base_snapshot
from iceberg_ops.commit.protocol.operation import StagedCommit, ref_as_seen
from iceberg_ops.commit.protocol.run_keys import ACTION, RunIdentity, not_committed_yet
from iceberg_ops.config.properties import SUMMARY_PARTITION_LIMIT
from iceberg_ops.errors import BadInputError, UnsupportedError, ValidationError
from iceberg_ops.io.locations import identity_under
from iceberg_ops.spec import summary_keys
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.encrypted_tables import forbid_plain_files
from iceberg_ops.spec.manifests import UNASSIGNED, EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.requirements import AssertCurrentSchemaId, AssertRefSnapshotId, AssertTableUUID, TableRequirement
from iceberg_ops.spec.snapshots import MAIN_BRANCH, Snapshot, SnapshotOperation, SnapshotRef
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.updates import AddSnapshot, SetSnapshotRef, TableUpdate
from iceberg_ops.table.manifests import manifests_of
from iceberg_ops.table.table import Table

ENGINE = "iceberg-ops"


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to add. ``sequence_number`` is an explicit data sequence number (an older one, for older content)."""

    data_file: DataFile
    sequence_number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes of a commit. ``operation`` None: derived from the added and removed files. ``manifests`` of new data files are
    appended unchanged. ``merge`` False leaves all manifests unchanged."""

    operation: SnapshotOperation | None = None
    data: tuple[NewFile, ...] = ()
    deletes: tuple[NewFile, ...] = ()
    manifests: tuple[ManifestFile, ...] = ()
    removals: Removals = field(default_factory=Removals)
    merge: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The branch of a snapshot and its summary. ``staged``: the snapshot is added, but no branch moves (WAP)."""

    branch: str
    action: str
    run: RunIdentity | None
    summary: Mapping[str, str]
    staged: bool = False
    timestamp_ms: int | None = None


class SnapshotDraft:
    """The ``Prepared`` of every operation that makes a snapshot. Raises UnsupportedError for an encrypted table."""

    def __init__(self, table: Table) -> None:
        forbid_plain_files(table.metadata)
        self.folder = ManifestFolder(_new_snapshot_id(table))
        self._refs = frozenset(table.metadata.refs)
        self._callers_specs = table.metadata.specs_by_id
        self._new: dict[ManifestContent, tuple[Hashable, list[ManifestFile]]] = {}
        self._filters = {content: ManifestFilter(self.folder) for content in ManifestContent}
        self._merges = {content: ManifestMerge(self.folder) for content in ManifestContent}
        self._taken: tuple[Hashable, list[ManifestFile], list[DataFile]] | None = None
        self._version: int | None = None

    @property
    def written(self) -> tuple[str, ...]:
        return tuple(self.folder.written)

    @property
    def snapshot_id(self) -> int:
        return self.folder.snapshot_id

    def forbid_removed_branch(self, table: Table, branch: str) -> None:
        """Prevents bringing back a branch that was removed after the caller had seen it. Raises ValidationError."""
        if branch in self._refs and table.metadata.ref(branch) is None:
            raise ValidationError(f"Cannot commit to branch {branch} of table {table.name}: it was removed concurrently")

    def _specs(self, table: Table, spec_ids: Iterable[int]) -> tuple[PartitionSpec | None, ...]:
        """The partition specs of files to commit. Prevents reading partition values as those of other columns, if a spec was
        removed after the caller had seen it and its id was assigned to another. Raises ValidationError."""
        specs = {spec_id: table.metadata.specs_by_id.get(spec_id) for spec_id in sorted(set(spec_ids))}
        for spec_id, spec in specs.items():
            if spec != self._callers_specs.get(spec_id, spec):
                raise ValidationError(
                    f"Cannot commit files of partition spec {spec_id} to table {table.name}: the spec was removed concurrently; "
                    "write the files again, in a spec that the table has"
                )
            _forbid_unknown_transforms(table, spec_id)
        return tuple(specs.values())

    def stage(self, table: Table, target: Target, changes: Changes) -> StagedCommit:
        """One attempt at ``changes`` on the current branch. Raises ValidationError, BadInputError."""
        if self._version != table.metadata.format_version:
            for merge in self._merges.values():
                merge.forget()
            self._version = table.metadata.format_version
        parent = _parent(table, target)
        current = [] if parent is None else manifests_of(table, parent)
        made = self._apply(table, current, changes)
        return self.finish(table, target, parent, made)

    def _apply(self, table: Table, current: Sequence[ManifestFile], changes: Changes) -> NewManifests:
        metadata, removals = table.metadata, changes.removals
        data, deletes = split_content(current)
        added_data = [*self._added(table, ManifestContent.DATA, changes.data), *self._adopted_manifests(table, changes.manifests)]
        added_deletes = self._added(table, ManifestContent.DELETES, changes.deletes)
        if not changes.merge and removals.is_empty:
            return NewManifests([*added_data, *data, *added_deletes, *deletes], changes)
        basis = (metadata.format_version, metadata.schema, removals)
        removal = DataRemoval(table, removals)
        filtered = self._filters[ManifestContent.DATA].apply(table, data, removal, basis)
        gone = collect_removed(filtered)
        if removals.must_exist:
            removal.forbid_missing(gone)
        if removals.every_entry:
            removal.forbid_unread_entries(gone)
        kept = self._kept(filtered)
        oldest = _oldest_data(kept, changes.data, metadata.last_sequence_number)
        of_deletes = DeleteRemoval(table, removals, gone, oldest)
        criteria = (basis, oldest, gone.places if deletes else None)
        filtered_deletes = self._filters[ManifestContent.DELETES].apply(table, deletes, of_deletes, criteria)
        gone_deletes = collect_removed(filtered_deletes)
        if removals.must_exist:
            of_deletes.forbid_missing(gone_deletes)
        kept_deletes = self._kept(filtered_deletes)
        self._forbid_second_vectors(table, kept_deletes, changes.deletes)
        replaced = count_replaced(filtered) + count_replaced(filtered_deletes)
        manifests = []
        for content, new, old in ((ManifestContent.DATA, added_data, kept), (ManifestContent.DELETES, added_deletes, kept_deletes)):
            merge = self._merges[content]
            manifests += merge.apply(table, [*new, *old]) if changes.merge else [*new, *old]
            replaced += merge.replaced
        return NewManifests(manifests, changes, RemovedFiles.together((gone, gone_deletes)), replaced)

    def _kept(self, filtered: Sequence[Filtered]) -> list[ManifestFile]:
        return [f.manifest for f in filtered if f.manifest.has_live_files or f.manifest.added_snapshot_id == self.snapshot_id]

    def _forbid_second_vectors(self, table: Table, kept: Sequence[ManifestFile], added: Sequence[NewFile]) -> None:
        """Prevents two live deletion vectors for one data file, of which readers may take either: the new one must replace the old
        one."""
        identity = identity_under(table.io)
        vectors = {identity(n.data_file.referenced_data_file or ""): n.data_file for n in added if n.data_file.is_deletion_vector}
        if not vectors:
            return
        pruning = PartitionPruning(table.metadata, vectors.values())
        for manifest in kept:
            if not pruning.may_hold(manifest):
                continue
            for entry in self.folder.entries(table, manifest):
                f = entry.data_file
                if entry.is_live and f.is_deletion_vector and identity(f.referenced_data_file or "") in vectors:
                    raise ValidationError(
                        f"Cannot add a deletion vector for {f.referenced_data_file}: it has one in {f.file_path} that is not "
                        f"removed",
                        file_path=f.file_path,
                        file_paths=(f.referenced_data_file or "",),
                    )

    def _added(self, table: Table, content: ManifestContent, files: Sequence[NewFile]) -> list[ManifestFile]:
        """Manifests of new files, one set per spec; written once per format version."""
        key = (table.metadata.format_version, files, self._specs(table, (n.data_file.spec_id for n in files)))
        known = self._new.get(content)
        if known is None or known[0] != key:
            by_spec: dict[int, list[ManifestEntry]] = {}
            for new in files:
                by_spec.setdefault(new.data_file.spec_id, []).append(_entry(new, self.snapshot_id))
            made = [m for spec_id, entries in by_spec.items() for m in self.folder.write_rolling(table, spec_id, content, entries)]
            known = self._new[content] = (key, made)
        return known[1]

    def _adopted_manifests(self, table: Table, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """Manifests that others wrote; processed once per format version."""
        specs = self._specs(table, (m.partition_spec_id for m in manifests))
        key = (table.metadata.format_version, tuple(m.manifest_path for m in manifests), specs)
        if self._taken is None or self._taken[0] != key:
            self._taken = (key, *take_over(table, self.folder, manifests))
        return self._taken[1]

    def finish(self, table: Table, target: Target, parent: Snapshot | None, made: NewManifests) -> StagedCommit:
        """The manifest list, the snapshot and the commit around it."""
        metadata = table.metadata
        self.forbid_removed_branch(table, target.branch)
        specs = _known_specs(metadata, made.manifests)
        sequence_number = 0 if metadata.format_version < 2 else metadata.last_sequence_number + 1
        written = self.folder.write_list(table, made.manifests, parent, sequence_number)
        summary = self._summary(table, target, parent, made)
        timestamp = max(target.timestamp_ms or time.time_ns() // 1_000_000, metadata.last_updated_ms)
        snapshot = Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=None if parent is None else parent.snapshot_id,
            sequence_number=sequence_number,
            timestamp_ms=timestamp,
            manifest_list=written.location,
            summary=summary,
            schema_id=metadata.current_schema_id,
            first_row_id=written.first_row_id,
            added_rows=None if written.first_row_id is None else (written.next_row_id or 0) - written.first_row_id,
        )
        updates: list[TableUpdate] = [AddSnapshot(snapshot, metadata.schema, specs)]
        requirements: list[TableRequirement] = [AssertTableUUID(metadata.table_uuid), *_parent_stays(metadata, target, parent)]
        if made.changes.data or made.changes.manifests:
            requirements.append(AssertCurrentSchemaId(metadata.current_schema_id))  # see schema_conflicts
        requirements += not_committed_yet(target.run, metadata)
        referenced = frozenset(self.folder.written) & {written.location, *(m.manifest_path for m in written.manifests)}
        if target.staged:
            return StagedCommit(requirements=tuple(requirements), updates=tuple(updates), snapshot=snapshot, referenced=referenced)
        ref = metadata.ref(target.branch)
        moved = SnapshotRef(snapshot_id=self.snapshot_id) if ref is None else replace(ref, snapshot_id=self.snapshot_id)
        return StagedCommit(
            requirements=(*requirements, *ref_as_seen(metadata, target.branch)),
            updates=(*updates, SetSnapshotRef(target.branch, moved)),
            snapshot=snapshot,
            referenced=referenced,
        )

    def _summary(self, table: Table, target: Target, parent: Snapshot | None, made: NewManifests) -> dict[str, str]:
        changes = made.changes
        counts = changes_summary(
            table.metadata,
            [*(n.data_file for n in (*changes.data, *changes.deletes)), *(self._taken[2] if self._taken is not None else ())],
            made.removed,
            partition_limit=SUMMARY_PARTITION_LIMIT.of(table.properties),
        )
        operation = changes.operation or _infer_operation(changes, made.removed)
        if operation is SnapshotOperation.REPLACE:
            _forbid_new_rows(counts)
        created = sum(1 for m in made.manifests if m.added_snapshot_id == self.snapshot_id)
        return {
            "operation": operation.value,
            **changes.properties,
            **target.summary,
            **({} if target.run is None else target.run.summary),
            ACTION: target.action,
            **counts,
            "manifests-created": str(created),
            "manifests-kept": str(len(made.manifests) - created),
            "manifests-replaced": str(made.replaced),
            **made.counters,
            **totals(parent, counts),
            summary_keys.ENGINE_NAME: target.summary.get(summary_keys.ENGINE_NAME, ENGINE),
        }


@dataclass(frozen=True, slots=True)
class NewManifests:
    """The manifests of one attempt, newest first, and the files it removed."""

    manifests: Sequence[ManifestFile]
    changes: Changes
    removed: RemovedFiles = NOTHING_REMOVED
    replaced: int = 0
    counters: Mapping[str, str] = field(default_factory=dict)


def _entry(new: NewFile, snapshot_id: int) -> ManifestEntry:
    """An ADDED entry: numbers are inherited unless the file's content is older (SEQ-06), row ids always (LINEAGE-13)."""
    file = new.data_file if new.data_file.first_row_id is None else replace(new.data_file, first_row_id=None)
    return ManifestEntry(EntryStatus.ADDED, snapshot_id, new.sequence_number, None, file)


def _parent(table: Table, target: Target) -> Snapshot | None:
    ref = table.metadata.ref(target.branch)
    if ref is not None and not ref.is_branch:
        raise BadInputError(f"{target.branch} is a tag, not a branch: a snapshot cannot be committed to it")
    return base_snapshot(table.metadata, target.branch)


def _parent_stays(metadata: TableMetadata, target: Target, parent: Snapshot | None) -> list[TableRequirement]:
    """Prevents a snapshot whose files are deleted: its parent may expire as soon as no branch points to it. A commit that moves its
    branch requires the parent anyway; one that creates a branch, or moves none, builds on a head that is not its own."""
    if parent is None:
        return []
    branch = target.branch if metadata.ref(target.branch) is not None else MAIN_BRANCH
    is_own = branch == target.branch and not target.staged
    return [] if is_own else [AssertRefSnapshotId(branch, parent.snapshot_id)]


def _known_specs(metadata: TableMetadata, manifests: Iterable[ManifestFile]) -> tuple[PartitionSpec, ...]:
    """The manifests' partition specs, if the table has them."""
    return tuple(metadata.specs_by_id[i] for i in sorted({m.partition_spec_id for m in manifests} & metadata.specs_by_id.keys()))


def _oldest_data(kept: Sequence[ManifestFile], added: Sequence[NewFile], last_sequence_number: int) -> int:
    """No remaining or added data file has a lower data sequence number. Files that this commit adds with an older number count:
    equality deletes since then still apply to them."""
    numbers = [last_sequence_number]
    numbers += [_lowest_number(m) for m in kept if m.has_live_files and m.min_sequence_number != UNASSIGNED]
    numbers += [n.sequence_number for n in added if n.sequence_number is not None]
    return min(numbers)


def _lowest_number(manifest: ManifestFile) -> int:
    """The recorded minimum; 0 if that cannot be right, because the manifest holds files of earlier commits than its own and the
    minimum is not below its own number: some engines record that for all manifests that they rewrite."""
    is_own_number = manifest.sequence_number != UNASSIGNED and manifest.min_sequence_number >= manifest.sequence_number
    return 0 if is_own_number and manifest.existing_files_count != 0 else manifest.min_sequence_number


def _infer_operation(changes: Changes, removed: RemovedFiles) -> SnapshotOperation:
    removals = changes.removals
    if changes.deletes or removals.deletes or removals.concerns_data:
        return SnapshotOperation.OVERWRITE if changes.data else SnapshotOperation.DELETE
    return SnapshotOperation.APPEND if changes.data or not removed else SnapshotOperation.DELETE


def _forbid_new_rows(counts: Mapping[str, str]) -> None:
    """Prevents a rewrite that creates rows: a replace may have fewer rows than before (deleted ones), never more."""
    added, replaced = int(counts.get(summary_keys.ADDED_RECORDS, 0)), int(counts.get(summary_keys.DELETED_RECORDS, 0))
    if added > replaced:
        raise ValidationError(f"Invalid REPLACE operation: {added} added records > {replaced} replaced records")


def _forbid_unknown_transforms(table: Table, spec_id: int) -> None:
    """Prevents files whose partition values this package cannot have computed (GEN-09)."""
    spec = table.metadata.specs_by_id.get(spec_id)
    for f in spec.fields if spec is not None else ():
        if not f.transform.is_known:
            raise UnsupportedError(
                f"not supported: adding files in partition spec {spec_id}, because the values of {f.name} with transform "
                f"{f.transform} are not defined"
            )


def _new_snapshot_id(table: Table) -> int:
    while (snapshot_id := secrets.randbits(63)) in table.metadata.snapshots_by_id or snapshot_id == 0:
        pass
    return snapshot_id
