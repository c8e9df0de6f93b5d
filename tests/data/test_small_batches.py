"""Joined batches hold the same rows in the same order, and stay within their limit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.data.arrow.small_batches import MOST_BYTES, together
from iceberg_ops.data.columns.file_columns import ColumnIds
from iceberg_ops.data.formats.parquet_reader import ParquetDataFile
from iceberg_ops.io.local import LocalFileIO

NUMBERS = pa.schema([("n", pa.int64())])
NESTED = pa.schema(
    [
        ("s", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("l", pa.list_(pa.string())),
        ("m", pa.map_(pa.string(), pa.int8())),
    ]
)


def numbers(start: int, count: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(start, start + count), pa.int64())], NUMBERS)


def text(values: list[str | None], kept: bool) -> pa.RecordBatch:
    column = pa.array(values, pa.string())
    return pa.record_batch([column.dictionary_encode() if kept else column], ["t"])


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(1, 2_000))
def test_the_rows_stay_the_same_in_order(sizes: list[int], most: int) -> None:
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    found = list(together((numbers(s, n) for s, n in zip(starts, sizes, strict=True)), most))
    assert [v for b in found for v in b.column(0).to_pylist()] == list(range(sum(sizes)))
    for batch in found:
        assert batch.num_rows in sizes or batch.nbytes <= most * 5 / 4


@given(st.lists(st.tuples(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=6), st.booleans()), max_size=12))
def test_dictionaries_of_several_files_become_one_and_plain_text_stays_plain(parts: list[tuple[list[str | None], bool]]) -> None:
    found = list(together(text(values, kept) for values, kept in parts))
    for batch in found:
        batch.validate(full=True)
    assert [v for b in found for v in b.column(0).to_pylist()] == [v for values, _ in parts for v in values]
    runs = [kept for i, (_, kept) in enumerate(parts) if not i or parts[i - 1][1] is not kept]
    assert [pa.types.is_dictionary(b.schema.field(0).type) for b in found] == runs


def test_nested_rows_are_joined() -> None:
    rows = [{"s": {"a": 1, "b": None}, "l": ["x", None], "m": [("k", 1)]}, {"s": None, "l": None, "m": None}]
    batches = [pa.RecordBatch.from_pylist(rows, NESTED) for _ in range(3)]
    found = list(together(batches))
    assert len(found) == 1
    assert found[0].to_pylist() == [r for b in batches for r in b.to_pylist()]


def test_dictionaries_that_hold_nulls_stay_apart_rather_than_fail() -> None:
    batches = [pa.record_batch([pa.DictionaryArray.from_arrays([0, 1], pa.array([v, None]))], ["t"]) for v in ("a", "b")]
    assert list(together(batches)) == batches


def test_large_batches_pass_uncopied_between_small_ones() -> None:
    large = numbers(2, 1 << 15)
    found = list(together([numbers(0, 1), numbers(1, 1), large, numbers(9, 1)]))
    assert [b.num_rows for b in found] == [2, 1 << 15, 1]
    assert found[1] is large


def test_wide_rows_are_not_joined_beyond_the_bound() -> None:
    wide = [pa.record_batch([pa.array(["x" * 1_000_000])], ["t"]) for _ in range(40)]
    found = list(together(wide))
    assert 1 < len(found) < 40
    assert max(b.nbytes for b in found) <= MOST_BYTES * 5 / 4


@pytest.mark.parametrize("at", ["b", "a"])
def test_files_that_differ_in_notes_alone_are_alike(tmp_path: Path, at: str) -> None:
    """What a writer notes about a file, a time say, makes no other columns: a file is then opened once."""
    opened = []
    for n in range(3):
        schema = pa.schema([pa.field(at, pa.string(), metadata={"PARQUET:field_id": "1"})], metadata={"written": str(n)})
        pq.write_table(pa.table({at: [f"v{i % 3}" for i in range(3_000)]}, schema), tmp_path / f"{n}.parquet")
        file = ParquetDataFile(LocalFileIO(), str(tmp_path / f"{n}.parquet"), ColumnIds())
        before = file._file
        assert [b.num_rows for _, b, _ in file.batches({0}, 0, None, 1 << 20)] == [3_000]
        opened.append(file._file is before)
        file.close()
    assert opened[1:] == [True, True]


def test_a_folder_in_place_of_a_file_is_an_error_of_the_store(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        ParquetDataFile(LocalFileIO(), str(tmp_path), ColumnIds())


def test_text_stays_in_its_dictionary_whatever_was_read_of_the_file_before(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    text = [f"v{i % 3}" for i in range(3_000)]
    pq.write_table(pa.table({"n": range(3_000), "t": text, "u": text}), path)
    for leaves in ({0}, {1}, {0, 1, 2}, {2}):
        file = ParquetDataFile(LocalFileIO(), str(path), ColumnIds())
        (batch,) = (b for _, b, _ in file.batches(leaves, 0, None, 1 << 20))
        assert [pa.types.is_dictionary(f.type) for f in batch.schema] == [n > 0 for n in sorted(leaves)]
        file.close()
