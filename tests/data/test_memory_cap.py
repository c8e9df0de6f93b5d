"""A group that is larger than its memory limit is still rewritten: bin-pack streams, sorts spill."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.rewriting.group_work import GroupWork
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.scan.tasks import FileScanTask, task_to_json
from iceberg_ops.serde.json.sort_json import sort_order_to_dict
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import LONG, NestedField
from tests.data.files import write_context

pytestmark = pytest.mark.slow

COLUMNS = ("a", "b", "c", "d")
SCHEMA = Schema.of(*(NestedField(i, name, LONG) for i, name in enumerate(COLUMNS, 1)))
FILES, ROWS = 8, 1_500_000
ARROW_BYTES = FILES * ROWS * len(COLUMNS) * 8
BY_B = SortOrder(1, (SortField((2,), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST),))
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[DataFile]:
    """384 MB of rows in memory, a few of them on disk."""
    context = replace(write_context(SCHEMA), table_location=str(tmp_path_factory.mktemp("group")))
    found: list[DataFile] = []
    for n in range(FILES):
        ids = np.arange(n * ROWS, (n + 1) * ROWS, dtype=np.int64)
        writer = PartitionedWriter(context, LocalFileIO(), operation_id=f"in{n}")
        writer.write(pa.RecordBatch.from_pydict({"a": ids, "b": ids * 7919 % 1000, "c": ids // 1000, "d": ids % 3}))
        found += writer.close()
    return found


def work_of(files: list[DataFile], folder: Path, **options: Any) -> GroupWork:
    context = ReadContext(table_schema=SCHEMA, projected=SCHEMA, schemas=(SCHEMA,)).select(COLUMNS)
    return GroupWork(
        group_id="g",
        tasks=tuple(task_to_json(FileScanTask(f, 5)).decode() for f in files),
        read=context.to_json(),
        write=replace(write_context(SCHEMA), table_location=str(folder)).to_json(),
        io_properties=LocalFileIO().properties,
        target_file_size=1 << 30,
        operation_id="rewrite",
        partition=(),
        **options,
    )


@pytest.mark.parametrize(
    ("options", "share"),
    [({}, 0.75), ({"sort_order": sort_order_to_dict(BY_B), "memory_limit_bytes": 16 << 20}, 0.75)],
    ids=["bin-pack", "sort"],
)
def test_a_group_takes_less_memory_than_its_rows(
    files: list[DataFile], tmp_path: Path, options: dict[str, Any], share: float
) -> None:
    work = work_of(files, tmp_path, **options)
    command = [sys.executable, "-m", "tests.data.rewriting_child"]
    ran = subprocess.run(command, input=work.to_json(), capture_output=True, text=True, cwd=ROOT, timeout=500, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout)
    assert found["rows"] == FILES * ROWS
    assert found["runs"] >= (2 if options else 0)
    taken = found["after"] - found["before"]
    assert taken < ARROW_BYTES * share, f"{taken >> 20} MB for {ARROW_BYTES >> 20} MB of rows"
