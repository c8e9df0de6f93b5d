"""Reads, sorts, merges and row groups are limited by bytes, not by rows, and no file claims an order that its rows do not have."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from iceberg_ops.data.arrow import batch_sizes
from iceberg_ops.data.arrow.batch_sizes import cut, own_bytes
from iceberg_ops.data.columns.file_columns import ColumnIds
from iceberg_ops.data.columns.sort_keys import Keys, order_keys
from iceberg_ops.data.formats import avro_reader, orc_reader
from iceberg_ops.data.formats.any_format import open_file
from iceberg_ops.data.rewriting.rewrite import rewrite_group, sample_keys
from iceberg_ops.data.sorting import external_sort, key_sample
from iceberg_ops.data.sorting.external_sort import in_one, sort_batches
from iceberg_ops.data.sorting.key_sample import KeySample
from iceberg_ops.data.writing import parquet_writer
from iceberg_ops.data.writing.row_order import RowOrder
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import VerificationError
from iceberg_ops.serde.json.sort_json import sort_order_to_dict
from iceberg_ops.spec.content_files import FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.data.files import batch_of, new_io, read, write, write_context
from tests.data.test_rewrite import added, work_of

WIDE = Schema.of(NestedField(1, "id", LONG), NestedField(2, "text", STRING))
BY_ID = SortOrder(1, (SortField((1,), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST),))
BY_TEXT = SortOrder(2, (SortField((2,), IDENTITY, SortDirection.DESC, NullOrder.NULLS_LAST),))
SIZE, ROWS, LIMIT = 10_000, 80, 256_000
"""80 rows of 10 KB at a limit of 256 KB: the shape of 80 rows of 10 MB at the default of 256 MiB."""


def text_of(i: int) -> str:
    return f"{i:05d}" * (SIZE // 5)


def wide_rows(rows: int = ROWS) -> list[tuple[int, str]]:
    return [(i * 37 % rows, text_of(i * 53 % rows)) for i in range(rows)]


def sizes_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of everything that is put into one piece from now on."""
    found: list[int] = []

    def watched(batches: Any) -> pa.RecordBatch:
        whole = in_one(batches)
        found.append(whole.nbytes)
        return whole

    monkeypatch.setattr(external_sort, "in_one", watched)
    return found


@pytest.mark.parametrize("order", [BY_ID, BY_TEXT], ids=["by number", "by the wide text"])
def test_a_sort_of_wide_rows_holds_no_more_than_its_limit(order: SortOrder, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = sizes_of(monkeypatch)
    io, rows = new_io(), wide_rows()
    files = [f for i in range(0, ROWS, 20) for f in write(write_context(WIDE), io, rows[i : i + 20], operation_id=f"in{i}")]
    work = work_of(io, files, partition=(), sort_order=sort_order_to_dict(order), memory_limit_bytes=LIMIT, schema=WIDE)
    result = rewrite_group(work)
    place = 0 if order is BY_ID else 1
    assert read(added(result), WIDE, io) == sorted(rows, key=lambda r: r[place], reverse=order is BY_TEXT)
    assert result.rows_in_order == ROWS
    assert len(result.spilled_runs) > 3
    assert max(sizes) <= LIMIT


def test_runs_of_more_than_memory_can_hold_one_batch_each_of_are_merged_in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = sizes_of(monkeypatch)
    rows = wide_rows(400)
    batches = [batch_of(WIDE, rows[i : i + 5]) for i in range(0, 400, 5)]
    spilled: list[int] = []
    found = pa.Table.from_batches(list(sort_batches(batches, order_keys(WIDE, BY_ID), 50_000, spilled=spilled)))
    assert len(spilled) > 80
    assert found.to_pylist() == [{"id": i, "text": text} for i, text in sorted(rows)]
    assert max(sizes) <= 50_000


@pytest.mark.parametrize("plain_first", [True, False])
def test_text_in_dictionaries_and_plain_text_sort_and_merge_as_one_column(plain_first: bool) -> None:
    """A sort neither takes text out of its dictionary (which can be any size) nor loses a row between the two forms."""
    texts = [None, "", "b", "a", "ü", "b"] * 20
    plain = pa.RecordBatch.from_pydict({"id": list(range(120)), "text": texts})
    encoded = plain.set_column(1, "text", plain.column(1).dictionary_encode())
    pair = [plain, encoded] if plain_first else [encoded, plain]
    parts = [part for batch in pair for part in (batch.slice(0, 60), batch.slice(60))]
    found = list(sort_batches(parts, order_keys(WIDE, BY_TEXT), 600, spilled=(runs := [])))
    assert len(runs) > 1
    assert {str(batch.schema.field("text").type) for batch in found} == {"dictionary<values=string, indices=int32, ordered=0>"}
    got = [row["text"] for batch in found for row in batch.to_pylist()]
    assert got == sorted((t for t in texts * 2 if t is not None), reverse=True) + [None] * 40


def test_rows_of_one_batch_may_differ_in_size() -> None:
    batch = pa.RecordBatch.from_pydict({"text": ["x"] * 50 + ["y" * 10_000] * 5 + ["z"] * 50})
    parts = list(cut(batch, 12_000))
    assert pa.Table.from_batches(parts).to_pylist() == batch.to_pylist()
    assert max(own_bytes(part) for part in parts) <= 24_000


@pytest.mark.parametrize("form", ["parquet", "parquet-dictionary", "orc", "avro"])
def test_a_reader_decodes_fewer_wide_rows_at_a_time(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (batch_sizes, avro_reader, orc_reader):
        monkeypatch.setattr(module, "BATCH_BYTES", 50_000)
    io, rows = new_io(), wide_rows()
    table = pa.Table.from_batches([batch_of(WIDE, rows)])
    if form == "avro":
        (file,) = write(write_context(WIDE, properties={"write.format.default": "avro"}), io, rows)
        location = file.file_path
    else:
        location, sink = "memory://wh/t/in", pa.BufferOutputStream()
        if form == "orc":
            orc.write_table(table.replace_schema_metadata(None), sink)
        else:
            pq.write_table(table, sink, use_dictionary=form == "parquet-dictionary", compression="zstd")
        io.write(location, sink.getvalue().to_pybytes())
    opened = open_file(io, location, FileFormat(form.partition("-")[0]), ColumnIds(schema=WIDE))
    found = list(opened.batches({0, 1}, 0, None, 1000))
    assert [position for position, _, _ in found] == list(np.cumsum([0, *(b.num_rows for _, b, _ in found)])[:-1])
    assert sum(batch.num_rows for _, batch, _ in found) == ROWS
    assert max(own_bytes(batch) for _, batch, _ in found) <= 100_000


def test_a_row_group_of_text_that_compresses_well_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_writer, "_MOST_GROUP_BYTES", 100_000)
    io = new_io()
    writer = PartitionedWriter(write_context(WIDE), io, operation_id="op", target_size=1 << 30)
    for i in range(60):
        writer.write(batch_of(WIDE, [(i, "same" * 2500)]))
    (file,) = writer.close()
    assert len(file.split_offsets or ()) >= 6
    assert len(read([file], WIDE, io)) == 60


def test_later_row_groups_leave_their_dictionaries_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that began with plain text continues with plain text, however much of it is in a dictionary."""
    monkeypatch.setattr(parquet_writer, "_MOST_GROUP_BYTES", 100_000)
    io = new_io()
    writer = PartitionedWriter(write_context(WIDE), io, operation_id="op", target_size=1 << 30)
    plain = batch_of(WIDE, [(i, text_of(i)) for i in range(12)])
    indices = pa.array([i % 2 for i in range(100)], pa.int32())
    encoded = pa.DictionaryArray.from_arrays(indices, pa.array([text_of(1), text_of(2)]))
    writer.write(plain)
    for start in range(0, 100, 50):
        ids = pa.array(range(start, start + 50), pa.int64())
        writer.write(pa.RecordBatch.from_arrays([ids, encoded.slice(start, 50)], names=["id", "text"]))
    (file,) = writer.close()
    assert [row[1] for row in read([file], WIDE, io)][12:] == [text_of(1 + i % 2) for i in range(100)]


def test_a_sample_of_wide_keys_is_bounded_and_even(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_sample, "_BYTES", 200_000)
    io, rows = new_io(), [(i, text_of(i)) for i in range(400)]
    files = write(write_context(WIDE), io, rows)
    work = work_of(io, files, partition=(), sort_order=sort_order_to_dict(BY_TEXT), schema=WIDE)
    sample: KeySample = sample_keys(work, io)
    assert 5 <= sample.rows.num_rows <= 20
    taken = [int(text[:5]) for text in sample.rows["text"].to_pylist()]
    steps = {b - a for a, b in pairwise(taken)}
    assert (taken[0], len(steps)) == (0, 1)


def test_rows_that_do_not_fit_into_one_piece_are_an_error_not_the_first_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow puts at most 2 GiB of text into one piece; what it could not put there used to be left where it was, unsorted."""

    class TwoPieces:
        def unify_dictionaries(self) -> TwoPieces:
            return self

        def combine_chunks(self) -> TwoPieces:
            return self

        def to_batches(self) -> list[pa.RecordBatch]:
            return [batch_of(WIDE, [(1, "a")]), batch_of(WIDE, [(2, "b")])]

    monkeypatch.setattr(external_sort, "one_table", lambda batches: TwoPieces())
    with pytest.raises(VerificationError, match="more text than one batch can hold"):
        in_one([batch_of(WIDE, [(1, "a")]), batch_of(WIDE, [(2, "b")])])


def test_a_file_that_claims_an_order_its_rows_are_not_in_is_never_completed() -> None:
    io = new_io()
    context = replace(write_context(WIDE), sort_order=BY_ID)
    writer = PartitionedWriter(context, io, operation_id="op")
    writer.write(batch_of(WIDE, [(1, "a"), (5, "b")]))
    with pytest.raises(VerificationError, match="not in the sort order that it would record"):
        writer.write(batch_of(WIDE, [(4, "c")]))
    writer.abort()
    assert list(io.list_prefix("memory://wh")) == []


def test_a_rewrite_whose_sort_loses_its_place_commits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iceberg_ops.data.sorting.external_sort.sorted_indices", lambda keys: pa.array(range(len(keys[0][0]))))
    io = new_io()
    files = write(write_context(WIDE), io, [(3, "a"), (1, "b"), (2, "c")])
    before = {info.location for info in io.list_prefix("memory://wh")}
    work = work_of(io, files, partition=(), sort_order=sort_order_to_dict(BY_ID), schema=WIDE)
    with pytest.raises(VerificationError, match="not in the sort order"):
        rewrite_group(work)
    assert {info.location for info in io.list_prefix("memory://wh")} == before


@pytest.mark.parametrize(
    ("first", "second", "holds"),
    [
        ([1, 2], [2, 3], True),
        ([1, 2], [1, 3], False),
        ([None, 1], [1, None], False),
        ([2, 1], [], False),
        ([None, None], [None, -5], True),
    ],
)
def test_order_is_checked_within_batches_and_from_one_to_the_next(
    first: list[int | None], second: list[int | None], holds: bool
) -> None:
    keys = order_keys(WIDE, BY_ID)
    order = RowOrder(keys)
    batches = [batch_of(WIDE, [(i, None) for i in ids]) for ids in (first, second) if ids]
    assert all(order.holds(batch) for batch in batches) is holds


def test_ties_of_one_key_are_decided_by_the_next() -> None:
    def make(batch: pa.RecordBatch) -> Keys:
        return [(batch.column(0), "descending"), (batch.column(1), "ascending")]

    def holds(*rows: tuple[int, str]) -> bool:
        return RowOrder(make).holds(batch_of(WIDE, list(rows)))

    assert holds((2, "b"), (1, "a"), (1, "c"))
    assert not holds((2, "b"), (1, "c"), (1, "a"))
