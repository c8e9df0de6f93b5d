"""A commit whose metadata cannot be written, or cannot be read again, is refused before the swap: nothing was committed, the
outcome is known at once, and every later load reads the previous state."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import (
    UpdateLocation,
    UpdateProperties,
    UpdateSchema,
    UpdateStatistics,
    UpgradeFormatVersion,
)
from iceberg_ops.commit.operations.refs import SetRef
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.errors import BadInputError, IcebergOpsError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.statistics import StatisticsFile
from iceberg_ops.spec.types import INT, LONG, STRING, IcebergType, NestedField
from iceberg_ops.table.table import Table
from tests.builders import data_file

NAME = ("db", "t")
SCHEMA = Schema.of(NestedField(1, "k", LONG))
HALF = "a\udcff"


def catalog_of(kind: str, folder: Path) -> Catalog:
    properties = {"warehouse": str(folder / "warehouse")}
    if kind == "sql":
        properties["uri"] = f"sqlite:///{folder}/catalog.db"
    made = load_catalog(CatalogConfig(name="test", type=kind, properties=properties))
    made.create_namespace(("db",))
    return made


def with_column(table: Table, name: str = "d", type_: IcebergType = INT, **more: Any) -> UpdateSchema:
    """Not by SchemaEvolution, which would refuse some of them itself."""
    return UpdateSchema(schema=Schema.of(*SCHEMA.fields, NestedField(2, name, type_, **more)))


def statistics(table: Table, **odd: Any) -> UpdateStatistics:
    file = StatisticsFile(
        snapshot_id=table.metadata.current_snapshot_id or 0,
        statistics_path="/s.puffin",
        file_size_in_bytes=10,
        file_footer_size_in_bytes=5,
    )
    return UpdateStatistics(added=(replace(file, **odd),))


UNSTORABLE: dict[str, Callable[[Table, int], Operation]] = {
    "a property": lambda t, i: UpdateProperties(updates={"a": HALF}),
    "a property's name": lambda t, i: UpdateProperties(updates={HALF: "a"}),
    "a property that is not text": lambda t, i: UpdateProperties(updates={"a": 1}),  # type: ignore[dict-item]
    "a property that is a time": lambda t, i: UpdateProperties(updates={"a": datetime(2024, 1, 1)}),  # type: ignore[dict-item]
    "a column's name": lambda t, i: with_column(t, HALF),
    "a comment": lambda t, i: with_column(t, doc=HALF),
    "a comment that is not text": lambda t, i: with_column(t, doc=5),
    "a default": lambda t, i: with_column(t, type_=STRING, write_default=HALF),
    "a default of another type": lambda t, i: with_column(t, write_default=2**40),
    "a default that JSON lacks": lambda t, i: with_column(t, write_default=math.nan),
    "an unknown type": lambda t, i: with_column(t, type_=IcebergType()),
    "a kind of ref": lambda t, i: SetRef(ref="r", snapshot_id=i, type="TAG"),
    "a ref's name": lambda t, i: SetRef(ref=HALF, snapshot_id=i),
    "a ref's age": lambda t, i: SetRef(ref="r", snapshot_id=i, max_ref_age_ms=8.64e7),  # type: ignore[arg-type]
    "a ref's age as text": lambda t, i: SetRef(ref="r", snapshot_id=i, max_ref_age_ms="1"),  # type: ignore[arg-type]
    "a format version": lambda t, i: UpgradeFormatVersion(format_version=3.0),  # type: ignore[arg-type]
    "a location": lambda t, i: UpdateLocation(location=f"/x/{HALF}"),
    "a summary": lambda t, i: AppendFiles(added=(data_file("/t/2.parquet"),), summary={"a": HALF}),
    "a size": lambda t, i: statistics(t, file_size_in_bytes=1.5),
    "a path": lambda t, i: statistics(t, statistics_path=HALF),
    "a Path in place of a text": lambda t, i: statistics(t, statistics_path=Path("/s.puffin")),
}


def no_sleep(_: float) -> None:
    raise AssertionError("the outcome is known: there is nothing to wait for")


@pytest.mark.parametrize("kind", ["filesystem", "sql", "memory"])
@pytest.mark.parametrize("what", UNSTORABLE)
@pytest.mark.parametrize("in_transaction", [False, True])
def test_what_cannot_be_stored_is_refused(kind: str, what: str, in_transaction: bool, tmp_path: Path) -> None:
    catalog = catalog_of(kind, tmp_path)
    table = catalog.create_table(NAME, SCHEMA, properties={"format-version": "2"})
    table = commit(catalog, table, AppendFiles(added=(data_file("/t/1.parquet"),))).table
    files = sorted(p for p in tmp_path.rglob("*") if p.is_file() and p.suffix != ".db")
    asked = UNSTORABLE[what](table, table.metadata.current_snapshot_id or 0)
    with pytest.raises(IcebergOpsError) as refused:
        commit(catalog, table, Transaction(operations=(asked,)) if in_transaction else asked, sleep=no_sleep)
    assert isinstance(refused.value, BadInputError), refused.value
    assert catalog.load_table(NAME).metadata == table.metadata
    assert sorted(p for p in tmp_path.rglob("*") if p.is_file() and p.suffix != ".db") == files


@pytest.mark.parametrize("kind", ["filesystem", "sql", "memory"])
@pytest.mark.parametrize("properties", [{"a": HALF}, {HALF: "a"}, {"a": 1}], ids=ascii)
def test_no_table_is_created_that_cannot_be_stored(kind: str, properties: Any, tmp_path: Path) -> None:
    catalog = catalog_of(kind, tmp_path)
    with pytest.raises(BadInputError, match=r"cannot be stored: .*; nothing was committed"):
        catalog.create_table(NAME, SCHEMA, properties=properties)
    assert not catalog.table_exists(NAME)
