"""Manifests of one table: which ones a snapshot has, their entries, and writing new ones.

``serde`` handles the bytes; this module handles locations, rolling at the target size, the process-wide cache of decoded manifests,
and the counts that old lists do not record. Recorded lengths are never trusted for reading.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from iceberg_ops.config import properties
from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.errors import CorruptTableError, FormerColumnsError
from iceberg_ops.io.far_files import bytes_ahead
from iceberg_ops.io.file_io import FileIO, is_far
from iceberg_ops.serde.avro.avro_container import codec_of_property
from iceberg_ops.serde.manifests import manifest_columnar
from iceberg_ops.serde.manifests.manifest_avro import ManifestEncoder, read_live_paths, read_manifest, read_manifest_header
from iceberg_ops.serde.manifests.manifest_columnar import FEWEST_RECORDS, EntryColumns
from iceberg_ops.serde.manifests.manifest_list_avro import ManifestListReader, assign_inherited, read_manifest_list
from iceberg_ops.serde.manifests.manifest_list_avro import write_manifest_list as encode_manifest_list
from iceberg_ops.spec import summary_keys
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import UNASSIGNED, EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.entry_cache import EntryCache, entries_bytes
from iceberg_ops.table.metadata_files import metadata_folder
from iceberg_ops.table.stored_files import read_stored
from iceberg_ops.table.table import Table, partition_type, require_spec

CACHE = EntryCache()
"""Decoded manifests of this process."""
_BYTES_OF_MANIFEST = 1_000
"""The memory of a manifest's row in a list."""
_BYTES_OF_ENTRY = 600
"""The memory of an entry whose statistics stay in its manifest's columns."""


def manifests_of(table: Table, snapshot: Snapshot | None) -> list[ManifestFile]:
    """The snapshot's manifests in list order; none for no snapshot. Raises CorruptTableError, also for a missing file.

    A list never changes. In a store it is cached in this process, because reading it again is a round trip; elsewhere in the
    table's ``lists``, if it has them. A v1 snapshot with embedded manifests (SNAP-27) gives rows made from the manifests' own
    headers: counts unknown.
    """
    if snapshot is None:
        return []
    location = snapshot.manifest_list
    if location is None:
        return [_embedded(table.io, path, snapshot) for path in snapshot.manifests or ()]

    def read() -> list[ManifestFile]:
        return read_manifest_list(read_stored(table.io, location, "manifest list"), location)

    if not is_far(table.io, location):
        return read() if table.lists is None else table.lists.of(location, read)
    key = ("list", location, tuple(sorted(table.io.properties.items())))
    listed: list[ManifestFile] = CACHE.get(key, read, lambda manifests: _BYTES_OF_MANIFEST * len(manifests))
    return list(listed)


class ManifestLists:
    """The manifests of many snapshots of one table: one that several snapshots list is decoded once and is the same object. Always
    read from storage; in a store those of ``ahead`` are requested early. Not thread-safe."""

    def __init__(self, io: FileIO) -> None:
        self._io, self._reader = io, ManifestListReader()

    @contextmanager
    def ahead(self, snapshots: Iterable[Snapshot]) -> Iterator[None]:
        """Within this context the lists of ``snapshots`` are read soon, in this order."""
        before = self._io
        with bytes_ahead(before, (s.manifest_list for s in snapshots if s.manifest_list is not None)) as self._io:
            try:
                yield
            finally:
                self._io = before

    def of(self, snapshot: Snapshot) -> list[ManifestFile]:
        """The same as ``manifests_of``. Raises CorruptTableError, also for a missing file."""
        location = snapshot.manifest_list
        if location is None:
            return [_embedded(self._io, path, snapshot) for path in snapshot.manifests or ()]
        return self._reader.read(read_stored(self._io, location, "manifest list"), location)

    def still_there(self, snapshot: Snapshot) -> list[ManifestFile]:
        """Like ``of``, for an expired snapshot: missing files were already deleted."""
        location = snapshot.manifest_list
        if location is None:
            there = (path for path in snapshot.manifests or () if self._io.exists(path))
            return [_embedded(self._io, path, snapshot) for path in there]
        try:
            return self._reader.read(self._io.read(location), location)
        except FileNotFoundError:
            return []


def entries_of(table: Table, manifest: ManifestFile, *, live_only: bool = False) -> list[ManifestEntry]:
    """A manifest's entries in file order, inheritance resolved; cached in this process. Raises CorruptTableError."""
    entries = cached_entries(table.metadata, table.io, manifest)
    return [e for e in entries if e.is_live] if live_only else list(entries)


def cached_entries(metadata: TableMetadata, io: FileIO, manifest: ManifestFile) -> Sequence[ManifestEntry]:
    """Like ``entries_of``, for callers without a Table; the result is shared, so it must not be changed."""
    type_ = partition_type(metadata, manifest.partition_spec_id)
    decoded = opened(metadata, io, manifest)()
    if not isinstance(decoded, EntryColumns):
        return decoded
    return CACHE.get(("entries", *_key(io, manifest), type_), decoded.entries, lambda entries: _BYTES_OF_ENTRY * len(entries))


def columns_of(table: Table, manifest: ManifestFile) -> EntryColumns | None:
    """A manifest's entries as columns, cached in this process; None if only ``entries_of`` can read it (see manifest_columnar).

    ``columns.entries(rows)`` makes entries of chosen rows. Raises CorruptTableError.
    """
    decoded = opened(table.metadata, table.io, manifest)()
    return decoded if isinstance(decoded, EntryColumns) else None


def opened(metadata: TableMetadata, io: FileIO, manifest: ManifestFile) -> Callable[[], EntryColumns | Sequence[ManifestEntry]]:
    """Reads the bytes of a manifest now, unless this process has it decoded. Calling the result decodes it; that needs no storage
    and may be done by another thread. It gives columns, or entries if only the record decoder can read it. Raises
    CorruptTableError."""
    type_ = partition_type(metadata, manifest.partition_spec_id)
    key = ("manifest", *_key(io, manifest), type_)
    known: EntryColumns | Sequence[ManifestEntry] | None = CACHE.known(key)
    if known is not None:
        return lambda: known
    data = read_stored(io, manifest.manifest_path, "manifest")

    def decode() -> EntryColumns | Sequence[ManifestEntry]:
        try:
            return manifest_columnar.read_either(data, manifest, type_)
        except CorruptTableError as e:
            raise (_of_former_columns(metadata, data, manifest, e) or e) from None

    return lambda: CACHE.get(
        key, decode, lambda decoded: decoded.nbytes if isinstance(decoded, EntryColumns) else entries_bytes(decoded)
    )


@contextmanager
def manifests_ahead(table: Table, manifests: Iterable[ManifestFile]) -> Iterator[Table]:
    """Within this context ``manifests`` are read soon, in this order: in a store their bytes are requested early, unless this
    process has them decoded."""
    sizes = {m.manifest_path: m.manifest_length for m in manifests if not _is_decoded(table, m)}
    with bytes_ahead(table.io, sizes) as near:
        yield table if near is table.io else replace(table, io=near)


def _is_decoded(table: Table, m: ManifestFile) -> bool:
    if m.partition_spec_id not in table.metadata.specs_by_id:
        return False
    return CACHE.known(("manifest", *_key(table.io, m), partition_type(table.metadata, m.partition_spec_id))) is not None


def _of_former_columns(metadata: TableMetadata, data: bytes, manifest: ManifestFile, error: CorruptTableError) -> Exception | None:
    """The error for a manifest that cannot be read because another engine replaced the table after it was written: its partition
    columns had other types, with which it can be read. None if that is not the reason."""
    spec_id = manifest.partition_spec_id
    types = {partition_type(replace(metadata, current_schema_id=s.schema_id), spec_id): None for s in metadata.schemas}
    for type_ in types:
        with suppress(CorruptTableError):
            manifest_columnar.read_either(data, manifest, type_)
            return FormerColumnsError.from_error(error)
    return None


def live_paths(table: Table, manifest: ManifestFile) -> Iterable[tuple[str, int]]:
    """Path and content of each live entry, without creating entries. The table need not have the manifest's spec any more, nor the
    types in which its partition values were written. Raises CorruptTableError."""
    if manifest.partition_spec_id in table.metadata.specs_by_id:
        listed = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
        key = ("manifest", *_key(table.io, manifest), partition_type(table.metadata, manifest.partition_spec_id))
        known: EntryColumns | Sequence[ManifestEntry] | None = CACHE.known(key)
        if known is None and sum(n or 0 for n in listed) >= FEWEST_RECORDS:
            with suppress(CorruptTableError):  # paths can be read even if partition values have other types than the columns now
                known = columns_of(table, manifest)
        if isinstance(known, EntryColumns):
            rows = zip(known.paths(), known.content.tolist(), known.live.tolist(), strict=True)
            return ((path, content) for path, content, live in rows if live)
        if known is not None:
            return ((e.data_file.file_path, e.data_file.content) for e in known if e.is_live)
    return read_live_paths(read_stored(table.io, manifest.manifest_path, "manifest"), manifest)


def _key(io: FileIO, m: ManifestFile) -> tuple[Hashable, ...]:
    """The values that determine a manifest's entries: its bytes (by path and storage) and the inherited numbers."""
    storage = tuple(sorted(io.properties.items()))
    return (m.manifest_path, storage, m.sequence_number, m.first_row_id, m.added_snapshot_id, m.partition_spec_id, m.content)


def read_entries(table: Table, manifest: ManifestFile) -> list[ManifestEntry]:
    """Like ``entries_of``, but always from storage (for checks of the current files)."""
    data = read_stored(table.io, manifest.manifest_path, "manifest")
    return read_manifest(data, manifest, table.partition_type(manifest.partition_spec_id))


class ManifestWriter:
    """Writes entries of one spec and one content into manifests of about ``target_size`` bytes.

    ``snapshot_id`` is the snapshot that the manifests are written for (None: new entries inherit it). Manifests do not depend on
    the commit attempt: their sequence number and first row id are left to the manifest list. File names start with a fresh UUID
    unless ``name`` is given.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        io: FileIO,
        *,
        spec_id: int,
        content: ManifestContent,
        snapshot_id: int | None,
        target_size: int | None = None,
        name: str | None = None,
    ) -> None:
        self._metadata, self._io = metadata, io
        self._spec_id, self._content, self._snapshot_id = spec_id, content, snapshot_id
        self._target = target_size or properties.MANIFEST_TARGET_SIZE_BYTES.of(metadata.properties)
        self._codec = codec_of_property(properties.MANIFEST_COMPRESSION.of(metadata.properties))
        self._name = name or str(uuid.uuid4())
        self._folder = metadata_folder(metadata)
        self._encoder: ManifestEncoder | None = None
        self._written: list[ManifestFile] = []

    @property
    def written(self) -> tuple[str, ...]:
        """Locations written so far: the files that an abandoned commit has to delete."""
        return tuple(m.manifest_path for m in self._written)

    def add(self, entry: ManifestEntry | DataFile, *, sequence_number: int | None = None) -> None:
        """A new file. Its data sequence number is the commit's, unless the entry or ``sequence_number`` has an older one
        (SEQ-06)."""
        if isinstance(entry, ManifestEntry):
            sequence_number = entry.sequence_number if sequence_number is None else sequence_number
            entry = entry.data_file
        self._append(ManifestEntry(EntryStatus.ADDED, self._snapshot_id, sequence_number, None, entry))

    def existing(self, entry: ManifestEntry) -> None:
        """A file carried over from another manifest, with its own snapshot id and numbers."""
        self._append(replace(entry, status=EntryStatus.EXISTING))

    def deleted(self, entry: ManifestEntry) -> None:
        """A file that this snapshot removes."""
        self._append(replace(entry, status=EntryStatus.DELETED, snapshot_id=self._snapshot_id))

    def copy(self, entry: ManifestEntry) -> None:
        """An unchanged entry."""
        self._append(entry)

    def close(self) -> list[ManifestFile]:
        """Write pending entries; returns all manifests written."""
        if self._encoder is not None and self._encoder.entry_count:
            self._write(self._encoder)
        self._encoder = None
        return list(self._written)

    def _append(self, entry: ManifestEntry) -> None:
        if self._encoder is None:
            self._encoder = self._new_encoder()
        self._encoder.add(entry)
        if self._encoder.size >= self._target:
            self._write(self._encoder)
            self._encoder = None

    def _new_encoder(self) -> ManifestEncoder:
        return ManifestEncoder(
            spec=require_spec(self._metadata, self._spec_id),
            schema=self._metadata.schema,
            partition_type=partition_type(self._metadata, self._spec_id),
            format_version=self._metadata.format_version,
            content=self._content,
            snapshot_id=self._snapshot_id,
            compression=self._codec,
        )

    def _write(self, encoder: ManifestEncoder) -> None:
        data, manifest = encoder.finish(f"{self._folder}/{self._name}-m{len(self._written)}.avro")
        self._io.write(manifest.manifest_path, data)
        self._written.append(manifest)


@dataclass(frozen=True, slots=True)
class WrittenManifestList:
    """A manifest list in storage: its rows as written, and (v3) the first row id that it assigns, and the next free one after
    it."""

    location: str
    manifests: tuple[ManifestFile, ...]
    first_row_id: int | None = None
    next_row_id: int | None = None


def write_manifest_list(
    metadata: TableMetadata,
    io: FileIO,
    manifests: Iterable[ManifestFile],
    *,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    attempt: int = 1,
) -> WrittenManifestList:
    """Write one commit attempt's manifest list under a fresh name ``snap-<id>-<attempt>-<uuid>.avro``.

    New manifests get the sequence number, and in v3 tables row ids from the table's ``next-row-id``; unknown counts are filled in.
    """
    version = metadata.format_version
    known = [m if version == 1 or _is_counted(m) else counted(metadata, io, m) for m in manifests]
    first_row_id = _first_free_row_id(metadata, known) if version >= 3 else None
    rows, next_row_id = assign_inherited(known, sequence_number=sequence_number if version > 1 else 0, first_row_id=first_row_id)
    data = encode_manifest_list(
        rows,
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent_snapshot_id,
        sequence_number=sequence_number,
        format_version=version,
        first_row_id=first_row_id,
        compression=codec_of_property(properties.MANIFEST_COMPRESSION.of(metadata.properties)),
    )
    location = f"{metadata_folder(metadata)}/snap-{snapshot_id}-{attempt}-{uuid.uuid4()}.avro"
    io.write(location, data)
    return WrittenManifestList(location, tuple(rows), first_row_id, next_row_id)


def _first_free_row_id(metadata: TableMetadata, manifests: Iterable[ManifestFile]) -> int:
    """The table's ``next-row-id``, or a later one, if manifests have ids beyond it: the snapshot of another engine that gave ids to
    rows of an upgraded table may count its own rows only."""
    data = ((m, m.first_row_id) for m in manifests if m.content is ManifestContent.DATA)
    return max(metadata.next_row_id or 0, *(first + _rows_of(m) for m, first in data if first is not None), 0)


def _rows_of(m: ManifestFile) -> int:
    return (m.added_rows_count or 0) + (m.existing_rows_count or 0)


def certainly_counted(table: Table, manifests: Sequence[ManifestFile], parent: Snapshot | None) -> Sequence[ManifestFile]:
    """``manifests``, of which those of ``parent`` will get row ids in a v3 table. If the total of its summary is not that of its
    list, their rows are counted: with too low counts, two rows would get one id. Raises CorruptTableError."""
    if table.metadata.format_version < 3 or parent is None or not any(map(_lacks_row_ids, manifests)):
        return manifests
    listed = sum(_rows_of(m) for m in manifests_of(table, parent) if m.content is ManifestContent.DATA)
    if parse_count(parent.summary.get(summary_keys.TOTAL_RECORDS)) == listed:
        return manifests
    with manifests_ahead(table, (m for m in manifests if _lacks_row_ids(m))) as near:
        return [_counted_if_readable(near, m) if _lacks_row_ids(m) else m for m in manifests]


def _lacks_row_ids(m: ManifestFile) -> bool:
    """Whether another commit wrote the manifest, and its files have no row ids."""
    return m.content is ManifestContent.DATA and m.first_row_id is None and m.sequence_number != UNASSIGNED


def _counted_if_readable(table: Table, m: ManifestFile) -> ManifestFile:
    """A manifest of former columns (another engine has replaced the table) keeps its counts."""
    try:
        return counted(table.metadata, table.io, m)
    except FormerColumnsError:
        return m


def _is_counted(m: ManifestFile) -> bool:
    counts = (m.added_files_count, m.existing_files_count, m.deleted_files_count)
    return None not in counts and None not in (m.added_rows_count, m.existing_rows_count, m.deleted_rows_count)


def counted(metadata: TableMetadata, io: FileIO, m: ManifestFile) -> ManifestFile:
    """The manifest with the counts of its entries: an old list need not record them (required since v2). Raises
    CorruptTableError."""
    files, rows = [0, 0, 0], [0, 0, 0]
    for entry in cached_entries(metadata, io, m):
        files[entry.status] += 1
        rows[entry.status] += entry.data_file.record_count
    added, existing, deleted = EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED
    return replace(
        m,
        added_files_count=files[added],
        existing_files_count=files[existing],
        deleted_files_count=files[deleted],
        added_rows_count=rows[added],
        existing_rows_count=rows[existing],
        deleted_rows_count=rows[deleted],
    )


def _embedded(io: FileIO, path: str, snapshot: Snapshot) -> ManifestFile:
    data = read_stored(io, path, "manifest")
    header = read_manifest_header(data, path)
    return ManifestFile(
        manifest_path=path,
        manifest_length=len(data),
        partition_spec_id=header.partition_spec_id or 0,
        content=header.content,
        added_snapshot_id=snapshot.snapshot_id,
    )
