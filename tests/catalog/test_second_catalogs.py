"""A second catalog registered a table and commits to it: no job of the first deletes files that the second one needs."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.catalog.next_metadata import next_metadata
from iceberg_ops.catalog.second_catalogs import forbid_second_catalog
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.errors import UnsupportedError, ValidationError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.serde.json.metadata_json import metadata_to_json
from iceberg_ops.spec.snapshots import MetadataLogEntry
from iceberg_ops.spec.updates import SetProperties
from iceberg_ops.table.metadata_files import new_metadata_location, write_metadata
from tests.actions.lake import Lake
from tests.builders import IDENTIFIER, make_table
from tests.deletion.test_copies_of_the_table import append, diverged, exchange_names, with_paths_rewritten

GOES_ON = "another catalog has the table too and commits to it"
ROWS = [(1, "a", "x"), (2, "b", "x"), (3, "c", "x")]


def later() -> int:
    """In five days: what is written now is old enough for every default."""
    return time.time_ns() // 1_000_000 + 5 * 86_400_000


def filesystem(folder: Path, name: str = "fs") -> Any:
    return FileSystemCatalog(name, LocalFileIO(), warehouse=f"{folder}/wh")


def sql(folder: Path, name: str = "lake") -> Any:
    return SqlCatalog(name, f"sqlite:///{folder}/catalog.db", LocalFileIO(), warehouse=f"{folder}/wh")


def moved(old: Any, new: Any, appends: int = 2) -> tuple[Lake, Lake]:
    """A table of ``old`` with one row that was registered in ``new`` and got a row by each of ``appends`` there."""
    for catalog in (old, new):
        catalog.create_namespace(("ns",))
    make_table(old)
    first, second = Lake(old), Lake(new)
    first.append([ROWS[0]])
    new.register_table(IDENTIFIER, first.table.metadata_location)
    for row in ROWS[1 : 1 + appends]:
        second.append([row])
    return first, second


DESTROY: dict[str, Any] = {
    "orphans": lambda lake: lake.run("remove_orphan_files", now=later),
    "expiry": lambda lake: lake.run("expire_snapshots", now=later, retain_last=1),
    "purge": lambda lake: lake.catalog.drop_table(IDENTIFIER, purge=True),
}


@pytest.mark.parametrize("job", DESTROY)
@pytest.mark.parametrize("appends", [1, 2])
def test_a_table_that_moved_from_a_filesystem_catalog_loses_no_file_to_its_old_name(tmp_path: Path, job: str, appends: int) -> None:
    old, new = moved(filesystem(tmp_path), sql(tmp_path), appends)
    with pytest.raises(UnsupportedError, match=GOES_ON) as refused:
        DESTROY[job](old)
    assert r"v<N>.metadata.json and version-hint.text" in str(refused.value)
    assert new.rows() == ROWS[: 1 + appends]
    assert old.rows() == ROWS[:1]


def test_no_row_is_added_under_the_old_name_of_a_filesystem_catalog(tmp_path: Path) -> None:
    old, _ = moved(filesystem(tmp_path), sql(tmp_path))
    with pytest.raises(UnsupportedError, match=GOES_ON):
        old.run("rewrite_data_files", now=later, rewrite_all=True)


@pytest.mark.parametrize("job", DESTROY)
def test_a_table_that_its_filesystem_catalog_goes_on_with_loses_no_file_to_its_new_name(tmp_path: Path, job: str) -> None:
    old, new = moved(filesystem(tmp_path), sql(tmp_path))
    old.append([(4, "d", "x")])
    with pytest.raises(UnsupportedError, match=GOES_ON):
        DESTROY[job](new)
    assert old.rows() == [ROWS[0], (4, "d", "x")]


@pytest.mark.parametrize("job", DESTROY)
def test_a_table_of_two_sql_catalogs_loses_no_file_to_the_one_that_stayed_behind(tmp_path: Path, job: str) -> None:
    old, new = moved(sql(tmp_path), sql(tmp_path, "other"))
    with pytest.raises(UnsupportedError, match=GOES_ON) as refused:
        DESTROY[job](old)
    assert "drop it without purge" in str(refused.value)
    assert new.rows() == ROWS
    old.catalog.drop_table(IDENTIFIER)
    DESTROY[job](new)


@pytest.mark.parametrize("job", DESTROY)
def test_a_catalog_that_is_behind_in_versions_loses_no_file_either(tmp_path: Path, job: str) -> None:
    """The other one has committed more often, and compacted, so that the shared files are live only where it is behind."""
    old, new = moved(sql(tmp_path), sql(tmp_path, "other"))
    for number in range(4, 8):
        old.append([(number, "e", "x")])
    old.run("rewrite_data_files", now=later, rewrite_all=True)
    with pytest.raises(UnsupportedError, match=GOES_ON):
        DESTROY[job](old)
    assert new.rows() == ROWS


@pytest.mark.parametrize("job", DESTROY)
def test_a_catalog_that_commits_more_seldom_loses_no_file_though_its_versions_are_long_past_here(tmp_path: Path, job: str) -> None:
    """Its last commit came just now. The numbers in the names of its files are lower than all in the log of the first."""
    old, new = moved(sql(tmp_path), sql(tmp_path, "other"), appends=1)
    commit(old.catalog, old.table, UpdateProperties(updates={"write.metadata.previous-versions-max": "5"}))
    for number in range(4, 12):
        old.append([(number, "e", "x")])
    new.append([ROWS[2]])
    old.run("rewrite_data_files", now=later, rewrite_all=True)
    with pytest.raises(UnsupportedError, match=GOES_ON):
        DESTROY[job](old)
    assert new.rows() == ROWS


@pytest.mark.parametrize("job", DESTROY)
def test_what_a_slow_commit_that_died_was_built_on_may_have_left_the_log(tmp_path: Path, job: str) -> None:
    catalog = sql(tmp_path)
    catalog.create_namespace(("ns",))
    make_table(catalog, properties={"write.metadata.previous-versions-max": "2"})
    lake = Lake(catalog)
    begun = lake.append([ROWS[0]])
    for row in ROWS[1:]:
        lake.append([row])
    lake.append([(4, "d", "x")])
    at, place = time.time_ns() // 1_000_000 + 1, new_metadata_location(begun.metadata, 3)
    change = [SetProperties({"a": "b"})]
    died = next_metadata(begun.metadata, (), change, now_ms=at, metadata_location=begun.metadata_location)
    write_metadata(lake.table.io, place, died)
    oldest = lake.table.metadata.metadata_log[0]
    assert begun.metadata.last_updated_ms < oldest.timestamp_ms < at
    DESTROY[job](lake)
    if job != "purge":
        assert lake.rows() == [*ROWS, (4, "d", "x")]


@pytest.mark.parametrize("job", DESTROY)
def test_a_name_that_has_not_committed_yet_deletes_nothing_of_the_filesystem_catalogs(tmp_path: Path, job: str) -> None:
    """It is registered at ``v<N>``, and that catalog makes one commit."""
    old, new = moved(filesystem(tmp_path), sql(tmp_path), appends=0)
    old.append([ROWS[1]])
    with pytest.raises(UnsupportedError, match=GOES_ON):
        DESTROY[job](new)
    assert old.rows() == ROWS[:2]


@pytest.mark.parametrize("name", ["a1b2c3d4", "12345678"])
def test_what_a_killed_commit_of_javas_left_in_a_filesystem_catalog_is_no_second_catalog(tmp_path: Path, name: str) -> None:
    """Java writes a version as ``<uuid>.metadata.json``, and then gives it its name."""
    catalog = filesystem(tmp_path)
    catalog.create_namespace(("ns",))
    make_table(catalog)
    lake = Lake(catalog)
    lake.append([ROWS[0]])
    current = Path(lake.table.metadata_location)
    text = json.loads(current.read_text())
    log = [*text.get("metadata-log", []), {"metadata-file": str(current), "timestamp-ms": text["last-updated-ms"]}]
    left = current.with_name(f"{name}-8d3a-4d94-9bd2-a4d2fff7ee23.metadata.json")
    left.write_text(json.dumps(text | {"metadata-log": log, "last-updated-ms": text["last-updated-ms"] + 1}))
    lake.append([ROWS[1]])
    assert lake.run("rewrite_data_files", now=later, rewrite_all=True).status == "committed"
    assert lake.run("remove_orphan_files", now=later).status == "committed"
    assert not left.exists()
    assert lake.rows() == ROWS[:2]


def test_the_new_name_is_maintained_as_ever(tmp_path: Path) -> None:
    _, new = moved(filesystem(tmp_path), sql(tmp_path))
    assert new.run("rewrite_data_files", now=later, rewrite_all=True).status == "committed"
    assert new.run("expire_snapshots", now=later, retain_last=1).status == "committed"
    new.run("remove_orphan_files", now=later)
    assert new.rows() == ROWS


def test_the_old_name_is_free_once_its_versions_are_moved_away(tmp_path: Path) -> None:
    old, new = moved(filesystem(tmp_path), sql(tmp_path))
    aside = tmp_path / "aside"
    aside.mkdir()
    for path in (tmp_path / "wh/ns/t/metadata").iterdir():
        if path.name.startswith("v"):
            shutil.move(path, aside)
    assert not old.catalog.table_exists(IDENTIFIER)
    assert new.run("remove_orphan_files", now=later).status == "nothing-to-do"
    assert new.rows() == ROWS


def test_an_earlier_state_that_was_registered_again_is_maintained_once_the_later_files_are_gone(tmp_path: Path) -> None:
    catalog = sql(tmp_path)
    catalog.create_namespace(("ns",))
    make_table(catalog)
    lake, states = Lake(catalog), list[str]()
    for row in ROWS:
        states.append(lake.append([row]).metadata_location)
    catalog.drop_table(IDENTIFIER)
    catalog.register_table(IDENTIFIER, states[0])
    with pytest.raises(UnsupportedError, match="an earlier state was registered again") as refused:
        lake.run("remove_orphan_files", now=later)
    assert states[2] in str(refused.value)
    for location in states[1:]:
        Path(location).unlink()
    assert lake.run("remove_orphan_files", now=later).status == "committed"
    assert lake.rows() == ROWS[:1]


@pytest.mark.parametrize("lists_itself", [False, True])
def test_what_a_commit_that_died_has_left_is_no_second_catalog(tmp_path: Path, lists_itself: bool) -> None:
    """``lists_itself``: ClickHouse enters a metadata file in its own metadata log."""
    catalog = sql(tmp_path)
    catalog.create_namespace(("ns",))
    make_table(catalog)
    lake = Lake(catalog)
    table = lake.append([ROWS[0]])
    died = lake.append([ROWS[1]])
    catalog._swap_pointer(IDENTIFIER, died.metadata_location, table.metadata_location)
    left = Path(died.metadata_location)
    if lists_itself:
        own = MetadataLogEntry(died.metadata.last_updated_ms, died.metadata_location)
        written = replace(died.metadata, metadata_log=(*died.metadata.metadata_log, own))
        left.write_bytes(metadata_to_json(written))
    assert lake.run("remove_orphan_files", now=later).status == "committed"
    assert not left.exists()
    assert lake.rows() == ROWS[:1]


def test_commits_between_loading_and_looking_are_no_second_catalog(tmp_path: Path) -> None:
    """The job loads the table, others commit, and only then it looks into the folder."""
    catalog = sql(tmp_path)
    catalog.create_namespace(("ns",))
    make_table(catalog)
    lake = Lake(catalog)
    lake.append([ROWS[0]])
    lake.append([(4, "d", "x")])

    class Hasty:
        loads = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(catalog, name)

        def load_table(self, identifier: tuple[str, ...]) -> Any:
            table = catalog.load_table(identifier)
            self.loads += 1
            if self.loads == 1:
                lake.append([ROWS[1]])
                lake.append([ROWS[2]])
            return table

    assert Lake(Hasty()).run("expire_snapshots", now=later, retain_last=1).status == "committed"
    assert lake.rows() == [*ROWS, (4, "d", "x")]


def test_a_copy_that_takes_the_name_between_two_looks_is_another_table_and_no_second_catalog() -> None:
    catalog = diverged(with_paths_rewritten, "1")
    for file in "efg":
        append(catalog, IDENTIFIER, file)
    table = catalog.load_table(IDENTIFIER)
    exchange_names(catalog)
    with pytest.raises(ValidationError, match="is now a different table"):
        forbid_second_catalog(catalog, table)


@pytest.mark.parametrize("filesystem_first", [True, False])
def test_a_purge_of_a_folder_spares_the_table_that_another_catalog_has_there(tmp_path: Path, filesystem_first: bool) -> None:
    """Two catalogs share a warehouse, and each has a table of the name."""
    mine, theirs = filesystem(tmp_path), sql(tmp_path)
    for catalog in (mine, theirs):
        catalog.create_namespace(("ns",))
    for catalog in (mine, theirs) if filesystem_first else (theirs, mine):
        make_table(catalog)
        Lake(catalog).append([(1, catalog.name, "x")])
    with pytest.raises(UnsupportedError, match=r"is metadata of another table \(uuid "):
        mine.drop_table(IDENTIFIER, purge=True)
    assert Lake(mine).rows() == [(1, "fs", "x")]
    assert Lake(theirs).rows() == [(1, "lake", "x")]
    theirs.drop_table(IDENTIFIER, purge=True)
    mine.drop_table(IDENTIFIER, purge=True)
    assert not mine.table_exists(IDENTIFIER)


def test_a_table_that_became_a_filesystem_catalogs_by_hand_is_maintained_as_ever(tmp_path: Path) -> None:
    """Its old metadata files lie beside the versions, and the one that became version 1 twice."""
    catalog = sql(tmp_path)
    catalog.create_namespace(("ns",))
    make_table(catalog)
    old = Lake(catalog)
    for row in ROWS:
        old.append([row])
    place = Path(old.table.metadata_location)
    shutil.copy(place, place.with_name("v1.metadata.json"))
    new = Lake(filesystem(tmp_path))
    new.append([(4, "d", "x")])
    assert new.run("expire_snapshots", now=later, retain_last=1).status == "committed"
    new.run("remove_orphan_files", now=later)
    assert new.rows() == [*ROWS, (4, "d", "x")]
    new.catalog.drop_table(IDENTIFIER, purge=True)
    assert not list(tmp_path.glob("wh/ns/t/**/*.parquet"))


def test_a_store_without_folders_is_looked_at_too() -> None:
    io = MemoryFileIO("second-catalogs")
    old, new = moved(MemoryCatalog("test", io), MemoryCatalog("other", io))
    with pytest.raises(UnsupportedError, match=GOES_ON):
        DESTROY["orphans"](old)
    assert new.rows() == ROWS
