"""A recorded file that is a symbolic link: its target is live as well."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import expire
from iceberg_ops.io import locations
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.locations import identity_under, links_under
from iceberg_ops.io.mapped import MappedFileIO
from tests.actions.lake import Lake, numbered
from tests.actions.test_orphan_spellings import clean, lake_at
from tests.builders import data_file, make_table


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = lake_at(tmp_path, f"{tmp_path}/wh")
    lake.append(numbered(0, 3))
    return lake


def moved_aside(lake: Lake, *links: str) -> Path:
    """The lake's only data file is put below ``data/store``, and links of the given names lead there, the last one directly."""
    data = Path(lake.tasks()[0].file_path)
    store = data.parent / "store"
    store.mkdir()
    blob = store / "blob.parquet"
    data.rename(blob)
    target = blob
    for name in reversed(links):
        link = store / name
        link.symlink_to(os.path.relpath(target, store))
        target = link
    data.symlink_to(target)
    return blob


@pytest.mark.parametrize("links", [(), ("one",), ("one", "two", "three")], ids=["a link", "two links", "four links"])
def test_orphan_removal_keeps_every_file_that_a_recorded_link_leads_to(lake: Lake, links: tuple[str, ...]) -> None:
    blob = moved_aside(lake, *links)
    stray = blob.parent / "stray"
    stray.write_bytes(b"x")
    unused = blob.parent / "unused"
    unused.symlink_to(blob)
    assert set(clean(lake).files) == {str(stray), str(unused)}
    assert len(lake.rows()) == 3


def test_a_link_from_outside_the_searched_folder_keeps_what_it_leads_to(lake: Lake) -> None:
    blob = moved_aside(lake)
    assert clean(lake, location=str(blob.parent)).files == []
    assert len(lake.rows()) == 3


def test_what_another_tables_link_leads_to_stays(lake: Lake, tmp_path: Path) -> None:
    make_table(lake.catalog, identifier=("ns", "a"), properties={"write.data.path": f"{tmp_path}/wh/ns"})
    other = Lake(lake.catalog, ("ns", "a"), itertools.count(100))
    other.append(numbered(0, 3))
    data = Path(other.tasks()[0].file_path)
    blob = Path(lake.table.location) / "blob"
    data.rename(blob)
    data.symlink_to(blob)
    assert clean(lake).files == []
    lake.catalog.drop_table(lake.identifier, purge=True)
    assert len(other.rows()) == 3


def test_expiry_keeps_a_file_that_a_live_link_leads_to(lake: Lake) -> None:
    (task,) = lake.tasks()
    link = f"{lake.table.location}/data/link.parquet"
    os.symlink(task.file_path, link)
    commit(lake.catalog, lake.table, AppendFiles(added=(data_file(link, rows=3),)))
    commit(lake.catalog, lake.table, DeleteFiles(paths=(task.file_path,)))
    result = expire(lake.catalog, lake.table, ExpireSnapshots(older_than_ms=2**60))
    assert task.file_path not in result.deletion.deleted
    assert Path(task.file_path).exists()


def test_expiry_of_a_link_deletes_the_link_alone(lake: Lake) -> None:
    blob = moved_aside(lake)
    path = lake.tasks()[0].file_path
    commit(lake.catalog, lake.table, DeleteFiles(paths=(path,)))
    assert path in expire(lake.catalog, lake.table, ExpireSnapshots(older_than_ms=2**60)).deletion.deleted
    assert not os.path.lexists(path)
    assert blob.exists()
    assert clean(lake).files == [str(blob)]


@pytest.mark.parametrize("one_by_one", [0, 64])
def test_links_are_followed_one_by_one_and_a_loop_ends(tmp_path: Path, one_by_one: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locations, "_LOOKED_AT_ONE_BY_ONE", one_by_one)
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "b").symlink_to("file")
    (tmp_path / "folder").symlink_to(".")
    (tmp_path / "a").symlink_to("folder/b")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("gone")
    links, root = links_under(LocalFileIO()), str(tmp_path)
    assert links(f"file:{root}/a") == (f"{root}/b", f"{root}/file")
    assert links(f"{root}/file") == links(f"{root}/gone") == links(f"{root}/file/x") == ()
    assert links(f"{root}/loop") == (f"{root}/loop",)
    assert links(f"{root}/nowhere") == (f"{root}/gone",)
    mapped = links_under(MappedFileIO(LocalFileIO(), [("s3://b", root)]))
    assert mapped("s3://b/a") == (f"{root}/b", f"{root}/file")


def test_a_relative_location_begins_at_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    identity = identity_under(LocalFileIO())
    assert identity("wh/f") == identity("./wh/f") == identity("file:wh/f") == identity(f"{tmp_path}/wh/f")
    assert identity("s3://b/f") == "s3://b/f"


def test_one_file_recorded_by_a_relative_and_an_absolute_location_is_live_as_long_as_either_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lake = lake_at(tmp_path, f"{tmp_path}/wh")
    lake.append(numbered(0, 3))
    (task,) = lake.tasks()
    relative = os.path.relpath(task.file_path)
    commit(lake.catalog, lake.table, AppendFiles(added=(data_file(relative, rows=3),)))
    commit(lake.catalog, lake.table, DeleteFiles(paths=(task.file_path,)))
    result = expire(lake.catalog, lake.table, ExpireSnapshots(older_than_ms=2**60))
    assert task.file_path not in result.deletion.deleted
    assert clean(lake).files == []
