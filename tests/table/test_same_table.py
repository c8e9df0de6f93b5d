"""Which states are states of one table: by their uuids, and where one has none by its history."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.deletion.gate import check_same_table
from iceberg_ops.errors import CommitStateUnknownError, ValidationError
from iceberg_ops.table.same_table import same_table
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, live_paths, make_catalog, make_table
from tests.catalog.wrappers import Meddles


def rewritten(catalog: MemoryCatalog, change: Callable[[dict[str, Any]], object]) -> Table:
    """The table, its metadata file changed by hand."""
    location = catalog.load_table(IDENTIFIER).metadata_location
    text = json.loads(catalog.io.read(location))
    change(text)
    catalog.io.write(location, json.dumps(text).encode(), overwrite=True)
    return catalog.load_table(IDENTIFIER)


def without_uuid() -> tuple[MemoryCatalog, Table]:
    """A v1 table as writers made it before tables had uuids."""
    catalog = make_catalog()
    make_table(catalog, version=1)
    return catalog, rewritten(catalog, lambda text: text.pop("table-uuid"))


def append(catalog: Any, table: Table, name: str, **more: Any) -> Table:
    return commit(catalog, table, AppendFiles(added=(data_file(name),), **more), sleep=lambda _: None).table


def test_the_loser_of_two_commits_that_give_a_table_its_uuid_tries_again() -> None:
    catalog, table = without_uuid()
    append(Meddles(catalog, lambda: append(catalog, table, "first")), table, "second")
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"first", "second"}


class LosesAnswers(Meddles):
    """The first swap happens, and nobody hears of it."""

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> Table:
        done = super().commit_table(table, requirements, updates)
        if not hasattr(self, "lost"):
            self.lost = True
            raise CommitStateUnknownError("no answer")
        return done


def test_a_lost_answer_is_found_in_the_table_that_got_its_uuid_by_the_commit() -> None:
    catalog, table = without_uuid()
    append(LosesAnswers(catalog), table, "x", run_key="k")
    append(catalog, table, "x", run_key="k")
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"x"}


def test_a_uuid_is_the_same_in_whatever_case() -> None:
    catalog = make_catalog()
    make_table(catalog)
    table = rewritten(catalog, lambda text: text.update({"table-uuid": text["table-uuid"].upper()}))

    def another_engine() -> None:
        commit(catalog, table, UpdateProperties(updates={"a": "b"}))
        rewritten(catalog, lambda text: text.update({"table-uuid": text["table-uuid"].lower()}))

    append(Meddles(catalog, another_engine), table, "x")
    now = catalog.load_table(IDENTIFIER)
    assert live_paths(now) == {"x"}
    check_same_table(table, now)


def test_the_log_tells_the_table_that_a_state_came_of_however_many_commits_later() -> None:
    catalog, table = without_uuid()
    for n in range(3):
        now = append(catalog, catalog.load_table(IDENTIFIER), f"f{n}")
    assert now.metadata.table_uuid
    assert same_table(table, now)
    assert same_table(now, table)


def test_a_shared_snapshot_tells_it_where_the_log_is_cut() -> None:
    catalog, _ = without_uuid()
    append(catalog, catalog.load_table(IDENTIFIER), "a")
    table = rewritten(catalog, lambda text: text.pop("table-uuid"))
    append(catalog, table, "b")
    now = rewritten(catalog, lambda text: text.update({"metadata-log": []}))
    assert now.metadata.table_uuid
    assert same_table(table, now)


@pytest.mark.parametrize("has_uuid", [True, False], ids=["with a uuid", "without"])
def test_a_table_that_is_made_again_under_its_name_is_another_one(has_uuid: bool) -> None:
    catalog, table = without_uuid()
    catalog.drop_table(IDENTIFIER)
    make_table(catalog, version=1)
    now = catalog.load_table(IDENTIFIER) if has_uuid else rewritten(catalog, lambda text: text.pop("table-uuid"))
    assert not same_table(table, now)
    with pytest.raises(ValidationError, match="is not the one this work was planned on"):
        append(catalog, table, "x")
    with pytest.raises(ValidationError, match="is another table now"):
        check_same_table(table, now)


def test_a_file_of_the_same_name_is_another_tables_where_its_time_is_another() -> None:
    """A filesystem catalog counts the versions of each table from 1."""
    catalog, table = without_uuid()
    append(catalog, table, "x")
    entry = {"metadata-file": table.metadata_location, "timestamp-ms": table.metadata.last_updated_ms - 1}
    now = rewritten(catalog, lambda text: text.update({"metadata-log": [entry]}))
    assert not same_table(table, now)
