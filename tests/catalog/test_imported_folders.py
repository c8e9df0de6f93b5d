"""Files that one table imported where they lie are never another table's orphans."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.actions.import_folder import import_folder
from iceberg_ops.catalog import neighbours
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
    lake.table.io.write(f"{folder}/x.parquet", bytes(sink.getvalue()))
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


def test_a_purge_keeps_what_another_table_imported_from_the_dropped_ones_folder() -> None:
    lake = make_lake()
    folder = place(lake, "memory://landing/export")
    lake.run("add_files", source_path=folder)
    b = lake_of(lake.catalog, "b", "memory://landing")
    assert b.run("add_files", source_path=folder).status == "committed"
    assert len(b.rows()) == 2
    b.catalog.drop_table(("ns", "b"), purge=True)
    assert len(lake.rows()) == 2


def test_imports_of_many_days_record_one_folder() -> None:
    lake = make_lake()
    for day in ("1", "2"):
        lake.run("add_files", source_path=place(lake, f"memory://landing/day={day}"))
    assert neighbours.imported_folders(lake.table) == ["memory://landing"]
    lake.run("add_files", source_path="memory://landing/day=2/", check_duplicate_files="false")
    assert neighbours.imported_folders(lake.table) == ["memory://landing"]
