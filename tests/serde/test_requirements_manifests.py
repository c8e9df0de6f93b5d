"""The columns of manifests and manifest lists, id by id and version by version, written out from the spec's tables.

MANIFEST-01, MANIFEST-10..42, MANIFEST-57, MLIST-01..15, XFORM-16, AVRO-02, AVRO-03, PUFFIN-04.
"""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.serde.avro.avro_container import read_container, write_container
from iceberg_ops.serde.manifests.manifest_list_avro import write_manifest_list
from iceberg_ops.serde.puffins.puffin import BlobToWrite, read_blob, read_footer, write_puffin
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import DAY
from iceberg_ops.spec.types import LONG, TIMESTAMP, NestedField
from tests.serde.manifest_cases import decoded, encoded

REQ, OPT, ABSENT = "req", "opt", "-"
LONGS = "long"

ENTRY = [
    ("MANIFEST-10", 0, "status", "int", REQ, REQ, REQ),
    ("MANIFEST-11", 1, "snapshot_id", "long", OPT, OPT, OPT),
    ("MANIFEST-12", 3, "sequence_number", "long", ABSENT, OPT, OPT),
    ("MANIFEST-13", 4, "file_sequence_number", "long", ABSENT, OPT, OPT),
    ("MANIFEST-14", 2, "data_file", "record", REQ, REQ, REQ),
]
FILE = [
    ("MANIFEST-20", 134, "content", "int", ABSENT, REQ, REQ),
    ("MANIFEST-21", 100, "file_path", "string", REQ, REQ, REQ),
    ("MANIFEST-22", 101, "file_format", "string", REQ, REQ, REQ),
    ("MANIFEST-23", 102, "partition", "record", REQ, REQ, REQ),
    ("MANIFEST-24", 103, "record_count", "long", REQ, REQ, REQ),
    ("MANIFEST-25", 104, "file_size_in_bytes", "long", REQ, REQ, REQ),
    ("MANIFEST-26", 105, "block_size_in_bytes", "long", REQ, ABSENT, ABSENT),
    ("MANIFEST-27", 106, "file_ordinal", "int", ABSENT, ABSENT, ABSENT),
    ("MANIFEST-27", 107, "sort_columns", "list", ABSENT, ABSENT, ABSENT),
    ("MANIFEST-27", 111, "distinct_counts", "map", ABSENT, ABSENT, ABSENT),
    ("MANIFEST-28", 108, "column_sizes", ("map", 117, "int", 118, "long"), OPT, OPT, OPT),
    ("MANIFEST-29", 109, "value_counts", ("map", 119, "int", 120, "long"), OPT, OPT, OPT),
    ("MANIFEST-30", 110, "null_value_counts", ("map", 121, "int", 122, "long"), OPT, OPT, OPT),
    ("MANIFEST-31", 137, "nan_value_counts", ("map", 138, "int", 139, "long"), OPT, OPT, OPT),
    ("MANIFEST-32", 125, "lower_bounds", ("map", 126, "int", 127, "bytes"), OPT, OPT, OPT),
    ("MANIFEST-33", 128, "upper_bounds", ("map", 129, "int", 130, "bytes"), OPT, OPT, OPT),
    ("MANIFEST-34", 131, "key_metadata", "bytes", OPT, OPT, OPT),
    ("MANIFEST-35", 132, "split_offsets", ("list", 133, "long"), OPT, OPT, OPT),
    ("MANIFEST-36", 135, "equality_ids", ("list", 136, "int"), ABSENT, OPT, OPT),
    ("MANIFEST-37", 140, "sort_order_id", "int", OPT, OPT, OPT),
    ("MANIFEST-38", 142, "first_row_id", "long", ABSENT, ABSENT, OPT),
    ("MANIFEST-39", 143, "referenced_data_file", "string", ABSENT, OPT, OPT),
    ("MANIFEST-40", 144, "content_offset", "long", ABSENT, ABSENT, OPT),
    ("MANIFEST-41", 145, "content_size_in_bytes", "long", ABSENT, ABSENT, OPT),
    ("MANIFEST-42", 141, "(reserved)", "", ABSENT, ABSENT, ABSENT),
    ("MANIFEST-42", 146, "content_stats", "", ABSENT, ABSENT, ABSENT),
]
LIST = [
    ("MLIST-01", 500, "manifest_path", "string", REQ, REQ, REQ),
    ("MLIST-02", 501, "manifest_length", "long", REQ, REQ, REQ),
    ("MLIST-03", 502, "partition_spec_id", "int", REQ, REQ, REQ),
    ("MLIST-04", 517, "content", "int", ABSENT, REQ, REQ),
    ("MLIST-05", 515, "sequence_number", "long", ABSENT, REQ, REQ),
    ("MLIST-06", 516, "min_sequence_number", "long", ABSENT, REQ, REQ),
    ("MLIST-07", 503, "added_snapshot_id", "long", REQ, REQ, REQ),
    ("MLIST-08", 504, "added_files_count", "int", OPT, REQ, REQ),
    ("MLIST-08", 505, "existing_files_count", "int", OPT, REQ, REQ),
    ("MLIST-08", 506, "deleted_files_count", "int", OPT, REQ, REQ),
    ("MLIST-09", 512, "added_rows_count", "long", OPT, REQ, REQ),
    ("MLIST-09", 513, "existing_rows_count", "long", OPT, REQ, REQ),
    ("MLIST-09", 514, "deleted_rows_count", "long", OPT, REQ, REQ),
    ("MLIST-10", 507, "partitions", ("list", 508, "record"), OPT, OPT, OPT),
    ("MLIST-11", 519, "key_metadata", "bytes", OPT, OPT, OPT),
    ("MLIST-12", 520, "first_row_id", "long", ABSENT, ABSENT, OPT),
]
SUMMARY = [
    ("MLIST-13", 509, "contains_null", "boolean", REQ, REQ, REQ),
    ("MLIST-14", 518, "contains_nan", "boolean", OPT, OPT, OPT),
    ("MLIST-15", 510, "lower_bound", "bytes", OPT, OPT, OPT),
    ("MLIST-15", 511, "upper_bound", "bytes", OPT, OPT, OPT),
]
BY_DAY = (
    Schema.of(NestedField(1, "ts", TIMESTAMP), NestedField(2, "id", LONG)),
    PartitionSpec(0, (PartitionField((1,), 1000, DAY, "ts_day"),)),
)
LAYOUT = (*BY_DAY, BY_DAY[1].partition_type(BY_DAY[0].fields_by_id))


def a_file(**more: Any) -> DataFile:
    return DataFile(
        file_path="/a", file_format=FileFormat.PARQUET, record_count=1, file_size_in_bytes=10, **({"partition": (-1,)} | more)
    )


def entry(**more: Any) -> ManifestEntry:
    return ManifestEntry(EntryStatus.ADDED, 5, None, None, a_file(**more))


def manifest_schema(version: int) -> Any:
    return json.loads(read_container(encoded([entry()], LAYOUT, version=version)[0], "m").schema_text)


def list_schema(version: int) -> Any:
    data = write_manifest_list([], snapshot_id=1, parent_snapshot_id=None, sequence_number=1, format_version=version)
    return json.loads(read_container(data, "l").schema_text)


def columns(record: Any) -> dict[int, Any]:
    return {f["field-id"]: f for f in record["fields"]}


def bare(type_: Any) -> Any:
    return next(t for t in type_ if t != "null") if isinstance(type_, list) else type_


def shape(type_: Any) -> Any:
    """An Avro type in the notation of the tables above."""
    if not isinstance(type_, dict):
        return type_
    if type_["type"] != "array":
        return type_["type"]
    if type_.get("logicalType") == "map":
        key, value = type_["items"]["fields"]
        return ("map", key["field-id"], key["type"], value["field-id"], value["type"])
    return ("list", type_["element-id"], shape(type_["items"]))


def check(found: dict[int, Any], field_id: int, name: str, kind: Any, presence: str) -> None:
    if presence == ABSENT:
        assert field_id not in found
        return
    column = found[field_id]
    assert column["name"] == name
    assert shape(bare(column["type"])) == kind
    assert isinstance(column["type"], list) == (presence == OPT)
    if presence == OPT:
        assert column["type"][0] == "null"
        assert column["default"] is None


VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


@VERSIONS
@pytest.mark.parametrize("row", ENTRY, ids=lambda r: f"{r[0]} {r[2]}")
def test_a_manifest_entry_has_the_column_of_its_version(row: Any, version: int) -> None:
    """MANIFEST-10..14"""
    check(columns(manifest_schema(version)), row[1], row[2], row[3], row[3 + version])


@VERSIONS
@pytest.mark.parametrize("row", FILE, ids=lambda r: f"{r[0]} {r[2]}")
def test_a_data_file_has_the_column_of_its_version(row: Any, version: int) -> None:
    """MANIFEST-20..42"""
    data_file = columns(manifest_schema(version))[2]["type"]
    check(columns(data_file), row[1], row[2], row[3], row[3 + version])
    assert set(columns(data_file)) <= {r[1] for r in FILE}


@VERSIONS
@pytest.mark.parametrize("row", LIST, ids=lambda r: f"{r[0]} {r[2]}")
def test_a_manifest_list_has_the_column_of_its_version(row: Any, version: int) -> None:
    """MLIST-01..12"""
    found = columns(list_schema(version))
    check(found, row[1], row[2], row[3], row[3 + version])
    assert set(found) <= {r[1] for r in LIST}


@VERSIONS
@pytest.mark.parametrize("row", SUMMARY, ids=lambda r: f"{r[0]} {r[2]}")
def test_a_field_summary_has_the_column_of_its_version(row: Any, version: int) -> None:
    """MLIST-13..15"""
    summary = bare(columns(list_schema(version))[507]["type"])["items"]
    check(columns(summary), row[1], row[2], row[3], row[3 + version])


@VERSIONS
def test_a_v1_entry_always_says_its_snapshot(version: int) -> None:
    """MANIFEST-11: required in v1, so it is never left to inheritance there."""
    raw, _ = encoded([ManifestEntry(EntryStatus.ADDED, None, None, None, a_file())], LAYOUT, version=version, snapshot_id=77)
    (record,) = (r for r in fastavro.reader(io.BytesIO(raw)) if isinstance(r, dict))
    assert record["snapshot_id"] == 77


def test_maps_with_int_keys_are_arrays_of_named_records() -> None:
    """MANIFEST-57, AVRO-05: an Avro map has text keys only."""
    data_file = columns(manifest_schema(2))[2]["type"]
    sizes = bare(columns(data_file)[108]["type"])
    assert (sizes["type"], sizes["logicalType"], sizes["items"]["name"]) == ("array", "map", "k117_v118")


def test_unions_are_with_null_only_and_ids_are_on_every_field() -> None:
    """AVRO-02, AVRO-03"""

    def walk(type_: Any) -> None:
        if isinstance(type_, list):
            assert len(type_) == 2
            assert type_[0] == "null"
            walk(type_[1])
        elif isinstance(type_, dict) and type_["type"] == "record":
            for f in type_["fields"]:
                assert isinstance(f["field-id"], int)
                walk(f["type"])
        elif isinstance(type_, dict) and type_["type"] == "array":
            assert type_.get("logicalType") == "map" or isinstance(type_["element-id"], int)
            walk(type_["items"])

    for version in (1, 2, 3):
        walk(manifest_schema(version))
        walk(list_schema(version))


@pytest.mark.parametrize("version", [2, 3])
def test_delete_files_and_data_files_are_never_in_one_manifest(version: int) -> None:
    """MANIFEST-01"""
    for content, wrong in (
        (ManifestContent.DATA, entry(content=FileContent.POSITION_DELETES)),
        (ManifestContent.DATA, entry(content=FileContent.EQUALITY_DELETES, equality_ids=(2,))),
        (ManifestContent.DELETES, entry()),
    ):
        with pytest.raises(CorruptTableError):
            encoded([wrong], LAYOUT, version=version, content=content)


def test_days_are_written_as_dates_and_read_as_dates_or_plain_ints() -> None:
    """XFORM-16"""
    raw, manifest = encoded([entry()], LAYOUT, version=2)
    day = columns(columns(columns(manifest_schema(2))[2]["type"])[102]["type"])[1000]
    assert bare(day["type"]) == {"type": "int", "logicalType": "date"}
    container = read_container(raw, "m")
    plain = json.loads(container.schema_text.replace('"logicalType":"date"', '"x":"y"'))
    assert '"logicalType": "date"' not in json.dumps(plain)
    bare_ints = write_container(plain, dict(container.metadata), container.blocks, codec="deflate")
    for data in (raw, bare_ints):
        assert decoded(data, manifest, LAYOUT, sequence_number=1)[0].data_file.partition == (-1,)


@pytest.mark.parametrize("text", ["PARQUET", "parquet", "Parquet"])
def test_file_formats_are_read_in_any_case(text: str) -> None:
    """MANIFEST-22: Java writes them in upper case."""
    schema = {
        "type": "record",
        "name": "entry",
        "fields": [
            {"name": "status", "type": "int", "field-id": 0},
            {"name": "data_file", "field-id": 2, "type": {"type": "record", "name": "f", "fields": [
                {"name": "file_path", "type": "string", "field-id": 100},
                {"name": "file_format", "type": "string", "field-id": 101},
                {"name": "record_count", "type": "long", "field-id": 103},
                {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
            ]}},
        ],
    }  # fmt: skip
    out = io.BytesIO()
    record = {"status": 1, "data_file": {"file_path": "p", "file_format": text, "record_count": 1, "file_size_in_bytes": 1}}
    fastavro.writer(out, schema, [record])
    listed = ManifestFile(manifest_path="m", manifest_length=0, sequence_number=1, added_snapshot_id=1)
    (found,) = decoded(out.getvalue(), listed, (*LAYOUT[:2], LAYOUT[2]))
    assert found.data_file.file_format is FileFormat.PARQUET


def test_puffin_blobs_of_an_unknown_type_stand_beside_the_known_ones() -> None:
    """PUFFIN-04"""
    data, _, _ = write_puffin(
        [BlobToWrite(type="from-the-future-v9", data=b"?"), BlobToWrite(type="deletion-vector-v1", data=b"ab")]
    )
    footer = read_footer(io.BytesIO(data), "f")
    (known,) = (b for b in footer.blobs if b.type == "deletion-vector-v1")
    assert read_blob(io.BytesIO(data), known, "f") == b"ab"
