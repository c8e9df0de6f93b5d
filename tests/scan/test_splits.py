"""Files are cut where their row groups start and packed into balanced groups: SCAN-17."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.errors import OptionError
from iceberg_ops.scan.splits import pack, split_task, split_tasks
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile, FileFormat


def task(
    size: int, offsets: tuple[int, ...] | None = None, kind: FileFormat = FileFormat.PARQUET, path: str = "/t/a"
) -> FileScanTask:
    return FileScanTask(
        DataFile(file_path=path, file_format=kind, record_count=1, file_size_in_bytes=size, split_offsets=offsets), 1
    )


def ranges(parts: list[FileScanTask]) -> list[tuple[int, int | None]]:
    return [(p.start, p.length) for p in parts]


CASES = [
    ("along its offsets", task(100, (4, 40, 70)), 30, [(0, 40), (40, 30), (70, None)]),
    ("offsets cut also below the target", task(100, (4, 40)), 1000, [(0, 40), (40, None)]),
    ("every target bytes without offsets", task(100), 40, [(0, 40), (40, 40), (80, None)]),
    ("not at all when small", task(100), 100, [(0, None)]),
    ("unsorted offsets are ignored", task(100, (40, 4)), 100, [(0, None)]),
    ("offsets beyond the file are ignored", task(100, (4, 100)), 60, [(0, 60), (60, None)]),
    ("one offset is the whole file", task(100, (4,)), 10, [(0, None)]),
    ("Avro is read whole", task(100, None, FileFormat.AVRO), 10, [(0, None)]),
    ("an empty file", task(0), 10, [(0, None)]),
]


@pytest.mark.parametrize(("whole", "target", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_file_is_cut(whole: FileScanTask, target: int, expected: list[tuple[int, int | None]]) -> None:
    assert ranges(split_task(whole, target)) == expected


def test_a_part_is_not_cut_again() -> None:
    part = split_task(task(100, (4, 50)), 10)[1]
    assert split_task(part, 1) == [part]


def test_neighbouring_parts_in_one_group_are_joined_again() -> None:
    assert [ranges(g) for g in split_tasks([task(100, (4, 40, 70))], 200, open_cost=0)] == [[(0, None)]]


def test_the_weight_of_opening_keeps_groups_of_small_files_small() -> None:
    many = [task(1, path=f"/t/{n}") for n in range(10)]
    assert [len(g) for g in split_tasks(many, 100, open_cost=25)] == [4, 4, 2]


@pytest.mark.parametrize(("target", "lookback"), [(0, 1), (1, 0)])
def test_sizes_below_one_are_refused(target: int, lookback: int) -> None:
    with pytest.raises(OptionError, match="must be above 0"):
        split_tasks([], target, lookback)


@given(
    st.lists(st.tuples(st.integers(1, 200), st.lists(st.integers(0, 250), max_size=5)), max_size=12),
    st.integers(1, 120),
    st.integers(1, 4),
)
def test_every_byte_offset_is_in_exactly_one_part(files: list[tuple[int, list[int]]], target: int, lookback: int) -> None:
    tasks = [task(size, tuple(offsets), path=f"/t/{n}") for n, (size, offsets) in enumerate(files)]
    groups = split_tasks(tasks, target, lookback, open_cost=3)
    for whole in tasks:
        mine = [p for g in groups for p in g if p.data_file is whole.data_file]
        for offset in range(whole.data_file.file_size_in_bytes + 1):
            assert sum(p.start <= offset and (p.length is None or offset < p.start + p.length) for p in mine) == 1


@given(st.lists(st.integers(0, 50)), st.integers(1, 60), st.integers(1, 5), st.booleans())
def test_packing_keeps_every_item_and_overfills_only_with_single_items(
    weights: list[int], target: int, lookback: int, largest: bool
) -> None:
    bins = list(pack(list(enumerate(weights)), target, lookback, lambda i: i[1], largest_first=largest))
    assert sorted(i for b in bins for i in b) == list(enumerate(weights))
    assert all(len(b) == 1 or sum(w for _, w in b) <= target for b in bins)
