"""A table is created around a folder while another table imports from it: either the new table deletes none of the files, or the
import is refused."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.actions import add_files
from iceberg_ops.actions.import_folder import import_folder
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.deletion.leases import Lease, acquire_lease, release_lease
from iceberg_ops.errors import AlreadyExistsError, IncompleteError, NoSuchTableError, UnsupportedError, ValidationError
from iceberg_ops.io.local import LocalFileIO
from tests.actions.lake import NOW, Lake
from tests.actions.test_housekeeping import later
from tests.builders import SCHEMA, make_table, sql_catalog
from tests.catalog.test_imported_folders import place

CONFIG = CatalogConfig(name="test", type="sql")


class World:
    """Table ``ns.t`` imports from ``landing/in``; others do something while footers are read, or after the last look."""

    def __init__(self, tmp_path: Path) -> None:
        self.io = LocalFileIO()
        self.catalog = sql_catalog(tmp_path, self.io, name="test")
        self.catalog.create_namespace(("ns",))
        make_table(self.catalog)
        self.lake = Lake(self.catalog)
        self.landing = f"{tmp_path}/landing"
        self.folder = place(self.lake, f"{self.landing}/in")
        self.file = f"{self.folder}/x.parquet"
        os.utime(self.file, (1, 1))

    def around(self, location: str | None = None) -> Lake:
        properties = {"format-version": "2"}
        self.catalog.create_table(("ns", "around"), SCHEMA, location=location or self.landing, properties=properties)
        return Lake(self.catalog, ("ns", "around"), itertools.count(100))

    def makes_and_cleans(self) -> None:
        self.around().run("remove_orphan_files", now=lambda: later(4))

    def cleans_and_drops(self) -> None:
        self.makes_and_cleans()
        self.catalog.drop_table(("ns", "around"), purge=True)

    def imports(self) -> Any:
        return self.lake.run("add_files", source_path=self.folder, now=lambda: later(4))

    def creates(self) -> Any:
        return import_folder(self.catalog, CONFIG, "test.ns.new", self.folder)

    def creation_is_refused(self, error: type[Exception], match: str) -> None:
        with pytest.raises(error, match=match):
            self.creates()
        with pytest.raises(NoSuchTableError):
            self.catalog.load_table(("ns", "new"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def while_footers_are_read(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """``work`` is done once, when the footers of an import are read."""
    real, left = add_files._plan, [work]

    def plan(*arguments: Any) -> Any:
        found = real(*arguments)
        if left:
            left.pop()()
        return found

    monkeypatch.setattr(add_files, "_plan", plan)


def test_the_files_stay_and_an_import_into_the_folder_of_the_new_table_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_footers_are_read(monkeypatch, world.makes_and_cleans)
    with pytest.raises(UnsupportedError, match=r"a folder of table test\.ns\.around"):
        world.imports()
    assert os.path.exists(world.file)
    assert world.lake.rows() == []


def test_the_files_stay_and_are_imported_where_the_new_table_is_dropped_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_footers_are_read(monkeypatch, world.cleans_and_drops)
    world.imports()
    assert len(world.lake.rows()) == 2


@pytest.mark.parametrize("location", ["the same", "around", "inside"])
def test_a_folder_that_another_table_holds_a_lease_on_is_not_cleaned_nor_purged(world: World, location: str) -> None:
    lease = Lease(holder="import", snapshot_id=None, expires_at_ms=later(5), folders=(world.folder,))
    acquire_lease(world.lake.table, lease)
    there = {"the same": world.folder, "around": world.landing, "inside": f"{world.folder}/deep"}[location]
    around = world.around(there)
    strays = [place(world.lake, f"{there}/data"), place(world.lake, f"{world.folder}/deep/data")]
    for folder in strays:
        os.utime(f"{folder}/x.parquet", (1, 1))
    assert around.run("remove_orphan_files", now=lambda: later(4)).files == ([f"{strays[0]}/x.parquet"] * (location == "around"))
    release_lease(world.lake.table, lease)
    assert f"{strays[1]}/x.parquet" in around.run("remove_orphan_files", now=lambda: later(4)).files


def test_a_purge_in_a_filesystem_catalog_leaves_what_is_being_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = FileSystemCatalog("test", LocalFileIO(), warehouse=f"{tmp_path}/wh")
    catalog.create_namespace(("ns",))
    make_table(catalog)
    lake = Lake(catalog)
    folder = place(lake, f"{tmp_path}/wh/ns/later/in")

    def makes_and_drops() -> None:
        make_table(catalog, identifier=("ns", "later"))
        catalog.drop_table(("ns", "later"), purge=True)

    while_footers_are_read(monkeypatch, makes_and_drops)
    lake.run("add_files", source_path=folder, now=lambda: NOW)
    assert len(lake.rows()) == 2


def test_a_table_is_not_created_over_files_that_another_one_was_made_around(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No catalog has the table yet, so its lease is not found."""
    while_footers_are_read(monkeypatch, world.makes_and_cleans)
    world.creation_is_refused(UnsupportedError, r"a folder of table test\.ns\.around")


def test_a_table_is_not_created_over_files_that_were_deleted_meanwhile(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    while_footers_are_read(monkeypatch, world.cleans_and_drops)
    world.creation_is_refused(ValidationError, r"x\.parquet was deleted below .* nothing was committed; run it again")


@pytest.mark.parametrize("late", ["makes_and_cleans", "around"])
def test_a_table_made_around_the_files_after_the_last_look_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    publish = world.catalog._publish_first

    def slowly(*arguments: Any) -> str:
        monkeypatch.setattr(world.catalog, "_publish_first", publish)
        getattr(world, late)()
        return publish(*arguments)

    monkeypatch.setattr(world.catalog, "_publish_first", slowly)
    told = (
        r"was deleted at the same time" if late == "makes_and_cleans" else "another table was created around them at the same time"
    )
    with pytest.raises(IncompleteError, match=rf"1 files are in table test\.ns\.new, but .*{told}"):
        world.creates()
    with pytest.raises(AlreadyExistsError):
        world.creates()


def test_an_import_of_files_that_somebody_deletes_by_hand_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    while_footers_are_read(monkeypatch, lambda: os.unlink(world.file))
    with pytest.raises(ValidationError, match="nothing was committed; run it again"):
        world.imports()
    assert world.lake.rows() == []
