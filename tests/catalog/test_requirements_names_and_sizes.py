"""Every catalog: each requirement is refused, namespaces have properties, names may be odd and metadata big, and threads commit at
the same time. What a kind of catalog cannot do is listed here by name."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.glue.glue_catalog import GlueCatalog
from iceberg_ops.catalog.hive.hive_catalog import HiveCatalog
from iceberg_ops.catalog.nessie.nessie_catalog import NessieCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.errors import (
    AlreadyExistsError,
    CommitFailedError,
    CommitStateUnknownError,
    IcebergOpsError,
    NoSuchNamespaceError,
    UnsupportedError,
)
from iceberg_ops.spec.requirements import (
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUUID,
    TableRequirement,
)
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from iceberg_ops.spec.updates import SetProperties
from tests.builders import IDENTIFIER, data_file, live_paths, make_table
from tests.catalog.every_catalog import EVERY, keeps_one_snapshot

BROKEN: Sequence[tuple[TableRequirement, str]] = (
    (AssertTableUUID("00000000-0000-0000-0000-000000000000"), "table uuid has changed"),
    (AssertRefSnapshotId("main", 7), "ref main has changed"),
    (AssertLastAssignedFieldId(7), "last assigned field id has changed"),
    (AssertCurrentSchemaId(7), "current schema id has changed"),
    (AssertLastAssignedPartitionId(7), "last assigned partition id has changed"),
    (AssertDefaultSpecId(7), "default spec id has changed"),
    (AssertDefaultSortOrderId(7), "default sort order id has changed"),
)


def test_a_commit_is_refused_by_each_requirement_that_does_not_hold(catalog: Any) -> None:
    table = make_table(catalog, partitioned=True)
    change = [SetProperties({"a": "1"})]
    for requirement, text in BROKEN:
        with pytest.raises(CommitFailedError, match=text):
            catalog.commit_table(table, [requirement], change)
    with pytest.raises((CommitFailedError, AlreadyExistsError), match="already exists"):
        catalog.commit_table(table, [AssertCreate()], change)
    assert catalog.load_table(IDENTIFIER).metadata_location == table.metadata_location
    now = table.metadata
    holding: list[TableRequirement] = [
        AssertTableUUID(now.table_uuid),
        AssertRefSnapshotId("main", None),
        AssertLastAssignedFieldId(now.last_column_id),
        AssertCurrentSchemaId(now.current_schema_id),
        AssertLastAssignedPartitionId(now.last_partition_id),
        AssertDefaultSpecId(now.default_spec_id),
        AssertDefaultSortOrderId(now.default_sort_order_id),
    ]
    assert catalog.commit_table(table, holding, change).properties["a"] == "1"


def test_a_namespace_keeps_the_properties_that_it_is_made_with(catalog: Any) -> None:
    given = {"owner.team": "us", "note": "with spaces, é and 'quotes'"}
    if isinstance(catalog, FileSystemCatalog):
        with pytest.raises(UnsupportedError, match="because a folder has none"):
            catalog.create_namespace(("made",), given)
    else:
        catalog.create_namespace(("made",), given)
        assert catalog.namespace_properties(("made",)).items() >= given.items()
    assert not catalog.namespace_properties(("ns",)).keys() & given.keys()
    with pytest.raises(NoSuchNamespaceError, match="nowhere"):
        catalog.namespace_properties(("nowhere",))


ODD = ("a b", "a%2Fb", "a'b\"c", "тест", "x.y", "metadata", "1a", "_", "a" * 120)


def _refused(catalog: Any) -> set[str]:
    """The odd names that a kind of catalog does not take."""
    if isinstance(catalog, HiveCatalog | GlueCatalog):
        return {"a b", "a%2Fb", "a'b\"c", "тест", "x.y"}
    return set()


def test_an_odd_name_is_taken_as_it_is_or_refused_without_a_trace(catalog: Any) -> None:
    for name in ODD:
        identifier = ("ns", name)
        if name in _refused(catalog):
            with pytest.raises(IcebergOpsError) as refused:
                make_table(catalog, identifier=identifier)
            assert not isinstance(refused.value, CommitStateUnknownError)
            assert not catalog.table_exists(identifier)
            continue
        table = make_table(catalog, identifier=identifier)
        assert catalog.list_tables(("ns",)) == [identifier]
        commit(catalog, table, AppendFiles(added=(data_file("a"),)))
        assert live_paths(catalog.load_table(identifier)) == {"a"}
        catalog.drop_table(identifier, purge=not (isinstance(catalog, NessieCatalog) or keeps_one_snapshot(catalog)))
    assert catalog.list_tables(("ns",)) == []


COLUMNS, WORDS = 400, 2_000
LONG_VALUE = "v" * 600_000
"""More than a parameter of Hive's (32,672 characters) or of Glue's (512,000) may have."""


def test_several_megabytes_of_metadata_are_kept_whole(catalog: Any) -> None:
    """Columns with long comments, and a property that services cannot record: they show a part, the metadata has all of it."""
    columns = [NestedField(n, f"c{n}", STRING, doc=f"{n} " * WORDS) for n in range(2, COLUMNS + 2)]
    made = catalog.create_table(IDENTIFIER, Schema.of(NestedField(1, "id", LONG, True), *columns), properties={"long": LONG_VALUE})
    commit(catalog, made, AppendFiles(added=(data_file("a"),)))
    done = commit(catalog, made, UpdateProperties(updates={"more": LONG_VALUE, "short": "1"})).table
    found = catalog.load_table(IDENTIFIER)
    assert found.metadata == done.metadata
    assert (found.properties["long"], found.properties["more"], found.properties["short"]) == (LONG_VALUE, LONG_VALUE, "1")
    assert found.schema == made.schema
    assert live_paths(found) == {"a"}


THREADS, COMMITS = 4, 25 if EVERY else 2


def test_threads_that_commit_at_the_same_time_lose_nothing(catalog: Any) -> None:
    patient = {"commit.retry.num-retries": "200", "commit.retry.min-wait-ms": "5", "commit.retry.max-wait-ms": "100"}
    table = make_table(catalog, properties=patient)

    def appends(worker: int) -> None:
        for n in range(COMMITS):
            commit(catalog, catalog.load_table(IDENTIFIER), AppendFiles(added=(data_file(f"{worker}/{n}"),)))

    with ThreadPoolExecutor(THREADS) as threads:
        for done in [threads.submit(appends, worker) for worker in range(THREADS)]:
            done.result()
    now = catalog.load_table(IDENTIFIER)
    assert live_paths(now) == {f"{worker}/{n}" for worker in range(THREADS) for n in range(COMMITS)}
    assert now.metadata.table_uuid == table.metadata.table_uuid
    if not keeps_one_snapshot(catalog):
        assert [s.sequence_number for s in now.metadata.snapshots] == list(range(1, THREADS * COMMITS + 1))
