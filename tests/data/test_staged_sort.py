"""A sort in stages gives the rows of one stable sort, in ranges, and leaves no file behind, whatever fails (SORT-01)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.data.arrow.read_ahead import prefetched
from iceberg_ops.data.columns.sort_keys import packed_keys, sorted_indices
from iceberg_ops.data.formats import encoding_hints
from iceberg_ops.data.formats.parquet_options import EncodingHints
from iceberg_ops.data.rewriting import staged_sort
from iceberg_ops.data.rewriting.group_work import GroupWork
from iceberg_ops.data.rewriting.rewrite import rewrite_group
from iceberg_ops.data.rewriting.staged_sort import is_staged, sorted_in_stages, stage_parts, write_range
from iceberg_ops.data.sorting import external_sort
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.serde.json.sort_json import sort_order_to_dict
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import IDENTITY
from tests.data.files import new_io, read, write, write_context
from tests.data.test_rewrite import SCHEMA, added, some_rows, work_of

CITY, PRICE = (
    SortField((3,), IDENTITY, SortDirection.DESC, NullOrder.NULLS_LAST),
    SortField((2,), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST),
)


def a_work(io: MemoryFileIO, fields: tuple[SortField, ...], **options: Any) -> GroupWork:
    rows = some_rows(1200)
    files = [f for i in range(0, 1200, 100) for f in write(write_context(SCHEMA), io, rows[i : i + 100], operation_id=f"in{i}")]
    order = sort_order_to_dict(SortOrder(1, fields))
    return work_of(io, files, partition=(), sort_order=order, memory_limit_bytes=2_000, **options)


def one_by_one(stage: Callable[[str], str], texts: list[str]) -> list[str]:
    return [stage(text) for text in texts]


def staged(io: MemoryFileIO) -> list[str]:
    return [info.location for info in io.list_prefix("memory://wh") if "staged" in info.location]


@pytest.mark.parametrize("fields", [(CITY,), (PRICE,), (CITY, PRICE)], ids=["few keys", "floats", "two columns"])
@pytest.mark.parametrize(("parts", "ranges"), [(1, 2), (3, 4), (50, 3)])
def test_stages_give_the_order_of_one_stable_sort(
    fields: tuple[SortField, ...], parts: int, ranges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_sort, "_BATCH_ROWS", 3)
    monkeypatch.setattr(external_sort, "_FEWEST_ROWS", 5)
    monkeypatch.setattr(external_sort, "_MERGED_ROWS", 5)
    io = new_io()
    work = a_work(io, fields, ranges=ranges)
    result = sorted_in_stages(work, parts, one_by_one)
    assert (result.rows_in, result.rows_out, result.is_balanced) == (1200, 1200, True)
    assert 1 < len(result.added) <= ranges
    alone = rewrite_group(replace(work, operation_id="alone"))
    assert repr(read(added(result), SCHEMA, io)) == repr(read(added(alone), SCHEMA, io))
    assert staged(io) == []


def test_nothing_staged_is_left_when_a_range_fails() -> None:
    io = new_io()
    work = a_work(io, (CITY,), ranges=3)

    def fail(stage: Callable[[str], str], texts: list[str]) -> list[str]:
        if stage is write_range:
            assert len(staged(io)) > 3
            raise CorruptTableError("a run is gone")
        return one_by_one(stage, texts)

    with pytest.raises(CorruptTableError, match="a run is gone"):
        sorted_in_stages(work, 2, fail)
    assert staged(io) == []


def test_runs_carry_the_operation_id_that_the_lease_covers() -> None:
    io = new_io()
    seen: list[str] = []

    def look(stage: Callable[[str], str], texts: list[str]) -> list[str]:
        answers = one_by_one(stage, texts)
        seen.extend(staged(io))
        return answers

    sorted_in_stages(a_work(io, (CITY,), ranges=2), 2, look)
    assert seen
    assert all(location.rpartition("/")[2].startswith("rewrite-") for location in seen)


def test_tables_in_memory_and_works_of_many_partitions_are_not_staged() -> None:
    io = new_io()
    assert not is_staged(a_work(io, (CITY,)))
    assert not is_staged(work_of(io, []))


@pytest.mark.parametrize(("size", "slots", "parts"), [(1, 2, 2), (1 << 30, 2, 8), (1 << 30, 64, 64), ((1 << 30) + 1, 2, 10)])
def test_every_slot_gets_as_many_parts(size: int, slots: int, parts: int) -> None:
    assert stage_parts(size, slots) == parts


_LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)


@given(st.lists(st.tuples(_LONGS, st.integers(-2, 2)), max_size=60), st.booleans(), st.booleans())
def test_whole_number_keys_sort_as_arrow_sorts_them(rows: list[tuple[int, int]], first_down: bool, second_down: bool) -> None:
    keys = [
        (pa.array([row[i] for row in rows], pa.int64()), "descending" if down else "ascending")
        for i, down in enumerate((first_down, second_down))
    ]
    table = pa.table({str(i): array for i, (array, _) in enumerate(keys)})
    expected = pc.sort_indices(table, sort_keys=[(str(i), direction) for i, (_, direction) in enumerate(keys)])
    assert sorted_indices(keys).to_pylist() == expected.to_pylist()


def test_keys_of_more_than_64_bits_together_are_not_packed() -> None:
    wide = pa.array([-(2**63), 2**63 - 1])
    assert packed_keys([(wide, "ascending")]) is not None
    assert packed_keys([(wide, "ascending"), (pa.array([0, 1]), "ascending")]) is None
    assert packed_keys([(pa.array(["a"]), "ascending")]) is None


def test_reading_ahead_keeps_order_and_errors() -> None:
    def numbers(end: int) -> Any:
        yield from range(end)
        raise CorruptTableError("broken")

    items = prefetched(numbers(50))
    assert list(islice(items, 50)) == list(range(50))
    with pytest.raises(CorruptTableError, match="broken"):
        next(items)
    taken = prefetched(iter(range(1000)))
    assert next(taken) == 0
    taken.close()


@pytest.mark.parametrize(
    ("values", "pays"),
    [
        (np.arange(3000.0), False),
        (np.arange(3000.0) % 50, True),
        (np.arange(200_000.0), False),
        (np.arange(200_000.0) % 9000, True),
    ],
    ids=["distinct", "few", "many distinct", "many few"],
)
def test_the_first_rows_decide_where_inputs_say_nothing(values: Any, pays: bool) -> None:
    hints = encoding_hints.no_hints(SCHEMA)
    assert hints.undecided["price"] is None
    table = pa.table({"price": values})
    assert ("price" in encoding_hints.decided(hints, table).dictionary) == pays


@pytest.mark.parametrize(
    ("values", "encoding"),
    [
        (np.arange(50_000) // 4 * 3, "DELTA_BINARY_PACKED"),
        (np.arange(50_000) // 4_000, None),
        (np.random.default_rng(1).integers(0, 50, 50_000), None),
        (np.arange(500), None),
    ],
    ids=["climbs", "long runs", "few in any order", "too few to tell"],
)
def test_numbers_that_climb_leave_the_dictionary_of_small_inputs(values: Any, encoding: str | None) -> None:
    hints = encoding_hints.decided(EncodingHints(frozenset({"id"})), pa.table({"id": values}))
    assert (hints.encodings.get("id"), "id" in hints.dictionary) == (encoding, encoding is None)


def test_a_file_that_can_not_be_read_is_a_typed_error() -> None:
    io = new_io()
    work = a_work(io, (CITY,), ranges=2)
    location = next(info.location for info in io.list_prefix("memory://wh") if info.location.endswith(".parquet"))
    io.write(location, b"broken", overwrite=True)
    with pytest.raises(CorruptTableError, match="is not a readable parquet file"):
        sorted_in_stages(work, 2, one_by_one)
    assert staged(io) == []
