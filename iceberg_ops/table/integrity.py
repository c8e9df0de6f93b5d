"""Checks that a table is intact: everything it refers to exists and parses, and its counts add up.

Metadata, manifest lists, manifests and the presence of every live file are checked here; ``iceberg_ops.data.reading.deep_check``
checks the content of data files. Nothing is repaired, and one broken file never hides the next: each finding is a value.

An ``error`` breaks a rule that readers rely on. A ``warning`` breaks a rule without losing rows (a recorded length that differs, a
missing previous metadata file, a dangling delete).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.locations import identity_under
from iceberg_ops.spec import summary_keys
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.snapshots import MAIN_BRANCH, Snapshot
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.former_columns import former_entries_of
from iceberg_ops.table.manifests import ManifestLists
from iceberg_ops.table.stored_files import error_reason
from iceberg_ops.table.table import Table

Severity = Literal["error", "warning"]


_UNREADABLE = (IcebergOpsError, OSError, ValueError)
"""Errors of one file that do not end the check."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule: where (a location, or the table's), what, and since which snapshot, if there is one."""

    severity: Severity
    rule: str
    location: str
    detail: str
    snapshot_id: int | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """The number of checked objects."""

    snapshots: int = 0
    manifests: int = 0
    files: int = 0


@dataclass(frozen=True, slots=True)
class Damage:
    """The checked snapshots whose rows are affected by a broken rule, and the branches and tags that read one of them.

    ``newest_intact``: the newest snapshot without damage, from main's history if possible (``is_of_main``); None if there is
    none."""

    snapshot_ids: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()
    newest_intact: int | None = None
    is_of_main: bool = False


@dataclass(slots=True)
class _Contents:
    """The live content of one manifest, summed once and used for every snapshot that lists it."""

    live: list[DataFile] = field(default_factory=list)
    totals: Counter[str] = field(default_factory=Counter)


class IntegrityCheck:
    """One check of a table, or of one of its snapshots. Iterate ``findings()`` once; after that ``checked`` and ``live_files`` are
    filled."""

    def __init__(self, table: Table, only: Snapshot | None = None) -> None:
        self._table = table
        self._snapshots = table.metadata.snapshots if only is None else (only,)
        self._manifests: dict[int, list[str]] = {}
        self._io: FileIO = table.io
        self._lists = ManifestLists(table.io)
        self._identity = identity_under(table.io)
        self._contents: dict[str, _Contents | None] = {}
        self._checked = Counter[str]()
        self.live_files: dict[str, DataFile] = {}
        """Every live file of every existing snapshot, by path."""

    @property
    def checked(self) -> Checked:
        return Checked(self._checked["snapshots"], self._checked["manifests"], self._checked["files"])

    def findings(self) -> Iterator[Finding]:
        """All findings, metadata first, then snapshot by snapshot."""
        metadata = self._table.metadata
        yield from metadata_findings(metadata)
        yield from self._named_files(metadata)
        with self._lists.ahead(self._snapshots):
            for snapshot in self._snapshots:
                self._checked["snapshots"] += 1
                yield from self._snapshot(snapshot)

    def damage(self, findings: Iterable[Finding]) -> Damage:
        """The damage caused by the errors among ``findings`` (of this check, and of files that it named)."""
        metadata = self._table.metadata
        broken = {f.location for f in findings if f.severity == "error"}
        hit = {s.snapshot_id for s in self._snapshots if self._is_hit(s, broken)}
        refs = tuple(name for name, ref in sorted(metadata.refs.items()) if ref.snapshot_id in hit)
        intact = sorted((s for s in self._snapshots if s.snapshot_id not in hit), key=lambda s: (s.sequence_number, s.timestamp_ms))
        of_main = {s.snapshot_id for s in metadata.ancestors(metadata.current_snapshot_id)}
        newest = next((s for s in reversed(intact) if s.snapshot_id in of_main), intact[-1] if intact else None)
        newest_id = None if newest is None else newest.snapshot_id
        return Damage(tuple(sorted(hit)), refs, newest_id, newest_id in of_main)

    def _is_hit(self, snapshot: Snapshot, broken: set[str]) -> bool:
        manifests = self._manifests.get(snapshot.snapshot_id)
        if manifests is None or snapshot.manifest_list in broken or not broken.isdisjoint(manifests):
            return True
        contents = [self._contents[path] for path in manifests]
        return any(c is None or any(f.file_path in broken for f in c.live) for c in contents)

    def _named_files(self, metadata: TableMetadata) -> Iterator[Finding]:
        for entry in metadata.metadata_log:
            yield from self._missing(entry.metadata_file, "previous-metadata", "warning")
        for statistics in metadata.statistics:
            yield from self._missing(statistics.statistics_path, "statistics", "error", statistics.snapshot_id)
        for partitions in metadata.partition_statistics:
            yield from self._missing(partitions.statistics_path, "partition-statistics", "error", partitions.snapshot_id)

    def _missing(self, location: str, what: str, severity: Severity, snapshot_id: int | None = None) -> Iterator[Finding]:
        try:
            if self._io.exists(location):
                return
            detail = "does not exist"
        except _UNREADABLE as e:
            detail = _reason(e)
        yield Finding(severity, f"{what}-file-exists", location, detail, snapshot_id)

    def _snapshot(self, snapshot: Snapshot) -> Iterator[Finding]:
        place = snapshot.manifest_list or self._table.metadata.location
        try:
            manifests = self._lists.of(snapshot)
        except _UNREADABLE as e:
            yield Finding("error", "manifest-list-reads", place, _reason(e), snapshot.snapshot_id)
            return
        self._manifests[snapshot.snapshot_id] = [m.manifest_path for m in manifests]
        complete = True
        for manifest in manifests:
            if manifest.manifest_path not in self._contents:
                yield from self._manifest(manifest, snapshot)
            complete = complete and self._contents[manifest.manifest_path] is not None
        if complete:
            contents = [c for m in manifests if (c := self._contents[m.manifest_path]) is not None]
            yield from _duplicates(contents, snapshot)
            yield from _summary(snapshot, contents, place)
            yield from self._vectors(contents, snapshot)

    def _manifest(self, manifest: ManifestFile, snapshot: Snapshot) -> Iterator[Finding]:
        self._checked["manifests"] += 1
        self._contents[manifest.manifest_path] = None
        if manifest.partition_spec_id not in self._table.metadata.specs_by_id:
            yield _manifest_finding(
                manifest, "manifest-spec", f"partition spec {manifest.partition_spec_id} is not in the metadata", snapshot
            )
            return
        try:
            entries = former_entries_of(self._table, snapshot, manifest)
        except _UNREADABLE as e:
            yield _manifest_finding(manifest, "manifest-reads", _reason(e), snapshot)
            return
        contents = self._contents[manifest.manifest_path] = _Contents()
        yield from _counts(manifest, entries, snapshot)
        for entry in entries:
            if entry.is_live:
                contents.live.append(entry.data_file)
                contents.totals.update(_totals(entry.data_file))
                yield from self._live_file(manifest, entry, snapshot)
        if wrong := self._other_length(manifest.manifest_path, manifest.manifest_length):
            yield _manifest_finding(manifest, "manifest-length", wrong, snapshot, "warning")

    def _live_file(self, manifest: ManifestFile, entry: ManifestEntry, snapshot: Snapshot) -> Iterator[Finding]:
        file = entry.data_file
        if (file.content is FileContent.DATA) != (manifest.content is ManifestContent.DATA):
            yield Finding(
                "error",
                "manifest-content",
                file.file_path,
                f"is listed in a manifest of {manifest.content.name.lower()}",
                snapshot.snapshot_id,
            )
        if manifest.sequence_number and (entry.sequence_number or 0) < manifest.min_sequence_number:
            detail = f"holds a file of sequence number {entry.sequence_number}, recorded minimum is {manifest.min_sequence_number}"
            yield _manifest_finding(manifest, "manifest-min-sequence-number", detail, snapshot)
        if unknown := [i for i in file.equality_ids or () if i not in self._table.metadata.all_fields_by_id]:
            yield Finding(
                "error",
                "equality-ids",
                file.file_path,
                f"deletes by field {unknown[0]}, which is in no schema",
                snapshot.snapshot_id,
            )
        if file.file_path in self.live_files:
            return
        self._checked["files"] += 1
        missing = list(
            self._missing(file.file_path, "data" if file.content is FileContent.DATA else "delete", "error", snapshot.snapshot_id)
        )
        yield from missing
        if missing:
            return
        self.live_files[file.file_path] = file
        if wrong := self._other_length(file.file_path, file.file_size_in_bytes):
            yield Finding("warning", "file-length", file.file_path, wrong, snapshot.snapshot_id)

    def _other_length(self, location: str, recorded: int) -> str:
        """What is wrong with a file's length; empty if nothing is."""
        try:
            length = self._io.length(location)
        except _UNREADABLE as e:
            return f"its length is not known: {_reason(e)}"
        return "" if length == recorded else f"has {length} bytes, recorded are {recorded}"

    def _vectors(self, contents: list[_Contents], snapshot: Snapshot) -> Iterator[Finding]:
        vectors = [f for c in contents for f in c.live if f.is_deletion_vector]
        if not vectors:
            return
        data = {self._identity(f.file_path) for c in contents for f in c.live if f.content is FileContent.DATA}
        seen: dict[str, DataFile] = {}
        for file in vectors:
            if file.referenced_data_file is None:
                yield Finding("error", "deletion-vector", file.file_path, "does not name its data file", snapshot.snapshot_id)
                continue
            target = self._identity(file.referenced_data_file)
            if (other := seen.setdefault(target, file)) is not file:
                detail = f"data file {file.referenced_data_file} has another deletion vector in {other.file_path}"
                yield Finding("error", "deletion-vector", file.file_path, detail, snapshot.snapshot_id)
            if target not in data:
                detail = f"belongs to {file.referenced_data_file}, which is not live"
                yield Finding("warning", "dangling-deletion-vector", file.file_path, detail, snapshot.snapshot_id)


def metadata_findings(metadata: TableMetadata) -> Iterator[Finding]:
    """Checks of rules inside the metadata file itself."""

    def broken(rule: str, detail: str, snapshot_id: int | None = None) -> Finding:
        return Finding("error", rule, metadata.location, detail, snapshot_id)

    for what, known, current_id in (
        ("schema", metadata.schemas_by_id, metadata.current_schema_id),
        ("partition spec", metadata.specs_by_id, metadata.default_spec_id),
        ("sort order", metadata.sort_orders_by_id, metadata.default_sort_order_id),
    ):
        if current_id not in known:
            yield broken("metadata-ids", f"{what} {current_id} is not in the metadata")
    if metadata.current_snapshot_id is not None and metadata.current_snapshot_id not in metadata.snapshots_by_id:
        yield broken("current-snapshot", f"snapshot {metadata.current_snapshot_id} is not in the metadata")
    for name, ref in metadata.refs.items():
        if ref.snapshot_id not in metadata.snapshots_by_id:
            yield broken("refs", f"{ref.type} {name!r} names snapshot {ref.snapshot_id}, which is not in the metadata")
        elif name == MAIN_BRANCH and ref.snapshot_id != metadata.current_snapshot_id:
            yield broken("refs", f"main is at {ref.snapshot_id}, the current snapshot is {metadata.current_snapshot_id}")
    highest = max((s.highest_field_id for s in metadata.schemas), default=0)
    if highest > metadata.last_column_id:
        yield broken("last-column-id", f"is {metadata.last_column_id}, but field {highest} exists")
    for snapshot in metadata.snapshots:
        if snapshot.sequence_number > metadata.last_sequence_number:
            detail = f"sequence number {snapshot.sequence_number} is above the table's {metadata.last_sequence_number}"
            yield broken("last-sequence-number", detail, snapshot.snapshot_id)
        if snapshot.schema_id is not None and snapshot.schema_id not in metadata.schemas_by_id:
            yield broken("snapshot-schema", f"schema {snapshot.schema_id} is not in the metadata", snapshot.snapshot_id)


def _counts(manifest: ManifestFile, entries: Iterable[ManifestEntry], snapshot: Snapshot) -> Iterator[Finding]:
    files, rows = Counter[EntryStatus](), Counter[EntryStatus]()
    for entry in entries:
        files[entry.status] += 1
        rows[entry.status] += entry.data_file.record_count
    added, existing, deleted = EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED
    for name, recorded, counted in (
        ("added files", manifest.added_files_count, files[added]),
        ("existing files", manifest.existing_files_count, files[existing]),
        ("deleted files", manifest.deleted_files_count, files[deleted]),
        ("added rows", manifest.added_rows_count, rows[added]),
        ("existing rows", manifest.existing_rows_count, rows[existing]),
        ("deleted rows", manifest.deleted_rows_count, rows[deleted]),
    ):
        if recorded is not None and recorded != counted:
            yield _manifest_finding(
                manifest, "manifest-counts", f"has {counted} {name}, the manifest list says {recorded}", snapshot
            )


def _totals(file: DataFile) -> Mapping[str, int]:
    if file.content is FileContent.DATA:
        return {summary_keys.TOTAL_DATA_FILES: 1, summary_keys.TOTAL_RECORDS: file.record_count}
    kind = (
        summary_keys.TOTAL_EQUALITY_DELETES if file.content is FileContent.EQUALITY_DELETES else summary_keys.TOTAL_POSITION_DELETES
    )
    return {summary_keys.TOTAL_DELETE_FILES: 1, kind: file.record_count}


def _summary(snapshot: Snapshot, contents: list[_Contents], place: str) -> Iterator[Finding]:
    counted = sum((c.totals for c in contents), Counter[str]())
    for name in (
        summary_keys.TOTAL_DATA_FILES,
        summary_keys.TOTAL_DELETE_FILES,
        summary_keys.TOTAL_RECORDS,
        summary_keys.TOTAL_POSITION_DELETES,
        summary_keys.TOTAL_EQUALITY_DELETES,
    ):
        text = snapshot.summary.get(name)
        if text is not None and text != str(counted[name]):
            yield Finding(
                "error",
                "summary-totals",
                place,
                f"{name} is {text} in the summary, {counted[name]} in the manifests",
                snapshot.snapshot_id,
            )


def _duplicates(contents: list[_Contents], snapshot: Snapshot) -> Iterator[Finding]:
    times = Counter((f.file_path, f.content_offset) for c in contents for f in c.live)
    for (path, _), n in times.items():
        if n > 1:
            yield Finding("error", "live-once", path, f"is live {n} times in one snapshot", snapshot.snapshot_id)


def _manifest_finding(manifest: ManifestFile, rule: str, detail: str, snapshot: Snapshot, severity: Severity = "error") -> Finding:
    return Finding(severity, rule, manifest.manifest_path, detail, snapshot.snapshot_id)


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "does not exist"
    return f"cannot be read: {error_reason(error)}" if isinstance(error, OSError) else " ".join(str(error).split())
