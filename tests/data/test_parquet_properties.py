"""``write.parquet.*``: the files have the form that the table's properties require."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.data.formats.parquet_options import writer_options
from iceberg_ops.errors import OptionError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import BOOLEAN, LONG, STRING, ListType, NestedField, StructType
from tests.data.files import new_io, read, write, write_context

SCHEMA = Schema.of(
    NestedField(1, "id", LONG),
    NestedField(2, "s", STRING),
    NestedField(3, "flag", BOOLEAN),
    NestedField(4, "tags", ListType(NestedField(5, "element", STRING))),
    NestedField(6, "in", StructType((NestedField(7, "x", LONG),))),
)
ROWS: list[tuple[Any, ...]] = [(i, f"s{i}", i % 2 == 0, [f"t{i}"], (i,)) for i in range(100)]
ENABLED, FPP, NDV = (f"write.parquet.bloom-filter-{part}.column." for part in ("enabled", "fpp", "ndv"))
MAX_BYTES = "write.parquet.bloom-filter-max-bytes"


def _columns(properties: dict[str, str]) -> dict[str, pq.ColumnChunkMetaData]:
    store = new_io()
    (file,) = write(write_context(SCHEMA, properties=properties), store, ROWS)
    assert read([file], SCHEMA, store) == ROWS
    group = pq.read_metadata(pa.BufferReader(store.read(file.file_path))).row_group(0)
    return {group.column(c).path_in_schema: group.column(c) for c in range(group.num_columns)}


def test_bloom_filters_are_written_for_the_columns_asked_for() -> None:
    found = _columns({ENABLED + "id": "true", ENABLED + "tags.element": "TRUE", ENABLED + "s": "false", ENABLED + "gone": "true"})
    assert [name for name, c in found.items() if c.bloom_filter_offset is not None] == ["id", "tags.list.element"]


def test_booleans_have_no_bloom_filter() -> None:
    assert _columns({ENABLED + "flag": "true"})["flag"].bloom_filter_offset is None


DISTINCT = [
    ({}, 868_000),
    ({MAX_BYTES: "4096"}, 3390),
    ({MAX_BYTES: "5000"}, 3390),
    ({MAX_BYTES: "4096", FPP + "id": "0.5"}, 10_000),
    ({NDV + "id": "100"}, 100),
    ({NDV + "id": "100000", MAX_BYTES: "4096"}, 3390),
]


@pytest.mark.parametrize(("properties", "values"), DISTINCT, ids=str)
def test_bloom_filters_are_made_for_as_many_values_as_their_bytes_hold(properties: dict[str, str], values: int) -> None:
    """Java makes every filter of the most bytes (1 MiB) where nothing is said; Arrow folds them to what is there."""
    made = writer_options({ENABLED + "id": "true", **properties}, SCHEMA)["bloom_filter_options"]["id"]["ndv"]
    assert made == pytest.approx(values, rel=0.05)
    length = _columns({ENABLED + "id": "true", **properties})["id"].bloom_filter_length
    assert length is not None
    assert length < 4096


@pytest.mark.parametrize(
    "wrong",
    [{FPP + "id": "0"}, {FPP + "id": "1"}, {FPP + "id": "x"}, {NDV + "id": "0"}, {NDV + "id": "1.5"}, {MAX_BYTES: "0"}],
    ids=str,
)
def test_bloom_filter_options_that_make_no_sense_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="bloom-filter"):
        writer_options({ENABLED + "id": "true", **wrong}, SCHEMA)


def test_pages_have_the_version_asked_for() -> None:
    """Arrow writes booleans as RLE in pages of version 2 only."""
    assert "PLAIN" in _columns({})["flag"].encodings
    assert "PLAIN" in _columns({"write.parquet.page-version": "v1"})["flag"].encodings
    assert "PLAIN" not in _columns({"write.parquet.page-version": "v2"})["flag"].encodings
    with pytest.raises(OptionError, match="page-version"):
        writer_options({"write.parquet.page-version": "v3"}, SCHEMA)


def test_statistics_can_be_left_out_of_a_column() -> None:
    stats = "write.parquet.stats-enabled.column."
    found = _columns({stats + "s": "false", stats + "in.x": "false", stats + "id": "true"})
    assert [name for name, c in found.items() if not c.is_stats_set] == ["s", "in.x"]


def test_dictionaries_can_be_left_out_of_a_column() -> None:
    def with_dictionary(properties: dict[str, str]) -> set[str]:
        return {name for name, c in _columns(properties).items() if c.has_dictionary_page}

    found = with_dictionary({})
    assert "in.x" in found
    assert with_dictionary({"write.parquet.dict-encoding-enabled.column.in.x": "false"}) == found - {"in.x"}
