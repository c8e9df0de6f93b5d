"""A rewrite of many small files writes the planned output within a tenth, and the next run finds nothing to do."""

from __future__ import annotations

import random
from functools import cache

import pytest

from tests.actions.lake import Lake, Row, make_lake

FILES, ROWS_A_FILE = 60, 500


def hexadecimal_rows(first: int, region: str) -> list[Row]:
    chance = random.Random(first)
    return [(i, f"{chance.getrandbits(96):024x}", region) for i in range(first, first + ROWS_A_FILE)]


def filled(*regions: str) -> Lake:
    """A table of ``FILES`` small files for each region."""
    return _filled(*regions).copy()


@cache
def _filled(*regions: str) -> Lake:
    lake = make_lake(partitioned=len(regions) > 1)
    for n, region in enumerate(regions):
        first = n * FILES * ROWS_A_FILE
        lake.append(*(hexadecimal_rows(first + i * ROWS_A_FILE, region) for i in range(FILES)))
    return lake


def held(lake: Lake) -> int:
    return sum(task.data_bytes for task in lake.tasks())


@pytest.mark.parametrize("order", ["", "id DESC", "zorder(id, data)"])
@pytest.mark.parametrize("parts", [2.1, 2.6, 3.4, 6.5])
def test_files_and_bytes_are_as_planned_and_the_next_run_rests(parts: float, order: str) -> None:
    lake = filled("a")
    rows, before = lake.rows(), held(lake)
    options = {"target_file_size_bytes": str(round(before / parts)), **({"sort_order": order} if order else {})}
    report = lake.run("rewrite_data_files", **options)
    m = report.metrics
    assert lake.rows() == rows
    assert m["planned-output-bytes-count"] < before or "zorder" in order
    assert m["added-bytes-count"] == pytest.approx(m["planned-output-bytes-count"], rel=0.1)
    assert m["added-data-files-count"] == m["planned-output-files-count"]
    if not order:
        mean = m["planned-output-bytes-count"] / m["planned-output-files-count"]
        assert [task.data_bytes for task in lake.tasks()] == [pytest.approx(mean, rel=0.1)] * m["added-data-files-count"]
    assert lake.run("rewrite_data_files", target_file_size_bytes=options["target_file_size_bytes"]).status == "nothing-to-do"


@pytest.mark.parametrize("place", [0, FILES // 2, FILES - 1])
def test_a_corrupt_file_costs_its_group_alone_and_is_named(place: int) -> None:
    lake = filled("a", "b")
    broken = [task.file_path for task in lake.tasks() if task.data_file.partition == ("b",)][place]
    lake.table.io.write(broken, b"PAR1 and no more", overwrite=True)
    options = {"partial-progress.enabled": "true", "target_file_size_bytes": str(held(lake) // 5)}
    report = lake.run("rewrite_data_files", **options)
    assert report.status == "partially-committed"
    found = {group.partition: group for group in report.groups}
    assert (found["region=a"].status, found["region=b"].status) == ("committed", "failed")
    assert broken.rsplit("/", 1)[-1] in (found["region=b"].reason or "")
    assert report.metrics["failed-data-files-count"] == FILES
    assert len([task for task in lake.tasks() if task.data_file.partition == ("b",)]) == FILES
