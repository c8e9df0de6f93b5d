"""Tables of a filesystem catalog that no namespace lists are neighbours too: no job on another table deletes their files, or
imports them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog import warehouse_walk
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.errors import CatalogUnavailableError, UnsupportedError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.memory import MemoryFileIO
from tests.actions.lake import Lake, numbered
from tests.actions.test_housekeeping import later
from tests.builders import SCHEMA, make_table, sql_catalog

UNLISTED = {
    "right below the warehouse": ("v",),
    "the warehouse itself": (),
    "in the folder of a third table": ("ns2", "outer", "deep", "v"),
    "in the metadata folder of a third table": ("ns2", "outer", "metadata", "v"),
    "a name with a dot before it": ("ns2", ".v"),
    "a namespace with a dot before it": (".ns", "deep", "v"),
}
STORES: dict[str, Callable[[Path], tuple[FileIO, str]]] = {
    "local": lambda tmp_path: (LocalFileIO(), str(tmp_path / "wh")),
    "memory": lambda tmp_path: (MemoryFileIO(str(tmp_path)), "memory://wh"),
}


def as_another_engine(catalog: FileSystemCatalog, name: tuple[str, ...], **properties: str) -> Lake:
    """A table of any name, with ten rows."""
    folder = catalog._table_folder(name)
    staged = catalog.stage_table(("ns", "staged"), SCHEMA, location=folder, properties={"format-version": "2", **properties})
    catalog._publish_first(name, staged.metadata, lambda _: None)
    made = Lake(catalog, name, itertools.count(100))
    made.append(numbered(0, 10))
    return made


@pytest.fixture(params=STORES)
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> FileSystemCatalog:
    io, warehouse = STORES[request.param](tmp_path)
    catalog = FileSystemCatalog("test", io, warehouse=warehouse)
    catalog.create_namespace(("ns",))
    catalog.create_namespace(("ns2",))
    make_table(catalog)
    make_table(catalog, identifier=("ns2", "outer"))
    return catalog


@pytest.fixture(params=UNLISTED.values(), ids=list(UNLISTED))
def unlisted(request: pytest.FixtureRequest, catalog: FileSystemCatalog) -> Lake:
    """Writes its data below ``ns.t``."""
    place = f"{catalog._table_folder(('ns', 't'))}/data/lent"
    return as_another_engine(catalog, request.param, **{"write.data.path": place})


def test_its_files_are_no_orphans_of_another_table(catalog: FileSystemCatalog, unlisted: Lake) -> None:
    rows = unlisted.rows()
    lake = Lake(catalog)
    assert lake.run("remove_orphan_files", now=lambda: later(4), location=f"{lake.table.location}/data").files == []
    assert unlisted.rows() == rows


def test_its_files_stay_when_another_table_is_dropped(catalog: FileSystemCatalog, unlisted: Lake) -> None:
    rows = unlisted.rows()
    catalog.drop_table(("ns", "t"), purge=True)
    assert unlisted.rows() == rows


def test_its_files_are_not_imported_into_another_table(catalog: FileSystemCatalog, unlisted: Lake) -> None:
    make_table(catalog, identifier=("ns", "importing"))
    with pytest.raises(UnsupportedError, match="whose jobs may delete"):
        Lake(catalog, ("ns", "importing")).run("add_files", source_path=unlisted.table.properties["write.data.path"])


def test_every_table_is_found_once(catalog: FileSystemCatalog) -> None:
    for name in UNLISTED.values():
        as_another_engine(catalog, name)
    catalog.create_namespace(("ns", "metadata"))
    found = catalog.all_tables()
    assert sorted(found) == sorted([("ns", "t"), ("ns2", "outer"), *UNLISTED.values()])
    catalog.drop_table(("ns", "t"), purge=True)
    assert ("ns", "t") not in catalog.all_tables()


def on_disk(tmp_path: Path, *tables: tuple[str, ...]) -> FileSystemCatalog:
    catalog = FileSystemCatalog("test", LocalFileIO(), warehouse=str(tmp_path / "wh"))
    for name in tables:
        (tmp_path / "wh").joinpath(*name[:-1]).mkdir(parents=True, exist_ok=True)
        make_table(catalog, identifier=name)
    return catalog


def test_links_are_followed_and_no_folder_is_visited_twice(tmp_path: Path) -> None:
    catalog = on_disk(tmp_path, ("ns", "t"))
    away = FileSystemCatalog("test", LocalFileIO(), warehouse=str(tmp_path / "disk"))
    away.create_namespace(("deep",))
    make_table(away, identifier=("deep", "far"))
    links = {
        "ns/self": ".", "ns/up": "..", "ns/root": "/", "a": "ns", "alias": "ns/t", "circle": "circle", "nowhere": "gone",
        "b": "../disk/deep", "c": "../disk", "d": "../disk",
    }  # fmt: skip
    for link, target in links.items():
        (tmp_path / "wh" / link).symlink_to(target)
    (tmp_path / "disk" / "deep" / "back").symlink_to("..")
    assert sorted(catalog.all_tables()) == [("b", "far"), ("ns", "t")]


def test_a_link_behind_a_link_is_followed_where_another_one_leads_to_nothing_new(tmp_path: Path) -> None:
    catalog = on_disk(tmp_path, ("ns", "t"))
    for folder in ("disk1/sub", "disk2"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "wh" / "one").symlink_to(tmp_path / "disk1")
    (tmp_path / "wh" / "two").symlink_to(tmp_path / "disk1" / "sub")
    (tmp_path / "disk1" / "moved").symlink_to(tmp_path / "disk2")
    make_table(catalog, identifier=("one", "moved", "v"))
    assert sorted(catalog.all_tables()) == [("ns", "t"), ("one", "moved", "v")]


def test_a_warehouse_may_be_the_root_of_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []

    def nothing(path: str) -> list[tuple[str, bool]]:
        listed.append(path)
        return []

    monkeypatch.setattr(warehouse_walk, "subfolders", nothing)
    monkeypatch.chdir(tmp_path)
    for warehouse in ("/", "file:/", "file:///"):
        assert FileSystemCatalog("test", LocalFileIO(), warehouse=warehouse).all_tables() == []
    assert listed == ["/"] * 3


def test_a_folder_that_cannot_be_listed_ends_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = on_disk(tmp_path, ("ns", "t"))
    (tmp_path / "wh" / "lost+found").mkdir()
    scandir, error = os.scandir, OSError(13, "Permission denied")

    def refused(path: Any) -> Any:
        if str(path).endswith("lost+found"):
            raise error
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(UnsupportedError, match=r"lost\+found cannot be listed \(Permission denied\), and it may contain a table"):
        catalog.all_tables()
    error = OSError(116, "Stale file handle")
    with pytest.raises(CatalogUnavailableError):
        catalog.all_tables()


def test_a_table_whose_name_is_no_text_ends_the_job(tmp_path: Path) -> None:
    catalog = on_disk(tmp_path, ("ns", "t"))
    os.makedirs(os.fsencode(tmp_path) + b"/wh/ns/\xff/metadata")
    assert catalog.all_tables() == [("ns", "t")]
    source = os.fsencode(tmp_path) + b"/wh/ns/t/metadata/v1.metadata.json"
    os.link(source, os.fsencode(tmp_path) + b"/wh/ns/\xff/metadata/v1.metadata.json")
    with pytest.raises(UnsupportedError, match="is not UTF-8"):
        catalog.all_tables()


def test_a_table_in_the_empty_namespace_of_a_sql_catalog_is_seen(tmp_path: Path) -> None:
    """Iceberg Java makes one for a name without a namespace."""
    catalog = sql_catalog(tmp_path, name="test")
    catalog.create_namespace(("ns",))
    lake, other = Lake(catalog), Lake(catalog, ("ns", "v"), itertools.count(100))
    make_table(catalog)
    make_table(catalog, identifier=("ns", "v"), properties={"write.data.path": f"{lake.table.location}/data/lent"})
    other.append(numbered(0, 10))
    assert catalog._rename_pointer(("ns", "v"), ("", "v"), other.table.metadata_location)
    other.identifier = ("", "v")
    rows = other.rows()
    assert lake.run("remove_orphan_files", now=lambda: later(4)).files == []
    catalog.drop_table(("ns", "t"), purge=True)
    assert other.rows() == rows
