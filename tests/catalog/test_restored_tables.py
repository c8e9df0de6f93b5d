"""A dropped table of a filesystem catalog whose folder is restored from a backup: the error explains how to get the table back."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.errors import NoSuchTableError
from iceberg_ops.io.local import LocalFileIO
from tests.actions.lake import Lake
from tests.builders import IDENTIFIER, make_table


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    catalog = FileSystemCatalog("fs", LocalFileIO(), warehouse=f"{tmp_path}/wh")
    catalog.create_namespace(("ns",))
    make_table(catalog)
    lake = Lake(catalog)
    lake.append([(1, "a", "x")])
    return lake


def why(lake: Lake) -> str:
    with pytest.raises(NoSuchTableError) as none:
        lake.catalog.load_table(IDENTIFIER)
    return str(none.value)


def test_a_restored_table_is_back_once_its_mark_is_deleted_as_the_error_says(tmp_path: Path, lake: Lake) -> None:
    folder = tmp_path / "wh" / "ns" / "t"
    shutil.copytree(folder, tmp_path / "backup")
    lake.catalog.drop_table(IDENTIFIER, purge=True)
    assert why(lake) == "catalog fs has no table ns.t"
    shutil.copytree(tmp_path / "backup", folder, dirs_exist_ok=True)
    found = re.search(r"delete the mark of the drop, (\S+): then the table is back$", why(lake))
    assert found
    Path(found[1]).unlink()
    assert lake.rows() == [(1, "a", "x")]
    lake.append([(2, "b", "y")])
    assert lake.rows() == [(1, "a", "x"), (2, "b", "y")]
    assert lake.run("remove_orphan_files").status == "nothing-to-do"


def test_of_several_dropped_tables_the_mark_of_the_one_that_is_there_is_named(tmp_path: Path, lake: Lake) -> None:
    folder = tmp_path / "wh" / "ns" / "t"
    uuids = []
    for _ in range(2):
        uuids.append(lake.table.metadata.table_uuid)
        shutil.copytree(folder, tmp_path / "backup", dirs_exist_ok=True) if len(uuids) == 2 else None
        lake.catalog.drop_table(IDENTIFIER, purge=True)
        make_table(lake.catalog)
    lake.catalog.drop_table(IDENTIFIER, purge=True)
    shutil.copytree(tmp_path / "backup", folder, dirs_exist_ok=True)
    assert uuids[1] in why(lake)
    assert uuids[0] not in why(lake)


def test_a_name_that_never_was_says_no_more_than_that(lake: Lake) -> None:
    with pytest.raises(NoSuchTableError, match=r"^catalog fs has no table ns\.other$"):
        lake.catalog.load_table(("ns", "other"))
