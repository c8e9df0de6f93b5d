"""Table metadata JSON: every recorded file is read, kept through a rewrite, or refused for the recorded reason."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.errors import BadInputError, CorruptTableError, IcebergOpsError, UnsupportedError
from iceberg_ops.serde.json.metadata_json import metadata_from_dict, metadata_from_json, metadata_to_dict, metadata_to_json
from iceberg_ops.serde.json.snapshot_json import ref_from_dict, ref_to_dict
from iceberg_ops.spec.snapshots import MAIN_BRANCH
from iceberg_ops.spec.table_metadata import TableMetadata
from tests.builders import IDENTIFIER, make_catalog, make_table
from tests.fixture_paths import FIXTURES, GOLDEN, requires_fixtures
from tests.golden import golden_files, vectors

INDEX: dict[str, Any] = json.loads((GOLDEN / "index.json").read_text("utf-8")) if GOLDEN else {}
DECLARED = {name: entry for name, entry in INDEX.items() if name.startswith(("table-metadata/", "table-metadata-spark-evolution/"))}
VALID = [name for name, entry in DECLARED.items() if entry.get("valid")]
INVALID = [name for name, entry in DECLARED.items() if not entry.get("valid")]
REASONS = {
    "TableMetadataUnsupportedVersion": "format-version 42",
    "TableMetadataV2CurrentSchemaNotFound": "current-schema-id 2 is not in schemas",
    "TableMetadataV2MissingLastPartitionId": "'last-partition-id'",
    "TableMetadataV2MissingPartitionSpecs": "'partition-specs'",
    "TableMetadataV2MissingSchemas": "'schemas'",
    "TableMetadataV2MissingSortOrder": "'sort-orders'",
    "TableMetadataV1MissingSchemaType": "'type'",
    "duckdb_bad_iceberg_metadata": "is not JSON",
}
V1_FILLED_IN = {
    "current-schema-id",
    "schemas",
    "default-spec-id",
    "partition-specs",
    "last-partition-id",
    "sort-orders",
    "default-sort-order-id",
    "schema/schema-id",
}


def _plain(data: bytes) -> Any:
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def _lost(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Where ``after`` says something else than ``before``; what ``after`` adds is not looked at. Empty and null equal absent."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if value not in (None, [], {}):
                yield from _lost(value, after.get(key), f"{path}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, other in zip(before, after, strict=True):
            yield from _lost(one, other, f"{path}[]")
    elif before != after:
        yield f"{path}: {before!r} became {after!r}"


def _added(before: Any, after: Any, path: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in after.items():
            if key in before:
                yield from _added(before[key], value, f"{path}{key}/")
            elif value not in (None, [], {}):
                yield f"{path}{key}"
    elif isinstance(before, list) and isinstance(after, list):
        for one, other in zip(before, after, strict=True):
            yield from _added(one, other, path)


def _table_metadata_files() -> list[Path]:
    if FIXTURES is None:
        return []
    found = [p for pattern in ("*.metadata.json", "*.metadata.json.gz") for p in FIXTURES.glob(f"*/table/**/{pattern}")]
    found += golden_files("evolution-java", "**/*.metadata.json")
    return sorted(set(found))


@requires_fixtures
@pytest.mark.parametrize("path", _table_metadata_files(), ids=lambda p: "/".join(p.parts[-4:]))
def test_every_recorded_table_keeps_all_it_says(path: Path) -> None:
    """META-37 META-36 META-39 META-03 META-05 META-06 META-14 META-15 META-16 META-17 META-18 SNAP-01 SNAP-02 SNAP-03 SNAP-04
    SNAP-05 SNAP-07 SNAP-08 GEN-04"""
    data = path.read_bytes()
    metadata = metadata_from_json(data, path.name)
    before, after = _plain(data), metadata_to_dict(metadata)
    if before["format-version"] == 3 and before.get("current-snapshot-id") == -1:
        before["current-snapshot-id"] = None  # v3 writes null
    if before["format-version"] == 1:
        before.pop("schema", None)  # an old engine's copy of the current schema may lag behind it
    assert list(_lost(before, after)) == []
    allowed = {"refs", "refs/main", "current-snapshot-id", "next-row-id"} | (
        V1_FILLED_IN if before["format-version"] == 1 else set()
    )
    assert set(_added(before, after)) - allowed - {"schema"} == set()
    assert metadata_from_json(metadata_to_json(metadata), path.name) == metadata


@requires_fixtures
@pytest.mark.parametrize("name", VALID)
def test_golden_metadata_declared_valid_is_read_and_kept(name: str) -> None:
    """META-01 META-04 META-19 META-20 META-21 META-22 META-23 META-24 META-25 STAT-02 STAT-03 ENC-01 SNAP-09 SNAP-10 SNAP-11"""
    assert GOLDEN is not None
    data = (GOLDEN / name).read_bytes()
    metadata = metadata_from_json(data, name)
    assert list(_lost(_plain(data), metadata_to_dict(metadata))) == []
    assert metadata_from_json(metadata_to_json(metadata, compress=True), name) == metadata


@requires_fixtures
@pytest.mark.parametrize("name", INVALID)
def test_golden_metadata_declared_invalid_is_refused_by_name(name: str) -> None:
    """META-01 META-07 META-08 META-11 META-13 META-19"""
    assert GOLDEN is not None
    with pytest.raises((CorruptTableError, UnsupportedError)) as refused:
        metadata_from_json((GOLDEN / name).read_bytes(), name)
    assert name in str(refused.value)
    assert REASONS[Path(name).stem] in str(refused.value)


def document(version: int = 2, **changes: Any) -> dict[str, Any]:
    """A small table with one snapshot on main; a change of None leaves the key out."""
    schema = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "required": False, "type": "int"}]}
    snapshot = {
        "snapshot-id": 7,
        "sequence-number": 1,
        "timestamp-ms": 5,
        "manifest-list": "s3://b/l.avro",
        "summary": {"operation": "append"},
        **({"first-row-id": 0, "added-rows": 3} if version == 3 else {}),
    }
    found = {
        "format-version": version,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "s3://b/t",
        "last-sequence-number": 1,
        "last-updated-ms": 9,
        "last-column-id": 1,
        "schemas": [schema],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {"a": "b"},
        "current-snapshot-id": 7,
        "snapshots": [snapshot],
        "refs": {"main": {"snapshot-id": 7, "type": "branch"}},
        **({"next-row-id": 3} if version == 3 else {}),
    }
    return {key: value for key, value in (found | changes).items() if value is not None}


RULES = {rule["rule"]: rule for rule in vectors("table_metadata_rules") or []}


@pytest.mark.parametrize(
    ("rule", "changes", "reason"),
    [
        (
            "refs.main must equal current-snapshot-id",
            {
                "refs": {"main": {"snapshot-id": 8, "type": "branch"}},
                "snapshots": [{"snapshot-id": i, "sequence-number": 1, "timestamp-ms": 1, "manifest-list": "x"} for i in (7, 8)],
            },
            "does not match the main branch",
        ),
        (
            "main branch present but current-snapshot-id -1/absent",
            {"current-snapshot-id": -1},
            "not set, but the main branch exists",
        ),
        (
            "ref to unknown snapshot",
            {"refs": {"main": {"snapshot-id": 7, "type": "branch"}, "x": {"snapshot-id": 4, "type": "tag"}}},
            "does not exist in snapshots",
        ),
        ("v2 needs table-uuid", {"table-uuid": None}, "lacks the required key 'table-uuid'"),
    ],
)
def test_recorded_rules_of_metadata_hold(rule: str, changes: dict[str, Any], reason: str) -> None:
    """META-02 REFS-02 REFS-09"""
    assert not RULES or rule in RULES
    with pytest.raises(CorruptTableError, match=reason):
        metadata_from_dict(document(**changes))


@pytest.mark.parametrize(
    "key",
    [
        "table-uuid",
        "location",
        "last-sequence-number",
        "last-updated-ms",
        "last-column-id",
        "schemas",
        "current-schema-id",
        "partition-specs",
        "default-spec-id",
        "last-partition-id",
        "sort-orders",
        "default-sort-order-id",
        "format-version",
    ],
)
@pytest.mark.parametrize("version", [2, 3])
def test_a_required_key_may_not_be_missing(version: int, key: str) -> None:
    """META-01 META-02 META-03 META-04 META-05 META-06 META-08 META-09 META-11 META-12 META-13 META-19 META-20"""
    with pytest.raises(CorruptTableError, match=f"'{key}'"):
        metadata_from_dict(document(version, **{key: None}))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"current-snapshot-id": 99, "refs": None}, "current-snapshot-id 99 is not in snapshots"),
        ({"default-spec-id": 5}, "default-spec-id 5 is not in partition-specs"),
        ({"default-sort-order-id": 5}, "default-sort-order-id 5 is not in sort-orders"),
        ({"last-sequence-number": 0}, "above last-sequence-number 0"),
        ({"refs": {"main": {"snapshot-id": 7, "type": "tag"}}}, "must be a branch"),
        ({"last-column-id": 1.5}, "must be a 32-bit whole number"),
        ({"current-snapshot-id": 2**63}, "must be a 64-bit whole number"),
        ({"properties": []}, "must be an object"),
        ({"snapshots": {}}, "must be an array"),
        ({"snapshots": [{"snapshot-id": 7, "timestamp-ms": 1}]}, "neither manifest-list nor manifests"),
    ],
)
def test_what_can_not_be_a_table_is_corrupt(changes: dict[str, Any], reason: str) -> None:
    """META-15 JSON-22 SNAP-05"""
    with pytest.raises(CorruptTableError, match=reason):
        metadata_from_dict(document(**changes))


def test_the_oldest_v1_form_is_read_and_both_forms_are_written() -> None:
    """META-07 META-08 META-09 META-10 META-11 META-12 META-13 META-19 META-20 META-35 PART-04 SNAP-06 SNAP-27"""
    old = {
        "format-version": 1,
        "location": "/t",
        "last-updated-ms": 1,
        "last-column-id": 2,
        "properties": {},
        "schema": {"type": "struct", "fields": [{"id": 1, "name": "a", "required": True, "type": "int"}]},
        "partition-spec": [{"name": "a", "transform": "identity", "source-id": 1}],
        "current-snapshot-id": 3,
        "snapshots": [{"snapshot-id": 3, "timestamp-ms": 1, "manifests": ["/m1.avro", "/m2.avro"]}],
    }
    metadata = metadata_from_dict(old)
    assert metadata.table_uuid == ""
    assert metadata.spec.fields[0].field_id == metadata.last_partition_id == 1000
    assert metadata.refs[MAIN_BRANCH].snapshot_id == 3
    assert metadata.snapshots[0].manifests == ("/m1.avro", "/m2.avro")
    assert metadata.snapshots[0].sequence_number == 0
    written = metadata_to_dict(metadata)
    assert "table-uuid" not in written
    assert "last-sequence-number" not in written
    assert written["schema"] == written["schemas"][0]
    assert written["partition-spec"] == written["partition-specs"][0]["fields"]
    assert "sequence-number" not in written["snapshots"][0]


def test_v1_keys_are_left_out_of_later_versions() -> None:
    """UPG-01 META-07 META-10 GEN-05"""
    written = metadata_to_dict(metadata_from_dict(document(2, schema={"x": 1}, **{"partition-spec": []})))
    assert "schema" not in written
    assert "partition-spec" not in written


@pytest.mark.parametrize(("version", "empty"), [(1, -1), (2, -1), (3, None)])
def test_a_table_without_snapshot_says_so_in_its_versions_way(version: int, empty: int | None) -> None:
    """META-30 META-15"""
    for said in (-1, None):
        changes: dict[str, Any] = {"current-snapshot-id": said, "snapshots": [], "refs": {}}
        metadata = metadata_from_dict(document(version, **changes))
        assert metadata.current_snapshot_id is None
        assert metadata_to_dict(metadata)["current-snapshot-id"] == empty


def test_main_is_told_from_the_current_snapshot_where_refs_are_silent() -> None:
    """REFS-02 META-21"""
    for refs in (None, {"x": {"snapshot-id": 7, "type": "tag"}}):
        assert metadata_from_dict(document(refs=refs)).refs[MAIN_BRANCH].snapshot_id == 7


def test_a_v3_table_that_left_next_row_id_out_or_counts_too_low_counts_from_its_snapshots() -> None:
    """META-24 LINEAGE-09: DuckDB wrote such tables. Snapshot 7 has given ids 0 to 2."""
    for stated, read in ((None, 3), (0, 3), (2, 3), (3, 3), (9, 9)):
        assert metadata_from_dict(document(3, **{"next-row-id": stated})).next_row_id == read
    assert (
        metadata_from_dict(
            document(3, **{"next-row-id": None, "snapshots": [], "refs": {}, "current-snapshot-id": None})
        ).next_row_id
        == 0
    )


@pytest.mark.parametrize("version", [0, 4, 42])
def test_other_format_versions_are_refused_by_name(version: int) -> None:
    """GEN-12 META-01 GEN-07"""
    with pytest.raises(UnsupportedError, match=f"format-version {version}"):
        metadata_from_json(json.dumps(document() | {"format-version": version}).encode(), "v.json")


def test_unknown_keys_survive_at_every_level() -> None:
    """META-37 SNAP-21"""
    before = document(
        **{
            "x-table": {"deep": [1, None]},
            "snapshot-log": [{"timestamp-ms": 5, "snapshot-id": 7, "x": 1}],
            "metadata-log": [{"timestamp-ms": 5, "metadata-file": "m", "x": 1}],
            "statistics": [
                {
                    "snapshot-id": 7,
                    "statistics-path": "p",
                    "file-size-in-bytes": 1,
                    "file-footer-size-in-bytes": 1,
                    "x": 1,
                    "blob-metadata": [
                        {"type": "t", "snapshot-id": 7, "sequence-number": 1, "fields": [1], "properties": {"ndv": "5"}, "x": 1}
                    ],
                }
            ],
            "partition-statistics": [{"snapshot-id": 7, "statistics-path": "p", "file-size-in-bytes": 1, "x": 1}],
            "encryption-keys": [
                {"key-id": "k", "encrypted-key-metadata": "AA==", "encrypted-by-id": "m", "properties": {"a": "b"}, "x": 1}
            ],
        }
    )
    before["snapshots"][0] |= {"x-snapshot": 5, "key-id": "k", "schema-id": 0}
    before["refs"]["main"] |= {"x-ref": 5}
    assert metadata_to_dict(metadata_from_dict(before)) == before


def test_summary_numbers_are_read_as_text() -> None:
    """SNAP-21"""
    before = document()
    before["snapshots"][0]["summary"] = {"operation": "append", "added-records": 5, "flag": True, "none": None}
    assert metadata_from_dict(before).snapshots[0].summary == {"operation": "append", "added-records": "5", "flag": "true"}


@pytest.mark.parametrize("summary", [None, {}, {"a": "b"}])
def test_a_snapshot_may_lack_its_summary_or_operation(summary: dict[str, str] | None) -> None:
    """SNAP-21 SNAP-07"""
    before = document()
    before["snapshots"][0]["summary"] = summary
    assert metadata_from_dict(before).snapshots[0].operation is None


def test_snapshot_ids_keep_all_64_bits() -> None:
    """SNAP-25 JSON-22"""
    big = 2**63 - 1
    before = document(**{"current-snapshot-id": big, "refs": {"main": {"snapshot-id": big, "type": "branch"}}})
    before["snapshots"][0]["snapshot-id"] = big
    assert metadata_from_json(json.dumps(before).encode(), "x").current_snapshot_id == big


def test_a_dropped_source_column_and_an_unknown_transform_still_parse() -> None:
    """PART-12 PART-09 SORT-07 META-39"""
    specs = [
        {"spec-id": 0, "fields": []},
        {
            "spec-id": 9,
            "fields": [
                {"name": "gone", "transform": "day", "source-id": 77, "field-id": 1000},
                {"name": "new", "transform": "frobnicate[x]", "source-ids": [1, 77], "field-id": 1005},
            ],
        },
    ]
    before = document(**{"partition-specs": specs})
    metadata = metadata_from_dict(before)
    assert metadata_to_dict(metadata)["partition-specs"] == specs
    assert [str(f.type) for f in metadata.specs_by_id[9].partition_type(metadata.all_fields_by_id)] == ["date", "string"]


@requires_fixtures
@pytest.mark.parametrize("ref", vectors("snapshot_ref_json")["valid"] if GOLDEN else [], ids=str)
def test_recorded_refs_come_back(ref: dict[str, Any]) -> None:
    """REFS-01"""
    assert ref_to_dict(ref_from_dict(ref)) == ref


@requires_fixtures
@pytest.mark.parametrize(("ref", "_reference"), vectors("snapshot_ref_json")["invalid"] if GOLDEN else [], ids=str)
def test_recorded_bad_refs_are_refused(ref: dict[str, Any], _reference: str) -> None:
    """REFS-01"""
    with pytest.raises(CorruptTableError, match="snapshot ref"):
        ref_from_dict(ref)


@pytest.mark.parametrize("key", ["min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms"])
def test_retention_must_be_positive(key: str) -> None:
    """REFS-01"""
    with pytest.raises(CorruptTableError, match="must be above 0"):
        ref_from_dict({"snapshot-id": 1, "type": "branch", key: 0})


def test_gzip_is_told_by_its_magic_whatever_the_name() -> None:
    """META-36"""
    metadata = metadata_from_dict(document())
    assert metadata_from_json(metadata_to_json(metadata, compress=True), "plain.metadata.json") == metadata


@pytest.mark.parametrize("damage", [lambda d: d[:-9], lambda d: d[:5], lambda d: d[:20] + b"\xff" * 4 + d[24:]])
def test_a_damaged_gzip_stream_is_corrupt(damage: Any) -> None:
    """META-36"""
    data = metadata_to_json(metadata_from_dict(document()), compress=True)
    with pytest.raises(CorruptTableError, match="gzip stream"):
        metadata_from_json(damage(data), "v1.gz.metadata.json")


def test_zstd_is_told_by_its_magic_too() -> None:
    """Iceberg Go writes it."""
    metadata = metadata_from_dict(document())
    packed = pa.compress(metadata_to_json(metadata), codec="zstd", asbytes=True)
    assert metadata_from_json(packed, "v1.zstd.metadata.json") == metadata
    for damaged in (packed[:20], packed[:20] + b"\xff" * 8 + packed[28:]):
        with pytest.raises(CorruptTableError, match=r"zstd stream|not JSON"):
            metadata_from_json(damaged, "v1.zstd.metadata.json")


def test_types_nested_without_end_are_corrupt() -> None:
    text = '{"type":"list","element-id":1,"element-required":true,"element":' * 5000 + '"int"' + "}" * 5000
    data = json.dumps(document()).replace('"type": "int"', f'"type": {text}').encode()
    with pytest.raises(CorruptTableError):
        metadata_from_json(data, "deep.json")


@given(st.data())
def test_damaged_bytes_raise_only_our_errors(data: st.DataObject) -> None:
    """Fuzzing: bytes are changed, cut and doubled."""
    raw = bytearray(metadata_to_json(metadata_from_dict(document(data.draw(st.integers(1, 3))))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        if not raw:
            break
    _read(bytes(raw))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.data())
def test_a_value_of_another_kind_raises_only_our_errors(data: st.DataObject) -> None:
    """Fuzzing: one value anywhere in the document is replaced."""
    found = json.loads(metadata_to_json(metadata_from_dict(document(data.draw(st.integers(1, 3))))))
    holder: Any = found
    while True:
        key = data.draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
        if not isinstance(holder[key], dict | list) or not holder[key] or data.draw(st.booleans()):
            holder[key] = data.draw(JSON)
            break
        holder = holder[key]
    _read(json.dumps(found).encode("utf-8", "surrogatepass"))


def _read(data: bytes) -> TableMetadata | None:
    try:
        metadata = metadata_from_json(data, "fuzzed.json")
        assert metadata_from_json(metadata_to_json(metadata), "again.json") == metadata
        return metadata
    except IcebergOpsError:
        return None


@requires_fixtures
@pytest.mark.parametrize("path", golden_files("view-metadata", "*.json"), ids=lambda p: p.stem)
def test_a_view_is_refused_by_name(path: Path) -> None:
    with pytest.raises(UnsupportedError, match=rf"table metadata {path.name}: not supported: a view, because only tables"):
        metadata_from_json(path.read_bytes(), path.name)


@pytest.mark.parametrize(
    ("properties", "place"), [({"a": "\ud800"}, "properties.a"), ({"\udc00": "a"}, "properties.a key")], ids=["value", "key"]
)
def test_text_that_can_not_be_encoded_is_refused_before_anything_is_written(properties: dict[str, str], place: str) -> None:
    """A catalog met a bare encoding error, which counted as an unknown outcome."""
    catalog = make_catalog()
    table = make_table(catalog)
    with pytest.raises(BadInputError, match=f"{place} is not Unicode text"):
        metadata_to_json(replace(table.metadata, properties=properties))
    with pytest.raises(BadInputError, match="nothing was written"):
        commit(catalog, table, UpdateProperties(updates=properties))
    assert catalog.load_table(IDENTIFIER).metadata_location == table.metadata_location
