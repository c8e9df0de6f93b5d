"""Entries copied as bytes equal entries that are encoded again; in doubt they are encoded again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_ops.serde.avro.avro_container import read_container
from iceberg_ops.serde.avro.avro_encoding import SOME, encode_long
from iceberg_ops.serde.manifests.manifest_columnar import EntryColumns, LazyDataFile, read_columns
from iceberg_ops.serde.manifests.manifest_encoding import ManifestEncoder
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import INT, LONG, NestedField, StructType
from tests.serde.manifest_cases import decoded, encoded, large_manifests

Layout = tuple[Schema, PartitionSpec, StructType]


def by_p(type_: Any = INT) -> Layout:
    spec = PartitionSpec(0, (PartitionField((1,), 1000, IDENTITY, "p"),))
    return Schema.of(NestedField(1, "p", type_)), spec, StructType((NestedField(1000, "p", type_),))


def files(count: int = 200, *, head: bytes = b"") -> list[ManifestEntry]:
    """Added files of one snapshot; each has a bound that holds ``head``."""
    return [
        ManifestEntry(
            EntryStatus.ADDED,
            5_577_006_791_947_779_410,
            None,
            None,
            DataFile(
                file_path=f"s3://b/data/p={i % 5}/{i:05}.parquet",
                file_format=FileFormat.PARQUET,
                partition=(i % 5,),
                record_count=i + 1,
                file_size_in_bytes=1000 + i,
                value_counts={1: i + 1},
                lower_bounds={1: b"a" + head + b"z"},
                split_offsets=(4,),
            ),
        )
        for i in range(count)
    ]


def opened(raw: bytes, manifest: ManifestFile, layout: Layout) -> EntryColumns:
    columns = read_columns(raw, manifest, layout[2])
    assert columns is not None
    return columns


def carried_over(found: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """Every third removed, the others kept; one of each kind as it is."""
    changed = [replace(e, status=EntryStatus.DELETED if n % 3 else EntryStatus.EXISTING) for n, e in enumerate(found)]
    return [*found[:5], *changed[5:]]


def records(found: Sequence[ManifestEntry], layout: Layout, version: int, content: ManifestContent = ManifestContent.DATA) -> bytes:
    raw, _ = encoded(list(found), layout, version=version, content=content)
    return b"".join(block for _, block in read_container(raw, "m").blocks)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_spliced_manifest_is_the_encoded_one(data: st.DataObject) -> None:
    version, layout, raw, manifest = data.draw(large_manifests())
    content, reference = manifest.content, decoded(raw, manifest, layout)
    found = opened(raw, manifest, layout).entries()
    assert records(carried_over(found), layout, version, content) == records(carried_over(reference), layout, version, content)
    again, written = encoded(carried_over(found), layout, version=version, content=content)
    plain, plainly_written = encoded(carried_over(reference), layout, version=version, content=content)
    listed = {"sequence_number": 9 if version > 1 else 0, "first_row_id": 5000 if version == 3 else None}
    assert decoded(again, written, layout, **listed) == decoded(plain, plainly_written, layout, **listed)
    assert replace(written, manifest_length=0) == replace(plainly_written, manifest_length=0)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_no_statistic_is_decoded_to_carry_files_over(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = by_p()
    raw, manifest = encoded(files(), layout, version=version)
    manifest = replace(manifest, sequence_number=7 if version > 1 else 0, first_row_id=100 if version == 3 else None)
    expected = records(carried_over(decoded(raw, manifest, layout)), layout, version)
    found = opened(raw, manifest, layout).entries()
    for name in ("array", "_statistic"):
        monkeypatch.setattr(EntryColumns, name, lambda *_: pytest.fail("statistics were decoded"))
    assert records(carried_over(found), layout, version) == expected


def test_a_kept_file_keeps_the_row_id_that_it_inherited() -> None:
    layout = by_p()
    raw, manifest = encoded(files(), layout, version=3)
    listed = replace(manifest, sequence_number=7, first_row_id=100)
    found = opened(raw, listed, layout).entries()
    again, written = encoded([replace(e, status=EntryStatus.EXISTING) for e in found], layout, version=3)
    row_ids = [e.data_file.first_row_id for e in decoded(again, written, layout, sequence_number=8, first_row_id=900_000)]
    assert row_ids[:4] == [100, 101, 103, 106]
    assert row_ids == [e.data_file.first_row_id for e in decoded(raw, listed, layout)]


def _head(version: int) -> bytes:
    snapshot = SOME + encode_long(5_577_006_791_947_779_410)
    return encode_long(int(EntryStatus.ADDED)) + snapshot + (b"" if version == 1 else b"\x00\x00\x00")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_where_a_statistic_looks_like_the_start_of_a_record_files_are_encoded_again(version: int) -> None:
    layout = by_p()
    raw, manifest = encoded(files(head=_head(version)), layout, version=version)
    manifest = replace(manifest, sequence_number=7 if version > 1 else 0)
    assert raw_files(raw, manifest, layout, version) is None
    expected = records(carried_over(decoded(raw, manifest, layout)), layout, version)
    assert records(carried_over(opened(raw, manifest, layout).entries()), layout, version) == expected


def raw_files(raw: bytes, manifest: ManifestFile, layout: Layout, version: int) -> Any:
    schema, spec, partition_type = layout
    encoder = ManifestEncoder(
        spec=spec,
        schema=schema,
        partition_type=partition_type,
        format_version=version,
        content=ManifestContent.DATA,
        snapshot_id=1,
    )
    return opened(raw, manifest, layout).encoded_files(encoder.schema_text, partition_type)


@pytest.mark.parametrize(("was", "now"), [(1, 2), (2, 3), (1, 3)])
def test_files_of_another_format_version_are_encoded_again(was: int, now: int) -> None:
    layout = by_p()
    raw, manifest = encoded(files(), layout, version=was)
    manifest = replace(manifest, sequence_number=7 if was > 1 else 0)
    assert raw_files(raw, manifest, layout, now) is None
    found = [replace(e, status=EntryStatus.EXISTING) for e in opened(raw, manifest, layout).entries()]
    plain = [replace(e, status=EntryStatus.EXISTING) for e in decoded(raw, manifest, layout)]
    assert records(found, layout, now) == records(plain, layout, now)


def test_files_of_a_partition_column_promoted_since_are_encoded_again() -> None:
    old, new = by_p(INT), by_p(LONG)
    raw, manifest = encoded(files(), old, version=2)
    manifest = replace(manifest, sequence_number=7)
    assert raw_files(raw, manifest, old, 2) is not None
    assert raw_files(raw, manifest, new, 2) is None
    assert records(opened(raw, manifest, new).entries(), new, 2) == records(decoded(raw, manifest, new), new, 2)


def test_a_changed_file_is_not_its_old_bytes() -> None:
    layout = by_p()
    raw, manifest = encoded(files(), layout, version=2)
    listed = replace(manifest, sequence_number=7)
    entry = opened(raw, listed, layout).entries([3])[0]
    assert isinstance(entry.data_file, LazyDataFile)
    changed = replace(entry, data_file=replace(entry.data_file, record_count=12))
    again, written = encoded([changed], layout, version=2)
    assert decoded(again, written, layout, sequence_number=8)[0].data_file.record_count == 12
