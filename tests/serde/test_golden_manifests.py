"""Manifests and lists that other projects use as references."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iceberg_ops.serde.avro.avro_container import read_container
from iceberg_ops.serde.json.partition_json import spec_fields_from_list
from iceberg_ops.serde.json.schema_json import schema_from_json
from iceberg_ops.serde.manifests.manifest_avro import read_manifest, read_manifest_header
from iceberg_ops.serde.manifests.manifest_encoding import ManifestEncoder
from iceberg_ops.serde.manifests.manifest_list_avro import read_manifest_list, write_manifest_list
from iceberg_ops.spec.manifests import ManifestContent, ManifestFile
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField, StructType
from tests.fixture_paths import GOLDEN, requires_fixtures
from tests.golden import golden_files

pytestmark = [requires_fixtures, pytest.mark.fixtures]
LISTS = golden_files("manifests", "*snap-*.avro") + golden_files("manifests", "*manifest-list*.avro")
MANIFESTS = golden_files("manifests", "*-m0.avro")


def _type_of(data: bytes) -> tuple[Schema, StructType]:
    metadata = read_container(data, "m").metadata
    schema = schema_from_json(metadata["schema"])
    spec = PartitionSpec(0, spec_fields_from_list(json.loads(metadata["partition-spec"])))
    return schema, spec.partition_type(schema.fields_by_id)


@pytest.mark.parametrize("path", LISTS, ids=lambda p: p.name)
def test_lists_read_and_are_written_the_same(path: Any) -> None:
    rows = read_manifest_list(path.read_bytes(), path.name)
    assert rows
    assert all(m.manifest_path and m.manifest_length > 0 for m in rows)
    again = write_manifest_list(rows, snapshot_id=1, parent_snapshot_id=None, sequence_number=1, format_version=2)
    assert read_manifest_list(again, "again") == rows


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda p: p.name)
def test_manifests_read_by_their_own_header(path: Any) -> None:
    data = path.read_bytes()
    header = read_manifest_header(data, path.name)
    listed = ManifestFile(
        manifest_path=path.name, manifest_length=0, content=header.content, sequence_number=1, added_snapshot_id=1
    )
    entries = read_manifest(data, listed, _type_of(data)[1])
    assert entries
    assert all(e.data_file.record_count > 0 and e.data_file.file_size_in_bytes > 0 for e in entries)


def test_a_manifest_equals_its_published_decoding() -> None:
    assert GOLDEN is not None
    (path,) = golden_files("manifests", "icebird_*-m0.avro")
    data = path.read_bytes()
    listed = ManifestFile(manifest_path=path.name, manifest_length=0, sequence_number=1, added_snapshot_id=1)
    entries = read_manifest(data, listed, _type_of(data)[1])
    published = json.loads(path.with_suffix(".json").read_text())
    assert [e.data_file.file_path for e in entries] == [p["data_file"]["file_path"] for p in published]
    assert [e.data_file.record_count for e in entries] == [int(p["data_file"]["record_count"]) for p in published]
    assert [int(e.status) for e in entries] == [p["status"] for p in published]


def test_a_list_equals_its_published_decoding() -> None:
    (path,) = golden_files("manifests", "icebird_snap-*.avro")
    (published,) = json.loads(path.with_suffix(".json").read_text())
    (row,) = read_manifest_list(path.read_bytes(), path.name)
    published = {key.replace("_data_files_", "_files_"): value for key, value in published.items()}
    found = {key: getattr(row, key) for key in published}
    assert float(found.pop("added_snapshot_id")) == float(published.pop("added_snapshot_id"))  # theirs went through a double
    assert list(found.pop("partitions")) == published.pop("partitions")
    assert {key: int(value) if key == "content" else value for key, value in found.items()} == published


@pytest.mark.parametrize("path", golden_files("manifests", "icebird_*.avro"), ids=lambda p: p.name)
def test_a_header_equals_its_published_decoding(path: Any) -> None:
    published = json.loads(path.with_suffix(".metadata.json").read_text())["metadata"]
    container = read_container(path.read_bytes(), path.name)
    assert json.loads(container.schema_text) == published.pop("avro.schema")
    for key, value in published.items():
        text = container.metadata.get(key)
        if text is not None:
            assert text == value or json.loads(text) == value, key


def _shape(schema: Any) -> Any:
    """An Avro schema without documentation, defaults and optionality: field id -> (name, shape of the type)."""
    if isinstance(schema, list):
        return _shape(next(s for s in schema if s != "null"))
    if not isinstance(schema, dict):
        return schema
    if schema["type"] == "record":
        return {f.get("field-id"): (f["name"].replace("_data_files_", "_files_"), _shape(f["type"])) for f in schema["fields"]}
    if schema["type"] == "array":
        return "array", schema.get("element-id"), _shape(schema["items"])
    return schema["type"]


@pytest.mark.parametrize("version", [1, 2])
def test_list_schemas_are_those_of_the_rust_project(version: int) -> None:
    """MLIST-01..15: the same ids, names and types (theirs are old: other names for 504-506, no key metadata)."""
    assert GOLDEN is not None
    theirs = _shape(json.loads((GOLDEN / "manifests" / f"rust_avro_schema_manifest_file_v{version}.json").read_text()))
    data = write_manifest_list([], snapshot_id=1, parent_snapshot_id=None, sequence_number=1, format_version=version)
    ours = _shape(json.loads(read_container(data, "l").schema_text))
    assert {field_id: ours.get(field_id) for field_id in theirs} == theirs
    assert set(ours) - set(theirs) <= {519}


def test_the_manifest_schema_is_that_of_the_rust_project() -> None:
    """MANIFEST-10..41; theirs still lists what v2 no longer writes (105, 111)."""
    assert GOLDEN is not None
    theirs = _shape(json.loads((GOLDEN / "manifests" / "rust_avro_schema_manifest_entry.json").read_text()))
    encoder = ManifestEncoder(
        spec=PartitionSpec(),
        schema=Schema.of(NestedField(1, "id", LONG)),
        partition_type=StructType(),
        format_version=2,
        content=ManifestContent.DATA,
        snapshot_id=1,
    )
    ours = _shape(json.loads(read_container(encoder.finish("m")[0], "m").schema_text))
    for field_id, (name, shape) in theirs.items():
        if field_id != 2:
            assert ours[field_id] == (name, shape)
    for field_id, (name, shape) in theirs[2][1].items():
        if field_id not in (102, 105, 111):
            assert ours[2][1][field_id] == (name, shape), name
