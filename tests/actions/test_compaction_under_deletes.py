"""A compaction while another process keeps deleting rows of the same partition: no row is lost and none comes back."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.row_delta import RowDelta
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.data.reader import scan_table
from iceberg_ops.data.row_deletes import write_row_deletes
from iceberg_ops.data.write_context import WriteContext
from iceberg_ops.errors import CommitFailedError, ValidationError
from iceberg_ops.scan.planning import Scan, plan
from tests.actions.lake import Lake, numbered
from tests.builders import IDENTIFIER, make_table

VICTIMS = list(range(3, 600, 41))


def delete_one_by_one(config: CatalogConfig, ids: list[int]) -> None:
    """Delete rows by id, merge-on-read, one commit each; a conflict with the compaction is planned anew."""
    for number, victim in enumerate(ids):
        while not _delete(config, victim, f"deleter-{number}"):
            pass


def _delete(config: CatalogConfig, victim: int, name: str) -> bool:
    catalog = load_catalog(config)
    table = catalog.load_table(IDENTIFIER)
    head = table.metadata.current_snapshot_id
    for task in plan(table, Scan(snapshot_id=head)).tasks:
        single = scan_positions(table, task, victim)
        if not single:
            continue
        context = WriteContext.for_table(table.metadata)
        operation_id = f"{name}-{head}"
        deletes = write_row_deletes(table.io, context, [(task, np.array(single, np.int64))], operation_id=operation_id)
        operation = RowDelta(
            added_deletes=deletes.added,
            removed_deletes=deletes.replaced,
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
    from iceberg_ops.data.read_context import ReadContext
    from iceberg_ops.data.reader import read_task

    context = ReadContext.for_table(table.metadata, columns=["id", "_pos"])
    found = []
    for batch in read_task(task, context, table.io):
        ids, positions = (column.to_pylist() for column in batch.columns)
        found += [position for id_, position in zip(ids, positions, strict=True) if id_ == victim]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_compacting_while_another_process_deletes_keeps_every_row_right(version: int, tmp_path: Path) -> None:
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path / "wh")}
    config = CatalogConfig(name="test", type="sql", properties=properties)
    catalog = load_catalog(config)
    catalog.create_namespace(("ns",))
    make_table(catalog, version=version, properties={"commit.retry.num-retries": "20", "commit.retry.min-wait-ms": "10"})
    lake = Lake(catalog)
    lake.append(*(numbered(100 * i, 100) for i in range(6)))
    deleter = multiprocessing.get_context("spawn").Process(target=delete_one_by_one, args=(config, VICTIMS))
    deleter.start()
    committed = 0
    while deleter.is_alive():
        try:
            committed += lake.run("rewrite_data_files", rewrite_all=True).status == "committed"
        except (ValidationError, CommitFailedError):
            continue
    deleter.join()
    assert deleter.exitcode == 0
    assert committed > 0
    lake.run("rewrite_data_files", rewrite_all=True)
    assert [row[0] for row in lake.rows()] == [i for i in range(600) if i not in VICTIMS]
    assert scan_table(lake.table).num_rows == 600 - len(VICTIMS)
