"""Deletes that others commit during a compaction are carried over to its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.carry_over import RowMap, commit_carrying_over
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.protocol.operation import Committed
from iceberg_ops.data.deletes.position_deletes import deleted_positions
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.data.writing.row_deletes import write_row_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import ValidationError, VerificationError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, make_table
from tests.catalog.wrappers import Meddles


@given(
    st.lists(st.lists(st.booleans(), min_size=1, max_size=12), min_size=1, max_size=4),
    st.integers(1, 7),
    st.booleans(),
    st.randoms(),
)
def test_a_row_map_follows_every_copied_row(files: list[list[bool]], size: int, is_sorted: bool, random: Any) -> None:
    """``files``: per row whether it was copied; outputs hold ``size`` rows each."""
    inputs = [
        (data_file(f"in{i}", rows=len(rows)), np.array([p for p, copied in enumerate(rows) if not copied], np.int64))
        for i, rows in enumerate(files)
    ]
    copied = [(f"in{i}", p) for i, rows in enumerate(files) for p, is_copied in enumerate(rows) if is_copied]
    order = list(range(len(copied)))
    if is_sorted:
        random.shuffle(order)
    written: list[Any] = [None] * len(copied)
    for row, place in zip(copied, order, strict=True):
        written[place] = row
    chunks = [written[i : i + size] for i in range(0, len(written), size)]
    outputs = [data_file(f"out{i}", rows=len(chunk)) for i, chunk in enumerate(chunks)]
    row_map = RowMap(inputs, outputs, np.array(order, np.int64) if is_sorted else None)
    deleted = {f"in{i}": np.array([p for p in range(len(rows)) if random.random() < 0.4], np.int64) for i, rows in enumerate(files)}
    moved = row_map.moved(deleted)
    expected = {(path, int(p)) for path, positions in deleted.items() for p in positions} & set(copied)
    found = {chunks[int(path[3:])][p] for path, positions in moved.items() for p in positions}
    assert found == expected
    assert sum(len(p) for p in moved.values()) == len(expected)


def test_a_row_map_whose_counts_do_not_agree_is_refused() -> None:
    with pytest.raises(VerificationError, match="10 rows read and 9 rows written"):
        RowMap([(data_file("a", rows=10), np.empty(0, np.int64))], [data_file("b", rows=9)])


class Lake:
    """A table with real rows: 40 ids in 4 files."""

    def __init__(self, folder: Path, version: int) -> None:
        uri = f"sqlite:///{folder / 'c.db'}"
        self.catalog = SqlCatalog("c", uri, LocalFileIO(), warehouse=str(folder / "wh"), sleep=lambda _: None)
        self.catalog.create_namespace(("ns",))
        self.table = make_table(self.catalog, version=version)
        for i in range(4):
            self.table = commit(self.catalog, self.table, AppendFiles(added=tuple(self.write(range(i * 10, i * 10 + 10))))).table
        self.made = 0

    def write(self, ids: Any) -> list[DataFile]:
        writer = PartitionedWriter(
            WriteContext.for_table(self.table.metadata), self.table.io, operation_id=f"w{min(ids)}", task_id="0"
        )
        ids = list(ids)
        writer.write(pa.record_batch({"id": pa.array(ids, pa.int64()), "data": ["x"] * len(ids), "region": ["eu"] * len(ids)}))
        return writer.close()

    def load(self) -> Table:
        return self.catalog.load_table(IDENTIFIER)

    def ids(self) -> list[int]:
        return sorted(scan_table(self.load(), Scan()).column("id").to_pylist())

    def delete(self, *ids: int) -> None:
        """Merge-on-read, by position, of rows that stand in their first files."""
        table = self.load()
        self.made += 1
        chosen = []
        for task in plan(table, Scan()).tasks:
            first = int(task.file_path.rpartition("/")[2].split("-w")[1].split("-")[0])
            if mine := [i - first for i in ids if first <= i < first + 10]:
                chosen.append((task, np.array(mine, np.int64)))
        found = write_row_deletes(
            table.io,
            WriteContext.for_table(table.metadata),
            chosen,
            operation_id=f"d{self.made}",
            granularity=("file", "partition")[self.made % 2],
        )
        operation = RowDelta(
            added_deletes=found.added,
            removed_deletes=found.replaced,
            isolation="snapshot",
            referenced_data_files=tuple(t.file_path for t, _ in chosen),
            starting_snapshot_id=table.metadata.current_snapshot_id,
        )
        commit(self.catalog, table, operation)

    def compaction(self, files: slice = slice(None), name: str = "w999") -> tuple[Table, RewriteFiles, RowMap]:
        """All files (or some) into one, planned now."""
        table = self.load()
        tasks = sorted(plan(table, Scan()).tasks, key=lambda t: t.file_path)[files]
        inputs = [(t.data_file, deleted_positions(table.io, t.deletes, t.file_path)) for t in tasks]
        firsts = [int(t.file_path.rpartition("/")[2].split("-w")[1].split("-")[0]) for t in tasks]
        rows = [first + p for first, (f, gone) in zip(firsts, inputs, strict=True) for p in range(f.record_count) if p not in gone]
        writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=name, task_id="c")
        writer.write(pa.record_batch({"id": pa.array(rows, pa.int64()), "data": ["x"] * len(rows), "region": ["eu"] * len(rows)}))
        added = writer.close()
        snapshot = table.metadata.current_snapshot
        assert snapshot is not None
        operation = RewriteFiles(
            removed_data=tuple(t.data_file for t in tasks),
            removed_deletes=tuple(d.data_file for t in tasks for d in t.deletes if d.is_deletion_vector),
            added_data=tuple(added),
            starting_snapshot_id=snapshot.snapshot_id,
            data_sequence_number=snapshot.sequence_number,
        )
        return table, operation, RowMap(inputs, added)


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_that_come_during_a_compaction_are_in_force_afterwards(version: int, tmp_path: Path) -> None:
    lake = Lake(tmp_path, version)
    lake.delete(3, 13)
    table, operation, row_map = lake.compaction()
    lake.delete(4, 5, 14)
    lake.delete(39)
    with pytest.raises(ValidationError, match="found new position delete for replaced data file"):
        commit(lake.catalog, table, operation)
    in_the_middle = Meddles(lake.catalog, lambda: lake.delete(20), lambda: lake.delete(21, 6))
    done = commit_carrying_over(in_the_middle, table, operation, lambda _: [row_map], operation_id="carried")
    gone = {3, 13, 4, 5, 14, 39, 20, 21, 6}
    assert lake.ids() == [i for i in range(40) if i not in gone]
    assert (sum(done.rows.values()), done.rounds) == (7, 3)
    assert len(plan(lake.load(), Scan()).tasks) == 1


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_that_come_between_a_refusal_and_the_next_look_are_in_force_too(version: int, tmp_path: Path) -> None:
    """Of two groups the first is hit, and the second only after the committer refused: both are followed."""
    lake = Lake(tmp_path, version)
    table, first, first_map = lake.compaction(slice(2), "w998")
    _, second, second_map = lake.compaction(slice(2, 4))
    operation = replace(
        first, removed_data=(*first.removed_data, *second.removed_data), added_data=(*first.added_data, *second.added_data)
    )
    maps = {f.file_path: m for m in (first_map, second_map) for f, _ in m.inputs}
    lake.delete(4)
    late = [25]

    def committer(catalog: Any, table: Table, operation: RewriteFiles) -> Committed:
        try:
            return commit(catalog, table, operation)
        except ValidationError:
            if late:
                lake.delete(late.pop())
            raise

    commit_carrying_over(
        lake.catalog, table, operation, lambda hit: list({id(m): m for m in map(maps.__getitem__, hit)}.values()),
        operation_id="carried", committer=committer,
    )  # fmt: skip
    assert lake.ids() == [i for i in range(40) if i not in {4, 25}]
    assert len(plan(lake.load(), Scan()).tasks) == 2


def test_another_conflict_is_not_carried_over(tmp_path: Path) -> None:
    lake = Lake(tmp_path, 2)
    table, operation, row_map = lake.compaction()
    commit(lake.catalog, table, DeleteFiles(paths=(operation.removed_data[0].file_path,)))
    with pytest.raises(ValidationError, match="Missing required files"):
        commit_carrying_over(lake.catalog, table, operation, lambda _: [row_map], operation_id="carried")
    assert lake.ids() == list(range(10, 40))
