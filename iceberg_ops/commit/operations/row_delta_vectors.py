"""Deletion vectors of a row delta that meet others for the same data files: they are united instead of refused.

A data file has one vector, so two commits that delete different rows of it collide although neither is wrong, and Iceberg Java
refuses the second ("Found concurrently added DV"). Deletes only accumulate: the union of both vectors is the result that both
commits want. For an update this holds only if the rows differ: a row that another commit deleted or changed concurrently must not
come back, which ``validation.no_row_changed_twice`` prevents row by row.

The rule: after the commit each of the data files has one vector, with every position of both. Files written here belong to the
draft, so those of losing attempts are deleted. The operation's own Puffin files that are no longer used belong to their writer
(``Committed.unused``). Spec: "Deletion Vectors"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from iceberg_ops.commit.manifests.removals import FileKey, PartitionPruning, file_key
from iceberg_ops.commit.manifests.snapshot_draft import SnapshotDraft
from iceberg_ops.commit.protocol.history import base_snapshot
from iceberg_ops.commit.validation import checks as validation
from iceberg_ops.data.deletes.deletion_vectors import read_deletion_vector
from iceberg_ops.data.writing.delete_files import write_deletion_vectors
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.io.locations import Identity, identity_under
from iceberg_ops.scan.delete_index import scoped_path
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import ManifestContent, ManifestEntry
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class UnitedDeletes:
    """The row delta on the current table. ``unused`` are paths of the caller's delete files of which nothing is added."""

    added: tuple[DataFile, ...]
    removed: tuple[DataFile, ...]
    unused: frozenset[str] = frozenset()

    @property
    def paths(self) -> frozenset[str]:
        """Paths of the delete files that are added."""
        return frozenset(f.file_path for f in self.added)


def unite(
    table: Table,
    branch: str,
    draft: SnapshotDraft,
    added: Sequence[DataFile],
    removed: Sequence[DataFile],
    *,
    rows_must_differ: bool,
) -> UnitedDeletes:
    """Vectors of ``added`` united with each other and with the live ones they do not replace.

    ``rows_must_differ``: raise ValidationError if another commit has deleted a row that ``added`` deletes.
    """
    identity = identity_under(table.io)
    ours: dict[str, list[DataFile]] = {}
    for f in added:
        if f.is_deletion_vector:
            ours.setdefault(_name(f, identity), []).append(f)
    if not ours:
        return UnitedDeletes(tuple(added), tuple(removed))
    live = _live_single_file_deletes(table, branch, ours)
    replaced = {file_key(f, identity) for f in removed}
    vectors = {_name(e.data_file, identity): e for e in live.values() if e.data_file.is_deletion_vector}
    met = {name: e for name, e in vectors.items() if file_key(e.data_file, identity) not in replaced}
    united = {name: files for name, files in ours.items() if len(files) > 1 or name in met}
    if not united:
        return UnitedDeletes(tuple(added), tuple(removed))
    before = {_name(f, identity): f for f in removed if f.is_deletion_vector}
    positions: dict[DataFile, Positions] = {}
    for name, files in united.items():
        parts = [read_deletion_vector(table.io, f) for f in files]
        if (entry := met.get(name)) is not None:
            theirs = read_deletion_vector(table.io, entry.data_file)
            if rows_must_differ:
                known = read_deletion_vector(table.io, before[name]) if name in before else np.empty(0, np.int64)
                validation.no_row_changed_twice(table, entry, np.setdiff1d(np.concatenate(parts), known), theirs)
            parts.append(theirs)
        positions[_referenced_data_file(files[0])] = np.unique(np.concatenate(parts))
    written = _write(table, draft, positions)
    rest = [f for f in added if not (f.is_deletion_vector and _name(f, identity) in united)]
    gone = [e.data_file for name, e in met.items() if name in united]
    kept = [f for f in removed if file_key(f, identity) in live or identity(scoped_path(f) or "") not in united]
    unused = {f.file_path for files in united.values() for f in files} - {f.file_path for f in rest}
    return UnitedDeletes((*rest, *written), (*kept, *gone), frozenset(unused))


def _live_single_file_deletes(table: Table, branch: str, ours: Mapping[str, Sequence[DataFile]]) -> dict[FileKey, ManifestEntry]:
    """Live deletes of the branch that each apply to only one of the data files."""
    pruning, identity = PartitionPruning(table.metadata, [f for files in ours.values() for f in files]), identity_under(table.io)
    entries: dict[FileKey, ManifestEntry] = {}
    for manifest in manifests_of(table, base_snapshot(table.metadata, branch)):
        if manifest.content is ManifestContent.DELETES and pruning.may_hold(manifest):
            for entry in entries_of(table, manifest, live_only=True):
                path = scoped_path(entry.data_file)
                if path is not None and identity(path) in ours:
                    entries[file_key(entry.data_file, identity)] = entry
    return entries


def _write(table: Table, draft: SnapshotDraft, positions: Mapping[DataFile, Positions]) -> list[DataFile]:
    context = WriteContext.for_table(table.metadata)
    folder = draft.folder
    name = f"{folder.commit_uuid}-{len(folder.written)}"
    written = write_deletion_vectors(table.io, context, positions, operation_id=name)
    known = set(folder.written)
    folder.written += [path for path in dict.fromkeys(f.file_path for f in written) if path not in known]
    return written


def _referenced_data_file(vector: DataFile) -> DataFile:
    """The fields of the data file that are needed to write a vector for it: path, spec and partition."""
    return replace(vector, file_path=vector.referenced_data_file or "")


def _name(vector: DataFile, identity: Identity) -> str:
    return identity(vector.referenced_data_file or "")
