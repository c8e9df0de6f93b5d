"""Files stay live in the former folders of a table: other tables' jobs, imports and drops leave them alone."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateLocation, UpdateProperties
from iceberg_ops.commit.protocol.operation import MetadataOperation
from iceberg_ops.config.properties import FORMER_FOLDER_PREFIX
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.updates import SetLocation
from iceberg_ops.table.own_folders import former_folders
from tests.actions.lake import Lake, make_lake, numbered
from tests.actions.test_housekeeping import later
from tests.builders import IDENTIFIER, data_file, make_table
from tests.catalog.test_imported_folders import expired, lake_of, place

OLD = "memory://old"
MOVES: dict[str, tuple[str | None, dict[str, str], MetadataOperation]] = {
    "location": (OLD, {}, UpdateLocation(location="memory://new")),
    "data path set anew": (None, {"write.data.path": OLD}, UpdateProperties(updates={"write.data.path": "memory://new"})),
    "data path removed": (None, {"write.data.path": OLD}, UpdateProperties(removals=("write.data.path",))),
    "object storage path": (None, {"write.data.path": OLD, "write.object-storage.path": OLD}, UpdateProperties(
        removals=("write.data.path", "write.object-storage.path"))),
    "relative data path": (OLD, {"write.data.path": "rows"}, UpdateLocation(location="memory://new")),
}  # fmt: skip


def moved_lake(catalog: Any, how: str) -> Lake:
    location, properties, change = MOVES[how]
    lake = lake_of(catalog, "a", location, **properties)
    lake.append(numbered(0, 3))
    commit(lake.catalog, lake.table, change)
    return lake


@pytest.mark.parametrize("how", MOVES)
def test_live_files_in_a_former_folder_are_no_orphans_of_another_table(how: str) -> None:
    catalog = make_lake().catalog
    lake = moved_lake(catalog, how)
    b = lake_of(catalog, "b", OLD)
    b.append(numbered(5, 8))
    for folder in (f"{OLD}/data", f"{OLD}/rows"):
        b.run("remove_orphan_files", now=lambda: later(4), location=folder)
    assert len(lake.rows()) == 3


@pytest.mark.parametrize("how", MOVES)
def test_a_drop_leaves_live_files_of_a_table_that_wrote_there_before(how: str) -> None:
    catalog = make_lake().catalog
    lake = moved_lake(catalog, how)
    b = lake_of(catalog, "b", OLD)
    commit(catalog, b.table, AppendFiles(added=tuple(task.data_file for task in lake.tasks())))
    catalog.drop_table(("ns", "b"), purge=True)
    assert len(lake.rows()) == 3


@pytest.mark.parametrize("how", MOVES)
def test_an_import_from_a_former_folder_of_another_table_is_refused(how: str) -> None:
    catalog = make_lake().catalog
    lake = moved_lake(catalog, how)
    folder = next(task.file_path for task in lake.tasks()).rpartition("/")[0]
    b = lake_of(catalog, "b")
    with pytest.raises(UnsupportedError, match=r"a former folder of table test\.ns\.a"):
        b.run("add_files", source_path=folder)
    there = lake_of(catalog, "c", OLD)
    with pytest.raises(UnsupportedError, match=r"is a file of table test\.ns\.a|a former folder of table test\.ns\.a"):
        there.run("add_files", source_path=folder)


def test_a_table_that_another_engine_moved_is_asked_for_its_files() -> None:
    catalog = make_lake().catalog
    lake = lake_of(catalog, "a", OLD)
    lake.append(numbered(0, 3))
    moved = commit(catalog, lake.table, UpdateLocation(location="memory://new")).table
    commit(catalog, moved, UpdateProperties(removals=tuple(k for k in moved.properties if "former" in k)))
    assert former_folders(lake.table) == []
    b = lake_of(catalog, "b", OLD)
    b.run("remove_orphan_files", now=lambda: later(4), location=f"{OLD}/data")
    assert len(lake.rows()) == 3
    with pytest.raises(UnsupportedError, match=r"is a file of table test\.ns\.a"):
        b.run("add_files", source_path=f"{OLD}/data")


def test_a_move_that_was_staged_before_another_one_records_the_location_it_takes() -> None:
    catalog = make_lake().catalog
    table = lake_of(catalog, "a", OLD).table
    second = UpdateLocation(location="memory://second").stage(None, table)  # type: ignore[arg-type]
    commit(catalog, table, UpdateLocation(location="memory://first"))
    now = catalog.commit_table(table, second.requirements, second.updates)
    assert former_folders(now) == [OLD, "memory://first"]
    assert SetLocation("memory://second") in second.updates


def test_a_folder_that_lies_within_one_that_stays_is_not_recorded() -> None:
    catalog = make_lake().catalog
    table = lake_of(catalog, "a", OLD, **{"write.data.path": f"{OLD}/rows"}).table
    table = commit(catalog, table, UpdateProperties(removals=("write.data.path",))).table
    assert not [k for k in table.properties if k.startswith(FORMER_FOLDER_PREFIX)]


@pytest.mark.parametrize("how", ["write.data.path", "location"])
@pytest.mark.parametrize("end", ["expiry", "drop"])
def test_imported_files_stay_imported_when_a_folder_of_the_table_is_put_around_them(how: str, end: str) -> None:
    lake = make_lake()
    b = lake_of(lake.catalog, "b")
    folder = place(lake, "memory://landing/export")
    for importer in (lake, b):
        importer.run("add_files", source_path=folder)
    change: MetadataOperation = UpdateLocation(location="memory://landing")
    commit(lake.catalog, lake.table, UpdateProperties(updates={"write.data.path": folder}) if how != "location" else change)
    if end == "drop":
        commit(b.catalog, b.table, UpdateProperties(removals=tuple(k for k in b.table.properties if "imported" in k)))
        lake.catalog.drop_table(lake.table.identifier[1:], purge=True)
    else:
        assert expired(lake).metrics["kept-files-count"] == 1
    assert len(b.rows()) == 2


def test_a_drop_of_a_copied_table_deletes_the_copy_and_no_file_of_the_original(tmp_path: Path) -> None:
    io = LocalFileIO()
    original = FileSystemCatalog("fs", io, warehouse=f"{tmp_path}/wh")
    original.create_namespace(("ns",))
    table = make_table(original, properties={"write.data.path": f"{tmp_path}/wh/elsewhere"})
    path = f"{table.location}/data/a.parquet"
    io.write(path, b"x")
    table = commit(original, table, AppendFiles(added=(data_file(path),))).table
    before = {info.location for info in io.list_prefix(f"{tmp_path}/wh")}
    shutil.copytree(tmp_path / "wh", tmp_path / "copy")
    copy = FileSystemCatalog("copy", io, warehouse=f"{tmp_path}/copy")
    copy.drop_table(IDENTIFIER, purge=True)
    assert {info.location for info in io.list_prefix(f"{tmp_path}/wh")} == before
    assert not os.path.exists(f"{tmp_path}/copy/ns/t")
    assert len(original.load_table(IDENTIFIER).metadata.snapshots) == 1


@pytest.mark.parametrize("action", ["expire_snapshots", "remove_orphan_files", "rewrite_manifests", "commit"])
def test_no_job_changes_a_copied_table_whose_files_are_the_original_s(tmp_path: Path, action: str) -> None:
    original = FileSystemCatalog("fs", LocalFileIO(), warehouse=f"{tmp_path}/wh")
    original.create_namespace(("ns",))
    make_table(original)
    lake = Lake(original)
    for i in range(3):
        lake.append(numbered(i, 1))
    shutil.copytree(tmp_path / "wh", tmp_path / "copy")
    lake.append(numbered(3, 1))
    before = {info.location for info in lake.table.io.list_prefix(str(tmp_path))}
    copy = FileSystemCatalog("copy", LocalFileIO(), warehouse=f"{tmp_path}/copy")
    jobs = partial(Lake(copy).run, action, now=lambda: later(10))
    change = partial(commit, copy, copy.load_table(IDENTIFIER), UpdateProperties(updates={"a": "b"}))
    with pytest.raises(UnsupportedError, match=r"changing table ns\.t, because it was copied: it lies in .*/copy/ns/t, and"):
        (change if action == "commit" else jobs)()
    assert {info.location for info in lake.table.io.list_prefix(str(tmp_path))} == before
    assert sorted(row[0] for row in lake.rows()) == [0, 1, 2, 3]
