"""Which states belong to one table: by their uuids, their history and their location."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.metadata_updates import UpdateLocation, UpdateProperties
from iceberg_ops.commit.operations.refs import RollBack
from iceberg_ops.deletion.gate import check_same_table
from iceberg_ops.errors import CommitStateUnknownError, ValidationError
from iceberg_ops.spec.snapshots import MetadataLogEntry
from iceberg_ops.table.same_table import difference, same_origin, same_table
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
    """The first swap happens, and its answer is lost."""

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
    with pytest.raises(ValidationError, match="is now a different table"):
        check_same_table(table, now)


def test_a_file_of_the_same_name_is_another_tables_where_its_time_is_another() -> None:
    """A filesystem catalog counts the versions of each table from 1."""
    catalog, table = without_uuid()
    append(catalog, table, "x")
    entry = {"metadata-file": table.metadata_location, "timestamp-ms": table.metadata.last_updated_ms - 1}
    now = rewritten(catalog, lambda text: text.update({"metadata-log": [entry]}))
    assert not same_table(table, now)


def properties(catalog: MemoryCatalog, count: int) -> None:
    for n in range(count):
        commit(catalog, catalog.load_table(IDENTIFIER), UpdateProperties(updates={"n": f"{n}"}))


def of_log(length: str) -> tuple[MemoryCatalog, Table]:
    catalog = make_catalog()
    make_table(catalog, properties={"write.metadata.previous-versions-max": length})
    append(catalog, catalog.load_table(IDENTIFIER), "a")
    time.sleep(0.002)  # The clock has gone on by a millisecond.
    return catalog, append(catalog, catalog.load_table(IDENTIFIER), "b")


def moves(catalog: MemoryCatalog, table: Table) -> None:
    commit(catalog, table, UpdateLocation(location=f"{table.location}-moved"))


def moves_as_other_engines_do(catalog: MemoryCatalog, table: Table) -> None:
    """No property says where it was."""
    moves(catalog, table)
    rewritten(catalog, lambda text: text.update(properties=dict(table.properties)))


def rolls_back(catalog: MemoryCatalog, table: Table) -> None:
    commit(catalog, table, RollBack(snapshot_id=table.metadata.snapshots[0].snapshot_id))
    append(catalog, catalog.load_table(IDENTIFIER), "c")


def expires_everything(catalog: MemoryCatalog, table: Table) -> None:
    append(catalog, table, "c")
    commit(catalog, catalog.load_table(IDENTIFIER), ExpireSnapshots(older_than_ms=2**60, retain_last=1))


def logs_no_file(catalog: MemoryCatalog, table: Table) -> None:
    """Iceberg's specification says that writers should log the file that they replace."""
    append(catalog, table, "c")
    rewritten(catalog, lambda text: text["metadata-log"].pop())


def is_replaced(catalog: MemoryCatalog, table: Table) -> None:
    """CREATE OR REPLACE TABLE: the uuid and the history stay, and main begins again."""
    append(catalog, table, "c")
    rewritten(catalog, lambda text: [text["snapshots"][-1].pop("parent-snapshot-id"), text.update({"snapshot-log": []})])


@pytest.mark.parametrize("length", ["100", "1"], ids=["long log", "log of one version"])
@pytest.mark.parametrize("then", [0, 3], ids=["at once", "three commits later"])
@pytest.mark.parametrize("change", [moves, rolls_back, expires_everything, is_replaced])
def test_a_table_is_the_same_whatever_is_committed_to_it(
    change: Callable[[MemoryCatalog, Table], object], then: int, length: str
) -> None:
    catalog, table = of_log(length)
    change(catalog, table)
    properties(catalog, then)
    now = catalog.load_table(IDENTIFIER)
    assert difference(table, now) is None
    assert difference(now, table) is None


def logs_none_of_two_files(catalog: MemoryCatalog, table: Table) -> None:
    """It keeps the log that it found (pyiceberg before 0.9), and then one that logs commits."""
    for name in ("c", "d"):
        log = [vars_of(entry) for entry in catalog.load_table(IDENTIFIER).metadata.metadata_log]
        append(catalog, catalog.load_table(IDENTIFIER), name)
        rewritten(catalog, lambda text, log=log: text.update({"metadata-log": log}))  # type: ignore[misc]
    append(catalog, catalog.load_table(IDENTIFIER), "e")


def vars_of(entry: MetadataLogEntry) -> dict[str, Any]:
    return {"metadata-file": entry.metadata_file, "timestamp-ms": entry.timestamp_ms}


@pytest.mark.parametrize("change", [moves_as_other_engines_do, logs_no_file, logs_none_of_two_files])
def test_a_table_that_another_engine_committed_to_is_the_same(change: Callable[[MemoryCatalog, Table], object]) -> None:
    catalog, table = of_log("100")
    change(catalog, table)
    now = catalog.load_table(IDENTIFIER)
    assert difference(table, now) is None
    assert difference(now, table) is None


def test_a_table_whose_move_nothing_shows_may_be_a_copy() -> None:
    catalog, table = of_log("1")
    moves_as_other_engines_do(catalog, table)
    properties(catalog, 3)
    now = catalog.load_table(IDENTIFIER)
    assert difference(table, now) == (
        f"its location is {table.location}-moved, was {table.location}, and its metadata log does not show where it was; both have "
        f"uuid {table.metadata.table_uuid}"
    )
    assert same_origin(table, now)


def test_spellings_of_one_metadata_file_are_no_parting() -> None:
    """Another engine logs the file as it spells the warehouse."""
    catalog, table = of_log("100")
    append(catalog, table, "c")
    properties(catalog, 1)

    def respelled(text: dict[str, Any]) -> None:
        for entry in text["metadata-log"]:
            entry["metadata-file"] = entry["metadata-file"].replace("memory://warehouse/", "memory://warehouse//./")

    now = rewritten(catalog, respelled)
    assert difference(table, now) is None


def test_a_copy_that_went_its_own_way_is_another_table_of_the_same_origin() -> None:
    catalog, table = of_log("100")
    fork = catalog.load_table(IDENTIFIER).metadata_location
    properties(catalog, 2)
    known = catalog.load_table(IDENTIFIER)
    catalog._pointers[IDENTIFIER] = fork
    properties(catalog, 2)
    now = catalog.load_table(IDENTIFIER)
    assert (difference(known, now) or "").startswith(f"its history went on from {fork} with ")
    assert difference(table, now) is None, "both came of it"
    assert same_origin(known, now)
