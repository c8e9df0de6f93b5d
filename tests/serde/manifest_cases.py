"""Strategies and builders for manifests: partition types, files and entries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy  # noqa: F401  (columns are read at any size once numpy is there)
from hypothesis import strategies as st

from iceberg_ops.serde.manifests.manifest_avro import read_manifest, write_manifest
from iceberg_ops.serde.manifests.manifest_columnar import FEWEST_RECORDS, EntryColumns, read_either
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import NestedField, StructType
from tests.strategies import longs, names, primitive_types, texts, values

counts = st.none() | st.dictionaries(st.integers(1, 2**31 - 1), st.integers(0, 2**62), max_size=4)
bounds = st.none() | st.dictionaries(st.integers(1, 2**31 - 1), st.binary(max_size=20), max_size=4)
small = st.integers(0, 2**40)


def read_entries(data: bytes, manifest: ManifestFile, partition_type: StructType) -> list[ManifestEntry]:
    """All entries, by the fast path where it takes the file."""
    found = read_either(data, manifest, partition_type)
    return list(found.entries()) if isinstance(found, EntryColumns) else found


@st.composite
def partition_layouts(draw: st.DrawFn) -> tuple[Schema, PartitionSpec, StructType]:
    """A schema of primitive columns and a spec of identity fields over them, names as hostile as they come."""
    columns = draw(st.lists(st.tuples(names, primitive_types()), min_size=1, max_size=4, unique_by=lambda t: t[0]))
    schema = Schema(StructType(tuple(NestedField(i + 1, name, type_) for i, (name, type_) in enumerate(columns))))
    picked = draw(st.lists(st.sampled_from(schema.fields), max_size=3, unique_by=lambda f: f.field_id))
    fields = tuple(PartitionField((f.field_id,), 1000 + i, IDENTITY, f.name) for i, f in enumerate(picked))
    spec = PartitionSpec(draw(st.integers(0, 3)), fields)
    return schema, spec, spec.partition_type(schema.fields_by_id)


@st.composite
def data_files(draw: st.DrawFn, partition_type: StructType, spec_id: int, content: ManifestContent, *, v3: bool = True) -> DataFile:
    """A file with any statistics; for a delete manifest a position delete, equality delete or (v3) deletion vector."""
    partition = tuple(draw(st.none() | values(f.type, allow_nan=False)) for f in partition_type.fields)
    more: dict[str, Any] = {}
    if content is ManifestContent.DELETES:
        more["content"] = draw(st.sampled_from([FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES]))
        more["equality_ids"] = draw(st.none() | st.lists(st.integers(1, 99), max_size=3).map(tuple))
        more["referenced_data_file"] = draw(st.none() | texts)
        if v3:
            more |= {"content_offset": draw(st.none() | small), "content_size_in_bytes": draw(st.none() | small)}
    return DataFile(
        file_path=draw(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=30)),
        file_format=draw(st.sampled_from(FileFormat)),
        spec_id=spec_id,
        partition=partition,
        record_count=draw(small),
        file_size_in_bytes=draw(small),
        column_sizes=draw(counts),
        value_counts=draw(counts),
        null_value_counts=draw(counts),
        nan_value_counts=draw(counts),
        lower_bounds=draw(bounds),
        upper_bounds=draw(bounds),
        key_metadata=draw(st.none() | st.binary(max_size=5)),
        split_offsets=draw(st.none() | st.lists(small, max_size=3).map(tuple)),
        sort_order_id=draw(st.none() | st.integers(0, 5)),
        **more,
    )


@st.composite
def entries(
    draw: st.DrawFn, layout: tuple[Schema, PartitionSpec, StructType], content: ManifestContent, *, v3: bool
) -> ManifestEntry:
    """An entry with explicit numbers (nothing left to inherit but an ADDED file's own)."""
    _, spec, partition_type = layout
    f = draw(data_files(partition_type, spec.spec_id, content, v3=v3))
    status = draw(st.sampled_from(EntryStatus))
    if status is EntryStatus.ADDED:
        return ManifestEntry(status, draw(longs), draw(st.none() | st.integers(1, 8)), None, f)
    if v3 and content is ManifestContent.DATA:
        f = replace(f, first_row_id=draw(small))
    return ManifestEntry(status, draw(longs), draw(st.integers(0, 8)), draw(st.none() | st.integers(1, 8)), f)


def encoded(
    found: list[ManifestEntry], layout: tuple[Schema, PartitionSpec, StructType], *, version: int, **more: Any
) -> tuple[bytes, ManifestFile]:
    """``write_manifest`` with the layout spread out."""
    schema, spec, partition_type = layout
    options: dict[str, Any] = {"content": ManifestContent.DATA, "snapshot_id": 77, "path": "m.avro", **more}
    return write_manifest(found, spec=spec, schema=schema, partition_type=partition_type, format_version=version, **options)


def decoded(
    data: bytes, manifest: ManifestFile, layout: tuple[Schema, PartitionSpec, StructType], **listed: Any
) -> list[ManifestEntry]:
    """Read a manifest as a list row with ``listed`` changes would."""
    return read_manifest(data, replace(manifest, **listed), layout[2])


def in_one_bucket(found: list[ManifestEntry]) -> list[ManifestEntry]:
    """The entries with paths that begin alike, as those of one table do."""
    return [replace(e, data_file=replace(e.data_file, file_path=f"s3://bucket/{e.data_file.file_path}")) for e in found]


@st.composite
def large_manifests(draw: st.DrawFn) -> tuple[int, tuple[Schema, PartitionSpec, StructType], bytes, ManifestFile]:
    """Format version, layout, bytes and list row of a manifest with records enough for columns."""
    layout = draw(partition_layouts())
    version = draw(st.sampled_from([1, 2, 3]))
    content = draw(st.sampled_from(ManifestContent)) if version > 1 else ManifestContent.DATA
    few = in_one_bucket(draw(st.lists(entries(layout, content, v3=version == 3), min_size=1, max_size=5)))
    raw, manifest = encoded(few * FEWEST_RECORDS, layout, version=version, content=content)
    manifest = replace(manifest, sequence_number=9 if version > 1 else 0, first_row_id=1000 if version == 3 else None)
    return version, layout, raw, manifest
