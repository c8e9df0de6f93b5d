"""Another engine replaces a table (CREATE OR REPLACE TABLE): its uuid stays, a column has the id of the former one of its name,
whatever their types, and main begins again. Nothing that was written for the former columns gets into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from iceberg_ops.commit.append_files import AppendFiles
from iceberg_ops.commit.appended_manifests import write_manifests_to_append
from iceberg_ops.commit.cherry_pick import CherryPick
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.metadata_updates import UpdateSchema
from iceberg_ops.commit.operation import Operation
from iceberg_ops.commit.refs import SetRef
from iceberg_ops.commit.transaction import Transaction
from iceberg_ops.errors import ValidationError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, SCHEMA, data_file, live_files, make_catalog, make_table
from tests.catalog.wrappers import Meddles
from tests.commit.scenarios import RETYPED_SCHEMA, Replaced

STRICT = Schema.of(*SCHEMA.fields, NestedField(4, "more", LONG, True))


def replaced(catalog: Any, schema: Schema = RETYPED_SCHEMA) -> Table:
    return commit(catalog, catalog.load_table(IDENTIFIER), Replaced(schema=schema, is_empty=True)).table


def staged(catalog: Any, table: Table, wap_id: str = "w") -> tuple[Table, int]:
    """The table with a staged snapshot, and its id."""
    append = AppendFiles(added=(data_file(wap_id),), merge=False, staged=True, summary={"wap.id": wap_id})
    done = commit(catalog, table, append)
    assert done.snapshot is not None
    return done.table, done.snapshot.snapshot_id


LATE: dict[str, Callable[[Table, int], Operation]] = {
    "append": lambda table, _: AppendFiles(added=(data_file("late"),)),
    "append to a branch": lambda table, _: AppendFiles(added=(data_file("late"),), branch="audit"),
    "append of manifests": lambda table, _: AppendFiles(manifests=tuple(write_manifests_to_append(table, [data_file("late")]))),
    "staged append": lambda table, _: AppendFiles(added=(data_file("late"),), staged=True),
    "publication": lambda table, _: CherryPick(wap_id="w"),
    "pick for a branch": lambda table, picked: CherryPick(snapshot_id=picked, branch="audit"),
}


@pytest.mark.parametrize("when", ["before the first attempt", "between stage and swap"])
@pytest.mark.parametrize("is_empty", [False, True], ids=["with rows", "empty"])
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("late", LATE)
def test_files_of_former_columns_are_refused(late: str, version: int, is_empty: bool, when: str) -> None:
    catalog = make_catalog()
    table = make_table(catalog, version=version)
    if not is_empty:
        table = commit(catalog, table, AppendFiles(added=(data_file("a"),))).table
    table, picked = staged(catalog, table)
    if "branch" in late:
        table = commit(catalog, table, SetRef(ref="audit", snapshot_id=picked)).table
        table = commit(catalog, table, AppendFiles(added=(data_file("b"),), branch="audit")).table
    if late == "pick for a branch":
        table, picked = staged(catalog, table, "x")
    operation = LATE[late](table, picked)
    if when == "before the first attempt":
        replaced(catalog)
    meddling = Meddles(catalog, *([] if when == "before the first attempt" else [lambda: replaced(catalog)]))
    with pytest.raises(ValidationError, match=r"column 'data' \(field 2\) is of type long, and was string when"):
        commit(meddling, table, operation, sleep=lambda _: None)
    after = catalog.load_table(IDENTIFIER)
    assert after.metadata.current_snapshot_id is None
    assert after.metadata.ref("audit") == table.metadata.ref("audit")


def test_a_staged_snapshot_without_a_column_that_is_required_now_is_not_published() -> None:
    catalog = make_catalog()
    table, _ = staged(catalog, make_table(catalog))
    replaced(catalog, STRICT)
    with pytest.raises(ValidationError, match=r"column 'more' \(field 4\) is required, and was not there when it was written"):
        commit(catalog, table, CherryPick(wap_id="w"))


def test_a_staged_snapshot_is_published_where_its_columns_are_read() -> None:
    catalog = make_catalog()
    table, _ = staged(catalog, make_table(catalog))
    replaced(catalog, Schema.of(*SCHEMA.fields, NestedField(4, "more", LONG)))
    assert set(live_files(commit(catalog, table, CherryPick(wap_id="w")).table)) == {"w"}


@pytest.mark.parametrize("attempts", [1, 2])
def test_files_of_a_transaction_are_written_by_the_schema_that_it_makes(attempts: int) -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    others = [lambda: commit(catalog, table, AppendFiles(added=(data_file("other"),)))] * (attempts - 1)
    full = replace(data_file("new"), null_value_counts={4: 0})
    operation = Transaction(operations=(UpdateSchema(schema=STRICT), AppendFiles(added=(full,))))
    done = commit(Meddles(catalog, *others), table, operation, sleep=lambda _: None)
    assert (done.attempts, "new" in live_files(done.table)) == (attempts, True)


@pytest.mark.parametrize("when", ["before the first attempt", "between stage and swap"])
def test_files_of_a_transaction_are_written_by_the_schema_that_another_commit_made_before_it(when: str) -> None:
    """The same change of schema: the transaction's own one changes nothing then."""
    catalog = make_catalog()
    table = make_table(catalog)
    others = [lambda: commit(catalog, table, UpdateSchema(schema=STRICT))]
    if when == "before the first attempt":
        others.pop()()
    full = replace(data_file("new"), null_value_counts={4: 0})
    operation = Transaction(operations=(UpdateSchema(schema=STRICT), AppendFiles(added=(full,))))
    done = commit(Meddles(catalog, *others), table, operation, sleep=lambda _: None)
    assert set(live_files(done.table)) == {"new"}
    assert done.table.schema.struct == STRICT.struct
