"""Manifests: this package and fastavro read back what was written; old, unusual and broken ones are read as the spec requires."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any
from unittest import mock

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.serde.avro.avro_container import CODECS, read_container, write_container
from iceberg_ops.serde.avro.avro_names import sanitized
from iceberg_ops.serde.avro.partition_avro import minimal_width
from iceberg_ops.serde.manifests.manifest_avro import read_live_paths, read_manifest, read_manifest_header
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.manifests import UNASSIGNED, EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import DATE, DOUBLE, INT, LONG, STRING, TIMESTAMP, DecimalType, NestedField, StructType
from iceberg_ops.spec.values import from_bytes
from tests.serde.manifest_cases import decoded, encoded, entries, partition_layouts

PLAIN = (Schema.of(NestedField(1, "id", LONG)), PartitionSpec(), StructType())
ADDED, EXISTING, DELETED = EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED


def a_file(path: str = "a.parquet", rows: int = 10, **more: Any) -> DataFile:
    return DataFile(file_path=path, file_format=FileFormat.PARQUET, record_count=rows, file_size_in_bytes=100, **more)


def an_entry(status: EntryStatus = ADDED, path: str = "a.parquet", *, sequence: int | None = None, **more: Any) -> ManifestEntry:
    return ManifestEntry(status, 5, sequence, sequence, a_file(path, **more))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_what_is_written_is_read_back(data: st.DataObject) -> None:
    """MANIFEST-01..41, MANIFEST-57, MANIFEST-62, SEQ-03, AVRO-02..05."""
    layout = data.draw(partition_layouts())
    version = data.draw(st.sampled_from([2, 3]))
    content = data.draw(st.sampled_from(ManifestContent))
    found = data.draw(st.lists(entries(layout, content, v3=version == 3), max_size=5))
    codec = data.draw(st.sampled_from(CODECS))
    raw, manifest = encoded(found, layout, version=version, content=content, compression=codec)
    first_row_id = 10**15 if version == 3 and content is ManifestContent.DATA else None
    read = decoded(raw, manifest, layout, sequence_number=9, first_row_id=first_row_id)
    assert len(read) == len(found)
    next_row_id = first_row_id
    for before, after in zip(found, read, strict=True):
        assert after.status is before.status
        assert after.snapshot_id == before.snapshot_id
        if before.status is ADDED:
            assert after.sequence_number == (9 if before.sequence_number is None else before.sequence_number)
            assert after.file_sequence_number == 9
            if next_row_id is not None:
                assert after.data_file.first_row_id == next_row_id
                next_row_id += before.data_file.record_count
        else:
            assert (after.sequence_number, after.file_sequence_number) == (before.sequence_number, before.file_sequence_number)
            assert after.data_file.first_row_id == before.data_file.first_row_id
        assert replace(after.data_file, first_row_id=None) == replace(before.data_file, first_row_id=None)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_fastavro_reads_what_we_write(data: st.DataObject) -> None:
    """The encoder is our own; the reference decoder agrees with it, field ids and all (AVRO-03)."""
    layout = data.draw(partition_layouts())
    found = data.draw(st.lists(entries(layout, ManifestContent.DATA, v3=True), min_size=1, max_size=4))
    raw, _ = encoded(found, layout, version=3)
    with mock.patch.dict(fastavro.read.LOGICAL_READERS, clear=True):  # Partition values may be outside Python's datetime.
        reader = fastavro.reader(io.BytesIO(raw))
        records = [r for r in reader if isinstance(r, dict)]
    assert [r["data_file"]["file_path"] for r in records] == [e.data_file.file_path for e in found]
    for record, entry in zip(records, found, strict=True):
        sizes = record["data_file"]["column_sizes"]
        assert (None if sizes is None else {p["key"]: p["value"] for p in sizes}) == entry.data_file.column_sizes
        assert record["data_file"]["record_count"] == entry.data_file.record_count
    schema = reader.writer_schema
    assert isinstance(schema, dict)
    ids = {f["name"]: f["field-id"] for f in schema["fields"]}
    assert ids == {"status": 0, "snapshot_id": 1, "sequence_number": 3, "file_sequence_number": 4, "data_file": 2}
    partition = next(f for f in schema["fields"][-1]["type"]["fields"] if f["name"] == "partition")
    assert [f["field-id"] for f in partition["type"]["fields"]] == [f.field_id for f in layout[2].fields]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_summaries_bound_every_partition_value(data: st.DataObject) -> None:
    """MLIST-23, MLIST-26."""
    layout = data.draw(partition_layouts())
    found = data.draw(st.lists(entries(layout, ManifestContent.DATA, v3=False), max_size=6))
    _, manifest = encoded(found, layout, version=2)
    assert manifest.partitions is not None
    for index, (field, summary) in enumerate(zip(layout[2].fields, manifest.partitions, strict=True)):
        column = [e.data_file.partition[index] for e in found]
        assert summary.contains_null == (None in column)
        present = [v for v in column if v is not None]
        if not present:
            assert summary.lower_bound is None
            assert summary.upper_bound is None
            continue
        assert summary.lower_bound is not None
        assert summary.upper_bound is not None
        assert from_bytes(field.type, summary.lower_bound) == min(present)
        assert from_bytes(field.type, summary.upper_bound) == max(present)


def test_summaries_order_zeros_by_sign_and_leave_nan_out() -> None:
    """MLIST-23: if -0.0 occurs lower is not +0.0; MLIST-14."""
    spec = PartitionSpec(0, (PartitionField((1,), 1000, IDENTITY, "d"),))
    layout = (Schema.of(NestedField(1, "d", DOUBLE)), spec, StructType((NestedField(1000, "d", DOUBLE),)))
    found = [an_entry(partition=(v,)) for v in (0.0, -0.0, float("nan"))]
    _, manifest = encoded(found, layout, version=2)
    assert manifest.partitions is not None
    summary = manifest.partitions[0]
    assert summary.contains_nan is True
    assert summary.lower_bound == bytes(7) + b"\x80"
    assert summary.upper_bound == bytes(8)


def test_counts_are_per_status_and_the_lowest_sequence_number_is_of_live_files() -> None:
    """MLIST-06, MLIST-08, MLIST-09, MLIST-24."""
    found = [
        an_entry(EXISTING, "a", sequence=4, rows=1),
        an_entry(EXISTING, "b", sequence=3, rows=2),
        an_entry(DELETED, "c", sequence=1, rows=4),
        an_entry(ADDED, "d", rows=8),
    ]
    raw, manifest = encoded(found, PLAIN, version=2)
    assert (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count) == (1, 2, 1)
    assert (manifest.added_rows_count, manifest.existing_rows_count, manifest.deleted_rows_count) == (8, 3, 4)
    assert (manifest.sequence_number, manifest.min_sequence_number) == (UNASSIGNED, 3)
    assert manifest.manifest_length == len(raw)
    assert encoded([an_entry()], PLAIN, version=2)[1].min_sequence_number == UNASSIGNED


def test_the_header_names_schema_spec_version_and_content() -> None:
    """MANIFEST-02: partition-spec is the fields array only; ids and versions are strings."""
    raw, _ = encoded([an_entry(content=FileContent.POSITION_DELETES)], PLAIN, version=2, content=ManifestContent.DELETES)
    metadata = read_container(raw, "m").metadata
    assert json.loads(metadata["partition-spec"]) == []
    assert json.loads(metadata["schema"])["fields"][0]["name"] == "id"
    assert (metadata["schema-id"], metadata["partition-spec-id"], metadata["format-version"]) == ("0", "0", "2")
    assert metadata["content"] == "deletes"
    header = read_manifest_header(raw, "m")
    assert (header.format_version, header.content, header.partition_spec_id) == (2, ManifestContent.DELETES, 0)


INHERITANCE = {
    "added without a number takes the list's": (an_entry(ADDED), {"sequence_number": 9}, (9, 9)),
    "added with an older number keeps it": (an_entry(ADDED, sequence=4), {"sequence_number": 9}, (4, 9)),
    "existing keeps its own": (an_entry(EXISTING, sequence=4), {"sequence_number": 9}, (4, 4)),
    "deleted keeps its own": (an_entry(DELETED, sequence=4), {"sequence_number": 9}, (4, 4)),
}


@pytest.mark.parametrize("case", INHERITANCE)
def test_sequence_numbers_are_inherited(case: str) -> None:
    """SEQ-02, SEQ-03, SEQ-06."""
    entry, listed, expected = INHERITANCE[case]
    raw, manifest = encoded([entry], PLAIN, version=2)
    (read,) = decoded(raw, manifest, PLAIN, **listed)
    assert (read.sequence_number, read.file_sequence_number) == expected


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_v1_manifest_reads_with_zeros_in_any_table(version: int) -> None:
    """SEQ-05, UPG-02, GEN-11: no sequence-number columns means 0; rewritten, the zeros are explicit (UPG-03)."""
    raw, manifest = encoded([an_entry(EXISTING), an_entry(ADDED)], PLAIN, version=1)
    read = decoded(raw, manifest, PLAIN, sequence_number=0)
    assert [(e.sequence_number, e.file_sequence_number) for e in read] == [(0, 0), (0, 0)]
    if version > 1:
        again, rewritten = encoded([replace(e, status=EXISTING) for e in read], PLAIN, version=version)
        assert [e.sequence_number for e in decoded(again, rewritten, PLAIN, sequence_number=7)] == [0, 0]


def test_an_existing_entry_without_a_data_sequence_number_is_refused() -> None:
    """SEQ-04, on both sides."""
    with pytest.raises(CorruptTableError, match=r"EXISTING entry without a data sequence number"):
        encoded([an_entry(EXISTING)], PLAIN, version=2)
    raw, manifest = encoded([an_entry(EXISTING)], PLAIN, version=1)
    with pytest.raises(CorruptTableError, match=r"m\.avro: entry a\.parquet is EXISTING and has no data sequence number"):
        decoded(raw, manifest, PLAIN, sequence_number=3)


def test_a_missing_snapshot_id_is_the_lists() -> None:
    """SEQ-08."""
    raw, manifest = encoded([replace(an_entry(), snapshot_id=None)], PLAIN, version=2, snapshot_id=77)
    assert decoded(raw, manifest, PLAIN, sequence_number=1)[0].snapshot_id == 77


def test_row_ids_are_numbered_in_manifest_order() -> None:
    """LINEAGE-12, LINEAGE-13, LINEAGE-17: explicit ids stay, ADDED and EXISTING files without one are numbered, DELETED not."""
    found = [
        an_entry(EXISTING, "data1", sequence=1, rows=25, first_row_id=800),
        an_entry(DELETED, "gone", sequence=1, rows=7),
        an_entry(ADDED, "data2", rows=50, first_row_id=12345),
        an_entry(EXISTING, "old", sequence=1, rows=3),
        an_entry(ADDED, "data3", rows=50),
    ]
    raw, manifest = encoded(found, PLAIN, version=3)
    read = decoded(raw, manifest, PLAIN, sequence_number=2, first_row_id=1000)
    assert [e.data_file.first_row_id for e in read] == [800, None, 1000, 1050, 1053]
    unnumbered = decoded(raw, manifest, PLAIN, sequence_number=2)
    assert [e.data_file.first_row_id for e in unnumbered] == [None] * 5, "LINEAGE-06: no id in the list, none for its files"


def rewritten_header(raw: bytes, change: Any) -> bytes:
    """The same records under a changed writer's schema and header, as another engine would have written them."""
    from iceberg_ops.serde.avro.avro_container import write_container

    found = read_container(raw, "m")
    schema, metadata = change(json.loads(found.schema_text), dict(found.metadata))
    return write_container(schema, metadata, found.blocks, codec="null")


def _without_ids(schema: Any, metadata: Any) -> Any:
    return json.loads(json.dumps(schema).replace('"field-id"', '"other-id"')), {}


def _in_a_union(schema: Any, metadata: Any) -> Any:
    schema["fields"] = [{**f, "name": f"odd name {i}"} for i, f in enumerate(schema["fields"])]
    return schema, metadata


def _referring_to_a_name(schema: Any, metadata: Any) -> Any:
    r2 = schema["fields"][-1]["type"]
    sizes = next(f for f in r2["fields"] if f["name"] == "column_sizes")
    for f in r2["fields"]:
        if f["name"] in ("value_counts", "null_value_counts", "nan_value_counts"):
            f["type"] = ["null", {"type": "array", "items": sizes["type"][1]["items"]["name"]}]
    return schema, metadata


OTHER_WRITERS = {
    "no field ids and no key/value metadata": _without_ids,
    "column names of its own": _in_a_union,
    "named types defined once": _referring_to_a_name,
}


@pytest.mark.parametrize("case", OTHER_WRITERS)
def test_manifests_of_other_writers_read_the_same(case: str) -> None:
    """GEN-10, MANIFEST-03."""
    f = a_file(column_sizes={1: 2}, value_counts={1: 3}, null_value_counts={1: 0}, lower_bounds={1: b"a"})
    raw, manifest = encoded([ManifestEntry(ADDED, 5, None, None, f)], PLAIN, version=2)
    changed = rewritten_header(raw, OTHER_WRITERS[case])
    assert decoded(changed, manifest, PLAIN, sequence_number=1) == decoded(raw, manifest, PLAIN, sequence_number=1)


def test_a_union_at_the_top_and_a_nullable_data_file_are_seen_through() -> None:
    schema = {
        "type": "record",
        "name": "entry",
        "fields": [
            {"name": "status", "type": "int", "field-id": 0},
            {"name": "data_file", "field-id": 2, "type": ["null", {"type": "record", "name": "f", "fields": [
                {"name": "file_path", "type": "string", "field-id": 100},
                {"name": "file_format", "type": "string", "field-id": 101},
                {"name": "record_count", "type": "int", "field-id": 103},
                {"name": "file_size_in_bytes", "type": ["null", "long"], "field-id": 104},
                {"name": "column_sizes", "type": {"type": "map", "values": "long"}, "field-id": 108},
            ]}]},
        ],
    }  # fmt: skip
    out = io.BytesIO()
    f = {"file_path": "p", "file_format": "ORC", "record_count": 3, "file_size_in_bytes": 4, "column_sizes": {"1": 2}}
    fastavro.writer(out, [schema], [{"status": 1, "data_file": f}])
    listed = ManifestFile(manifest_path="m", manifest_length=0, sequence_number=6, added_snapshot_id=8)
    (entry,) = read_manifest(out.getvalue(), listed, StructType((NestedField(1000, "x", INT),)))
    assert (entry.sequence_number, entry.snapshot_id, entry.data_file.partition) == (6, 8, (None,))
    assert (entry.data_file.file_format, entry.data_file.column_sizes) == (FileFormat.ORC, {1: 2})


PROMOTED = {
    "int to long": (INT, LONG, 7, 7),
    "date to timestamp": (DATE, TIMESTAMP, 2, 2 * 86_400_000_000),
    "wider decimal": (DecimalType(precision=4, scale=2), DecimalType(precision=20, scale=2), "1.50", "1.50"),
}


@pytest.mark.parametrize("case", PROMOTED)
def test_partition_values_written_before_a_promotion_have_todays_type(case: str) -> None:
    from decimal import Decimal

    written, today, value, expected = PROMOTED[case]
    value, expected = (Decimal(v) if isinstance(v, str) else v for v in (value, expected))
    spec = PartitionSpec(0, (PartitionField((1,), 1000, IDENTITY, "p"),))
    old = (Schema.of(NestedField(1, "p", written)), spec, StructType((NestedField(1000, "p", written),)))
    new = (old[0], spec, StructType((NestedField(1000, "p", today),)))
    raw, manifest = encoded([an_entry(partition=(value,))], old, version=2)
    assert decoded(raw, manifest, new, sequence_number=1)[0].data_file.partition == (expected,)


def test_a_partition_value_of_another_type_is_refused() -> None:
    spec = PartitionSpec(0, (PartitionField((1,), 1000, IDENTITY, "p"),))
    old = (Schema.of(NestedField(1, "p", STRING)), spec, StructType((NestedField(1000, "p", STRING),)))
    raw, manifest = encoded([an_entry(partition=("x",))], old, version=2)
    with pytest.raises(CorruptTableError, match=r"m\.avro: p: partition value of type int is written as Avro string"):
        decoded(raw, manifest, (old[0], spec, StructType((NestedField(1000, "p", INT),))))


def test_a_deletes_manifest_can_not_be_written_for_v1() -> None:
    """COMMIT-12."""
    with pytest.raises(CorruptTableError, match="format version 1"):
        encoded([], PLAIN, version=1, content=ManifestContent.DELETES)


def test_a_partition_tuple_of_another_length_is_refused() -> None:
    with pytest.raises(CorruptTableError, match=r"a\.parquet: does not fit a manifest of spec 0"):
        encoded([an_entry(partition=(1,))], PLAIN, version=2)


def test_an_encrypted_manifest_is_refused_by_name() -> None:
    """ENC-02."""
    with pytest.raises(UnsupportedError, match="m, because it is encrypted"):
        read_manifest(b"AGS1" + bytes(50), ManifestFile(manifest_path="m", manifest_length=0), StructType())


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a_b1", "a_b1"), ("1a", "_1a"), ("a.b", "a_x2Eb"), ("a b", "a_x20b"), ("é", "_xE9"), ("😎", "_xD83D_xDE0E"), ("", "_")],
)
def test_names_are_sanitized_as_java_does(name: str, expected: str) -> None:
    """MANIFEST-62."""
    assert sanitized(name) == expected


def test_decimals_take_the_width_of_the_specs_table() -> None:
    """TYPE-07."""
    widths = [minimal_width(p) for p in range(1, 39)]
    assert widths == [1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 6, 6, 6, 7, 7, 8, 8, 9, 9, 9, 10, 10, 11, 11, 11, 12, 12,
                      13, 13, 13, 14, 14, 15, 15, 16, 16, 16]  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_live_paths_are_those_of_the_entries_whatever_the_spec(data: st.DataObject) -> None:
    layout = data.draw(partition_layouts())
    version = data.draw(st.sampled_from([2, 3]))
    content = data.draw(st.sampled_from(ManifestContent))
    found = data.draw(st.lists(entries(layout, content, v3=version == 3), max_size=5))
    raw, manifest = encoded(found, layout, version=version, content=content)
    manifest = replace(manifest, sequence_number=9)
    expected = [(e.data_file.file_path, e.data_file.content) for e in decoded(raw, manifest, layout) if e.is_live]
    assert read_live_paths(raw, manifest) == expected


def test_live_paths_of_a_broken_manifest_are_refused() -> None:
    raw, manifest = encoded([an_entry()], PLAIN, version=2)
    container = read_container(raw, "m.avro")
    ((count, block),) = container.blocks
    cut = write_container(json.loads(container.schema_text), {}, [(count, block[:-1])], codec="null")
    with pytest.raises(CorruptTableError, match=r"m\.avro: Avro record 0 cannot be decoded"):
        read_live_paths(cut, manifest)
    with pytest.raises(UnsupportedError, match="encrypted"):
        read_live_paths(b"AGS1", manifest)
