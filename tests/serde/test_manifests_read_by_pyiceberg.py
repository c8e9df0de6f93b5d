"""PyIceberg reads our manifests and lists with equal entries."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.serde.manifests.manifest_avro import read_manifest, write_manifest
from iceberg_ops.serde.manifests.manifest_columnar import read_columns
from iceberg_ops.serde.manifests.manifest_encoding import ManifestEncoder
from iceberg_ops.serde.manifests.manifest_list_avro import write_manifest_list
from iceberg_ops.serde.manifests.manifest_rewriting import Rows, add_rows
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import DAY, IDENTITY, bucket
from iceberg_ops.spec.types import BINARY, BOOLEAN, DATE, DOUBLE, FLOAT, INT, LONG, STRING, TIMESTAMPTZ, DecimalType, NestedField

pyiceberg_io = pytest.importorskip("pyiceberg.io.pyarrow")
pyiceberg_manifest = pytest.importorskip("pyiceberg.manifest")
pytestmark = pytest.mark.oracle

TYPES = (BOOLEAN, INT, LONG, FLOAT, DOUBLE, DATE, STRING, BINARY, DecimalType(precision=9, scale=2), TIMESTAMPTZ)
VALUES = (True, -7, 2**40, 1.5, -2.25, 17000, "a/b ü", b"\x00\xff", Decimal("-12.34"), 1_600_000_000_000_000)
SCHEMA = Schema.of(*(NestedField(i + 1, f"c{i}", t) for i, t in enumerate(TYPES)))
IDENTITIES = tuple(PartitionField((i + 1,), 1000 + i, IDENTITY, f"odd name {i}") for i in range(len(TYPES)))
SPEC = PartitionSpec(3, (*IDENTITIES, PartitionField((3,), 1100, bucket(16), "b"), PartitionField((10,), 1101, DAY, "d")))
TYPE = SPEC.partition_type(SCHEMA.fields_by_id)


def _file(n: int, **more: Any) -> DataFile:
    return DataFile(
        file_path=f"s3://b/data/{n}.parquet",
        file_format=FileFormat.PARQUET,
        spec_id=3,
        partition=(*VALUES, 5, 18000) if n % 2 else (None,) * len(TYPE),
        record_count=10 + n,
        file_size_in_bytes=1000 + n,
        column_sizes={1: 3, 2: 2**40},
        value_counts={1: 10},
        null_value_counts={},
        nan_value_counts=None,
        lower_bounds={1: b"\x01", 7: b"abc"},
        upper_bounds={7: b"abd"},
        split_offsets=(4, 2**33),
        sort_order_id=0,
        **more,
    )


def _entries(content: ManifestContent) -> list[ManifestEntry]:
    kind: dict[str, Any] = (
        {"content": FileContent.EQUALITY_DELETES, "equality_ids": (1, 2)} if content is ManifestContent.DELETES else {}
    )
    return [
        ManifestEntry(EntryStatus.ADDED, 5, None, None, _file(1, **kind)),
        ManifestEntry(EntryStatus.EXISTING, 4, 2, 3, _file(2, **kind)),
        ManifestEntry(EntryStatus.DELETED, 5, 1, 1, _file(3, **kind)),
        ManifestEntry(EntryStatus.ADDED, 5, 2, None, _file(4, **kind)),
    ]


@pytest.mark.parametrize("content", ManifestContent)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_reads_equal_entries(tmp_path: Path, version: int, content: ManifestContent) -> None:
    """MANIFEST-10..41, MLIST-01..15, SEQ-02, SEQ-03."""
    if version == 1:
        content = ManifestContent.DATA
    path = f"{tmp_path}/m.avro"
    raw, manifest = write_manifest(
        _entries(content), path=path, spec=SPEC, schema=SCHEMA, partition_type=TYPE, format_version=version, content=content,
        snapshot_id=5,
    )  # fmt: skip
    Path(path).write_bytes(raw)
    listing = f"{tmp_path}/l.avro"
    Path(listing).write_bytes(
        write_manifest_list(
            [manifest], snapshot_id=5, parent_snapshot_id=4, sequence_number=9, format_version=version, first_row_id=100
        )
    )
    io = pyiceberg_io.PyArrowFileIO()
    (theirs,) = list(pyiceberg_manifest.read_manifest_list(io.new_input(listing)))
    assert (theirs.manifest_path, theirs.manifest_length, theirs.partition_spec_id) == (path, len(raw), 3)
    assert (theirs.added_files_count, theirs.existing_files_count, theirs.deleted_files_count) == (2, 1, 1)
    assert (theirs.added_rows_count, theirs.existing_rows_count, theirs.deleted_rows_count) == (25, 12, 13)
    assert int(theirs.content) == int(content)
    assert [s.lower_bound for s in theirs.partitions] == [s.lower_bound for s in manifest.partitions or ()]
    ours = read_manifest(raw, replace(manifest, sequence_number=9 if version > 1 else 0), TYPE)
    found = theirs.fetch_manifest_entry(io, discard_deleted=False)
    assert [_theirs(e) for e in found] == [_ours(e) for e in ours]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_reads_a_manifest_that_was_written_again_at_once(tmp_path: Path, version: int) -> None:
    added = [ManifestEntry(EntryStatus.ADDED, 5, None, None, _file(n)) for n in range(100)]
    layout: dict[str, Any] = {"spec": SPEC, "schema": SCHEMA, "partition_type": TYPE, "format_version": version}
    raw, manifest = write_manifest(added, path="m", content=ManifestContent.DATA, snapshot_id=5, **layout)
    listed = replace(manifest, sequence_number=9 if version > 1 else 0, first_row_id=70 if version == 3 else None)
    columns = read_columns(raw, listed, TYPE)
    assert columns is not None
    encoder = ManifestEncoder(content=ManifestContent.DATA, snapshot_id=6, **layout)
    rows = Rows.of(columns, range(0, 100, 3))
    assert add_rows(encoder, rows)
    path = f"{tmp_path}/again.avro"
    again, written = encoder.finish(path)
    Path(path).write_bytes(again)
    listing = f"{tmp_path}/l.avro"
    row = replace(written, sequence_number=10 if version > 1 else 0)
    Path(listing).write_bytes(
        write_manifest_list(
            [row], snapshot_id=6, parent_snapshot_id=5, sequence_number=10, format_version=version, first_row_id=900
        )
    )
    io = pyiceberg_io.PyArrowFileIO()
    (theirs,) = list(pyiceberg_manifest.read_manifest_list(io.new_input(listing)))
    assert (theirs.added_files_count, theirs.existing_files_count, theirs.deleted_files_count) == (0, 66, 34)
    found = theirs.fetch_manifest_entry(io, discard_deleted=False)
    assert [_theirs(e) for e in found] == [_ours(e) for e in rows.entries(6)]


def _ours(e: ManifestEntry) -> tuple[Any, ...]:
    f = e.data_file
    return (
        int(e.status), e.snapshot_id, e.sequence_number, e.file_sequence_number, int(f.content), f.file_path, f.file_format.name,
        f.partition, f.record_count, f.file_size_in_bytes, f.column_sizes, f.value_counts, f.null_value_counts, f.nan_value_counts,
        f.lower_bounds, f.upper_bounds, f.split_offsets, f.equality_ids, f.sort_order_id,
    )  # fmt: skip


def _theirs(e: Any) -> tuple[Any, ...]:
    f = e.data_file
    arrays = [None if a is None else tuple(a) for a in (f.split_offsets, f.equality_ids)]
    return (
        int(e.status), e.snapshot_id, e.sequence_number, e.file_sequence_number, int(f.content), f.file_path, f.file_format.name,
        tuple(_plain(v) for v in f.partition), f.record_count, f.file_size_in_bytes, f.column_sizes, f.value_counts,
        f.null_value_counts, f.nan_value_counts, f.lower_bounds, f.upper_bounds, *arrays, f.sort_order_id,
    )  # fmt: skip


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value
