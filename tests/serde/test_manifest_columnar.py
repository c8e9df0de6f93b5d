"""The columnar path gives the same result as the record decoder, or leaves the file to it."""

from __future__ import annotations

import copy
import io
import json
import pickle
import sys
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_ops.serde.avro.avro_column_values import column_values
from iceberg_ops.serde.avro.packed_maps import PackedMap
from iceberg_ops.serde.json.content_file_json import data_file_to_dict
from iceberg_ops.serde.manifests.manifest_columnar import FEWEST_RECORDS, LazyMap, read_columns
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import INT, NestedField, StructType
from tests.serde.manifest_cases import decoded, encoded, entries, in_one_bucket, partition_layouts, read_entries

BY_P = (
    Schema.of(NestedField(1, "p", INT)),
    PartitionSpec(0, (PartitionField((1,), 1000, IDENTITY, "p"),)),
    StructType((NestedField(1000, "p", INT),)),
)

MAPS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


def many(count: int = 100, **more: Any) -> list[ManifestEntry]:
    return [
        ManifestEntry(
            EntryStatus(i % 3),
            5,
            None if i % 3 == 1 else i,
            None,
            DataFile(
                file_path=f"f{i}",
                file_format=FileFormat.PARQUET,
                partition=(None if i % 7 == 0 else i % 5,),
                record_count=i,
                file_size_in_bytes=10 * i,
                value_counts=None if i % 4 == 0 else {1: i, 2: 2 * i},
                lower_bounds={} if i % 5 == 0 else {1: str(i).encode()},
                **more,
            ),
        )
        for i in range(count)
    ]


def listed(manifest: ManifestFile, **more: Any) -> ManifestFile:
    return replace(manifest, sequence_number=9, **more)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_both_paths_agree(data: st.DataObject) -> None:
    raw, manifest, layout = _any_manifest(data, in_one_bucket)
    reference = decoded(raw, manifest, layout)
    assert list(read_entries(raw, manifest, layout[2])) == reference
    columns = read_columns(raw, manifest, layout[2])
    assert columns is not None
    assert columns.entries([3, 1]) == [reference[3], reference[1]]
    columns.pack()
    assert columns.entries() == reference


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_both_paths_agree_whatever_the_paths(data: st.DataObject) -> None:
    raw, manifest, layout = _any_manifest(data, list)
    assert list(read_entries(raw, manifest, layout[2])) == decoded(raw, manifest, layout)


def _any_manifest(data: st.DataObject, place: Any) -> tuple[bytes, ManifestFile, Any]:
    layout = data.draw(partition_layouts())
    version = data.draw(st.sampled_from([1, 2, 3]))
    content = data.draw(st.sampled_from(ManifestContent)) if version > 1 else ManifestContent.DATA
    few = place(data.draw(st.lists(entries(layout, content, v3=version == 3), min_size=1, max_size=5)))
    raw, manifest = encoded(few * FEWEST_RECORDS, layout, version=version, content=content)
    manifest = listed(manifest, first_row_id=1000 if version == 3 else None)
    return raw, replace(manifest, sequence_number=0) if version == 1 else manifest, layout


def test_columns_are_what_entries_say() -> None:
    raw, manifest = encoded(many(), BY_P, version=2)
    columns = read_columns(raw, listed(manifest), BY_P[2])
    assert columns is not None
    found = columns.entries()
    assert len(columns) == 100
    assert columns.live.tolist() == [e.is_live for e in found]
    assert columns.paths() == [e.data_file.file_path for e in found]
    assert columns.record_count.tolist() == [e.data_file.record_count for e in found]
    by_code: dict[int, Any] = {}
    for code, e in zip(columns.partition_codes().tolist(), found, strict=True):
        assert by_code.setdefault(code, e.data_file.partition) == e.data_file.partition
    assert len(by_code) == len({e.data_file.partition for e in found}) == 6
    assert columns.counts("value_counts", 2).tolist() == [(e.data_file.value_counts or {}).get(2, -1) for e in found]
    assert column_values(*columns.bounds(1, upper=False)) == [(e.data_file.lower_bounds or {}).get(1) for e in found]
    assert column_values(*columns.bounds(1, upper=True)) == [None] * 100
    assert columns.nbytes > 0


def test_a_statistic_is_a_mapping_like_any_other() -> None:
    raw, manifest = encoded(many(), BY_P, version=2)
    columns = read_columns(raw, listed(manifest), BY_P[2])
    assert columns is not None
    counts = columns.entries([5])[0].data_file.value_counts
    assert isinstance(counts, LazyMap)
    assert counts == {1: 5, 2: 10}
    assert counts == {1: 5, 2: 10}
    assert pickle.loads(pickle.dumps(counts)) == copy.deepcopy(counts) == {1: 5, 2: 10}
    assert (len(counts), sorted(counts), counts.get(9), repr(counts)) == (2, [1, 2], None, "{1: 5, 2: 10}")


def test_a_manifest_without_any_statistics_column_reads() -> None:
    raw, manifest = _of_another_writer(None)
    columns = read_columns(raw, manifest, BY_P[2])
    assert columns is not None
    f = columns.entries([0])[0].data_file
    assert (f.column_sizes, f.lower_bounds, f.partition) == (None, None, (None,))
    assert columns.counts("value_counts", 1).tolist() == [-1] * 50


def _of_another_writer(sizes: Any) -> tuple[bytes, ManifestFile]:
    fields = [
        {"name": "file_path", "type": "string", "field-id": 100},
        {"name": "file_format", "type": "string", "field-id": 101},
        {"name": "record_count", "type": "long", "field-id": 103},
        {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
        *([] if sizes is None else [{"name": "column_sizes", "type": sizes, "field-id": 108}]),
    ]
    entry = [
        {"name": "status", "type": "int", "field-id": 0},
        {"name": "data_file", "type": {"type": "record", "name": "f", "fields": fields}, "field-id": 2},
    ]
    f = {"file_path": "p", "file_format": "ORC", "record_count": 3, "file_size_in_bytes": 4, "column_sizes": {"1": 2}}
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "entry", "fields": entry}, [{"status": 1, "data_file": f}] * 50)
    return out.getvalue(), ManifestFile(manifest_path="m", manifest_length=0)


def _maps_with_text_keys() -> tuple[bytes, ManifestFile, StructType]:
    return *_of_another_writer({"type": "map", "values": "long"}), BY_P[2]


def _few() -> tuple[bytes, ManifestFile, StructType]:
    raw, manifest = encoded(many(5), BY_P, version=2)
    return raw, listed(manifest), BY_P[2]


@pytest.mark.parametrize("case", [_maps_with_text_keys, _few])
def test_what_the_columnar_path_does_not_take_is_left_to_the_reference(case: Any) -> None:
    raw, manifest, partition_type = case()
    assert read_columns(raw, manifest, partition_type) is None
    assert len(read_entries(raw, manifest, partition_type)) > 0


def test_without_numpy_the_reference_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    raw, manifest = encoded(many(), BY_P, version=2)
    monkeypatch.setitem(sys.modules, "iceberg_ops.serde.avro.avro_columns", None)
    assert read_columns(raw, listed(manifest), BY_P[2]) is None
    assert list(read_entries(raw, listed(manifest), BY_P[2])) == decoded(raw, listed(manifest), BY_P)


def _at(paths: list[str]) -> list[ManifestEntry]:
    return [replace(e, data_file=replace(e.data_file, file_path=p)) for e, p in zip(many(len(paths)), paths, strict=True)]


PATHS = {
    "of one folder": [f"s3://b/t/{i}.parquet" for i in range(90)],
    "of two stores": [f"{'s3' if i % 2 else 'hdfs'}://b/t/{i}.parquet" for i in range(90)],
    "of a store from some file on": [f"{'s3' if i > 70 else 'hdfs'}://b/t/{i}.parquet" for i in range(90)],
    "by hashes": [f"/t/{i * 2654435761 % 2**32:08x}/{i}" for i in range(90)],
    "beyond ASCII": [f"s3://b/\u00fc\U0001f600/{i}" for i in range(90)],
    "longer than 63 and 8191 bytes": [f"s3://b/{'x' * (60 if i % 2 else 5000)}/{i}" for i in range(90)],
    "much longer one by one": [f"s3://b/{'x' * (5 if i == 70 else 900)}{i}" for i in range(90)],
}


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_records_are_found_by_their_paths(name: str, version: int) -> None:
    raw, manifest = encoded(_at(PATHS[name]), BY_P, version=version)
    manifest = replace(manifest, sequence_number=9 if version > 1 else 0)
    columns = read_columns(raw, manifest, BY_P[2])
    assert columns is not None
    assert columns.entries() == decoded(raw, manifest, BY_P)


def test_statistics_that_look_like_paths_do_not_mislead() -> None:
    found = _at([f"s3://b/t/{i}.parquet" for i in range(90)])
    found = [
        replace(
            e,
            data_file=replace(
                e.data_file, lower_bounds={1: b"s3://b/t/", 2: e.data_file.file_path.encode()}, key_metadata=b"s3://b/t/"
            ),
        )
        for e in found
    ]
    raw, manifest = encoded(found, BY_P, version=2)
    columns = read_columns(raw, listed(manifest), BY_P[2])
    assert columns is not None
    assert columns.entries() == decoded(raw, listed(manifest), BY_P)


@pytest.mark.parametrize("width", [0, 1, 62, 63, 64, 200])
def test_numbers_of_any_size_and_wide_tables_read(width: int) -> None:
    numbers = [0, 1, 63, 64, 8191, 8192, 2**27 - 1, 2**27, 2**55 - 1, 2**55, 2**62, 2**63 - 1]
    found = [
        replace(
            e,
            snapshot_id=numbers[i % 12],
            data_file=replace(
                e.data_file,
                record_count=numbers[-i % 12],
                value_counts={j: numbers[(i + j) % 12] for j in range(1, width + 1)},
                upper_bounds={j * 100: b"x" * (j % 90) for j in range(1, (width if i % 3 else 2) + 1)},
                split_offsets=tuple(numbers[: i % 9]),
            ),
        )
        for i, e in enumerate(many(60))
    ]
    raw, manifest = encoded(found, BY_P, version=2)
    columns = read_columns(raw, listed(manifest), BY_P[2])
    assert columns is not None
    reference = decoded(raw, listed(manifest), BY_P)
    assert columns.entries() == reference
    assert columns.counts("value_counts", width).tolist() == [(e.data_file.value_counts or {}).get(width, -1) for e in reference]
    assert column_values(*columns.bounds(200, upper=True)) == [(e.data_file.upper_bounds or {}).get(200) for e in reference]


@pytest.mark.parametrize("keys", [(), (1, 2, 3)], ids=["no map or other keys here and there", "the same keys everywhere"])
def test_statistics_looked_at_one_by_one_or_all_together_are_the_same(keys: tuple[int, ...]) -> None:
    found = many(90)
    if keys:
        same = {"value_counts": dict.fromkeys(keys, 7), "lower_bounds": dict.fromkeys(keys, b"x")}
        found = [replace(e, data_file=replace(e.data_file, **same)) for e in found]
    raw, manifest = encoded(found, BY_P, version=2)
    columns = read_columns(raw, listed(manifest), BY_P[2])
    assert columns is not None
    for e, expected in zip(columns.entries(), decoded(raw, listed(manifest), BY_P), strict=True):
        for name in ("value_counts", "lower_bounds", "upper_bounds"):
            assert getattr(e.data_file, name) == getattr(expected.data_file, name)
            wanted = getattr(expected.data_file, name)
            assert wanted is None or list(getattr(e.data_file, name)) == list(wanted)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_statistics_of_many_files_are_equal_to_the_dicts_of_the_reference(data: st.DataObject) -> None:
    """All six maps, whatever each file has: present or not, empty, other keys; looked at after many others were."""
    raw, manifest, layout = _any_manifest(data, in_one_bucket)
    columns = read_columns(raw, manifest, layout[2])
    assert columns is not None
    reference = decoded(raw, manifest, layout)
    for _ in range(2):
        for e, expected in zip(columns.entries(), reference, strict=True):
            for name in MAPS:
                found, wanted = getattr(e.data_file, name), getattr(expected.data_file, name)
                assert found == wanted
                if wanted is not None:
                    assert [found.get(k) for k in wanted] == list(wanted.values())
    again = columns.entries()
    assert again == reference
    assert list(map(hash, (e.data_file for e in again))) == list(map(hash, (e.data_file for e in reference)))
    assert pickle.loads(pickle.dumps(again)) == copy.deepcopy(again) == reference
    assert all(
        replace(e.data_file, record_count=1) == replace(r.data_file, record_count=1) for e, r in zip(again, reference, strict=True)
    )


def test_a_packed_statistic_is_a_mapping_like_any_other() -> None:
    """Other keys in every file, a file without the map, and one with an empty one."""
    found = [
        replace(e, data_file=replace(e.data_file, lower_bounds={i % 3: b"a", 7: str(i).encode()}, value_counts={i: i, 1: -1}))
        for i, e in enumerate(many(90))
    ]
    found[50] = replace(found[50], data_file=replace(found[50].data_file, lower_bounds={}, value_counts=None))
    raw, manifest = encoded(found, BY_P, version=2)
    columns = read_columns(raw, listed(manifest), BY_P[2])
    assert columns is not None
    files = [e.data_file for e in columns.entries()]
    maps = [f.lower_bounds for f in files]
    assert isinstance(maps[80], PackedMap)
    assert [maps[i] for i in (50, 80, 81)] == [{}, {2: b"a", 7: b"80"}, {0: b"a", 7: b"81"}]
    assert (len(maps[80]), list(maps[80]), repr(maps[80])) == (2, [2, 7], "{2: b'a', 7: b'80'}")
    assert (maps[80].get(2), maps[80].get(0), maps[81].get(0), maps[80].get(2**70, b"none")) == (b"a", None, b"a", b"none")
    assert (list(maps[80].items()), list(maps[80].values()), 7 in maps[80], 0 in maps[80]) == (
        [(2, b"a"), (7, b"80")], [b"a", b"80"], True, False,
    )  # fmt: skip
    assert (maps[50].get(0), maps[50].get(7)) == (None, None)
    assert maps[80] != maps[81]
    assert maps[80] != 5
    with pytest.raises(KeyError):
        maps[80][0]
    assert type(copy.copy(maps[80])) is type(pickle.loads(pickle.dumps(maps[80]))) is dict
    assert copy.deepcopy(maps[80]) == maps[80]
    counts = [f.value_counts for f in files]
    assert (counts[50], counts[1], counts[80]) == (None, {1: -1}, {80: 80, 1: -1})
    assert json.loads(json.dumps(data_file_to_dict(files[80]))) == data_file_to_dict(replace(found[80].data_file))
