"""Sources split into tasks: every row group is read once whatever the split, in order, and no task is too large or too small."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.data.sources import source_parts
from iceberg_ops.data.sources.source_parts import SourcePart, in_tasks, parts_from_json, parts_to_json, read_parts, row_group_parts
from iceberg_ops.errors import DataError
from iceberg_ops.io.load import load_file_io
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField

MIB = 1 << 20
SCHEMA = Schema.of(NestedField(1, "id", LONG))


@given(sizes=st.lists(st.integers(0, 300 * MIB), max_size=40), slots=st.integers(1, 8))
def test_every_part_is_in_one_task_and_parts_keep_their_order(sizes: list[int], slots: int) -> None:
    parts = [SourcePart(f"f{i}", 4, 1, size) for i, size in enumerate(sizes)]
    tasks = in_tasks(parts, slots)
    assert [p for task in tasks for p in parts_from_json(parts_to_json(task))] == parts
    assert all(tasks)
    # A part that is cut no further may lie across a bound: half of it on either side.
    widest = max(sizes, default=0)
    assert all(sum(p.size for p in task) <= 128 * MIB + widest for task in tasks)
    assert len(tasks) <= max(1, sum(sizes) // (16 * MIB) + 1)


@pytest.mark.parametrize(
    ("megabytes", "slots", "tasks"),
    [([1] * 3, 2, 1), ([1] * 40, 2, 2), ([1] * 240, 2, 4), ([1] * 240, 32, 15), ([1] * 1280, 2, 10)],
    ids=["tiny", "two-tasks'-least", "two-for-each-slot", "no-task-below-its-least", "no-task-above-its-most"],
)
def test_tasks_are_as_many_as_slots_and_sizes_ask_for(megabytes: list[int], slots: int, tasks: int) -> None:
    parts = [SourcePart(f"f{i}", 4, 1, size * MIB) for i, size in enumerate(megabytes)]
    assert len(in_tasks(parts, slots)) == tasks


@pytest.mark.parametrize(("least", "count"), [(1, 10), (1500, 4), (1 << 30, 1)], ids=["each-row-group", "some-together", "whole"])
def test_a_file_cut_by_row_groups_is_read_whole_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int, count: int
) -> None:
    monkeypatch.setattr(source_parts, "_LEAST_TASK_BYTES", least)
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": range(1000)}), path, row_group_size=100, use_dictionary=False)
    parts = row_group_parts(path, pq.read_metadata(path))
    assert parts is not None
    assert len(parts) == count
    rows = [i for part in parts for batch in read_parts(load_file_io(), [part], SCHEMA) for i in batch.column(0).to_pylist()]
    assert rows == list(range(1000))


def test_a_file_that_is_gone_or_spoiled_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": range(10)}), path)
    [part] = row_group_parts(path, pq.read_metadata(path)) or []
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no longer PAR1")
    with pytest.raises(DataError, match=r"a\.parquet cannot be read"):
        list(read_parts(load_file_io(), [part], SCHEMA))
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(DataError, match=r"a\.parquet cannot be read"):
        list(read_parts(load_file_io(), [part], SCHEMA))
