"""An expiry and another commit, each between the other's refresh and swap. Whichever comes first, no snapshot loses its partition
spec or schema, and committed retention settings take effect from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import expire
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties, UpdateSchema, UpdateSpec
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.refs import RollBack, SetCurrentSnapshot, SetRef
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import CommitFailedError, ValidationError
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.requirements import AssertRetention
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import STRING, NestedField
from iceberg_ops.table.table import Table
from tests.actions.lake import make_lake
from tests.builders import BY_REGION, IDENTIFIER, SCHEMA, data_file, live_paths, make_catalog, make_table
from tests.catalog.wrappers import Meddles

CLEAN = ExpireSnapshots(older_than_ms=2**60, retain_last=1, clean_expired_metadata=True)
BY_ID = PartitionSpec(0, (PartitionField((1,), 0, IDENTITY, "id"),))
LATE = data_file("late", spec_id=0)


def begin(version: int = 2) -> tuple[Any, Table]:
    """Spec 0 is unpartitioned and used by nothing; the default is spec 1, by region, and has files."""
    catalog = make_catalog()
    table = commit(catalog, make_table(catalog, version=version), UpdateSpec(spec=BY_REGION)).table
    for name in ("p", "q"):
        table = commit(catalog, table, AppendFiles(added=(data_file(name, partition=("a",), spec_id=1),))).table
    return catalog, table


def clean(catalog: Any) -> None:
    expire(catalog, catalog.load_table(IDENTIFIER), CLEAN)


def is_readable(catalog: Any) -> bool:
    """Every retained snapshot; and the head can be written to."""
    table = catalog.load_table(IDENTIFIER)
    for snapshot in table.metadata.snapshots:
        plan(table, Scan(snapshot_id=snapshot.snapshot_id))
    commit(catalog, table, DeleteFiles(paths=("p",)))
    return True


WRITERS: dict[str, Operation] = {
    "append": AppendFiles(added=(LATE,)),
    "fast append": AppendFiles(added=(LATE,), merge=False),
    "staged append": AppendFiles(added=(LATE,), staged=True, summary={"wap.id": "w"}),
    "append to a new branch": AppendFiles(added=(LATE,), branch="audit"),
    "overwrite": OverwriteFiles(added=(LATE,), removed=(data_file("p", partition=("a",), spec_id=1),), isolation=None),
    "row delta": RowDelta(added_data=(LATE,), isolation=None),
    "transaction": Transaction(operations=(UpdateProperties(updates={"x": "1"}), AppendFiles(added=(LATE,)))),
}


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_spec_that_is_cleaned_away_under_a_writer_is_missed_at_its_swap(writer: str, version: int) -> None:
    catalog, table = begin(version)
    with pytest.raises(ValidationError, match=r"Cannot commit files of partition spec 0 .* the spec was removed concurrently"):
        commit(Meddles(catalog, lambda: clean(catalog)), table, WRITERS[writer], sleep=lambda _: None)
    assert catalog.load_table(IDENTIFIER).metadata.specs_by_id.keys() == {1}
    assert is_readable(catalog)


def _rolled_back(catalog: Any) -> None:
    before = catalog.load_table(IDENTIFIER)
    commit(catalog, before, AppendFiles(added=(LATE,)))
    commit(catalog, catalog.load_table(IDENTIFIER), RollBack(snapshot_id=before.metadata.current_snapshot_id))


UNSEEN: dict[str, Callable[[Any], object]] = {
    "staged": lambda catalog: commit(catalog, catalog.load_table(IDENTIFIER), WRITERS["staged append"]),
    "rolled back": _rolled_back,
    "on a new branch": lambda catalog: commit(catalog, catalog.load_table(IDENTIFIER), WRITERS["append to a new branch"]),
}


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("unseen", UNSEEN)
def test_a_snapshot_that_comes_to_no_branch_during_an_expiry_keeps_its_spec(unseen: str, version: int) -> None:
    catalog, table = begin(version)
    just_specs = ExpireSnapshots(older_than_ms=0, clean_expired_metadata=True)
    expire(Meddles(catalog, lambda: UNSEEN[unseen](catalog)), table, just_specs)
    now = catalog.load_table(IDENTIFIER)
    assert now.metadata.specs_by_id.keys() == {0, 1}
    (late,) = (s for s in now.metadata.snapshots if s.snapshot_id not in table.metadata.snapshots_by_id)
    if unseen == "staged":
        commit(catalog, now, CherryPick(wap_id="w"))
    else:
        commit(catalog, now, SetCurrentSnapshot(snapshot_id=late.snapshot_id))
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"p", "q", "late"}
    assert is_readable(catalog)


def test_files_are_not_taken_for_those_of_another_spec_that_got_the_id() -> None:
    """A long job writes files by region; in the meantime an expiry removes that spec, and another spec (by id) gets its number."""
    catalog, job = begin()
    table = commit(catalog, job, DeleteFiles(paths=("p", "q"))).table
    table = commit(catalog, table, UpdateSpec(spec=UNPARTITIONED)).table
    commit(catalog, table, AppendFiles(added=(data_file("r", spec_id=0),)))

    def replace_spec() -> None:
        expire(catalog, catalog.load_table(IDENTIFIER), CLEAN)
        commit(catalog, catalog.load_table(IDENTIFIER), UpdateSpec(spec=BY_ID))

    late = AppendFiles(added=(data_file("late", partition=("a",), spec_id=1),))
    with pytest.raises(ValidationError, match="Cannot commit files of partition spec 1"):
        commit(Meddles(catalog, replace_spec), job, late, sleep=lambda _: None)
    assert catalog.load_table(IDENTIFIER).metadata.specs_by_id[1].fields[0].name == "id"
    with pytest.raises(ValidationError, match="Cannot commit files of partition spec 1"):
        commit(catalog, job, late)


def test_a_spec_that_a_transaction_adds_is_not_taken_for_another_where_an_expiry_frees_an_id() -> None:
    """Specs 1 and 2 are there, so the transaction's is 3; then 2 goes, so that it would be 2."""
    catalog, table = begin()
    table = commit(catalog, table, UpdateSpec(spec=BY_ID)).table
    table = commit(catalog, table, UpdateSpec(spec=BY_REGION)).table
    by_data = PartitionSpec(0, (PartitionField((2,), 0, IDENTITY, "data"),))
    both = Transaction(operations=(UpdateSpec(spec=by_data), AppendFiles(added=(data_file("l", partition=("d",), spec_id=3),))))
    with pytest.raises(ValidationError, match="partition spec 3 of a file to be committed is not in table"):
        commit(Meddles(catalog, lambda: clean(catalog)), table, both, sleep=lambda _: None)
    assert is_readable(catalog)
    assert commit(catalog, catalog.load_table(IDENTIFIER), UpdateSpec(spec=by_data)).table.metadata.default_spec_id == 2


def test_a_schema_that_is_cleaned_away_under_a_writer_is_missed_at_its_swap() -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    wider = Schema.of(*SCHEMA.fields, NestedField(4, "more", STRING))

    def meanwhile() -> None:
        commit(catalog, table, UpdateSchema(schema=wider))
        clean(catalog)

    done = commit(Meddles(catalog, meanwhile), table, AppendFiles(added=(data_file("c"),)), sleep=lambda _: None)
    assert done.snapshot is not None
    assert done.table.metadata.schemas_by_id.keys() == {1} == {done.snapshot.schema_id}


def test_an_equality_delete_by_a_column_that_is_dropped_and_cleaned_away_is_refused() -> None:
    lake = make_lake()
    lake.append([(1, "a", "x"), (2, "b", "x")])
    columns = lake.table.schema.fields
    table = commit(lake.catalog, lake.table, UpdateSchema(schema=Schema.of(*columns, NestedField(4, "k", STRING)))).table
    path = f"{table.location}/data/eq.parquet"
    keys = pa.table({"k": ["a"]}, pa.schema([pa.field("k", pa.string(), True, {"PARQUET:field_id": "4"})]))
    deletes = DataFile(
        content=FileContent.EQUALITY_DELETES, file_path=path, file_format=FileFormat.PARQUET, record_count=1,
        file_size_in_bytes=lake._write(table, path, keys), equality_ids=(4,),
    )  # fmt: skip

    def meanwhile() -> None:
        commit(lake.catalog, lake.table, UpdateSchema(schema=Schema.of(*columns)))
        expire(lake.catalog, lake.table, CLEAN)

    delta = RowDelta(added_deletes=(deletes,), starting_snapshot_id=table.metadata.current_snapshot_id)
    with pytest.raises(ValidationError, match="its equality field 4 is not in schema 0"):
        commit(Meddles(lake.catalog, meanwhile), table, delta, sleep=lambda _: None)
    assert scan_table(lake.table, None).num_rows == 2


def _kept(catalog: Any, operation: Callable[[int], Operation], expiry: ExpireSnapshots, **properties: str) -> bool:
    """Whether the first snapshot outlives an expiry during which ``operation`` is committed."""
    table = make_table(catalog, properties=properties)
    table = commit(catalog, table, AppendFiles(added=(data_file("a"),), timestamp_ms=1)).table
    first = table.metadata.current_snapshot_id or 0
    table = commit(catalog, table, SetRef(ref="audit", snapshot_id=first, max_ref_age_ms=1)).table
    table = commit(catalog, table, DeleteFiles(paths=("a",), timestamp_ms=2)).table
    meddling = Meddles(catalog, lambda: commit(catalog, catalog.load_table(IDENTIFIER), operation(first)))
    expire(meddling, table, expiry)
    return first in catalog.load_table(IDENTIFIER).metadata.snapshots_by_id


@pytest.mark.parametrize(
    "operation",
    [
        lambda first: SetRef(ref="audit", snapshot_id=first, replace_existing=True, max_ref_age_ms=2**62),
        lambda first: SetRef(ref="other", snapshot_id=first, type="tag"),
        lambda first: UpdateProperties(updates={"history.expire.max-snapshot-age-ms": str(2**62)}),
        lambda first: UpdateProperties(updates={"history.expire.min-snapshots-to-keep": "5"}),
        lambda first: SetRef(ref="main", snapshot_id=first, replace_existing=True),
    ],
    ids=["age of a branch", "tag", "age of snapshots", "number of snapshots", "main"],
)
def test_what_is_said_about_retention_during_an_expiry_holds(operation: Callable[[int], Operation]) -> None:
    properties = {"history.expire.max-snapshot-age-ms": "1"}
    assert not _kept(make_catalog(), lambda _: UpdateProperties(updates={"x": "1"}), ExpireSnapshots(), **properties)
    assert _kept(make_catalog(), operation, ExpireSnapshots(), **properties)


def test_an_expiry_during_which_garbage_collection_is_switched_off_removes_nothing() -> None:
    catalog = make_catalog()
    with pytest.raises(ValidationError, match="GC is disabled"):
        _kept(catalog, lambda _: UpdateProperties(updates={"gc.enabled": "false"}), CLEAN)
    assert len(catalog.load_table(IDENTIFIER).metadata.snapshots) == 2


def test_an_expiry_inside_a_transaction_is_decided_on_what_comes_before_it() -> None:
    catalog, table = begin()
    both = Transaction(operations=(AppendFiles(added=(data_file("n", partition=("a",), spec_id=1),)), CLEAN))
    other = AppendFiles(added=(data_file("o", partition=("a",), spec_id=1),))
    done = commit(Meddles(catalog, lambda: commit(catalog, table, other)), table, both, sleep=lambda _: None)
    assert done.attempts == 2
    assert live_paths(done.table) == {"p", "q", "n", "o"}
    assert len(done.table.metadata.snapshots) == 1


def test_a_change_of_other_properties_does_not_hold_up_an_expiry() -> None:
    catalog, table = begin()
    required = AssertRetention(table.metadata)
    required.check(commit(catalog, table, UpdateProperties(updates={"x": "1"})).table.metadata)
    with pytest.raises(CommitFailedError, match="retention properties changed since the expiry was planned"):
        required.check(commit(catalog, table, UpdateProperties(updates={"gc.enabled": "false"})).table.metadata)
