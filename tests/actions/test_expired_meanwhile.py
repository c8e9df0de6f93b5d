"""An expiry removes the snapshot that a job has just loaded: the job must not report a damaged table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.actions import dispatch
from iceberg_ops.actions.local import source_files, source_in_memory
from iceberg_ops.config.job_spec import MergeClause, RowChange, Source
from iceberg_ops.errors import CommitFailedError, CorruptTableError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from iceberg_ops.table.table import Table
from tests.actions.lake import Lake, make_lake, numbered
from tests.actions.rows_place import RowsPlace
from tests.catalog.wrappers import Wrapped

EVERYTHING = {"older_than": "2100-01-01T00:00:00Z", "retain_last": 1}
JOBS: dict[str, dict[str, Any]] = {
    "compute_partition_stats": {},
    "compute_table_stats": {},
    "rewrite_data_files": {"rewrite_all": "true"},
    "rewrite_manifests": {},
    "expire_snapshots": EVERYTHING,
    "remove_orphan_files": {"older_than": "2029-01-01T00:00:00Z"},
}


class Late(Wrapped):
    """After the first load, ``then`` happens before the table is read."""

    def __init__(self, inner: Any, then: Callable[[], object]) -> None:
        super().__init__(inner)
        self._then: Callable[[], object] | None = then

    def load_table(self, *args: Any) -> Any:
        found, then = self.inner.load_table(*args), self._then
        if then is not None:
            self._then = None
            then()
        return found


def lake_with_snapshots() -> Lake:
    lake = make_lake(partitioned=True)
    for i in range(3):
        lake.append(numbered(10 * i, 3))
    return lake


def compact_and_expire(lake: Lake) -> None:
    lake.run("rewrite_data_files", rewrite_all="true")
    lake.append(numbered(50, 3))
    lake.run("expire_snapshots", **EVERYTHING)


@pytest.mark.parametrize("job", JOBS)
def test_a_job_works_on_the_table_as_it_is_where_its_first_snapshot_expired(job: str) -> None:
    lake = lake_with_snapshots()
    report = lake.run(job, catalog=Late(lake.catalog, lambda: compact_and_expire(lake)), **JOBS[job])
    assert report.status in ("committed", "nothing-to-do")
    assert len(lake.rows()) == 12


def test_a_job_whose_snapshot_expires_while_it_plans_can_be_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_with_snapshots()

    def reads_too_late(run: Any) -> None:
        compact_and_expire(lake)
        raise CorruptTableError("manifest m does not exist")

    real = dispatch.load_action
    monkeypatch.setattr(dispatch, "load_action", lambda name: reads_too_late if name == "rewrite_manifests" else real(name))
    with pytest.raises(
        CommitFailedError, match=r"expired snapshots that rewrite_manifests was reading.*nothing was changed: run it"
    ):
        lake.run("rewrite_manifests")


def test_a_missing_file_of_a_table_that_nobody_touches_is_damage() -> None:
    lake = lake_with_snapshots()
    head = lake.table.metadata.current_snapshot
    assert head is not None
    assert head.manifest_list is not None
    lake.table.io.delete(head.manifest_list)
    with pytest.raises(CorruptTableError, match="does not exist"):
        lake.run("rewrite_manifests")


@pytest.mark.parametrize("job", ["append", "overwrite", "upsert", "merge"])
@pytest.mark.parametrize("touched", [True, False], ids=["expired", "damaged"])
def test_a_source_table_that_expires_while_it_is_read_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, touched: bool
) -> None:
    place = RowsPlace.at(tmp_path)
    for name in ("t", "src"):
        place.create(Schema.of(NestedField(1, "k", LONG)), name=name)
    for k in (1, 2):
        place.run("append", source=place.source([{"k": k}], pa.schema({"k": pa.int64()})), name="src")
    module = source_files if job in ("append", "overwrite") else source_in_memory
    real = module.scan_batches

    def late(table: Table, *args: Any, **more: Any) -> Iterator[pa.RecordBatch]:
        if touched:
            place.run("rewrite_data_files", options={"rewrite-all": "true"}, name="src")
            place.run("expire_snapshots", options={"older-than": "2100-01-01T00:00:00Z", "retain-last": "1"}, name="src")
        else:
            for path in place.data_on_disk("src"):
                (tmp_path / "warehouse" / "db" / "src" / path).unlink()
        return real(table, *args, **more)

    monkeypatch.setattr(module, "scan_batches", late)
    source = Source(format="table", table="test.db.src")
    change = RowChange(on="target.k = source.k", clauses=[MergeClause(when="not-matched", action="insert")])
    parts = {"merge": {"change": change}, "upsert": {"options": {"upsert-keys": "k"}}}.get(job, {})
    with pytest.raises(CommitFailedError if touched else CorruptTableError, match=f"that {job} was reading" if touched else None):
        place.run(job, source=source, **parts)
    assert place.rows() == []
