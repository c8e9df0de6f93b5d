"""A compaction while another process keeps deleting rows of the same files: the compaction is committed, every acknowledged delete
is in force, no row is lost and none reappears."""

from __future__ import annotations

import multiprocessing
from collections.abc import Generator, Sequence
from multiprocessing.queues import Queue
from pathlib import Path

import numpy as np
import pytest

from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.actions.workers.runner import GroupFailure
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.data.writing.row_deletes import write_row_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.errors import CommitFailedError, ValidationError
from iceberg_ops.scan.planning import Scan, plan
from tests.actions.lake import Lake, numbered
from tests.builders import IDENTIFIER, make_table

ROWS, FILES = 600, 6
VICTIMS = list(range(3, ROWS, 17))
PER_COMPACTION = 3
"""Deletes that are acknowledged while each compaction runs."""


def delete_one_by_one(config: CatalogConfig, ids: list[int], acknowledged: Queue[int]) -> None:
    """Delete rows by id, merge-on-read, one commit each. A delete that was planned on a file just replaced is planned again."""
    for number, victim in enumerate(ids):
        tries = 0
        while not _delete(config, victim, f"deleter-{number}-{tries}"):
            tries += 1
        acknowledged.put(victim)


def _delete(config: CatalogConfig, victim: int, name: str) -> bool:
    catalog = load_catalog(config)
    table = catalog.load_table(IDENTIFIER)
    head = table.metadata.current_snapshot_id
    for task in plan(table, Scan(snapshot_id=head)).tasks:
        single = scan_positions(table, task, victim)
        if not single:
            continue
        context = WriteContext.for_table(table.metadata)
        deletes = write_row_deletes(table.io, context, [(task, np.array(single, np.int64))], operation_id=name)
        operation = RowDelta(
            added_deletes=deletes.added,
            removed_deletes=deletes.replaced,
            isolation="snapshot",
            referenced_data_files=(task.file_path,),
            starting_snapshot_id=head,
        )
        try:
            commit(catalog, table, operation)
        except (ValidationError, CommitFailedError):
            table.io.delete_many(f.file_path for f in deletes.added)
            return False
        return True
    raise AssertionError(f"row {victim} is gone before it was deleted")


def scan_positions(table, task, victim: int) -> list[int]:  # type: ignore[no-untyped-def]
    from iceberg_ops.data.columns.read_context import ReadContext
    from iceberg_ops.data.reading.reader import read_task

    context = ReadContext.for_table(table.metadata, columns=["id", "_pos"])
    found = []
    for batch in read_task(task, context, table.io):
        ids, positions = (column.to_pylist() for column in batch.columns)
        found += [position for id_, position in zip(ids, positions, strict=True) if id_ == victim]
    return found


class Slow:
    """A runner that is done only after some more deletes were acknowledged."""

    name = "local"

    def __init__(self, acknowledged: Queue[int], seen: list[int]) -> None:
        self.acknowledged, self.seen = acknowledged, seen

    def run(self, works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
        yield from LocalRunner(workers=1).run(works)
        for _ in range(min(PER_COMPACTION, len(VICTIMS) - len(self.seen))):
            self.seen.append(self.acknowledged.get(timeout=60))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"strategy": "sort", "sort_order": "data DESC, id"}], ids=["bin-pack", "sort"])
@pytest.mark.parametrize(
    ("version", "granularity"), [(2, "file"), (2, "partition"), (3, "file")], ids=["v2 file", "v2 partition", "v3"]
)
def test_compacting_while_another_process_deletes(version: int, granularity: str, options: dict[str, str], tmp_path: Path) -> None:
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path / "wh")}
    config = CatalogConfig(name="test", type="sql", properties=properties)
    catalog = load_catalog(config)
    catalog.create_namespace(("ns",))
    make_table(
        catalog,
        version=version,
        properties={
            "commit.retry.num-retries": "20",
            "commit.retry.min-wait-ms": "10",
            "write.delete.granularity": granularity,
        },
    )
    lake = Lake(catalog)
    lake.append(*(numbered(ROWS // FILES * i, ROWS // FILES) for i in range(FILES)))
    acknowledged: Queue[int] = multiprocessing.get_context("spawn").Queue()
    deleter = multiprocessing.get_context("spawn").Process(target=delete_one_by_one, args=(config, VICTIMS, acknowledged))
    deleter.start()
    seen: list[int] = []
    statuses = set()
    carried = 0
    while len(seen) < len(VICTIMS):
        report = lake.run("rewrite_data_files", rewrite_all=True, runner=Slow(acknowledged, seen), **options)
        statuses |= {report.status, *(group.status for group in report.groups)}
        carried += report.metrics["carried-over-deletes-count"]
        assert not {row[0] for row in lake.rows()} & set(seen)
    deleter.join()
    assert deleter.exitcode == 0
    assert statuses <= {"committed", "carried-over"}
    assert carried >= PER_COMPACTION
    assert [row[0] for row in lake.rows()] == [i for i in range(ROWS) if i not in VICTIMS]
    assert scan_table(lake.table).num_rows == ROWS - len(VICTIMS)
