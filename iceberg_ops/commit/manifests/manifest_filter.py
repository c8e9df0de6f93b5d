"""Removes files from a branch's manifests: which manifests must be read, and which manifests replace them.

A manifest that loses files is rewritten: remaining files as EXISTING, removed files as DELETED by this snapshot; entries that were
already DELETED are left out (MANIFEST-50/51). With a data file its deletion vectors and file-scoped position deletes in the same
partition are removed; deletes older than every data file are dropped in the same step (Java: dropDeleteFilesOlderThan, DELETED
vectors of removed files).

Results are cached by manifest, so that a retry reads and writes only new manifests. A manifest that is listed again with another
sequence number or first row id (``manifest_key``) counts as a new one.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol

from iceberg_ops.commit.manifests.manifest_writing import ManifestFolder, ManifestKey, deleted, existing, manifest_key
from iceberg_ops.commit.manifests.removals import FileKey, PartitionPruning, Removals, RowFilter, file_key
from iceberg_ops.commit.manifests.removed_files import NOTHING_REMOVED, RemovedFiles, RemovedRows
from iceberg_ops.errors import ValidationError
from iceberg_ops.expressions.predicates import AlwaysFalse
from iceberg_ops.io.far_files import writes_behind
from iceberg_ops.io.locations import Identity, identity_under
from iceberg_ops.scan.delete_index import scoped_path
from iceberg_ops.serde.manifests.manifest_columnar import EntryColumns
from iceberg_ops.serde.manifests.manifest_encoding import ManifestEncoder
from iceberg_ops.serde.manifests.manifest_rewriting import Rows, add_rows
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.manifests import ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.partition_keys import partition_key
from iceberg_ops.table.former_columns import of_former_columns, with_former_columns
from iceberg_ops.table.manifests import manifests_ahead, opened
from iceberg_ops.table.metadata_files import metadata_folder
from iceberg_ops.table.table import Table

_THREADS = max(1, min(4, os.cpu_count() or 1))
_FEWEST_FOR_THREADS = 4000
"""Below this number of entries, threads cost more than they gain."""

_Opened = Callable[[], EntryColumns | Sequence[ManifestEntry]]


@dataclass(frozen=True, slots=True)
class Filtered:
    """The result for one manifest: ``manifest`` is unchanged if nothing was removed."""

    manifest: ManifestFile
    removed: RemovedFiles = NOTHING_REMOVED


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A manifest that is encoded and not yet written."""

    encoder: ManifestEncoder
    rows: Rows
    removed: RemovedRows


class RemovalRule(Protocol):
    """Decides which entries a commit removes."""

    def concerns(self, manifest: ManifestFile) -> bool:
        """Whether a manifest must be read."""
        ...

    def removes(self, entry: ManifestEntry) -> bool:
        """Whether a live entry is removed."""
        ...

    def gone(self, columns: EntryColumns) -> RemovedRows | None:
        """The live rows that are removed; None: each entry must be checked."""
        ...


class ManifestFilter:
    """Removes files of one kind (data or deletes) and caches the result by manifest.

    The caller's thread reads and writes storage, in the manifests' order. Decoding, encoding and compression mostly release the
    interpreter's lock, so other threads do them if there is much to do. A few manifests are in memory at a time.
    """

    def __init__(self, folder: ManifestFolder) -> None:
        self._folder = folder
        self._criteria: Hashable = None
        self._known: dict[ManifestKey, Filtered] = {}

    def apply(
        self,
        table: Table,
        manifests: Sequence[ManifestFile],
        judge: RemovalRule,
        criteria: Hashable,
    ) -> list[Filtered]:
        """``criteria`` represents everything that ``judge`` depends on: if it changes, no result of earlier attempts is used. (A
        delete that was once older than all data may be needed again after a rollback.)"""
        if criteria != self._criteria:
            self._known.clear()
            self._criteria = criteria
        concerned = [m for m in manifests if judge.concerns(m)]
        new = [m for m in concerned if manifest_key(m) not in self._known]
        with manifests_ahead(table, (m for m in new if not self._folder.is_new(m))) as near:
            with writes_behind(near.io, metadata_folder(table.metadata)) as io:
                results = dict(self._filter_all(table if io is table.io else replace(table, io=io), new, judge))
        self._known |= results  # not before the end of the block: until then a write can fail
        filtered = {manifest_key(m): self._known[manifest_key(m)] for m in concerned}
        return [filtered.get(manifest_key(m)) or Filtered(m) for m in manifests]

    def _filter_all(
        self, table: Table, manifests: Sequence[ManifestFile], judge: RemovalRule
    ) -> Iterator[tuple[ManifestKey, Filtered]]:
        """If another engine has replaced the table, manifests of former columns keep these columns."""
        former = of_former_columns(table, (m for m in manifests if not self._folder.is_new(m)))
        for m in manifests if former else ():
            if m.manifest_path in former:
                yield self._stored(with_former_columns(table, former[m.manifest_path]), m, None, judge)
        manifests = [m for m in manifests if m.manifest_path not in former]
        count = sum((m.added_files_count or 0) + (m.existing_files_count or 0) for m in manifests)
        if len(manifests) < 2 or count < _FEWEST_FOR_THREADS:
            for m in manifests:
                yield self._stored(table, m, self._encoded(table, m, self._opened(table, m), judge), judge)
            return
        under_way: deque[tuple[ManifestFile, Future[_Encoded | Filtered | None]]] = deque()
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="manifests") as pool:
            for m in manifests:
                if len(under_way) > _THREADS:
                    first, future = under_way.popleft()
                    yield self._stored(table, first, future.result(), judge)
                under_way.append((m, pool.submit(self._encoded, table, m, self._opened(table, m), judge)))
            for m, future in under_way:
                yield self._stored(table, m, future.result(), judge)

    def _opened(self, table: Table, manifest: ManifestFile) -> _Opened:
        if self._folder.is_new(manifest):
            return partial(self._folder.entries, table, manifest)
        return opened(table.metadata, table.io, manifest)

    def _encoded(self, table: Table, manifest: ManifestFile, opened: _Opened, judge: RemovalRule) -> _Encoded | Filtered | None:
        """The manifest rewritten by columns; None if that is not possible. Storage is not touched."""
        columns = opened()
        removed = judge.gone(columns) if isinstance(columns, EntryColumns) else None
        if removed is None:
            return None
        if not removed.rows:
            return Filtered(manifest)
        encoder = self._folder.encoder(table.metadata, manifest.partition_spec_id, manifest.content)
        rows = Rows.of(removed.columns, removed.rows)
        if not add_rows(encoder, rows):
            return None
        encoder.flush()
        return _Encoded(encoder, rows, removed)

    def _stored(
        self, table: Table, manifest: ManifestFile, made: _Encoded | Filtered | None, judge: RemovalRule
    ) -> tuple[ManifestKey, Filtered]:
        if made is None:
            made = self._by_entries(table, manifest, judge.removes)
        elif isinstance(made, _Encoded):
            made = Filtered(self._folder.write_encoded(table, made.encoder, made.rows), RemovedFiles(rows=(made.removed,)))
        return manifest_key(manifest), made

    def _by_entries(self, table: Table, manifest: ManifestFile, goes: Callable[[ManifestEntry], bool]) -> Filtered:
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
        identity, removed = identity_under(table.io), tuple(e for e in live if id(e) in gone)
        return Filtered(
            rewritten, RemovedFiles(entries=removed, entry_keys=tuple(file_key(e.data_file, identity) for e in removed))
        )


class DataRemoval:
    """Which data manifests and entries ``removals`` affect."""

    def __init__(self, table: Table, removals: Removals) -> None:
        self._removals = removals
        self._identity = identity_under(table.io)
        self._named: set[FileKey] = {file_key(f, self._identity) for f in removals.files}
        self._named |= {(self._identity(p), None) for p in removals.paths}
        self._locations = {location for location, offset in self._named if offset is None}
        self._pruning = PartitionPruning(table.metadata, removals.files, removals.partitions)
        self._filter = RowFilter(table, removals.matching, case_sensitive=removals.case_sensitive)
        self._filters = not isinstance(removals.matching, AlwaysFalse)

    def concerns(self, manifest: ManifestFile) -> bool:
        if not manifest.has_live_files:
            return False
        return bool(self._removals.paths) or self._filter.may_match_manifest(manifest) or self._pruning.may_hold(manifest)

    def removes(self, entry: ManifestEntry) -> bool:
        f = entry.data_file
        if file_key(f, self._identity) in self._named or partition_key(f.spec_id, f.partition) in self._removals.partitions:
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

    def gone(self, columns: EntryColumns) -> RemovedRows | None:
        if self._filters or self._removals.must_be_empty or (columns.content != int(FileContent.DATA)).any():
            return None
        locations, live = list(map(self._identity, columns.paths())), columns.live.tolist()
        rows = [row for row, location in enumerate(locations) if location in self._locations and live[row]]
        if self._removals.partitions:
            every, spec_id = [row for row, is_live in enumerate(live) if is_live], columns.manifest.partition_spec_id
            partitions = zip(every, columns.partitions(every), strict=True)
            of_partitions = {row for row, p in partitions if partition_key(spec_id, p) in self._removals.partitions}
            rows = sorted(of_partitions.union(rows))
        return RemovedRows(columns, rows, [(locations[row], None) for row in rows])

    def forbid_missing(self, removed: RemovedFiles) -> None:
        """Prevents replacing rows that no longer exist (Java: failMissingDeletePaths). Raises ValidationError."""
        if not self._named <= (removed_keys := set(removed.keys)):
            forbid_missing(self._removals.files, self._removals.paths, removed_keys, self._identity)

    def forbid_unread_entries(self, removed: RemovedFiles) -> None:
        """Prevents losing or doubling the rows of a file that is live several times: all its entries are removed at once, so the
        commit must have read each of them. Raises ValidationError."""
        named = Counter(file_key(f, self._identity) for f in self._removals.files)
        entry_counts = Counter(removed.keys)
        for f in self._removals.files:
            entries, read = entry_counts[file_key(f, self._identity)], named[file_key(f, self._identity)]
            if entries > read or (entries < read and self._removals.must_exist):
                raise ValidationError(
                    f"Cannot replace {f.file_path}: it is live {entries} times, and the rows of {read} entries were read; a file "
                    f"goes with all its entries",
                    file_path=f.file_path,
                    file_paths=(f.file_path,),
                )


class DeleteRemoval:
    """Which delete manifests and entries are removed: named ones, those of removed data files, and those older than all data."""

    def __init__(self, table: Table, removals: Removals, removed_data: RemovedFiles, oldest_data: int) -> None:
        self._removals = removals
        self._metadata = table.metadata
        self._removed_data = removed_data
        self._identity = identity_under(table.io)
        self._named = {file_key(f, self._identity) for f in removals.deletes}
        self._filter = RowFilter(table, removals.matching, case_sensitive=removals.case_sensitive)
        self._oldest_data = oldest_data

    def concerns(self, manifest: ManifestFile) -> bool:
        if not manifest.has_live_files:
            return False
        if 0 < manifest.min_sequence_number < self._oldest_data:
            return True
        return self._filter.may_match_manifest(manifest) or self._pruning.may_hold(manifest)

    def removes(self, entry: ManifestEntry) -> bool:
        f = entry.data_file
        if file_key(f, self._identity) in self._named or partition_key(f.spec_id, f.partition) in self._removals.partitions:
            return True
        if 0 < (entry.sequence_number or 0) < self._oldest_data:
            return True
        if (path := scoped_path(f)) is not None and self._goes_with(self._identity(path), f):
            return True
        return self._filter.matches_partition(f)

    def _goes_with(self, location: str, delete: DataFile) -> bool:
        """Whether the data file is removed from the delete's own partition: it may stay live in another, with its own deletes
        there."""
        return location in self._data and (location, partition_key(delete.spec_id, delete.partition)) in self._removed_data.places

    def gone(self, columns: EntryColumns) -> RemovedRows | None:
        return None

    @cached_property
    def _data(self) -> set[str]:
        return {location for location, _ in self._removed_data.keys}

    @cached_property
    def _pruning(self) -> PartitionPruning:
        removals = self._removals
        return PartitionPruning(self._metadata, [*removals.deletes, *self._removed_data.of_each_partition()], removals.partitions)

    def forbid_missing(self, removed: RemovedFiles) -> None:
        """Prevents bringing back rows whose deletes another commit has rewritten in the meantime. Raises ValidationError."""
        forbid_missing(self._removals.deletes, (), set(removed.keys), self._identity)


def forbid_missing(files: Iterable[DataFile], paths: Iterable[str], removed: set[FileKey], identity: Identity) -> None:
    """Raises ValidationError that names the files to remove that are not live."""
    missing = [f.file_path for f in files if file_key(f, identity) not in removed]
    missing += [p for p in paths if (identity(p), None) not in removed]
    if missing:
        more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
        raise ValidationError(
            f"Missing required files to delete: {','.join(missing[:10])}{more}",
            file_path=missing[0],
            file_paths=tuple(missing),
        )


def count_replaced(filtered: Sequence[Filtered]) -> int:
    """How many manifests were replaced."""
    return sum(1 for f in filtered if f.removed)


def collect_removed(filtered: Sequence[Filtered]) -> RemovedFiles:
    return RemovedFiles.together(f.removed for f in filtered)


def split_content(manifests: Iterable[ManifestFile]) -> tuple[list[ManifestFile], list[ManifestFile]]:
    """(data manifests, delete manifests)."""
    data: list[ManifestFile] = []
    deletes: list[ManifestFile] = []
    for m in manifests:
        (data if m.content is ManifestContent.DATA else deletes).append(m)
    return data, deletes
