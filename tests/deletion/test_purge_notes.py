"""A purge announces itself to imports."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_ops.commit.append_files import AppendFiles
from iceberg_ops.commit.committer import commit
from iceberg_ops.errors import CatalogUnavailableError
from tests.actions.lake import make_lake
from tests.builders import data_file
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
