"""Taking files out of a branch's manifests: which manifests must be read, and what replaces them.

A manifest from which files go is written anew: what stays as EXISTING, what goes as DELETED by this snapshot, and entries that were
DELETED before are left out (MANIFEST-50/51). Data files take their deletion vectors and file-scoped position deletes with them;
deletes older than every data file are dropped on the way (Java: dropDeleteFilesOlderThan, DELETED vectors of removed files).

Results are kept by manifest, so that a retry reads and writes only manifests it has not seen. A manifest that got its first row
id since (a table upgraded to v3) counts as another one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from iceberg_ops.commit.manifest_writing import ManifestFolder, deleted, existing
from iceberg_ops.commit.removals import FileKey, PartitionPruning, Removals, RowFilter, file_key
from iceberg_ops.errors import ValidationError
from iceberg_ops.expressions.predicates import AlwaysFalse
from iceberg_ops.io.locations import location_identity
from iceberg_ops.scan.delete_index import partition_key, scoped_path
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.table.table import Table

_Cached = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class Filtered:
    """What became of one manifest: ``manifest`` is the same one where nothing was removed."""

    manifest: ManifestFile
    removed: tuple[ManifestEntry, ...] = ()


class ManifestFilter:
    """Removes files of one kind (data or deletes) and remembers what it did by manifest.

    ``concerns`` tells whether a manifest must be read, ``goes`` whether an entry is removed.
    """

    def __init__(self, folder: ManifestFolder) -> None:
        self._folder = folder
        self._criteria: Hashable = None
        self._known: dict[_Cached, Filtered] = {}

    def apply(
        self,
        table: Table,
        manifests: Iterable[ManifestFile],
        concerns: Callable[[ManifestFile], bool],
        goes: Callable[[ManifestEntry], bool],
        criteria: Hashable,
    ) -> list[Filtered]:
        """``criteria`` stands for all that ``goes`` depends on: when it changes, nothing of earlier attempts is used. (A delete
        that was older than all data once may be needed again after a rollback.)"""
        if criteria != self._criteria:
            self._known.clear()
            self._criteria = criteria
        return [self._one(table, m, goes) if concerns(m) else Filtered(m) for m in manifests]

    def _one(self, table: Table, manifest: ManifestFile, goes: Callable[[ManifestEntry], bool]) -> Filtered:
        key = (manifest.manifest_path, manifest.first_row_id)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._filter(table, manifest, goes)
        return found

    def _filter(self, table: Table, manifest: ManifestFile, goes: Callable[[ManifestEntry], bool]) -> Filtered:
        live = [e for e in self._folder.entries(table, manifest) if e.is_live]
        gone = {id(e) for e in live if goes(e)}
        if not gone:
            return Filtered(manifest)
        rewritten = self._folder.write_one(
            table,
            manifest.partition_spec_id,
            manifest.content,
            [deleted(e, self._folder.snapshot_id) if id(e) in gone else existing(e) for e in live],
        )
        return Filtered(rewritten, tuple(e for e in live if id(e) in gone))


class DataRemoval:
    """Which data manifests and entries ``removals`` concern."""

    def __init__(self, table: Table, removals: Removals) -> None:
        self._removals = removals
        self._named = {file_key(f) for f in removals.files} | {(location_identity(p), None) for p in removals.paths}
        self._pruning = PartitionPruning(table.metadata, removals.files, removals.partitions)
        self._filter = RowFilter(table, removals.matching, case_sensitive=removals.case_sensitive)
        self._filters = not isinstance(removals.matching, AlwaysFalse)

    def concerns(self, manifest: ManifestFile) -> bool:
        if not manifest.has_live_files:
            return False
        return bool(self._removals.paths) or self._filter.may_match_manifest(manifest) or self._pruning.may_hold(manifest)

    def goes(self, entry: ManifestEntry) -> bool:
        f = entry.data_file
        if file_key(f) in self._named or partition_key(f.spec_id, f.partition) in self._removals.partitions:
            pass
        elif self._filters and self._filter.may_match(f):
            self._filter.forbid_partial(f)
        else:
            return False
        if self._removals.must_be_empty:
            raise ValidationError(
                f"Cannot commit file that conflicts with existing partition: {f.file_path}", file_path=f.file_path
            )
        return True

    def forbid_missing(self, removed: Iterable[ManifestEntry]) -> None:
        """Prevents replacing rows that are no longer there (Java: failMissingDeletePaths). Raises ValidationError."""
        forbid_missing(self._removals.files, self._removals.paths, (e.data_file for e in removed))


class DeleteRemoval:
    """Which delete manifests and entries go: named ones, those of removed data files, and those older than all data."""

    def __init__(self, table: Table, removals: Removals, removed_data: Sequence[DataFile], oldest_data: int) -> None:
        self._removals = removals
        self._named = {file_key(f) for f in removals.deletes}
        self._data = {location_identity(f.file_path) for f in removed_data}
        self._pruning = PartitionPruning(table.metadata, [*removals.deletes, *removed_data], removals.partitions)
        self._filter = RowFilter(table, removals.matching, case_sensitive=removals.case_sensitive)
        self._oldest_data = oldest_data

    def concerns(self, manifest: ManifestFile) -> bool:
        if not manifest.has_live_files:
            return False
        if 0 < manifest.min_sequence_number < self._oldest_data:
            return True
        return self._filter.may_match_manifest(manifest) or self._pruning.may_hold(manifest)

    def goes(self, entry: ManifestEntry) -> bool:
        f = entry.data_file
        if file_key(f) in self._named or partition_key(f.spec_id, f.partition) in self._removals.partitions:
            return True
        if 0 < (entry.sequence_number or 0) < self._oldest_data:
            return True
        if (path := scoped_path(f)) is not None and location_identity(path) in self._data:
            return True
        return self._filter.matches_partition(f)

    def forbid_missing(self, removed: Iterable[ManifestEntry]) -> None:
        """Prevents bringing back rows whose deletes someone else rewrote meanwhile. Raises ValidationError."""
        forbid_missing(self._removals.deletes, (), (e.data_file for e in removed))


def forbid_missing(files: Iterable[DataFile], paths: Iterable[str], removed: Iterable[DataFile]) -> None:
    """Raises ValidationError that names the files that were to be removed and are not live."""
    found: set[FileKey] = {file_key(f) for f in removed}
    missing = [f.file_path for f in files if file_key(f) not in found]
    missing += [p for p in paths if (location_identity(p), None) not in found]
    if missing:
        more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
        raise ValidationError(
            f"Missing required files to delete: {','.join(missing[:10])}{more}",
            file_path=missing[0],
            file_paths=tuple(missing),
        )


def rewrites_of(filtered: Sequence[Filtered]) -> int:
    """How many manifests were replaced."""
    return sum(1 for f in filtered if f.removed)


def removed_of(filtered: Sequence[Filtered]) -> list[ManifestEntry]:
    return [e for f in filtered for e in f.removed]


def split_content(manifests: Iterable[ManifestFile]) -> tuple[list[ManifestFile], list[ManifestFile]]:
    """(data manifests, delete manifests)."""
    data: list[ManifestFile] = []
    deletes: list[ManifestFile] = []
    for m in manifests:
        (data if m.content is ManifestContent.DATA else deletes).append(m)
    return data, deletes
