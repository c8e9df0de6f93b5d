"""A date column becomes timestamp_ns only where the dates of live files fit, as far as bounds tell: no scan could read others."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
from iceberg_ops.commit.operations.refs import SetRef
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import NotPublishableError, SchemaError, ValidationError
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.types import DATE, LONG, TIMESTAMP, TIMESTAMP_NS, IcebergType, NestedField, StructType
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, make_catalog
from tests.catalog.wrappers import Meddles
from tests.data.files import batch_of

NEVER, FIRST, LAST = 2_932_896, -106_751, 106_751
"""9999-12-31, 1677-09-22 and 2262-04-11."""
SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "s", StructType((NestedField(3, "d", DATE),))))
_NAMES = itertools.count()


def table_of(*days: int | None, **properties: str) -> tuple[Any, Table]:
    catalog = make_catalog()
    catalog.create_table(IDENTIFIER, SCHEMA, properties={"format-version": "3", **properties})
    return catalog, append(catalog, *days)


def append(catalog: Any, *days: int | None, branch: str = "main") -> Table:
    table = catalog.load_table(IDENTIFIER)
    return commit(catalog, table, AppendFiles(added=written(table, *days), branch=branch)).table


def written(table: Table, *days: int | None) -> tuple[DataFile, ...]:
    writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=f"a{next(_NAMES)}")
    writer.write(batch_of(SCHEMA, [(number, (day,)) for number, day in enumerate(days)]))
    return tuple(writer.close())


def promotion(table: Table, new: IcebergType = TIMESTAMP_NS) -> UpdateSchema:
    return UpdateSchema(schema=SchemaEvolution.of_table(table.metadata).update_type("s.d", new).apply())


@pytest.mark.parametrize("day", [NEVER, LAST + 1, FIRST - 1])
def test_a_date_that_does_not_fit_refuses_the_promotion(day: int) -> None:
    """It was committed, and no scan of the table could be read any more."""
    catalog, table = table_of(0, day)
    with pytest.raises(SchemaError, match=r"'s\.d': date to timestamp_ns: file .* live in branch 'main', has a date outside"):
        commit(catalog, table, promotion(table))
    commit(catalog, table, promotion(table, TIMESTAMP))
    assert len(scan_table(catalog.load_table(IDENTIFIER))) == 2


def test_every_branch_counts_and_a_tag_is_read_with_its_own_schema() -> None:
    catalog, table = table_of(0)
    first = table.metadata.current_snapshot_id
    commit(catalog, table, SetRef(ref="side"))
    table = append(catalog, NEVER, branch="side")
    with pytest.raises(SchemaError, match="live in branch 'side'"):
        commit(catalog, table, promotion(table))
    commit(catalog, table, SetRef(ref="kept", type="tag", snapshot_id=table.metadata.refs["side"].snapshot_id))
    commit(catalog, catalog.load_table(IDENTIFIER), SetRef(ref="side", snapshot_id=first, replace_existing=True))
    table = catalog.load_table(IDENTIFIER)
    commit(catalog, table, promotion(table))
    table = catalog.load_table(IDENTIFIER)
    assert [len(scan_table(table, scan)) for scan in (Scan(), Scan(ref="side"), Scan(ref="kept"))] == [1, 1, 2]


def test_dates_that_fit_rows_that_are_gone_and_files_without_bounds_do_not_refuse_it() -> None:
    catalog, table = table_of(FIRST, LAST, None)
    table = append(catalog, NEVER)
    table = commit(catalog, table, DeleteFiles(filter=parse_where("s.d > DATE '9000-01-01'"))).table
    commit(catalog, table, promotion(table))
    assert len(scan_table(catalog.load_table(IDENTIFIER))) == 3
    catalog, table = table_of(NEVER, **{"write.metadata.metrics.default": "counts"})
    commit(catalog, table, promotion(table))


def test_a_date_that_is_committed_meanwhile_refuses_it_too() -> None:
    catalog, table = table_of(0)
    with pytest.raises(SchemaError, match="has a date outside"):
        commit(Meddles(catalog, lambda: append(catalog, NEVER)), table, promotion(table))


@pytest.mark.parametrize(("day", "is_kept"), [(NEVER, False), (LAST, True)])
def test_rows_that_were_written_before_the_promotion_and_are_committed_after_it_must_fit(day: int, is_kept: bool) -> None:
    """They were committed, and no scan of the table could be read any more."""
    catalog, table = table_of(0)
    promoted = Meddles(catalog, lambda: commit(catalog, table, promotion(table)))
    mine = AppendFiles(added=written(table, day))
    if is_kept:
        commit(promoted, table, mine, sleep=lambda _: None)
    else:
        with pytest.raises(ValidationError, match=r"'s\.d' \(field 3\) is of type timestamp_ns, and cannot hold a date outside"):
            commit(promoted, table, mine, sleep=lambda _: None)
    assert len(scan_table(catalog.load_table(IDENTIFIER))) == 1 + is_kept


@pytest.mark.parametrize("has_moved", [False, True])
@pytest.mark.parametrize(("day", "is_kept"), [(NEVER, False), (LAST, True)])
def test_rows_that_were_staged_before_the_promotion_are_published_only_if_they_fit(
    day: int, is_kept: bool, has_moved: bool
) -> None:
    catalog, table = table_of(0)
    staged = commit(catalog, table, AppendFiles(added=written(table, day), staged=True)).snapshot
    assert staged is not None
    if has_moved:
        append(catalog, 1)
    table = catalog.load_table(IDENTIFIER)
    commit(catalog, table, promotion(table))
    pick = CherryPick(snapshot_id=staged.snapshot_id)
    if is_kept:
        commit(catalog, table, pick)
    else:
        with pytest.raises(NotPublishableError, match="cannot hold a date outside"):
            commit(catalog, table, pick)
    assert len(scan_table(catalog.load_table(IDENTIFIER))) == 1 + has_moved + is_kept
