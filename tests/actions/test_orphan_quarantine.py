"""Orphans that were moved to a quarantine can be restored: the record shows the original location of each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from msgspec import structs

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.errors import BadInputError, CorruptTableError, OptionError
from iceberg_ops.io.local import LocalFileIO
from tests.actions.lake import Lake, make_lake, numbered
from tests.actions.test_housekeeping import later, plant
from tests.builders import make_table


def test_orphans_are_moved_and_recorded_and_can_be_put_back() -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    rows, orphans = lake.rows(), [plant(lake), plant(lake, "data/region=a/stray.parquet")]
    report = lake.run("remove_orphan_files", now=lambda: later(4), quarantine_path="memory://quarantine")
    assert report.status == "committed"
    assert (report.metrics["moved-orphan-files-count"], sorted(report.files)) == (2, sorted(orphans))
    assert not set(orphans) & set(lake.paths())
    io = lake.table.io
    (record,) = [f.location for f in io.list_prefix("memory://quarantine") if f.location.endswith("moved.jsonl")]
    moves = [json.loads(line) for line in io.read(record).splitlines()]
    assert {m["from"] for m in moves} == set(orphans)
    assert sorted(m["to"].split("/files/")[1] for m in moves) == ["data/region=a/stray.parquet", "data/stray.parquet"]
    for move in moves:
        io.write(move["from"], io.read(move["to"]))
    assert set(orphans) <= set(lake.paths())
    assert lake.rows() == rows


@pytest.mark.parametrize("key", ["k" * 300, "scheduled/" + "\u00dc" * 60, "..", "."])
def test_a_run_key_that_is_no_file_name_has_a_folder_of_its_own_in_the_quarantine(key: str) -> None:
    lake = make_lake()
    orphan = plant(lake)
    job = structs.replace(lake.job("remove_orphan_files", quarantine_path="memory://quarantine"), run_key=key)
    report = run_job(job, catalog=lake.catalog, now=lambda: later(4))
    assert (report.status, report.files) == ("committed", [orphan])
    (moved,) = [f.location for f in lake.table.io.list_prefix("memory://quarantine") if "/files/" in f.location]
    name = moved.removeprefix("memory://quarantine/").partition("/")[0]
    assert name not in ("", ".", "..")
    assert len(name) < 255


def test_a_dry_run_moves_nothing() -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    orphan = plant(lake)
    report = lake.run("remove_orphan_files", now=lambda: later(4), dry_run=True, quarantine_path="memory://quarantine")
    assert (report.status, report.files) == ("planned", [orphan])
    assert orphan in lake.paths()
    assert not list(lake.table.io.list_prefix("memory://quarantine"))


@pytest.mark.parametrize("below", ["", "/data/quarantine", "/.."])
def test_a_quarantine_inside_or_around_the_table_is_refused(below: str) -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    place = lake.table.location + below if below != "/.." else lake.table.location.rsplit("/", 1)[0]
    with pytest.raises(OptionError, match="must be neither below nor above"):
        lake.run("remove_orphan_files", now=lambda: later(4), quarantine_path=place)


@pytest.mark.parametrize("name", ["write.data.path", "write.metadata.path", "write.object-storage.path"])
@pytest.mark.parametrize("below", ["", "/aside", "/.."])
def test_a_quarantine_inside_or_around_a_folder_of_the_table_elsewhere_is_refused(name: str, below: str) -> None:
    lake = make_lake(properties={name: "memory://elsewhere/t/files"})
    place = "memory://elsewhere/t" if below == "/.." else f"memory://elsewhere/t/files{below}"
    with pytest.raises(OptionError, match="must be neither below nor above the table, memory://elsewhere/t/files"):
        lake.run("remove_orphan_files", now=lambda: later(4), quarantine_path=place)


def _in_folders(tmp_path: Path) -> Lake:
    catalog = FileSystemCatalog("c", LocalFileIO(), warehouse=f"{tmp_path}/wh")
    catalog.create_namespace(("ns",))
    make_table(catalog, properties={"write.metadata.previous-versions-max": "1"})
    lake = Lake(catalog)
    for n in range(4):
        lake.append(numbered(n * 5, n * 5 + 5))
    return lake


def test_metadata_files_in_a_quarantine_in_the_warehouse_are_no_table(tmp_path: Path) -> None:
    """The table that a filesystem catalog took the folder for refused later orphan removals and the drop of the first one."""
    lake = _in_folders(tmp_path)
    report = lake.run("remove_orphan_files", now=lambda: later(4), quarantine_path=f"{tmp_path}/wh/aside")
    versions = [f"{lake.table.location}/metadata/v{n}.metadata.json" for n in (1, 2, 3)]
    assert report.files == versions
    (record,) = (tmp_path / "wh" / "aside").glob("*/moved.jsonl")
    moves = [json.loads(line) for line in record.read_bytes().splitlines()]
    assert [m["from"] for m in moves] == versions
    assert all(m["to"].endswith(".metadata.json.moved") and Path(m["to"]).exists() for m in moves)
    assert isinstance(lake.catalog, FileSystemCatalog)
    assert lake.catalog.all_tables() == [lake.identifier]
    lake.run("expire_snapshots", older_than="0s", retain_last="1")
    stray = plant(lake)
    assert lake.run("remove_orphan_files", now=lambda: later(4)).files == [
        stray,
        f"{lake.table.location}/metadata/v4.metadata.json",
    ]
    lake.catalog.drop_table(lake.identifier, purge=True)


def test_an_error_in_a_forgotten_copy_names_the_copy(tmp_path: Path) -> None:
    lake = _in_folders(tmp_path)
    shutil.copytree(lake.table.location, tmp_path / "wh" / "backup" / "t")
    lake.append(numbered(50, 55))
    lake.run("expire_snapshots", older_than="0s", retain_last="1")
    plant(lake)
    with pytest.raises(CorruptTableError, match=r"table c\.backup\.t may need files of this .*: manifest list .*snap-"):
        lake.run("remove_orphan_files", now=lambda: later(4))
    shutil.rmtree(tmp_path / "wh" / "backup")
    assert lake.run("remove_orphan_files", now=lambda: later(4)).status == "committed"


def test_a_relative_quarantine_is_refused(tmp_path: Path) -> None:
    """Each process has its own working folder: under a scheduler it is often one that is deleted afterwards."""
    lake = _in_folders(tmp_path)
    with pytest.raises(BadInputError, match="option quarantine-path 'aside' is relative"):
        lake.run("remove_orphan_files", now=lambda: later(4), quarantine_path="aside")
