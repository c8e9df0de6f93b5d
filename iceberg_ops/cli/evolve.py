"""``iceberg-ops evolve``: change schema, partitioning, sort order and properties of a table in one commit."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from iceberg_ops.cli.completion import table_argument
from iceberg_ops.cli.standard_output import output_of_done_work
from iceberg_ops.cli.table_view import show_table
from iceberg_ops.cli.target import json_option, open_in_catalog
from iceberg_ops.errors import OptionError, SchemaError

if TYPE_CHECKING:
    from iceberg_ops.cli.alterations import Alterations, Names
    from iceberg_ops.commit.protocol.operation import Operation
    from iceberg_ops.spec.schema import Schema
    from iceberg_ops.spec.schema_evolution import SchemaEvolution
    from iceberg_ops.spec.table_metadata import TableMetadata
    from iceberg_ops.table.table import Table


@click.command()
@table_argument
@click.argument("steps", nargs=-1, metavar="STEP...")
@click.option("--union-by-name", metavar="FILE", help="Add the columns of a Parquet file that the table does not have.")
@click.option(
    "--allow-incompatible",
    is_flag=True,
    help="Allow making a column required that may have nulls, and dropping a column that equality deletes use.",
)
@click.option("--dry-run", is_flag=True, help="Check the steps and show the result; commit nothing.")
@json_option
def evolve(
    target: str, steps: tuple[str, ...], union_by_name: str | None, allow_incompatible: bool, dry_run: bool, as_json: bool
) -> None:
    """Change schema, partitioning, sort order or properties, in one commit.

    A STEP is a clause of ALTER TABLE: "ADD COLUMN c int AFTER b", "RENAME COLUMN a TO b", "ALTER COLUMN a TYPE bigint", "DROP
    COLUMN a",
    "ADD PARTITION FIELD bucket(16, id)", "REPLACE PARTITION FIELD days(ts) WITH hours(ts)", "WRITE ORDERED BY a DESC",
    "SET IDENTIFIER FIELDS id", "SET TBLPROPERTIES ('k' = 'v')". Setting 'format-version' upgrades the table.
    """
    from iceberg_ops.cli.alterations import parse_alterations
    from iceberg_ops.commit.loop.committer import commit
    from iceberg_ops.commit.operations.transaction import Transaction

    if not steps and union_by_name is None:
        raise OptionError("nothing to change: give at least one step")
    asked = parse_alterations(steps)
    if union_by_name is not None:
        asked.schema.append(_union(union_by_name))
    catalog, table = open_in_catalog(target)
    operations, outcome = plan_operations(table, asked, allow_incompatible)
    if operations and not dry_run:
        outcome = commit(catalog, table, Transaction(operations=tuple(operations))).table.metadata
    with nullcontext() if dry_run else output_of_done_work():
        show_table(target, outcome, as_json, "would become" if dry_run else "changed" if operations else "unchanged")


def plan_operations(table: Table, asked: Alterations, allow_incompatible: bool = False) -> tuple[list[Operation], TableMetadata]:
    """The operations to commit, and the resulting metadata of the table. Raises SchemaError, OptionError."""
    from iceberg_ops.cli.alterations import FORMAT_VERSION
    from iceberg_ops.cli.create import build_sort_order, check_properties
    from iceberg_ops.commit.operations.metadata_updates import (
        UpdateProperties,
        UpdateSchema,
        UpdateSortOrder,
        UpdateSpec,
        UpgradeFormatVersion,
    )
    from iceberg_ops.commit.validation.dropped_keys import no_dropped_delete_keys
    from iceberg_ops.commit.validation.promoted_dates import no_dates_beyond_nanoseconds
    from iceberg_ops.spec.metadata_builder import apply_updates
    from iceberg_ops.spec.nesting import check_nesting
    from iceberg_ops.spec.schema_evolution import SchemaEvolution
    from iceberg_ops.spec.spec_evolution import SpecEvolution
    from iceberg_ops.spec.updates import LAST_ADDED, AddSortOrder, RemoveProperties, SetDefaultSortOrder, SetProperties
    from iceberg_ops.spec.updates import UpgradeFormatVersion as Upgrade

    now, metadata = time.time_ns() // 1_000_000, table.metadata
    operations: list[Operation] = []
    properties = dict(asked.properties)
    names: Names = _as_they_are
    if (version := properties.pop(FORMAT_VERSION, None)) is not None:
        number = _version(version)
        operations.append(UpgradeFormatVersion(format_version=number))
        if number != metadata.format_version:
            metadata = apply_updates(metadata, [Upgrade(number)], now_ms=now)
    if asked.schema:
        columns = SchemaEvolution.of_table(metadata, case_sensitive=False, allow_incompatible_changes=allow_incompatible)
        for step in asked.schema:
            step(columns)
        evolved = columns.apply()
        check_nesting(evolved)
        if not allow_incompatible:
            no_dropped_delete_keys(table, evolved)
        no_dates_beyond_nanoseconds(table, evolved)
        operations.append(UpdateSchema(schema=evolved, keep_delete_keys=not allow_incompatible))
        names = _names_after(columns, evolved)
        metadata = apply_updates(metadata, columns.updates(), now_ms=now)
    if asked.spec:
        partitions = SpecEvolution.of_table(metadata, case_sensitive=False)
        for change in asked.spec:
            change(partitions, names)
        operations.append(UpdateSpec(spec=partitions.apply()))
        metadata = apply_updates(metadata, partitions.updates(), now_ms=now)
    if (sort_keys := asked.sort_keys_by(names)) is not None:
        order = build_sort_order(metadata.schema, sort_keys)
        operations.append(UpdateSortOrder(sort_order=order))
        metadata = apply_updates(metadata, [AddSortOrder(order), SetDefaultSortOrder(LAST_ADDED)], now_ms=now)
    if properties or asked.removed_properties:
        check_properties(properties, metadata.schema)
        removals = tuple(asked.removed_properties)
        operations.append(UpdateProperties(updates=properties, removals=removals))
        metadata = apply_updates(metadata, [SetProperties(properties), RemoveProperties(removals)], now_ms=now)
    return operations, metadata


def _as_they_are(name: str) -> str:
    return name


def _names_after(columns: SchemaEvolution, evolved: Schema) -> Names:
    """Converts the column names in partition and sort steps to their names in ``evolved``. A name that the evolution does not know
    is unchanged: the call may give it to a column."""

    def name_after(name: str) -> str:
        try:
            return evolved.names_by_id.get(columns.column(name).field_id, name)
        except SchemaError:
            return name

    return name_after


def _version(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise OptionError(f"format-version {text!r}: must be a whole number")
    return int(text)


def _union(path: str) -> Callable[[SchemaEvolution], object]:
    from iceberg_ops.cli.create import schema_of_file

    schema = schema_of_file(path)
    return lambda evolution: evolution.union_by_name(schema)
