"""A table of metadata only: data files that do not exist, ten columns with all statistics, partitioned by day, few manifests."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.manifests import ManifestContent, ManifestFile
from iceberg_ops.spec.metadata_builder import apply_updates
from iceberg_ops.spec.new_table import new_table_metadata
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import Snapshot, SnapshotRef
from iceberg_ops.spec.sorting import UNSORTED
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import DATE, DOUBLE, INT, LONG, STRING, TIMESTAMP, NestedField
from iceberg_ops.spec.updates import AddSnapshot, SetSnapshotRef
from iceberg_ops.table.manifests import ManifestWriter, write_manifest_list
from iceberg_ops.table.metadata_files import new_metadata_location, write_metadata
from iceberg_ops.table.table import Table

TYPES = (LONG, DATE, INT, STRING, DOUBLE, DOUBLE, STRING, TIMESTAMP, LONG, DOUBLE)
NAMES = ("id", "day", "kind", "name", "price", "tax", "comment", "at", "part", "discount")
PER_MANIFEST = 5000
DAYS = 100
ROWS = 10_000
SNAPSHOT = 4242
NOW = 1_700_000_000_000


def make_table(folder: Path | str, files: int, *, io: FileIO | None = None, per_manifest: int = PER_MANIFEST) -> Table:
    """A v2 table with ``files`` data files; file n holds ids n * ROWS to (n + 1) * ROWS - 1 and is in day n // (files / DAYS)."""
    io = io or LocalFileIO()
    schema = Schema.of(*(NestedField(i + 1, n, t) for i, (n, t) in enumerate(zip(NAMES, TYPES, strict=True))))
    spec = PartitionSpec(0, (PartitionField((2,), 1000, IDENTITY, "day"),))
    metadata = new_table_metadata(schema, spec, UNSORTED, str(folder), {"format-version": "2"}, now_ms=NOW)
    manifests = [
        _manifest(metadata, io, range(first, min(first + per_manifest, files)), files) for first in range(0, files, per_manifest)
    ]
    written = write_manifest_list(metadata, io, manifests, snapshot_id=SNAPSHOT, parent_snapshot_id=None, sequence_number=1)
    snapshot = Snapshot(
        snapshot_id=SNAPSHOT,
        sequence_number=1,
        timestamp_ms=NOW,
        manifest_list=written.location,
        summary={"operation": "append"},
        schema_id=metadata.current_schema_id,
    )
    updates = [AddSnapshot(snapshot), SetSnapshotRef("main", SnapshotRef(snapshot_id=SNAPSHOT))]
    metadata = apply_updates(metadata, updates, now_ms=NOW)
    location = new_metadata_location(metadata, 1)
    write_metadata(io, location, metadata)
    return Table(("bench", "db", "plan"), metadata, location, io)


def _manifest(metadata: TableMetadata, io: FileIO, numbers: Sequence[int], files: int) -> ManifestFile:
    writer = ManifestWriter(metadata, io, spec_id=0, content=ManifestContent.DATA, snapshot_id=SNAPSHOT, target_size=1 << 40)
    for n in numbers:
        writer.add(_file(metadata.location, n, files))
    return writer.close()[0]


def _file(location: str, n: int, files: int) -> DataFile:
    day, first, last = n * DAYS // files, n * ROWS, n * ROWS + ROWS - 1
    low = (*_wide(first, day), f"name {n:08}".encode(), *_reals(n), b"a comment", *_longs(first), struct.pack("<d", 0.0))
    high = (*_wide(last, day), f"name {n:08}z".encode(), *_reals(n + 1), b"z comment", *_longs(last), struct.pack("<d", 0.5))
    ids = range(1, len(TYPES) + 1)
    return DataFile(
        file_path=f"{location}/data/day={day}/{n:08}-0-8d3c9bb4-6b1f-4a4e-9f5c-1d2e3f405060-00001.parquet",
        file_format=FileFormat.PARQUET,
        partition=(day,),
        record_count=ROWS,
        file_size_in_bytes=800_000 + n % 1000,
        column_sizes={i: 10_000 + (n * i) % 977 for i in ids},
        value_counts=dict.fromkeys(ids, ROWS),
        null_value_counts=dict.fromkeys(ids, 0),
        nan_value_counts={5: 0, 6: 0, 10: 0},
        lower_bounds=dict(zip(ids, low, strict=True)),
        upper_bounds=dict(zip(ids, high, strict=True)),
        split_offsets=(4,),
        sort_order_id=0,
    )


def _wide(number: int, day: int) -> tuple[bytes, bytes, bytes]:
    return struct.pack("<q", number), struct.pack("<i", day), struct.pack("<i", number % 7)


def _reals(n: int) -> tuple[bytes, bytes]:
    return struct.pack("<d", n * 0.5), struct.pack("<d", n % 10 / 100)


def _longs(number: int) -> tuple[bytes, bytes]:
    return struct.pack("<q", NOW * 1000 + number), struct.pack("<q", number % 11)
