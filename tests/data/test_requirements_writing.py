"""The locations of new files and their metadata: COMMIT-22, SORT-05, SORT-06, MANIFEST-59."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import IDENTITY, bucket
from iceberg_ops.spec.types import LONG, GeographyType, GeometryType, NestedField, StructType
from tests.builders import SCHEMA, data_file, live_paths, make_catalog, make_table
from tests.data.files import batch_of, new_io, write, write_context

ID = Schema.of(NestedField(1, "id", LONG, True))


@pytest.mark.parametrize(
    ("path", "folder"),
    [(None, "memory://wh/t/data/"), ("files/new", "memory://wh/t/files/new/"), ("memory://other/x/", "memory://other/x/")],
)
def test_data_files_go_where_the_table_says(path: str | None, folder: str) -> None:
    """COMMIT-22"""
    (file,) = write(write_context(ID, properties={} if path is None else {"write.data.path": path}), new_io(), [(1,)])
    assert file.file_path.startswith(folder)
    assert "/" not in file.file_path.removeprefix(folder)


def test_files_claim_no_order_unless_they_were_sorted() -> None:
    """SORT-05, SORT-06"""
    context = write_context(ID)
    (plain,) = write(context, new_io(), [(2,), (1,)])
    by_id = SortOrder(4, (SortField((1,), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST),))
    (claimed,) = write(replace(context, sort_order=by_id), new_io(), [(1,), (2,)])
    assert (plain.sort_order_id, claimed.sort_order_id) == (None, 4)


def test_a_sort_order_id_that_no_one_knows_changes_no_scan() -> None:
    """SORT-06"""
    catalog = make_catalog()
    files = (data_file("/a"), replace(data_file("/b"), sort_order_id=99))
    table = commit(catalog, make_table(catalog), AppendFiles(added=files)).table
    assert {t.file_path: t.data_file.sort_order_id for t in plan(table, Scan()).tasks} == {"/a": None, "/b": 99}


def test_every_run_gives_its_files_names_of_their_own() -> None:
    """MANIFEST-59: a path that was deleted is never used again."""
    catalog = make_catalog()
    table = make_table(catalog)
    seen: set[str] = set()
    for n in range(3):
        writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=f"in-{n}")
        writer.write(batch_of(SCHEMA, [(n, "x", None)]))
        table = commit(catalog, table, AppendFiles(added=tuple(writer.close()))).table
        job = JobSpec(
            job="rewrite_data_files", table=f"{catalog.name}.ns.t", catalog=CatalogConfig(name=catalog.name, type="memory"),
            options={"rewrite-all": "true"},
        )  # fmt: skip
        run_job(job, catalog=catalog)
        table = catalog.load_table(("ns", "t"))
        assert not live_paths(table) & seen
        seen |= live_paths(table)
    assert len(seen) == 3


def test_columns_without_an_order_still_have_their_nulls_counted() -> None:
    """MANIFEST-29, MANIFEST-30"""
    inner = StructType((NestedField(4, "g", GeographyType()),))
    schema = Schema.of(NestedField(1, "id", LONG), NestedField(2, "g", GeometryType()), NestedField(3, "s", inner))
    point = bytes.fromhex("0101000000000000000000f03f0000000000000040")
    (file,) = write(write_context(schema), new_io(), [(1, point, None), (2, None, (None,)), (3, None, (point,))])
    assert (file.value_counts, file.null_value_counts) == ({1: 3, 2: 3, 4: 3}, {1: 0, 2: 2, 4: 2})


def test_a_batch_without_rows_adds_nothing_to_a_partitioned_table() -> None:
    spec = PartitionSpec(0, (PartitionField((1,), 1000, bucket(4), "b"),))
    assert write(write_context(SCHEMA, spec=spec), new_io(), []) == []
