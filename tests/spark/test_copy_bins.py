"""Which Spark task each new file of a statement is assigned to."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from iceberg_ops.actions.rows.changed_rows import CopyWork
from iceberg_ops.scan.tasks import FileScanTask, task_from_dict
from iceberg_ops.serde.json.content_file_json import data_file_from_dict
from iceberg_ops.spec.content_files import DataFile
from spark_jobs.runners import copy_on_write
from tests.actions.test_small_files_of_copies import BY_CITY, file


def task(path: str, partition: str, size: int) -> tuple[FileScanTask, Any]:
    return FileScanTask(file(path, (partition,), size), 1), np.zeros(1, np.int64)


def bins(matched: list[tuple[FileScanTask, Any]], new: list[DataFile], count: int) -> dict[tuple[str, ...], list[str]]:
    """Files that a task copies -> those that it takes in."""
    works = map(json.loads, copy_on_write._bins(CopyWork(matched=matched, taken_in=new), BY_CITY, count))
    return {
        tuple(sorted(task_from_dict(found).file_path for found, _ in work["files"])): [
            data_file_from_dict(found).file_path for found in work["taken-in"]
        ]
        for work in works
    }


def test_a_file_is_taken_in_where_least_of_its_partition_is_copied() -> None:
    matched = [task("a1", "a", 900), task("a2", "a", 500), task("b1", "b", 100)]
    new = [file(path, (path[0],), 300) for path in ("a-new", "b-new", "a-more")]
    assert bins(matched, new, 3) == {("a1",): [], ("a2",): ["a-new", "a-more"], ("b1",): ["b-new"]}


def test_the_partition_of_each_file_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison of all new files with all copied ones would take minutes where thousands of partitions change."""
    names, asked = [f"{i}" for i in range(100)], list[str]()
    place_of = copy_on_write.partition_in_spec

    def counted(found: DataFile, spec: Any) -> Any:
        asked.append(found.file_path)
        return place_of(found, spec)

    monkeypatch.setattr(copy_on_write, "partition_in_spec", counted)
    matched = [task(f"old-{name}", name, 100) for name in names]
    found = bins(matched, [file(f"new-{name}", (name,), 1) for name in names], 7)
    assert all(sorted(p.replace("old", "new") for p in copied) == sorted(new) for copied, new in found.items())
    assert len(asked) == 200
