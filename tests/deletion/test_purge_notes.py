"""A purge announces itself to imports."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.errors import CatalogUnavailableError, TerminalError, UnsupportedError
from iceberg_ops.io.local import LocalFileIO
from tests.actions.lake import Lake, make_lake
from tests.builders import data_file, make_table
from tests.catalog.test_imported_folders import lake_of, place


@pytest.mark.parametrize("below", ["", "/data", "/data/day=1"])
def test_an_import_waits_while_the_files_of_a_dropped_table_are_deleted(below: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = make_lake()
    catalog = lake.catalog
    old = lake_of(catalog, "old").table
    folder = place(lake, f"{old.location}{below or '/data'}")
    commit(catalog, old, AppendFiles(added=(data_file(f"{folder}/x.parquet", rows=2),)))
    refused, delete_many = [], catalog.io.delete_many

    def imports(locations: Any) -> Any:
        files = list(locations)
        if any(f.endswith("x.parquet") for f in files):
            with pytest.raises(CatalogUnavailableError, match="of a table that may be dropped") as e:
                lake.run("add_files", source_path=f"{old.location}{below}")
            refused.append(e)
        return delete_many(files)

    monkeypatch.setattr(catalog.io, "delete_many", imports)
    catalog.drop_table(("ns", "old"), purge=True)
    assert refused
    assert list(catalog.io.list_prefix(old.location)) == []


PLACES = {
    "a link to the data": ("", "/data", True),
    "a link to a folder in the data": ("", "/data/day=1", True),
    "the folder of write.data.path": ("/lent/data", "", False),
    "a folder in that of write.data.path": ("/lent/data", "/day=1", False),
    "a link to that of write.data.path": ("/lent/data", "", True),
    "a folder around that of write.data.path": ("/lent/data", "/..", False),
}


@pytest.mark.parametrize(("data", "below", "linked"), PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("kind", ["sql", "filesystem"])
def test_an_import_waits_for_a_purge_however_it_reaches_the_folder(
    tmp_path: Path, kind: str, data: str, below: str, linked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    io, warehouse = LocalFileIO(), f"{tmp_path}/wh"
    catalog: Catalog = FileSystemCatalog("test", io, warehouse=warehouse)
    if kind == "sql":
        catalog = SqlCatalog("test", f"sqlite:///{tmp_path}/c.db", io, warehouse=warehouse)
    catalog.create_namespace(("ns",))
    lake = Lake(catalog)
    make_table(catalog)
    old = lake_of(catalog, "old", **({"write.data.path": f"{tmp_path}{data}"} if data else {})).table
    source = os.path.normpath(f"{tmp_path}{data}{below}" if data else f"{old.location}{below}")
    folder = place(lake, source if below != "/.." else f"{tmp_path}{data}")
    commit(catalog, old, AppendFiles(added=(data_file(f"{folder}/x.parquet", rows=2),)))
    if linked:
        (tmp_path / "landing").symlink_to(source)
        source = str(tmp_path / "landing")
    with pytest.raises(UnsupportedError, match="whose jobs may"):
        lake.run("add_files", source_path=source)
    refused, delete_many = [], io.delete_many

    def imports(locations: Any) -> Any:
        files = list(locations)
        if any(f.endswith("x.parquet") for f in files):
            with pytest.raises(CatalogUnavailableError, match="of a table that may be dropped") as e:
                lake.run("add_files", source_path=source)
            refused.append(e)
        return delete_many(files)

    monkeypatch.setattr(io, "delete_many", imports)
    catalog.drop_table(("ns", "old"), purge=True)
    assert refused
    assert not list(io.list_prefix(folder))
    assert not list((tmp_path / "lent").rglob("iceberg-ops"))


@pytest.mark.parametrize("kind", ["sql", "filesystem"])
def test_a_table_of_whose_folders_one_cannot_be_written_is_not_dropped_with_its_files(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    io = LocalFileIO()
    wh = str(tmp_path / "wh")
    catalog = (
        FileSystemCatalog("c", io, warehouse=wh)
        if kind == "filesystem"
        else SqlCatalog("c", f"sqlite:///{tmp_path}/c.db", io, warehouse=wh)
    )
    catalog.create_namespace(("ns",))
    archive = f"{tmp_path}/archive"
    table = make_table(catalog, properties={"write.data.path": archive})
    io.write(f"{archive}/a.parquet", b"x")
    commit(catalog, table, AppendFiles(added=(data_file(f"{archive}/a.parquet"),)))
    write = LocalFileIO.write

    def mounted_read_only(self: LocalFileIO, location: str, data: bytes, *, overwrite: bool) -> None:
        if location.startswith(archive):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), location)
        write(self, location, data, overwrite=overwrite)

    monkeypatch.setattr(LocalFileIO, "write", mounted_read_only)
    with pytest.raises(TerminalError, match=r"ns\.t: nothing was deleted, because the note .* cannot be written: .*Read-only"):
        catalog.drop_table(table.identifier[1:], purge=True)
    assert catalog.table_exists(table.identifier[1:])
    assert os.path.exists(f"{archive}/a.parquet")
