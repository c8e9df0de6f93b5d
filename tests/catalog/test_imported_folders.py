"""Files that one table imported in place are never orphans of another table."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.actions.import_folder import import_folder
from iceberg_ops.catalog import neighbours
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.spec.schema import Schema
from tests.actions.lake import Lake, make_lake, numbered
from tests.actions.test_housekeeping import later
from tests.builders import SCHEMA, make_table

CONFIG = CatalogConfig(name="test", type="memory")


def place(lake: Lake, folder: str) -> str:
    """A Parquet file with two rows in ``folder``."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1, 2], "data": ["x", "y"], "region": ["eu", "eu"]}), sink)
    lake.table.io.write(f"{folder}/x.parquet", bytes(sink.getvalue()), overwrite=True)
    return folder


def lake_of(catalog: Any, name: str, location: str | None = None, **properties: str) -> Lake:
    if location is None:
        make_table(catalog, identifier=("ns", name), properties=properties)
    else:
        schema = Schema(SCHEMA.struct)
        catalog.create_table(("ns", name), schema, location=location, properties={"format-version": "2", **properties})
    return Lake(catalog, ("ns", name), itertools.count(100))


def test_an_import_from_a_folder_of_another_table_is_refused() -> None:
    lake = make_lake()
    a = lake_of(lake.catalog, "a")
    folder = place(lake, f"{lake.table.location}/export")
    with pytest.raises(UnsupportedError, match=r"because it lies in .*/ns/t, a folder of table test\.ns\.t, whose jobs may delete"):
        a.run("add_files", source_path=folder)
    with pytest.raises(UnsupportedError, match="it lies in"):
        a.run("add_files", source_path=folder, dry_run=True)
    with pytest.raises(UnsupportedError, match="it lies in"):
        import_folder(lake.catalog, CONFIG, "test.ns.new", folder)
    assert not lake.catalog.table_exists(("ns", "new"))
    assert a.rows() == []


def test_an_import_from_a_folder_that_holds_another_table_is_refused() -> None:
    lake = make_lake()
    place(lake, "memory://landing/mine")
    lake_of(lake.catalog, "b", "memory://elsewhere", **{"write.data.path": "memory://landing/theirs"})
    with pytest.raises(UnsupportedError, match=r"because it holds memory://landing/theirs, a folder of table test\.ns\.b"):
        lake.run("add_files", source_path="memory://landing")
    assert lake.run("add_files", source_path="memory://landing/mine").status == "committed"


def test_a_table_that_imports_from_partitions_beside_it_still_deletes_its_own_files() -> None:
    lake = make_lake()
    lake.append(numbered(10, 3))
    root = lake.table.location.rsplit("/", 2)[0]
    for day in ("1", "2"):
        folder = place(lake, f"{root}/day={day}/hour=0")
        assert lake.run("add_files", source_path=folder, check_duplicate_files=False).status == "committed"
    assert sorted(neighbours.imported_folders(lake.table)) == [f"{root}/day=1", f"{root}/day=2"]
    imported = {path for path in lake.table.io.list_prefix(root) if "/day=" in path.location}
    lake.run("rewrite_data_files", rewrite_all=True)
    report = lake.run("expire_snapshots", older_than="2100-01-01T00:00:00", retain_last=1)
    assert report.metrics["deleted-data-files-count"] == 1
    assert report.metrics["kept-files-count"] == len(imported) == 2
    lake.catalog.drop_table(lake.identifier, purge=True)
    assert set(lake.catalog.io.list_prefix(root)) == imported


def test_a_table_imports_from_its_own_folder_though_another_one_lies_around_it() -> None:
    lake = make_lake()
    around = lake_of(lake.catalog, "around", lake.table.location.rsplit("/", 1)[0])
    around.append(numbered(0, 3))
    folder = place(lake, f"{lake.table.location}/landing")
    assert lake.run("add_files", source_path=folder).status == "committed"
    assert neighbours.imported_folders(lake.table) == []
    around.run("remove_orphan_files", now=lambda: later(4), location=f"{around.table.location}/data")
    assert len(lake.rows()) == 2


@pytest.mark.parametrize("where", ["memory://landing", "memory://landing/export", "memory://landing/export/deep"])
def test_files_that_were_imported_before_another_table_was_made_around_them_stay(where: str) -> None:
    lake = make_lake()
    folder = place(lake, "memory://landing/export")
    lake.run("add_files", source_path=folder)
    b = lake_of(lake.catalog, "b", where)
    b.append(numbered(0, 3))
    stray = f"{where}/data/stray.parquet"
    b.table.io.write(stray, b"x")
    report = b.run("remove_orphan_files", now=lambda: later(4))
    assert report.files == [stray]
    assert len(lake.rows()) == 2
    b.catalog.drop_table(("ns", "b"), purge=True)
    assert len(lake.rows()) == 2


def refers_to(lake: Lake, other: Lake) -> None:
    """As an engine commits that does not look at other tables."""
    files = tuple(task.data_file for task in other.tasks())
    commit(lake.catalog, lake.table, AppendFiles(added=files))


def test_a_purge_keeps_what_another_table_imported_from_the_dropped_ones_folder() -> None:
    lake = make_lake()
    folder = place(lake, "memory://landing/export")
    lake.run("add_files", source_path=folder)
    b = lake_of(lake.catalog, "b", "memory://landing")
    with pytest.raises(UnsupportedError, match=r"because table test\.ns\.t has imported files from memory:"):
        b.run("add_files", source_path=folder)
    refers_to(b, lake)
    assert len(b.rows()) == 2
    b.catalog.drop_table(("ns", "b"), purge=True)
    assert len(lake.rows()) == 2


def expired(lake: Lake) -> Any:
    """The rows go, and then the snapshots that had them."""
    commit(lake.catalog, lake.table, DeleteFiles(paths=tuple(task.file_path for task in lake.tasks())))
    return lake.run("expire_snapshots", older_than=str(later(1)), retain_last="1")


def test_an_expiry_leaves_imported_files_where_they_are_because_another_table_may_have_them() -> None:
    lake = make_lake()
    b = lake_of(lake.catalog, "b")
    folder = place(lake, "memory://landing/export")
    for importer in (lake, b):
        assert importer.run("add_files", source_path=folder).status == "committed"
    lake.append(numbered(0, 3))
    own = next(task.file_path for task in lake.tasks() if not task.file_path.startswith(folder))
    report = expired(lake)
    assert len(b.rows()) == 2
    assert own in report.files
    assert not lake.table.io.exists(own)
    assert report.metrics["kept-files-count"] == 1
    assert [s.file_path for s in report.skipped] == [f"{folder}/x.parquet"]
    assert list(lake.table.io.list_prefix(f"{lake.table.location}/metadata/iceberg-ops/expiry")) == [], "it is not finished"
    assert expired(b).metrics["kept-files-count"] == 1
    assert lake.table.io.exists(f"{folder}/x.parquet")


def test_an_expiry_deletes_imported_files_where_the_table_is_said_to_own_them() -> None:
    lake = make_lake(properties={"iceberg-ops.owns-imported-files": "true"})
    folder = place(lake, "memory://landing/export")
    lake.run("add_files", source_path=folder)
    report = expired(lake)
    assert f"{folder}/x.parquet" in report.files
    assert not lake.table.io.exists(f"{folder}/x.parquet")


def test_an_expiry_deletes_what_was_imported_from_the_tables_own_folder() -> None:
    lake = make_lake()
    folder = place(lake, f"{lake.table.location}/landing")
    lake.run("add_files", source_path=folder)
    expired(lake)
    assert not lake.table.io.exists(f"{folder}/x.parquet")


@pytest.mark.parametrize("owner", ["the first", "the second"])
@pytest.mark.parametrize("where", ["memory://landing", "memory://landing/export", "memory://landing/export/deep"])
def test_two_tables_do_not_import_from_one_folder_where_one_is_said_to_own_what_it_imports(owner: str, where: str) -> None:
    owns = {"iceberg-ops.owns-imported-files": "true"}
    lake = make_lake(properties=owns if owner == "the first" else {})
    b = lake_of(lake.catalog, "b", **(owns if owner == "the second" else {}))
    lake.run("add_files", source_path=place(lake, "memory://landing/export"))
    name = "test.ns.t" if owner == "the first" else "test.ns.b"
    with pytest.raises(UnsupportedError, match=f"has imported files from memory://landing/export, and {name} deletes such files"):
        b.run("add_files", source_path=place(lake, where))
    assert b.run("add_files", source_path=place(lake, "memory://landing/export-of-b")).status == "committed"


def test_imports_of_many_days_record_one_folder() -> None:
    lake = make_lake()
    for day in ("1", "2"):
        lake.run("add_files", source_path=place(lake, f"memory://landing/day={day}"))
    assert neighbours.imported_folders(lake.table) == ["memory://landing"]
    lake.run("add_files", source_path="memory://landing/day=2/", check_duplicate_files="false")
    assert neighbours.imported_folders(lake.table) == ["memory://landing"]
