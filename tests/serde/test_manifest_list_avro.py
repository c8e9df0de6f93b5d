"""Manifest lists: round trips in every version, inheritance, old field names, and rows that cannot be written."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.serde.avro.avro_container import read_container, write_container
from iceberg_ops.serde.manifests.manifest_list_avro import (
    ManifestListReader,
    assign_inherited,
    read_manifest_list,
    write_manifest_list,
)
from iceberg_ops.spec.manifests import UNASSIGNED, FieldSummary, ManifestContent, ManifestFile
from tests.strategies import longs, texts

counts = st.integers(0, 2**31 - 1)
totals = st.integers(0, 2**62)
summaries = st.builds(
    FieldSummary, st.booleans(), st.none() | st.booleans(), st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=9)
)
manifests = st.builds(
    ManifestFile,
    manifest_path=texts,
    manifest_length=totals,
    partition_spec_id=counts,
    content=st.sampled_from(ManifestContent),
    sequence_number=totals,
    min_sequence_number=totals,
    added_snapshot_id=longs,
    added_files_count=counts,
    existing_files_count=counts,
    deleted_files_count=counts,
    added_rows_count=totals,
    existing_rows_count=totals,
    deleted_rows_count=totals,
    partitions=st.none() | st.lists(summaries, max_size=3).map(tuple),
    key_metadata=st.none() | st.binary(max_size=4),
    first_row_id=st.none() | totals,
)


def a_manifest(path: str = "m.avro", **more: Any) -> ManifestFile:
    found: dict[str, Any] = {
        "manifest_path": path,
        "manifest_length": 10,
        "sequence_number": UNASSIGNED,
        "min_sequence_number": UNASSIGNED,
        "added_snapshot_id": 5,
        "added_files_count": 1,
        "existing_files_count": 0,
        "deleted_files_count": 0,
        "added_rows_count": 100,
        "existing_rows_count": 25,
        "deleted_rows_count": 0,
    }
    return ManifestFile(**{**found, **more})


def written(rows: list[ManifestFile], version: int, **more: Any) -> bytes:
    return write_manifest_list(
        rows, **{"snapshot_id": 5, "parent_snapshot_id": None, "sequence_number": 9, "format_version": version, **more}
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(manifests, max_size=4), st.sampled_from([1, 2, 3]))
def test_what_is_written_is_read_back(rows: list[ManifestFile], version: int) -> None:
    """MLIST-01..15, MLIST-22: a version keeps the columns it has."""
    read = read_manifest_list(written(rows, version), "l.avro")
    assert len(read) == len(rows)
    for before, after in zip(rows, read, strict=True):
        if version < 3:
            before = replace(before, first_row_id=None)
        if version == 1:
            before = replace(before, content=ManifestContent.DATA, sequence_number=0, min_sequence_number=0)
        assert after == before


def test_numbers_below_zero_are_unknown() -> None:
    """iceberg-go writes them for counts that a v1 list does not record, and DuckDB for a minimum that it does not know."""
    names = [f"{status}_{what}_count" for status in ("added", "existing", "deleted") for what in ("files", "rows")]
    unknown = a_manifest(sequence_number=0, **dict.fromkeys((*names, "min_sequence_number", "first_row_id"), -1))
    (read,) = read_manifest_list(written([unknown], 3), "l.avro")
    assert [getattr(read, name) for name in names] == [None] * 6
    assert (read.sequence_number, read.min_sequence_number, read.first_row_id) == (0, 0, None)
    assert read.has_live_files


@settings(max_examples=60, deadline=None)
@given(st.lists(manifests, min_size=1, max_size=6), st.data())
def test_many_lists_are_read_as_each_alone_whatever_rows_they_share(rows: list[ManifestFile], data: st.DataObject) -> None:
    reader = ManifestListReader()
    for number in range(4):
        chosen = data.draw(st.lists(st.sampled_from(rows), max_size=8))
        changed = [replace(m, sequence_number=m.sequence_number + data.draw(st.integers(0, 1))) for m in chosen]
        raw = written(changed, data.draw(st.sampled_from([1, 2, 3])))
        assert reader.read(raw, f"{number}") == read_manifest_list(raw, f"{number}")


def test_a_row_that_comes_again_is_the_same_object_and_one_that_changed_is_not() -> None:
    reader = ManifestListReader()
    old, other = a_manifest("old", sequence_number=1), a_manifest("p" * 200, sequence_number=1)
    first = reader.read(written([old, other], 2), "1")
    second = reader.read(written([a_manifest("new"), other, replace(old, added_files_count=7)], 2), "2")
    assert second[1] is first[1]
    assert (first[0].added_files_count, second[2].added_files_count) == (1, 7)


@pytest.mark.parametrize("known", [True, False], ids=["rows known", "rows new"])
def test_damage_is_found_by_the_reader_of_many_lists_too(known: bool) -> None:
    whole = read_container(written([a_manifest("a"), a_manifest("b")], 2), "l")
    ((count, raw),) = whole.blocks
    reader = ManifestListReader()
    for block, message in {
        (count, raw + b"x"): "l: Avro block has 1 bytes after its 2 records",
        (count + 1, raw): "l: Avro record 2 cannot be decoded",
        (count, raw[:-1]): "l: Avro record 1 cannot be decoded",
        (count - 1, raw): "l: Avro block has",
    }.items():
        if known:
            reader.read(written([a_manifest("a"), a_manifest("b")], 2), "l")
        broken = write_container(json.loads(whole.schema_text), {}, [block], codec="deflate")
        for read in (reader.read, read_manifest_list):
            with pytest.raises(CorruptTableError, match=message):
                read(broken, "l")


@given(st.lists(manifests, min_size=1, max_size=3))
@settings(max_examples=20, deadline=None)
def test_fastavro_reads_what_we_write(rows: list[ManifestFile]) -> None:
    reader = fastavro.reader(io.BytesIO(written(rows, 3)))
    assert [r["manifest_path"] for r in reader if isinstance(r, dict)] == [m.manifest_path for m in rows]
    schema = reader.writer_schema
    assert isinstance(schema, dict)
    assert [f["field-id"] for f in schema["fields"]] == [
        500, 501, 502, 517, 515, 516, 503, 504, 505, 506, 512, 513, 514, 507, 519, 520,
    ]  # fmt: skip


def test_new_manifests_get_the_commits_sequence_number_and_old_ones_keep_theirs() -> None:
    """MLIST-20, MLIST-24, SEQ-01."""
    old = a_manifest("old", sequence_number=3, min_sequence_number=1)
    mixed = a_manifest("mixed", min_sequence_number=2)
    read = read_manifest_list(written([old, mixed, a_manifest("new")], 2), "l")
    assert [(m.sequence_number, m.min_sequence_number) for m in read] == [(3, 1), (9, 2), (9, 9)]


def test_row_ids_follow_the_specs_example() -> None:
    """LINEAGE-10, LINEAGE-11, LINEAGE-17."""
    rows = [
        a_manifest("existing", first_row_id=925, added_rows_count=75, existing_rows_count=0),
        a_manifest("deletes", content=ManifestContent.DELETES),
        a_manifest("added1"),
        a_manifest("added2", added_rows_count=0, existing_rows_count=100),
        a_manifest("added3", added_rows_count=125),
    ]
    assigned, next_row_id = assign_inherited(rows, sequence_number=9, first_row_id=1000)
    assert [m.first_row_id for m in assigned] == [925, None, 1000, 1125, 1225]
    assert next_row_id == 1375
    assert read_manifest_list(written(rows, 3, first_row_id=1000), "l") == assigned
    assert [m.first_row_id for m in read_manifest_list(written(rows, 2, first_row_id=1000), "l")] == [None] * 5


def test_row_ids_need_row_counts() -> None:
    with pytest.raises(CorruptTableError, match="m: its row counts are unknown"):
        assign_inherited([a_manifest("m", existing_rows_count=None)], sequence_number=1, first_row_id=0)


def test_the_header_names_snapshot_parent_and_version() -> None:
    """MLIST-27."""
    metadata = read_container(written([], 3, first_row_id=7, parent_snapshot_id=4), "l").metadata
    assert metadata == {
        "snapshot-id": "5",
        "parent-snapshot-id": "4",
        "format-version": "3",
        "sequence-number": "9",
        "first-row-id": "7",
    }


def test_v2_refuses_a_row_whose_counts_are_unknown() -> None:
    """MLIST-08."""
    with pytest.raises(CorruptTableError, match=r"m\.avro: its added_files_count is None"):
        written([a_manifest(added_files_count=None)], 2)


def _older_names(schema: Any) -> Any:
    for f in schema["fields"]:
        f["name"] = f["name"].replace("_files_count", "_data_files_count")
        del f["field-id"]
    return schema


def _other_names(schema: Any) -> Any:
    return {**schema, "fields": [{**f, "name": f"c{i}"} for i, f in enumerate(schema["fields"])]}


@pytest.mark.parametrize("change", [_older_names, _other_names])
def test_columns_are_found_by_id_and_without_ids_by_old_and_new_names(change: Any) -> None:
    """GEN-10: 504-506 were once named otherwise."""
    raw = written([a_manifest(added_files_count=3, existing_files_count=4, deleted_files_count=5)], 2)
    found = read_container(raw, "l")
    renamed = write_container(change(json.loads(found.schema_text)), {}, found.blocks, codec="deflate")
    assert read_manifest_list(renamed, "l") == read_manifest_list(raw, "l")


def test_a_list_of_eight_columns_leaves_counts_unknown() -> None:
    """MLIST-21, GEN-06: the oldest writers recorded no row counts."""
    fields = [
        {"name": "manifest_path", "type": "string", "field-id": 500},
        {"name": "manifest_length", "type": "long", "field-id": 501},
        {"name": "partition_spec_id", "type": "int", "field-id": 502},
        {"name": "added_snapshot_id", "type": ["null", "long"], "field-id": 503},
    ]
    out = io.BytesIO()
    row = {"manifest_path": "m", "manifest_length": 1, "partition_spec_id": 0, "added_snapshot_id": None}
    fastavro.writer(out, {"type": "record", "name": "manifest_file", "fields": fields}, [row])
    (read,) = read_manifest_list(out.getvalue(), "l")
    assert read == ManifestFile(manifest_path="m", manifest_length=1)
    assert read.has_live_files


BROKEN = {
    "a required column is missing": (
        [{"name": "manifest_length", "type": "long", "field-id": 501}],
        {"manifest_length": 1},
        "l: no column manifest_path (field id 500), which is required",
    ),
    "a column has another type": (
        [
            {"name": "manifest_path", "type": "string", "field-id": 500},
            {"name": "manifest_length", "type": "string", "field-id": 501},
        ],
        {"manifest_path": "m", "manifest_length": "1"},
        "l: column manifest_length (field id 501) is an Avro string, must be long",
    ),
    "a required value is null": (
        [
            {"name": "manifest_path", "type": ["null", "string"], "field-id": 500},
            {"name": "manifest_length", "type": "long", "field-id": 501},
        ],
        {"manifest_path": None, "manifest_length": 1},
        "l: manifest None has length 1 and content 0",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_lists_are_named(case: str) -> None:
    fields, row, message = BROKEN[case]
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "manifest_file", "fields": fields}, [row])
    with pytest.raises(CorruptTableError) as caught:
        read_manifest_list(out.getvalue(), "l")
    assert str(caught.value) == message


def test_an_encrypted_list_and_an_unknown_codec_are_refused_by_name() -> None:
    """ENC-02, AVRO-04."""
    with pytest.raises(UnsupportedError, match="l, because it is encrypted"):
        read_manifest_list(b"AGS1....", "l")
    odd = write_container({"type": "record", "name": "r", "fields": []}, {}, [], codec="null").replace(b"null", b"lzma")
    with pytest.raises(UnsupportedError, match="Avro codec 'lzma'"):
        read_manifest_list(odd, "l")
