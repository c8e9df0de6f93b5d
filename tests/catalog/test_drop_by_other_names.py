"""A drop in a filesystem catalog compares files and folders by identity, however a location spells them or a link leads to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.versions import HINT
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, live_paths, make_table

NEW_UUID = "11111111-2222-4333-8444-555555555555"


class Hooked(LocalFileIO):
    """Calls ``hook`` once, right before data is deleted; ``deleted`` is what was asked for from then on."""

    def __init__(self) -> None:
        super().__init__()
        self.hook: Callable[[], object] | None = None
        self.deleted: list[str] = []

    def delete_many(self, locations: Any) -> Any:
        found = list(locations)
        if self.hook is not None and any(location.endswith(".parquet") for location in found):
            hook, self.hook = self.hook, None
            hook()
            self.deleted += found
        return super().delete_many(found)


def with_log_spelled(catalog: FileSystemCatalog, spelled: Callable[[str], str]) -> Table:
    """A table of three versions whose metadata names its location and its earlier versions as ``spelled``."""
    table = make_table(catalog)
    table.io.write(f"{table.location}/data/x.parquet", b"x")
    for name in ("x", "y"):
        table = commit(catalog, table, AppendFiles(added=(data_file(f"{table.location}/data/{name}.parquet"),))).table
    path = Path(table.metadata_location)
    metadata = json.loads(path.read_text())
    metadata["location"] = spelled(metadata["location"])
    for entry in metadata["metadata-log"]:
        entry["metadata-file"] = spelled(entry["metadata-file"])
    path.write_text(json.dumps(metadata))
    return catalog.load_table(IDENTIFIER)


@pytest.mark.parametrize("spelling", ["{}", "file:{}", "file://{}", "//{}", "through a link"])
def test_a_purge_deletes_no_version_file_however_the_metadata_log_spells_it(tmp_path: Path, spelling: str) -> None:
    """Another engine makes the table again while the purge runs: it knows no marks, and begins at version 1."""
    io = Hooked()
    catalog = FileSystemCatalog("fs", io, warehouse=f"{tmp_path}/wh")
    catalog.create_namespace(("ns",))
    (tmp_path / "link").symlink_to("wh")

    def spelled(location: str) -> str:
        return spelling.format(location) if "{}" in spelling else location.replace(f"{tmp_path}/wh", f"{tmp_path}/link")

    table = with_log_spelled(catalog, spelled)
    first = Path(f"{tmp_path}/wh/ns/t/metadata/v1.metadata.json")
    again = json.loads(first.read_text()) | {"table-uuid": NEW_UUID}

    def another_engine() -> None:
        assert not first.exists()
        first.write_text(json.dumps(again))
        first.with_name(HINT).write_text("1")

    io.hook = another_engine
    catalog.drop_table(IDENTIFIER, purge=True)
    assert io.hook is None
    assert catalog.load_table(IDENTIFIER).metadata.table_uuid == NEW_UUID
    assert len(io.deleted) == len({Path(location.removeprefix("file:")).resolve() for location in io.deleted})
    assert not Path(f"{tmp_path}/wh/ns/t/data/x.parquet").exists()
    assert table.metadata.table_uuid != NEW_UUID


def tables_of(tmp_path: Path) -> tuple[FileSystemCatalog, Table]:
    catalog = FileSystemCatalog("fs", LocalFileIO(), warehouse=f"{tmp_path}/wh")
    for name in ("ns", "ns2"):
        catalog.create_namespace((name,))
    table = make_table(catalog)
    return catalog, commit(catalog, table, AppendFiles(added=(data_file(f"{table.location}/data/x.parquet"),))).table


def everything_below(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("link", "target", "alias"),
    [
        ("ns2/alias", "../ns/t", ("ns2", "alias")),
        ("ns/t2", "t", ("ns", "t2")),
        ("other", "ns", ("other", "t")),
        ("ns2/chain", "alias", ("ns2", "chain")),
    ],
)
def test_a_table_is_not_dropped_by_the_name_of_a_link_to_it(tmp_path: Path, link: str, target: str, alias: tuple[str, ...]) -> None:
    catalog, table = tables_of(tmp_path)
    (tmp_path / "wh" / "ns2" / "alias").symlink_to("../ns/t")
    if not (tmp_path / "wh" / link).is_symlink():
        (tmp_path / "wh" / link).symlink_to(target)
    assert catalog.load_table(alias).metadata == table.metadata
    before = everything_below(tmp_path)
    with pytest.raises(
        UnsupportedError, match=r"because the name is a symbolic link: the table is in .*/wh/ns/t, under another name"
    ):
        catalog.drop_table(alias, purge=True)
    assert everything_below(tmp_path) == before
    assert catalog.load_table(IDENTIFIER).metadata == table.metadata
    catalog.drop_table(IDENTIFIER, purge=True)
    assert not catalog.table_exists(alias)


def test_a_table_of_another_warehouse_is_not_dropped_through_a_link(tmp_path: Path) -> None:
    catalog, _ = tables_of(tmp_path)
    away = FileSystemCatalog("away", LocalFileIO(), warehouse=f"{tmp_path}/away")
    away.create_namespace(("ns",))
    theirs = commit(away, make_table(away), AppendFiles(added=(data_file("a"),))).table
    (tmp_path / "wh" / "ns2" / "alias").symlink_to(theirs.location)
    (tmp_path / "wh" / "linked").symlink_to(tmp_path / "away" / "ns")
    for alias in (("ns2", "alias"), ("linked", "t")):
        with pytest.raises(UnsupportedError, match="Drop the table by that name, or remove the symbolic link"):
            catalog.drop_table(alias, purge=True)
    assert live_paths(away.load_table(IDENTIFIER)) == {"a"}


@pytest.mark.parametrize("link", ["the warehouse", "a namespace", "a table that was moved"])
def test_a_table_whose_folder_is_kept_elsewhere_by_a_link_is_dropped_by_its_name(tmp_path: Path, link: str) -> None:
    (tmp_path / "disk" / "ns").mkdir(parents=True)
    place = {"the warehouse": tmp_path / "wh", "a namespace": tmp_path / "wh" / "ns"}.get(link)
    if place is not None:
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(tmp_path / "disk" / ("ns" if place.name == "ns" else ""))
    catalog = FileSystemCatalog("fs", LocalFileIO(), warehouse=f"{tmp_path}/wh")
    if place is None:
        catalog.create_namespace(("ns",))
    table = make_table(catalog)
    table.io.write(f"{table.location}/data/x.parquet", b"x")
    if place is None:
        (tmp_path / "wh" / "ns" / "t").rename(tmp_path / "disk" / "moved")
        (tmp_path / "wh" / "ns" / "t").symlink_to(tmp_path / "disk" / "moved")
    catalog.drop_table(IDENTIFIER, purge=True)
    assert not catalog.table_exists(IDENTIFIER)
    assert not list((tmp_path / "disk").rglob("*.parquet"))
