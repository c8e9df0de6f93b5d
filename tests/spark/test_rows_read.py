"""A statement that reads the table it changes is re-evaluated if another commit changes rows that it has read."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from iceberg_ops.actions import overwrite
from iceberg_ops.actions.local.delete_rows import DeleteRows
from iceberg_ops.actions.rows.row_engine import WrittenSource
from iceberg_ops.actions.run.context import Run
from iceberg_ops.commit.operations.replace_partitions import ReplacePartitions
from iceberg_ops.config.job_spec import JobSpec, MergeClause, RowChange, Source
from iceberg_ops.config.properties import WriteMode
from iceberg_ops.config.row_options import Isolation
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import LONG, NestedField
from tests.catalog.wrappers import Meddles
from tests.spark.conftest import Place

SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "k", LONG), identifier_field_ids=())
BY_K = PartitionSpec(0, (PartitionField((2,), 1000, IDENTITY, "k"),))
ROWS = [(1, 1), (2, 1), (3, 2), (4, 2)]
MODES = pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
VERSIONS = pytest.mark.parametrize("version", ["2", "3"])


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("isolation", ["serializable", "snapshot", None])
def test_a_dynamic_overwrite_says_whether_it_was_made_of_the_tables_own_rows(reads: bool, isolation: Isolation | None) -> None:
    metadata = SimpleNamespace(ref=lambda _: True, branch_head=lambda _: SimpleNamespace(snapshot_id=7))
    job = SimpleNamespace(branch="main", options={})
    run = cast(Run, SimpleNamespace(table=SimpleNamespace(metadata=metadata), job=job, run_key="k", summary={}))
    found = overwrite.build_operation(run, WrittenSource(schema=SCHEMA, files=(), reads_table=reads), isolation, None)
    assert isinstance(found, ReplacePartitions)
    assert (found.reads_table, found.isolation, found.starting_snapshot_id) == (reads, isolation, 7)


def filled(place: Place, version: str) -> Place:
    place.create("t", SCHEMA, spec=BY_K, **{"format-version": version})
    ids, ks = zip(*ROWS, strict=True)
    place.fill("t", pa.table({"id": pa.array(ids, pa.int64()), "k": pa.array(ks, pa.int64())}))
    return place


def evaluations(place: Place, job: str, spec: dict[str, Any], other: Callable[[], object]) -> int:
    whole = JobSpec(job=job, table="test.db.t", catalog=place.config, **spec)
    return int(place.run_on(Meddles(place.catalog, other), whole).metrics["evaluations-count"])


def deletion(place: Place, where: str, mode: str) -> Callable[[], object]:
    return lambda: DeleteRows(where=where, mode=cast(WriteMode, mode)).run(place.catalog, place.table("t"))


def rows(place: Place) -> list[tuple[int, int]]:
    return sorted((row["id"], row["k"]) for row in place.rows("t"))


@pytest.mark.spark
@MODES
@VERSIONS
def test_two_removals_of_duplicates_do_not_remove_both(place: Place, version: str, mode: str) -> None:
    filled(place, version)
    where = "id > (SELECT min(o.id) FROM target o WHERE o.k = target.k)"
    spec = {"where": where, "change": RowChange(mode=cast(Any, mode))}
    assert evaluations(place, "delete", spec, deletion(place, "id = 1", mode)) == 2
    assert rows(place) == [(2, 1), (3, 2)]


@pytest.mark.spark
@MODES
@VERSIONS
def test_an_update_by_rows_that_are_deleted_meanwhile_is_evaluated_again(place: Place, version: str, mode: str) -> None:
    filled(place, version)
    change = RowChange(mode=cast(Any, mode), set={"id": "(SELECT max(o.id) FROM target o) + 10"})
    assert evaluations(place, "update", {"where": "id = 1", "change": change}, deletion(place, "id = 4", mode)) == 2
    assert rows(place) == [(2, 1), (3, 2), (13, 1)]


@pytest.mark.spark
@MODES
@VERSIONS
def test_a_merge_whose_source_is_made_of_the_tables_own_rows_is_evaluated_again(place: Place, version: str, mode: str) -> None:
    filled(place, version)
    source = Source(format="sql", query="SELECT 10 + max(id) AS id, 1L AS k FROM target")
    change = RowChange(mode=cast(Any, mode), on="target.id = source.id", clauses=[MergeClause(when="not-matched", action="insert")])
    assert evaluations(place, "merge", {"source": source, "change": change}, deletion(place, "id = 4", mode)) == 2
    assert rows(place) == [(1, 1), (2, 1), (3, 2), (13, 1)]


@pytest.mark.spark
@VERSIONS
@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
@pytest.mark.parametrize("where", [None, "k = 1"])
def test_an_overwrite_by_rows_of_other_partitions_is_evaluated_again(
    place: Place, version: str, isolation: str, where: str | None
) -> None:
    filled(place, version)
    source = Source(format="sql", query="SELECT sum(id) AS id, 1L AS k FROM target WHERE k = 2")
    spec = {"source": source, "where": where, "options": {"isolation-level": isolation}}
    assert evaluations(place, "overwrite", spec, deletion(place, "id = 4", "merge-on-read")) == 2
    assert rows(place) == [(3, 1), (3, 2)]


@pytest.mark.spark
@pytest.mark.parametrize("isolation", ["serializable", None])
def test_an_upsert_by_the_tables_own_rows_is_evaluated_again_where_an_isolation_is_asked_for(
    place: Place, isolation: str | None
) -> None:
    filled(place, "2")
    source = Source(format="sql", query="SELECT 10 + max(id) AS id, 1L AS k FROM target")
    options = {"upsert-keys": "id,k"} | ({} if isolation is None else {"isolation-level": isolation})
    found = evaluations(place, "upsert", {"source": source, "options": options}, deletion(place, "id = 4", "merge-on-read"))
    assert found == (2 if isolation else 1)
    assert max(rows(place)) == ((13, 1) if isolation else (14, 1))
