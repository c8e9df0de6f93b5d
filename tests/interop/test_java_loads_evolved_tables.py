"""Iceberg Java loads evolved tables, and its rule about names of partition fields is the same as ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from iceberg_ops.cli.alterations import parse_alterations
from iceberg_ops.cli.evolve import plan_operations
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.serde.json.metadata_json import metadata_to_json
from iceberg_ops.spec.partitioning import PartitionField
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.types import INT, LONG, UNKNOWN, NestedField, StructType
from iceberg_ops.table.table import Table
from tests.generated.drawing import Draw
from tests.generated.evolutions import evolved as calls_and_tables
from tests.interop.lake import Lake
from tests.spec.test_partition_names import CASES, SCHEMA, metadata_of
from tests.spec.test_partition_sources import NESTED, OF_NO_PARTITION, formerly_by

pytestmark = [pytest.mark.oracle, pytest.mark.java]


def unreadable(lake: Lake, worlds: dict[str, TableMetadata], folder: Path) -> dict[str, str]:
    """Those that Java cannot load, by name."""
    names = {}
    for n, (name, metadata) in enumerate(worlds.items()):
        place = folder / f"{n}.metadata.json"
        place.write_bytes(metadata_to_json(metadata))
        names[str(place)] = name
    return {names[place]: why for place, why in lake.java.unreadable(list(names)).items()}


def evolved(metadata: TableMetadata, *steps: str) -> TableMetadata:
    """What ``iceberg-ops evolve TABLE STEP...`` makes of it."""
    table = Table(("test", "db", "t"), metadata, "/t/metadata/v1.metadata.json", LocalFileIO())
    return plan_operations(table, parse_alterations(steps))[1]


def test_names_clash_exactly_where_java_refuses_the_table(lake: Lake, tmp_path: Path) -> None:
    worlds, expected = {}, set()
    for version in (1, 2, 3):
        for source, transform, name, clashes in CASES:
            what = f"v{version} {transform}({source}) AS {name}"
            worlds[what] = metadata_of(version, SCHEMA, PartitionField((source,), 1000, transform, name))
            expected |= {what} if clashes else set()
    refused = unreadable(lake, worlds, tmp_path)
    assert refused.keys() == expected
    assert all("sourced from different field in schema" in why for why in refused.values())


def test_a_column_in_the_place_of_a_dropped_one_is_loaded(lake: Lake, tmp_path: Path) -> None:
    worlds = {}
    for version in (1, 2, 3):
        found = evolved(metadata_of(version), "ADD PARTITION FIELD s")
        for steps in (["DROP PARTITION FIELD s"], ["DROP COLUMN s"], ["ADD COLUMN s string"]):
            found = evolved(found, *steps)
        worlds[f"v{version}"] = found
    assert unreadable(lake, worlds, tmp_path) == {}


def test_a_default_of_null_leaves_a_table_that_is_loaded(lake: Lake, tmp_path: Path) -> None:
    worlds: dict[str, TableMetadata] = {}
    for version in (1, 2, 3):
        start = metadata_of(version)
        asked = {
            "set": evolved(start, "ALTER COLUMN s SET DEFAULT NULL"),
            "set and unset": evolved(evolved(start, "ALTER COLUMN s SET DEFAULT 'x'"), "ALTER COLUMN s SET DEFAULT NULL"),
            "add": evolved(start, "ADD COLUMN d int DEFAULT NULL"),
            "add inside": evolved(start, "ADD COLUMN a.d int DEFAULT NULL"),
            "add and set": evolved(start, "ADD COLUMN d int", "ALTER COLUMN d SET DEFAULT 5"),
            "create": metadata_of(version, Schema.of(NestedField(1, "k", LONG), NestedField(2, "d", INT, False, None, None, None))),
        }
        worlds |= {f"v{version} {what}": metadata for what, metadata in asked.items()}
        assert asked["add and set"].schema.fields[-1].write_default == 5
    assert unreadable(lake, worlds, tmp_path) == {}


def test_java_refuses_a_former_partition_field_of_these_types(lake: Lake, tmp_path: Path) -> None:
    """Java loads the nested ones today; what such a partition value would be is defined nowhere."""
    worlds, refused = {}, set()
    for type_ in (INT, UNKNOWN, *OF_NO_PARTITION):
        metadata = formerly_by(2)
        schema = replace(metadata.schema, struct=StructType((metadata.schema.fields[0], NestedField(2, "u", type_))))
        worlds[str(type_)] = replace(metadata, schemas=(schema,))
        refused |= {str(type_)} if type_ in OF_NO_PARTITION and type_ not in NESTED else set()
    found = unreadable(lake, worlds, tmp_path)
    assert found.keys() == refused
    assert all("Unsupported type for identity" in why for why in found.values())


def test_random_evolutions_leave_tables_that_are_loaded(lake: Lake, tmp_path: Path) -> None:
    """PyIceberg reads the same in ``tests/generated/test_evolutions.py``."""
    worlds = {}
    for seed in range(100):
        found = calls_and_tables(Draw("evolutions", seed))
        worlds |= {f"seed {seed}, call {n}: {steps}": metadata for n, (steps, metadata) in enumerate(found)}
    assert len(worlds) > 300
    assert unreadable(lake, worlds, tmp_path) == {}
