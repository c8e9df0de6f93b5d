"""A table that is registered while jobs of other tables delete around its files keeps them, and does not block other jobs for
long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from iceberg_ops.actions import remove_orphan_files as job
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.deletion.leases import active_leases
from iceberg_ops.deletion.notes import deletion_noted
from iceberg_ops.errors import AlreadyExistsError, CatalogUnavailableError, TerminalError
from iceberg_ops.table.table import Table
from tests.actions.lake import Lake, make_lake, numbered
from tests.actions.test_housekeeping import later
from tests.builders import data_file, live_paths, make_table

DROPPED = ("ns", "dropped")
PLACES = {"below the other table": "inner", "around the other table": "", "formerly below it": "former"}


@pytest.fixture
def lake() -> Lake:
    lake = make_lake()
    lake.append(numbered(0, 10))
    return lake


def dropped(lake: Lake, place: str) -> Table:
    """A table that was dropped, with a live file in the folder of the lake's table."""
    folder = f"{lake.table.location}/{place}".rstrip("/")
    table = make_table(lake.catalog, identifier=DROPPED, properties={"write.data.path": folder})
    lake.catalog.io.write(f"{folder}/live.parquet", b"x")
    table = commit(lake.catalog, table, AppendFiles(added=(data_file(f"{folder}/live.parquet"),))).table
    if place == "former":
        elsewhere = UpdateProperties(updates={"write.data.path": "memory://elsewhere/data"})
        table = commit(lake.catalog, table, elsewhere).table
    lake.catalog.drop_table(DROPPED)
    return table


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_files_of_a_table_that_is_registered_after_a_look_at_all_tables_stay(
    lake: Lake, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = dropped(lake, place)
    looks = job._not_others

    def registered(*args: Any) -> Iterator[Any]:
        found = list(looks(*args))
        lake.catalog.register_table(DROPPED, table.metadata_location)
        yield from found

    monkeypatch.setattr(job, "_not_others", registered)
    lake.run("remove_orphan_files", now=lambda: later(9))
    now = lake.catalog.load_table(DROPPED)
    assert [path for path in live_paths(now) if not lake.catalog.io.exists(path)] == []


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_table_is_not_registered_while_another_deletes_where_its_files_lie(lake: Lake, place: str) -> None:
    table = dropped(lake, place)
    said = r"test\.ns\.dropped was not registered: a job is deleting files of table test\.ns\.t right now"
    with deletion_noted(lake.table), pytest.raises(CatalogUnavailableError, match=said):
        lake.catalog.register_table(DROPPED, table.metadata_location)
    assert active_leases(lake.table) == []
    lake.catalog.register_table(DROPPED, table.metadata_location)


def test_a_registration_that_is_refused_gives_its_leases_back(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = dropped(lake, "inner")

    def taken(*_: object) -> None:
        raise AlreadyExistsError("taken")

    monkeypatch.setattr(lake.catalog, "_insert_pointer", taken)
    with pytest.raises(AlreadyExistsError):
        lake.catalog.register_table(DROPPED, table.metadata_location)
    assert active_leases(lake.table) == []


def test_a_registered_table_may_be_dropped_with_its_files_at_once(lake: Lake) -> None:
    """The lease at the other table tells of its folders, and makes them none of the other's."""
    table = dropped(lake, "inner")
    lake.catalog.register_table(DROPPED, table.metadata_location)
    assert [lease.folders for lease in active_leases(lake.table)] == [(table.location, f"{lake.table.location}/inner")]
    assert lake.catalog.drop_table(DROPPED, purge=True).left == ()


def test_a_table_that_lies_apart_leaves_no_lease(lake: Lake) -> None:
    table = make_table(lake.catalog, identifier=DROPPED)
    lake.catalog.drop_table(DROPPED)
    lake.catalog.register_table(DROPPED, table.metadata_location)
    assert active_leases(lake.table) == []


def test_a_table_whose_registration_cannot_be_announced_is_not_registered(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = dropped(lake, "inner")
    write = type(lake.catalog.io).write

    def refuses(io: Any, location: str, data: bytes, **more: Any) -> None:
        if "/leases/" in location:
            raise PermissionError(13, "Permission denied", location)
        write(io, location, data, **more)

    monkeypatch.setattr(type(lake.catalog.io), "write", refuses)
    with pytest.raises(TerminalError, match="the note that warns jobs of that table cannot be written"):
        lake.catalog.register_table(DROPPED, table.metadata_location)
    assert not lake.catalog.table_exists(DROPPED)
