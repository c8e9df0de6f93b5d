"""A column and a partition field with one name, added by two commits at the same time: the later commit is a conflict, whichever of
the two swaps first. Iceberg Java would not load the table."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema, UpdateSpec
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.errors import ValidationError
from iceberg_ops.spec.partition_names import name_clashes
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.transforms import bucket
from iceberg_ops.spec.types import INT, LONG, NestedField
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, make_catalog
from tests.catalog.wrappers import Meddles


def table_of(version: int) -> tuple[Any, Table]:
    catalog = make_catalog()
    return catalog, catalog.create_table(
        IDENTIFIER, Schema.of(NestedField(1, "k", LONG)), properties={"format-version": str(version)}
    )


def column(table: Table, name: str = "shard") -> UpdateSchema:
    return UpdateSchema(schema=SchemaEvolution.of_table(table.metadata).add_column(name, INT).apply())


def partition(table: Table, name: str = "shard") -> UpdateSpec:
    return UpdateSpec(spec=SpecEvolution.of_table(table.metadata).add_field("k", bucket(4), name).apply())


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("first", ["the column", "the partition field"])
@pytest.mark.parametrize("when", ["before it", "at its swap"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_later_of_two_is_a_conflict(version: int, when: str, first: str, in_transaction: bool) -> None:
    catalog, table = table_of(version)
    ours, theirs = (partition(table), column(table)) if first == "the column" else (column(table), partition(table))
    asked = Transaction(operations=(ours,)) if in_transaction else ours
    if when == "before it":
        commit(catalog, table, theirs)
    through = Meddles(catalog, *([lambda: commit(catalog, table, theirs)] if when == "at its swap" else []))
    with pytest.raises(ValidationError, match=r"can be called 'shard': a .* added since this change was planned"):
        commit(through, table, asked, sleep=lambda _: None)
    now = catalog.load_table(IDENTIFIER).metadata
    assert name_clashes(now.schema, now.partition_specs) == ()


@pytest.mark.parametrize("first", ["the column", "the partition field"])
def test_other_names_are_no_conflict(first: str) -> None:
    catalog, table = table_of(2)
    other = column(table, "x") if first == "the column" else partition(table, "x")
    ours = partition(table) if first == "the column" else column(table)
    commit(Meddles(catalog, lambda: commit(catalog, table, other)), table, ours, sleep=lambda _: None)
    now = catalog.load_table(IDENTIFIER)
    assert {len(now.schema.fields), len(now.metadata.partition_specs)} == {2}
