"""Several attempts at one task, of which one is used: their files never collide, and an attempt deletes only files that it created
itself."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.data.rewriting import rewrite, staged_sort
from iceberg_ops.data.rewriting.rewrite import rewrite_group
from iceberg_ops.data.rewriting.staged_sort import StagedSort, sort_part, write_range
from iceberg_ops.data.writing import file_names
from iceberg_ops.data.writing.delete_files import write_deletion_vectors, write_equality_deletes, write_position_deletes
from iceberg_ops.data.writing.file_names import FileNames, operation_files_pattern
from iceberg_ops.data.writing.upsert_keys import KeyPlan, UpsertKeys
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.deletion.own_files import CreatedFiles
from iceberg_ops.errors import VerificationError
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.serde.json.sort_json import sort_order_to_dict
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import IDENTITY
from tests.data.files import batch_of, new_io, read, write, write_context
from tests.data.test_rewrite import BY_CITY, SCHEMA, added, some_rows, work_of

SORT = sort_order_to_dict(SortOrder(1, (SortField((1,), IDENTITY, SortDirection.DESC, NullOrder.NULLS_LAST),)))
ROWS = some_rows(300)


def files_in(io: MemoryFileIO) -> set[str]:
    return {info.location for info in io.list_prefix("memory://wh")}


def inputs(io: MemoryFileIO) -> list[Any]:
    return [f for i in range(0, 300, 100) for f in write(write_context(SCHEMA), io, ROWS[i : i + 100], operation_id=f"in{i}")]


# Makers of files: each call is one attempt at the same task.


def _data(form: str) -> Callable[[MemoryFileIO], object]:
    def make(io: MemoryFileIO) -> object:
        context = write_context(SCHEMA, spec=BY_CITY, properties={"write.format.default": form})
        writer = PartitionedWriter(context, io, operation_id="op", task_id="00003")
        try:
            writer.write(batch_of(SCHEMA, ROWS))
            return writer.close()
        except BaseException:
            writer.abort()
            raise

    return make


def _positions(io: MemoryFileIO) -> object:
    files = [replace(f, spec_id=0) for f in inputs(new_io())]
    return write_position_deletes(io, write_context(SCHEMA, version=2), {f: [1, 2] for f in files}, "file", operation_id="op")


def _vectors(io: MemoryFileIO) -> object:
    return write_deletion_vectors(io, write_context(SCHEMA), {inputs(new_io())[0]: [1]}, operation_id="op")


def _equality(io: MemoryFileIO) -> object:
    return write_equality_deletes(io, write_context(SCHEMA, version=2), (1,), [batch_of(SCHEMA, ROWS)], operation_id="op")


def _upsert_keys(io: MemoryFileIO) -> object:
    context = replace(write_context(SCHEMA, spec=BY_CITY, version=2), specs={0: BY_CITY})
    keys = UpsertKeys(KeyPlan((1, 3), (0,)), context, io, "op", "00003")
    try:
        keys.add(batch_of(SCHEMA, ROWS))
        return keys.close()
    except BaseException:
        keys.abort()
        raise


MAKERS = {
    "parquet": _data("parquet"),
    "avro": _data("avro"),
    "position deletes": _positions,
    "deletion vectors": _vectors,
    "equality deletes": _equality,
    "upsert keys": _upsert_keys,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_second_attempt_at_a_task_writes_files_of_its_own(make: Callable[[MemoryFileIO], object]) -> None:
    io = new_io()
    make(io)
    first = files_in(io)
    make(io)
    second = files_in(io) - first
    assert len(first) == len(second) > 0
    assert all(operation_files_pattern("op").search(location) for location in first | second)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_an_attempt_that_meets_a_name_that_is_taken_leaves_that_file_alone(
    make: Callable[[MemoryFileIO], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where names did not tell attempts apart, the one that fails has no claim to the other's files."""
    io = new_io()
    monkeypatch.setattr(file_names._MAKERS, "next", lambda: "0" * 12)
    make(io)
    first = {location: io.read(location) for location in files_in(io)}
    with pytest.raises(FileExistsError):
        make(io)
    assert {location: io.read(location) for location in files_in(io)} == first


def test_a_file_that_is_taken_while_it_is_written_is_not_the_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another attempt publishes the name between the beginning and the end of ours."""
    io = new_io()
    monkeypatch.setattr(file_names._MAKERS, "next", lambda: "0" * 12)
    late = PartitionedWriter(write_context(SCHEMA), io, operation_id="op")
    late.write(batch_of(SCHEMA, ROWS))
    late._writers[()].flush()
    (winner,) = write(write_context(SCHEMA), io, ROWS[:5])
    with pytest.raises(FileExistsError):
        late.close()
    late.abort()
    assert read([winner], SCHEMA, io) == ROWS[:5]


@pytest.mark.parametrize("sorted_", [False, True], ids=["binpack", "sort"])
def test_a_twin_of_a_rewrite_that_ends_later_or_dies_leaves_the_first_ones_files(
    sorted_: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    io = new_io()
    work = work_of(io, inputs(io), partition=(), sort_order=SORT if sorted_ else None)
    first = rewrite_group(work)
    rows = read(added(first), SCHEMA, io)
    after_first = files_in(io)
    second = rewrite_group(work)
    assert repr(read(added(second), SCHEMA, io)) == repr(rows)

    def unverified(*_: Any) -> Any:
        raise VerificationError("rows differ")

    monkeypatch.setattr(rewrite, "verified", unverified)
    with pytest.raises(VerificationError):
        rewrite_group(work)
    assert files_in(io) == after_first | {f.file_path for f in added(second)}


def test_either_stage_of_a_sort_can_be_done_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    io = new_io()
    work = work_of(io, inputs(io), partition=(), sort_order=SORT, ranges=2, memory_limit_bytes=2_000)
    staged = StagedSort(work, 2)
    texts = staged.part_texts()
    zombies = [sort_part(text) for text in texts]
    ranges = staged.range_texts([sort_part(text) for text in texts])
    late = [write_range(text) for text in ranges]
    result = staged.result([write_range(text) for text in ranges])
    assert [row[0] for row in read(added(result), SCHEMA, io)] == list(range(299, -1, -1))
    assert len(zombies) == len(late) == 2
    kept = {f.file_path for f in added(result)}

    def dies(*_: Any, **__: Any) -> Any:
        raise OSError("the disk is gone")

    monkeypatch.setattr(staged_sort, "data_file_to_dict", dies)
    before = files_in(io)
    with pytest.raises(OSError, match="the disk is gone"):
        write_range(ranges[0])
    assert files_in(io) == before
    staged.clear()
    assert kept <= files_in(io)


def test_a_zombie_of_a_sort_that_was_cleared_finds_no_runs() -> None:
    io = new_io()
    work = work_of(io, inputs(io), partition=(), sort_order=SORT, ranges=2)
    staged = StagedSort(work, 2)
    ranges = staged.range_texts([sort_part(text) for text in staged.part_texts()])
    result = staged.result([write_range(text) for text in ranges])
    staged.clear()
    before = files_in(io)
    with pytest.raises(FileNotFoundError):
        write_range(ranges[0])
    assert files_in(io) == before
    assert len(read(added(result), SCHEMA, io)) == 300


def _a_name(_: int) -> str:
    return FileNames("00000", "op").next("")


def test_makers_of_forked_processes_have_names_of_their_own() -> None:
    """PySpark forks its Python workers from one process."""
    _a_name(0)
    with multiprocessing.get_context("fork").Pool(3) as pool:
        found = pool.map(_a_name, range(30), chunksize=1)
    assert len({*found, _a_name(0)}) == 31


def test_names_of_an_operation_are_not_those_of_one_that_begins_with_its_id() -> None:
    op = "6b1f0a34-aaaa-bbbb-cccc-1234567890ab"
    own = operation_files_pattern(op)
    assert own.search(f"/wh/t/data/p=1/{FileNames('00001', op).next('.parquet')}")
    assert own.search(f"/wh/t/data/{FileNames('00001', op).next('-deletes.puffin')}")
    assert own.search(f"/wh/t/data/.iceberg-ops-0123-{FileNames('00001', op).next('.avro')}.tmp")
    for other in (f"{op}-2", f"{op}-again", f"{op}-carried-1-1", f"{op}-source", f"{op}-g0001", f"x{op}"):
        name = FileNames("00001", other).next(".parquet")
        assert not own.search(f"/wh/t/data/{name}"), name
    assert not own.search(f"/wh/{op}/data/file.parquet")


def test_the_record_of_created_files_is_emptied_once() -> None:
    io = new_io()
    for name in ("a", "b", "c"):
        io.write(f"memory://wh/{name}", b"x")
    made = CreatedFiles(io, ["memory://wh/a"])
    made.created("memory://wh/b")
    made.discard()
    io.write("memory://wh/a", b"somebody else's")
    made.discard()
    assert files_in(io) == {"memory://wh/a", "memory://wh/c"}


def test_what_was_complete_goes_and_what_was_begun_never_comes() -> None:
    schema = SCHEMA.select(["id"])
    io = new_io()
    writer = PartitionedWriter(write_context(schema, properties={"write.target-file-size-bytes": "1"}), io, operation_id="op")
    writer.write(pa.record_batch({"id": pa.array([1], pa.int64())}))
    writer.write(pa.record_batch({"id": pa.array([2], pa.int64())}))
    assert files_in(io)
    writer.abort()
    assert files_in(io) == set()
