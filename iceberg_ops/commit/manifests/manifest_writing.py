"""Writes the manifests and manifest lists of one operation, for all its attempts.

Names are Java's: ``<commit uuid>-m<n>.avro`` and ``snap-<snapshot id>-<attempt>-<commit uuid>.avro`` below the table's metadata
folder. Every file written is remembered, so that those of losing attempts can be deleted. Entries of manifests written here are
kept in memory too, because their sequence numbers are not assigned before the commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence

from iceberg_ops.config.properties import MANIFEST_COMPRESSION, MANIFEST_TARGET_SIZE_BYTES
from iceberg_ops.errors import ValidationError
from iceberg_ops.serde.avro.avro_container import codec_of_property
from iceberg_ops.serde.manifests.manifest_avro import ManifestEncoder
from iceberg_ops.serde.manifests.manifest_rewriting import Rows
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.manifests import WrittenManifestList, certainly_counted, entries_of, write_manifest_list
from iceberg_ops.table.metadata_files import metadata_folder
from iceberg_ops.table.table import Table

ManifestKey = tuple[str, int, int | None, int | None]


def manifest_key(manifest: ManifestFile) -> ManifestKey:
    """The values that determine a manifest's entries: its bytes, and the numbers they inherit. Inside a transaction each attempt
    lists the same path again, with its own sequence number and row ids: results cached for other numbers would be wrong."""
    return manifest.manifest_path, manifest.sequence_number, manifest.first_row_id, manifest.added_snapshot_id


class ManifestFolder:
    """Where one operation writes its manifests. ``written`` is every file, by any attempt."""

    def __init__(self, snapshot_id: int) -> None:
        self.snapshot_id = snapshot_id
        self.commit_uuid = str(uuid.uuid4())
        self.written: list[str] = []
        self._manifests = 0
        self._lists = 0
        self._entries: dict[str, tuple[ManifestEntry, ...] | Rows] = {}

    def entries(self, table: Table, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """All entries of a manifest, whether it is committed or was written by this operation."""
        known = self._entries[manifest.manifest_path] if self.is_new(manifest) else None
        if isinstance(known, Rows):
            return known.entries(self.snapshot_id)
        return entries_of(table, manifest) if known is None else known

    def is_new(self, manifest: ManifestFile) -> bool:
        """Whether this operation wrote or adopted it. An adopted manifest may be in the table already, appended by another commit:
        there its entries have that one's numbers."""
        return manifest.manifest_path in self._entries and manifest.added_snapshot_id == self.snapshot_id

    def adopt(self, manifest: ManifestFile, entries: Sequence[ManifestEntry]) -> ManifestFile:
        """A new manifest that another process wrote for this snapshot; ``written`` does not contain it."""
        self._entries[manifest.manifest_path] = tuple(entries)
        return manifest

    def write_rolling(
        self,
        table: Table,
        spec_id: int,
        content: ManifestContent,
        entries: Iterable[ManifestEntry],
        on_written: Callable[[ManifestFile], object] = lambda _: None,
    ) -> list[ManifestFile]:
        """Manifests of about ``commit.manifest.target-size-bytes`` that hold the entries in order; none if there are no entries.
        ``told`` receives each manifest after it is written."""
        target = MANIFEST_TARGET_SIZE_BYTES.of(table.properties)
        done: list[ManifestFile] = []
        encoder, held = self.encoder(table.metadata, spec_id, content), list[ManifestEntry]()
        for entry in entries:
            encoder.add(entry)
            held.append(entry)
            if encoder.size >= target:
                done.append(self._finish(table, encoder, held))
                on_written(done[-1])
                encoder, held = self.encoder(table.metadata, spec_id, content), []
        if held:
            done.append(self._finish(table, encoder, held))
            on_written(done[-1])
        return done

    def write_one(self, table: Table, spec_id: int, content: ManifestContent, entries: Iterable[ManifestEntry]) -> ManifestFile:
        """One manifest, however large."""
        encoder, held = self.encoder(table.metadata, spec_id, content), list(entries)
        for entry in held:
            encoder.add(entry)
        return self._finish(table, encoder, held)

    def write_encoded(self, table: Table, encoder: ManifestEncoder, rows: Rows) -> ManifestFile:
        """A manifest whose ``rows`` are already encoded."""
        return self._finish(table, encoder, rows)

    def write_list(
        self, table: Table, manifests: Sequence[ManifestFile], parent: Snapshot | None, sequence_number: int
    ) -> WrittenManifestList:
        """The manifest list of one attempt."""
        self._lists += 1
        written = write_manifest_list(
            table.metadata,
            table.io,
            certainly_counted(table, manifests, parent),
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=None if parent is None else parent.snapshot_id,
            sequence_number=sequence_number,
            attempt=self._lists,
        )
        self.written.append(written.location)
        return written

    def encoder(self, metadata: TableMetadata, spec_id: int, content: ManifestContent) -> ManifestEncoder:
        spec = metadata.specs_by_id.get(spec_id)
        if spec is None:
            raise ValidationError(f"partition spec {spec_id} of a file to be committed is not in table {metadata.location}")
        return ManifestEncoder(
            spec=spec,
            schema=metadata.schema,
            partition_type=spec.partition_type(metadata.all_fields_by_id),
            format_version=metadata.format_version,
            content=content,
            snapshot_id=self.snapshot_id,
            compression=codec_of_property(MANIFEST_COMPRESSION.of(metadata.properties)),
        )

    def _finish(self, table: Table, encoder: ManifestEncoder, held: list[ManifestEntry] | Rows) -> ManifestFile:
        location = f"{metadata_folder(table.metadata)}/{self.commit_uuid}-m{self._manifests}.avro"
        self._manifests += 1
        data, manifest = encoder.finish(location)
        self._write(table, location, data)
        self._entries[location] = held if isinstance(held, Rows) else tuple(held)
        return manifest

    def _write(self, table: Table, location: str, data: bytes) -> None:
        self.written.append(location)
        table.io.write(location, data)


def existing(entry: ManifestEntry) -> ManifestEntry:
    """The entry as it is copied to another manifest: numbers and snapshot id stay."""
    return ManifestEntry(
        EntryStatus.EXISTING, entry.snapshot_id, entry.sequence_number, entry.file_sequence_number, entry.data_file
    )


def deleted(entry: ManifestEntry, snapshot_id: int) -> ManifestEntry:
    """The entry as written by the snapshot that removes its file."""
    return ManifestEntry(EntryStatus.DELETED, snapshot_id, entry.sequence_number, entry.file_sequence_number, entry.data_file)
