"""A table beside a copy of it in one catalog: a drop deletes only files that the other does not need, or is refused, and reports
which."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from iceberg_ops.catalog import pointer
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateLocation
from iceberg_ops.errors import CatalogUnavailableError, CorruptTableError, UnsupportedError
from iceberg_ops.io.file_io import DeleteFailure
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.table.reachable import reachable_files
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, live_paths, make_table, sql_catalog
from tests.catalog.test_late_uuid import without_uuid

COPY = ("ns", "copy")


def appended(catalog: FileSystemCatalog | SqlCatalog, table: Table, name: str) -> Table:
    location = f"{table.location}/data/{name}.parquet"
    table.io.write(location, b"x")
    return commit(catalog, table, AppendFiles(added=(data_file(location),))).table


@pytest.fixture
def catalog(tmp_path: Path) -> FileSystemCatalog:
    catalog = FileSystemCatalog("fs", LocalFileIO(), warehouse=str(tmp_path / "wh"), sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    return catalog


def copied(catalog: FileSystemCatalog, *, has_uuid: bool = True) -> Table:
    table = appended(catalog, make_table(catalog, version=1), "a")
    if not has_uuid:
        for path in Path(table.location).glob("metadata/v*.metadata.json"):
            without_uuid(str(path))
    shutil.copytree(table.location, f"{table.location.rpartition('/')[0]}/copy")
    return catalog.load_table(IDENTIFIER)


def left_in(folder: str) -> list[str]:
    return sorted(str(path) for path in Path(folder).rglob("*") if path.is_file())


@pytest.mark.parametrize("has_uuid", [True, False], ids=["with a uuid", "without"])
def test_a_copied_folder_is_dropped_with_its_files_beside_its_original(catalog: FileSystemCatalog, has_uuid: bool) -> None:
    table = copied(catalog, has_uuid=has_uuid)
    before = left_in(table.location)
    catalog.drop_table(COPY, purge=True)
    assert not catalog.table_exists(COPY)
    assert left_in(f"{table.location.rpartition('/')[0]}/copy") == []
    assert left_in(table.location) == before
    assert live_paths(catalog.load_table(IDENTIFIER)) == {f"{table.location}/data/a.parquet"}


@pytest.mark.parametrize("has_uuid", [True, False], ids=["with a uuid", "without"])
def test_an_original_is_dropped_after_its_copies(catalog: FileSystemCatalog, has_uuid: bool) -> None:
    table = copied(catalog, has_uuid=has_uuid)
    table = appended(catalog, table, "b")
    root = table.location.rpartition("/")[0]
    before = left_in(root)
    refused = r"dropping table fs\.ns\.t with its files, because table fs\.ns\.copy is the same table .* Drop that one first"
    with pytest.raises(UnsupportedError, match=refused):
        catalog.drop_table(IDENTIFIER, purge=True)
    assert left_in(root) == before
    catalog.drop_table(COPY, purge=True)
    catalog.drop_table(IDENTIFIER, purge=True)
    assert left_in(root) == []


def test_files_that_an_original_has_in_the_folder_of_its_copy_stay(catalog: FileSystemCatalog) -> None:
    table = copied(catalog)
    inside = f"{table.location.rpartition('/')[0]}/copy/data/theirs.parquet"
    catalog.io.write(inside, b"x")
    commit(catalog, table, AppendFiles(added=(data_file(inside),)))
    catalog.drop_table(COPY, purge=True)
    assert left_in(f"{table.location.rpartition('/')[0]}/copy") == [inside]


@pytest.mark.parametrize("dropped", ["t", "copy"])
def test_a_copy_whose_paths_were_rewritten_and_its_original_are_dropped_each_with_its_own_files(
    catalog: FileSystemCatalog, dropped: str
) -> None:
    """Spark's rewrite_table_path keeps the uuid."""
    root = Path(copied(catalog).location).parent
    for path in (root / "copy/metadata").glob("v*.metadata.json"):
        metadata = json.loads(path.read_text().replace(f"{root}/t", f"{root}/copy"))
        path.write_text(json.dumps(metadata | {"snapshots": [], "current-snapshot-id": -1, "refs": {}, "snapshot-log": []}))
    copy = appended(catalog, catalog.load_table(COPY), "c")
    kept = copy if dropped == "t" else catalog.load_table(IDENTIFIER)
    catalog.drop_table(("ns", dropped), purge=True)
    assert left_in(str(root / dropped)) == []
    assert all(kept.io.exists(location) for location in reachable_files(kept))


def test_a_table_that_is_registered_twice_is_dropped_by_name_only(tmp_path: Path) -> None:
    catalog = sql_catalog(tmp_path)
    catalog.create_namespace(("ns",))
    table = appended(catalog, make_table(catalog), "a")
    catalog._insert_pointer(COPY, table.metadata_location)  # as other engines do
    before = left_in(table.location)
    for name in (IDENTIFIER, COPY):
        with pytest.raises(UnsupportedError, match=r"is the same table \(uuid .* Drop it without purge: then only the name goes"):
            catalog.drop_table(name, purge=True)
    catalog.drop_table(COPY)
    assert left_in(table.location) == before
    catalog.drop_table(IDENTIFIER, purge=True)
    assert left_in(table.location) == []


@pytest.mark.parametrize("moved", [False, True], ids=["in its place", "moved since"])
@pytest.mark.parametrize("has_uuid", [True, False], ids=["with a uuid", "without"])
def test_a_table_is_not_registered_under_a_second_name(tmp_path: Path, has_uuid: bool, moved: bool) -> None:
    """An expiry of one would delete live files of the other, and commits its current metadata file."""
    catalog = sql_catalog(tmp_path)
    catalog.create_namespace(("ns",))
    earlier = appended(catalog, make_table(catalog, version=1), "a")
    if not has_uuid:
        without_uuid(earlier.metadata_location)
    now = catalog.load_table(IDENTIFIER)
    if moved:
        now = commit(catalog, now, UpdateLocation(location=f"{tmp_path}/elsewhere")).table
    appended(catalog, now, "b")
    for location in (earlier.metadata_location, catalog.load_table(IDENTIFIER).metadata_location):
        with pytest.raises(UnsupportedError, match=r"not supported: table c\.ns\.copy, because table c\.ns\.t is the same table"):
            catalog.register_table(COPY, location)
    assert not catalog.table_exists(COPY)
    catalog.drop_table(IDENTIFIER)
    assert live_paths(catalog.register_table(COPY, earlier.metadata_location)) == {f"{earlier.location}/data/a.parquet"}


def test_a_table_is_not_registered_while_its_drop_deletes_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = sql_catalog(tmp_path)
    catalog.create_namespace(("ns",))
    table = appended(catalog, make_table(catalog), "a")
    real, refused = LocalFileIO.delete_many, []

    def registers(io: LocalFileIO, locations: Iterable[str]) -> list[DeleteFailure]:
        wanted = list(locations)
        for name in (IDENTIFIER, COPY) if table.metadata_location in wanted else ():
            with pytest.raises(CatalogUnavailableError, match=r"was not registered: its files are being deleted right now") as e:
                catalog.register_table(name, table.metadata_location)
            refused.append(e.value.code)
        return real(io, wanted)

    monkeypatch.setattr(LocalFileIO, "delete_many", registers)
    catalog.drop_table(IDENTIFIER, purge=True)
    assert refused == ["CATALOG_UNAVAILABLE"] * 2
    with pytest.raises(CorruptTableError, match="does not exist"):
        catalog.register_table(COPY, table.metadata_location)
    assert not catalog.table_exists(COPY)


def test_a_table_whose_drop_ends_while_it_is_looked_at_is_not_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = sql_catalog(tmp_path)
    catalog.create_namespace(("ns",))
    table = appended(catalog, make_table(catalog), "a")

    def dropped(*_: object) -> list[Table]:
        catalog.drop_table(IDENTIFIER, purge=True)
        return []

    monkeypatch.setattr(pointer, "forbid_second_name", dropped)
    with pytest.raises(CorruptTableError, match="does not exist"):
        catalog.register_table(COPY, table.metadata_location)
    assert not catalog.table_exists(COPY)


def test_a_damaged_table_is_registered_from_an_earlier_metadata_file(tmp_path: Path) -> None:
    catalog = sql_catalog(tmp_path)
    catalog.create_namespace(("ns",))
    earlier = appended(catalog, make_table(catalog), "a")
    Path(appended(catalog, earlier, "b").metadata_location).unlink()
    assert live_paths(catalog.register_table(COPY, earlier.metadata_location)) == {f"{earlier.location}/data/a.parquet"}
