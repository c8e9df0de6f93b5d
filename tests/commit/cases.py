"""The initial table of the cases from Iceberg Java's tests, and their checks."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateSpec
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.transforms import IDENTITY, VOID
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.reachable import reachable_files
from tests.builders import (
    IDENTIFIER,
    data_file,
    deletion_vector,
    make_catalog,
    make_table,
    position_deletes,
)

EU, US = ("eu",), ("us",)
A = data_file("a", partition=EU, ids=(0, 9))
B = data_file("b", partition=US, ids=(0, 9))
NEW = data_file("new", partition=EU, ids=(0, 9))
ALL = pytest.mark.parametrize("version", [1, 2, 3])
DELETES = pytest.mark.parametrize("version", [2, 3])
MERGING = {"commit.manifest.min-count-to-merge": "1"}


def begin(version: int = 2, *files: Any, **properties: str) -> tuple[Any, Any]:
    catalog = make_catalog()
    table = make_table(catalog, version=version, partitioned=True, properties=properties)
    return catalog, commit(catalog, table, AppendFiles(added=files or (A, B))).table


def head(table: Any) -> int:
    return table.metadata.current_snapshot_id or 0


def positions(version: int, of: str, name: str = "d", partition: tuple[str, ...] = EU) -> Any:
    make = position_deletes if version < 3 else deletion_vector
    return make(name, of, partition=partition)


def entries(table: Any) -> dict[str, str]:
    """Path -> status, in the manifests of the current snapshot."""
    return {
        e.data_file.file_path: e.status.name
        for m in manifests_of(table, table.metadata.current_snapshot)
        for e in entries_of(table, m)
    }


def counts(table: Any) -> tuple[str, ...]:
    summary = table.metadata.current_snapshot.summary
    return tuple(summary[f"manifests-{what}"] for what in ("created", "kept", "replaced"))


def leftovers(catalog: Any) -> list[str]:
    table = catalog.load_table(IDENTIFIER)
    known = set(reachable_files(table))
    return [i.location for i in table.io.list_prefix(table.location) if i.location.endswith(".avro") and i.location not in known]


def two_specs(version: int, **properties: str) -> tuple[Any, Any]:
    """a and b in spec 0 (by region), c in spec 1 (by data)."""
    catalog, table = begin(version, **properties)
    region, by_data = PartitionField((3,), 1000, VOID, "region"), PartitionField((2,), 1001, IDENTITY, "data")
    table = commit(catalog, table, UpdateSpec(spec=PartitionSpec(1, (region, by_data)))).table
    return catalog, commit(catalog, table, AppendFiles(added=(data_file("c", spec_id=1, partition=(None, "x")),))).table
