"""Planning over real manifests in memory: GEN-01, SCAN-01, SCAN-02, SCAN-08, SCHEMA-14, SNAP-26, REFS-02, REFS-09, PART-11,
SEQ-07."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
from iceberg_ops.commit.operations.refs import SetRef
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.errors import CorruptTableError, DataError, NoSuchSnapshotError, OptionError, WhereError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, eq, gt
from iceberg_ops.scan.planning import Scan, ScanPlan, plan
from iceberg_ops.scan.tasks import FileScanTask, task_from_json, task_to_json
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.snapshots import SnapshotLogEntry, SnapshotRef
from iceberg_ops.spec.types import INT
from iceberg_ops.table.table import Table
from tests.builders import data_file, deletion_vector, equality_deletes, make_catalog, make_table, position_deletes

VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


def append(catalog: object, table: Table, *paths: str, region: str | None = None, ids: tuple[int, int] | None = None) -> Table:
    files = tuple(data_file(p, partition=() if region is None else (region,), ids=ids) for p in paths)
    return commit(catalog, table, AppendFiles(added=files)).table  # type: ignore[arg-type]


def delete(catalog: object, table: Table, *deletes: DataFile) -> Table:
    change = RowDelta(added_deletes=deletes, starting_snapshot_id=table.metadata.current_snapshot_id)
    return commit(catalog, table, change).table  # type: ignore[arg-type]


def paths(found: ScanPlan) -> list[str]:
    return sorted(t.file_path for t in found.tasks)


@VERSIONS
def test_an_empty_table_plans_nothing(version: int) -> None:
    found = plan(make_table(make_catalog(), version=version), Scan())
    assert (found.snapshot, found.tasks) == (None, [])


@VERSIONS
def test_a_filter_prunes_by_partition_and_by_bounds_and_leaves_a_residual(version: int) -> None:
    catalog = make_catalog()
    table = append(catalog, make_table(catalog, version=version, partitioned=True), "/eu", region="eu", ids=(1, 5))
    table = append(catalog, append(catalog, table, "/us", region="us", ids=(1, 5)), "/us2", region="us", ids=(6, 9))
    assert paths(plan(table, Scan())) == ["/eu", "/us", "/us2"]
    (by_region,) = plan(table, Scan(where=eq("region", "eu"))).tasks
    assert (by_region.file_path, by_region.residual) == ("/eu", ALWAYS_TRUE)
    (by_id,) = plan(table, Scan(where=gt("id", 5))).tasks
    assert by_id.file_path == "/us2"
    assert by_id.residual != ALWAYS_TRUE
    (whole,) = plan(table, Scan(where=gt("id", 5), ignore_residuals=True)).tasks
    assert whole.residual == ALWAYS_TRUE


@VERSIONS
def test_many_files_are_planned_alike(version: int) -> None:
    catalog = make_catalog()
    table = append(catalog, make_table(catalog, version=version), *(f"/f{n:03}" for n in range(100)))
    assert paths(plan(table, Scan())) == [f"/f{n:03}" for n in range(100)]


@pytest.mark.parametrize("frozen", [0, 7])
def test_objects_that_the_program_froze_stay_frozen_and_are_counted_only_after_many_new_ones(
    frozen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr("gc.get_freeze_count", lambda: calls.append("count") or frozen)
    monkeypatch.setattr("gc.freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr("gc.unfreeze", lambda: calls.append("unfreeze"))
    catalog = make_catalog()
    table = append(catalog, make_table(catalog, version=2), "/f")
    plan(table, Scan())
    assert (calls, gc.isenabled()) == ([], True)
    monkeypatch.setattr("iceberg_ops.scan.planning.MANY_OBJECTS", 0)
    plan(table, Scan())
    assert (calls, gc.isenabled()) == (["count"] if frozen else ["count", "freeze", "unfreeze"], True)


def test_each_data_file_gets_the_deletes_that_apply() -> None:
    catalog = make_catalog()
    table = append(catalog, make_table(catalog), "/a", "/b")
    table = delete(catalog, table, position_deletes("/p", "/a"), equality_deletes("/e"))
    table = append(catalog, table, "/c")
    found = {t.file_path: [d.file_path for d in t.deletes] for t in plan(table, Scan()).tasks}
    assert found == {"/a": ["/e", "/p"], "/b": ["/e"], "/c": []}


def test_a_deletion_vector_comes_with_its_file_only() -> None:
    catalog = make_catalog()
    table = append(catalog, make_table(catalog, version=3), "/a", "/b")
    table = delete(catalog, table, deletion_vector("/v", "/a"))
    found = {t.file_path: [d.is_deletion_vector for d in t.deletes] for t in plan(table, Scan()).tasks}
    assert found == {"/a": [True], "/b": []}


def evolved() -> tuple[Table, int, int]:
    """Two snapshots with a column added between; the ids of both."""
    catalog = make_catalog()
    table = append(catalog, make_table(catalog), "/a")
    first = table.metadata.current_snapshot_id or 0
    table = commit(catalog, table, UpdateSchema(schema=SchemaEvolution.of_table(table.metadata).add_column("x", INT).apply())).table
    table = append(catalog, table, "/b")
    table = commit(catalog, table, SetRef(ref="old", snapshot_id=first, type="tag")).table
    table = commit(catalog, table, SetRef(ref="side", snapshot_id=first)).table
    return table, first, table.metadata.current_snapshot_id or 0


def test_an_id_a_tag_and_a_time_are_read_with_their_own_schema_and_a_branch_with_the_current_one() -> None:
    table, first, second = evolved()
    at = table.metadata.snapshots_by_id[first].timestamp_ms
    log = (SnapshotLogEntry(at, first), SnapshotLogEntry(at + 10, second))
    table = replace(table, metadata=replace(table.metadata, snapshot_log=log))
    cases = [
        (Scan(), ["/a", "/b"], True),
        (Scan(ref="main"), ["/a", "/b"], True),
        (Scan(ref="side"), ["/a"], True),
        (Scan(snapshot_id=first), ["/a"], False),
        (Scan(ref="old"), ["/a"], False),
        (Scan(as_of_ms=at + 9), ["/a"], False),
        (Scan(as_of_ms=at + 10), ["/a", "/b"], True),
    ]
    for scan, expected, has_new_column in cases:
        found = plan(table, scan)
        assert (paths(found), found.schema.find("x") is not None) == (expected, has_new_column), scan
    with pytest.raises(WhereError, match="no column named 'x'"):
        plan(table, Scan(snapshot_id=first, where=eq("x", 1)))


def test_what_is_not_there_is_named() -> None:
    table, first, _ = evolved()
    with pytest.raises(NoSuchSnapshotError, match="no snapshot 42"):
        plan(table, Scan(snapshot_id=42))
    with pytest.raises(NoSuchSnapshotError, match="no branch or tag 'nope': it has main, old, side"):
        plan(table, Scan(ref="nope"))
    with pytest.raises(NoSuchSnapshotError, match="no snapshot as of 1970-01-01T00:00:00"):
        plan(table, Scan(as_of_ms=5))
    with pytest.raises(OptionError, match="at most one"):
        plan(table, Scan(snapshot_id=first, ref="main"))
    broken = replace(table, metadata=replace(table.metadata, refs={"gone": SnapshotRef(snapshot_id=42)}))
    with pytest.raises(CorruptTableError, match="branch 'gone' names snapshot 42"):
        plan(broken, Scan(ref="gone"))


def test_a_missing_manifest_is_a_corrupt_table() -> None:
    catalog = make_catalog()
    table = append(catalog, make_table(catalog), "/a")
    snapshot = table.metadata.current_snapshot
    assert snapshot is not None
    table.io.delete(snapshot.manifest_list or "")
    with pytest.raises(CorruptTableError, match="does not exist"):
        plan(table, Scan())


def test_a_task_travels_as_json() -> None:
    catalog = make_catalog()
    table = append(catalog, make_table(catalog, partitioned=True), "/a", region="eu", ids=(1, 5))
    table = delete(catalog, table, position_deletes("/p", "/a", partition=("eu",)), equality_deletes("/e", partition=("eu",)))
    (task,) = plan(table, Scan(where=gt("id", 3))).tasks
    back = task_from_json(task_to_json(task))
    assert replace(back, residual=ALWAYS_TRUE) == replace(task, residual=ALWAYS_TRUE)
    assert back.residual == gt("id", 3)
    part = FileScanTask(task.data_file, 3, None, (), ALWAYS_TRUE, 4, 10)
    assert task_from_json(task_to_json(part)) == part


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"data-file": 1, "sequence-number": 1}', "nonsense"])
def test_what_is_no_task_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        task_from_json(text)
