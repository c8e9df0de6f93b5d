"""Orphan removal deletes no live file, however the table's locations are spelled; if it cannot decide, it deletes nothing."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import UnsupportedError, ValidationError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.locations import coarse_identity, folder_identity, identity_under, location_identity
from iceberg_ops.spec.updates import SetProperties
from iceberg_ops.table.reachable import reachable_files
from iceberg_ops.table.table import Table
from tests.actions.lake import Lake, numbered
from tests.builders import IDENTIFIER, data_file, make_table, sql_catalog

DAY_MS = 24 * 3600 * 1000

SPELLINGS = {
    "plain": "{wh}/elsewhere",
    "below the table": "{table}/files",
    "doubled slashes": "{wh}//ns//t//files",
    "a dot": "{wh}/./ns/t/./files",
    "two dots": "{wh}/ns/u/../t/files",
    "file: and four slashes": "file:////{wh}/ns/t/files",
    "file: and three": "file://{wh}/ns/t/files",
    "file: and one": "file:{wh}/ns/t/files",
    "a link": "{link}/ns/t/files",
    "a link and dots": "file:{link}/./ns/x/../t//files",
    "a slash at the end": "{wh}/ns/t/files/",
}


def lake_at(tmp_path: Path, warehouse: str, io: FileIO | None = None, **properties: str) -> Lake:
    catalog = SqlCatalog("c", f"sqlite:///{tmp_path}/c.db", io or LocalFileIO(), warehouse=warehouse)
    catalog.create_namespace(("ns",))
    make_table(catalog, properties=properties)
    return Lake(catalog)


def clean(lake: Lake, catalog: Any = None, **options: str) -> ActionReport:
    """Orphan removal a week later."""
    table = lake.table
    job = JobSpec(
        job="remove_orphan_files",
        table=".".join(("c", *table.identifier[1:])),
        catalog=CatalogConfig(name="c", type="sql"),
        options={"unsafe-allow-recent": "true", "older-than": "0s", **options},
    )
    return run_job(job, catalog=catalog or lake.catalog, now=lambda: table.metadata.last_updated_ms + 7 * DAY_MS)


def missing(table: Table) -> list[str]:
    return [path for path in reachable_files(table) if not table.io.exists(path)]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_live_files_stay_however_the_data_path_is_spelled(spelling: str, tmp_path: Path) -> None:
    (tmp_path / "wh" / "ns" / "x").mkdir(parents=True)
    (tmp_path / "wh" / "ns" / "u").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "wh")
    place = {"wh": f"{tmp_path}/wh", "table": f"{tmp_path}/wh/ns/t", "link": f"{tmp_path}/link"}
    lake = lake_at(tmp_path, f"{tmp_path}/wh", **{"write.data.path": SPELLINGS[spelling].format(**place)})
    lake.append(numbered(0, 5))
    lake.delete_ids(1)
    stray = tmp_path / "wh" / "ns" / "t" / "stray.parquet"
    stray.write_bytes(b"x")
    report = clean(lake)
    assert [Path(f).name for f in report.files] == ["stray.parquet"]
    assert missing(lake.table) == []
    assert len(lake.rows()) == 4


@pytest.mark.parametrize("kind", ["alias", "link", "dots"])
def test_the_current_metadata_file_stays_where_the_warehouse_is_spelled_otherwise(kind: str, tmp_path: Path) -> None:
    """The catalog finds the table by another spelling of its folder than the one that its metadata records."""
    (tmp_path / "wh").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "wh")
    spelled = {"alias": f"file://{tmp_path}/wh", "link": f"{tmp_path}/link", "dots": f"{tmp_path}/./wh/"}[kind]
    first = FileSystemCatalog("c", LocalFileIO(), warehouse=f"{tmp_path}/wh")
    first.create_namespace(("ns",))
    make_table(first)
    Lake(first).append(numbered(0, 3))
    second = FileSystemCatalog("c", LocalFileIO(), warehouse=spelled)
    Lake(second, _names=itertools.count(100)).append(numbered(10, 3))
    (tmp_path / "wh" / "ns" / "t" / "stray").write_bytes(b"x")
    assert [Path(f).name for f in clean(Lake(second), second).files] == ["stray"]
    for catalog in (first, second):
        assert len(Lake(catalog).rows()) == 6


def test_a_recorded_file_that_the_listing_lacks_stops_everything(tmp_path: Path) -> None:
    class Forgets(LocalFileIO):
        def list_folder(self, location: str) -> Any:
            folders, files = super().list_folder(location)
            return folders, [f for f in files if "append" not in f.location]

    lake = lake_at(tmp_path, f"{tmp_path}/wh")
    lake.append(numbered(0, 3))
    stray = Path(lake.table.location) / "stray"
    stray.write_bytes(b"x")
    forgetful = sql_catalog(tmp_path, Forgets())
    with pytest.raises(
        ValidationError, match=r"its metadata records .*, which the listing of .* lacks; it exists, so the listing and"
    ):
        clean(lake, forgetful)
    os.remove(lake.tasks()[0].file_path)
    with pytest.raises(ValidationError, match=r"lacks; it does not exist: the table is damaged \(see iceberg-ops check\)"):
        clean(lake)
    assert stray.exists()


def test_files_in_a_folder_of_the_table_that_is_a_link_elsewhere_stay(tmp_path: Path) -> None:
    lake = lake_at(tmp_path, f"{tmp_path}/wh")
    lake.append(numbered(0, 3))
    data = Path(lake.table.location) / "data"
    data.rename(tmp_path / "moved")
    data.symlink_to(tmp_path / "moved")
    (Path(lake.table.location) / "stray").write_bytes(b"x")
    assert [Path(f).name for f in clean(lake).files] == ["stray"]
    assert len(lake.rows()) == 3


def test_metadata_files_that_the_log_still_names_may_be_gone(tmp_path: Path) -> None:
    lake = lake_at(tmp_path, f"{tmp_path}/wh")
    first = Path(lake.table.metadata_location)
    lake.append(numbered(0, 3))
    first.unlink()
    assert clean(lake).status == "nothing-to-do"


def test_what_is_committed_while_the_listing_runs_is_not_missed_in_it(tmp_path: Path) -> None:
    lake = lake_at(tmp_path, f"{tmp_path}/wh")
    lake.append(numbered(0, 3))

    class Late(LocalFileIO):
        done = False

        def list_folder(self, location: str) -> Any:
            found = super().list_folder(location)
            if not self.done:
                self.done = True
                lake.append(numbered(10, 3))
            return found

    late = sql_catalog(tmp_path, Late())
    assert clean(lake, late).status == "nothing-to-do"
    assert len(lake.rows()) == 6


def test_two_tables_that_swap_names_during_the_listing_keep_their_files(tmp_path: Path) -> None:
    catalog = sql_catalog(tmp_path)
    catalog.create_namespace(("ns",))
    tables = [Lake(catalog, ("ns", name)) for name in ("t", "u")]
    for lake in tables:
        make_table(catalog, identifier=lake.identifier)
        lake.append(numbered(0, 3))

    class Swapped(SqlCatalog):
        loads = 0

        def load_table(self, identifier: tuple[str, ...]) -> Table:
            self.loads += 1
            if self.loads == 2:
                for old, new in ((IDENTIFIER, ("ns", "x")), (("ns", "u"), IDENTIFIER), (("ns", "x"), ("ns", "u"))):
                    self.rename_table(old, new)
            return super().load_table(identifier)

    swapping = Swapped("c", f"sqlite:///{tmp_path}/c.db", LocalFileIO(), warehouse=f"{tmp_path}/wh")
    with pytest.raises(ValidationError, match="is now a different table"):
        clean(tables[0], swapping)
    for lake in tables:
        assert missing(lake.table) == []


def test_a_file_that_may_be_a_recorded_one_in_another_spelling_stays(tmp_path: Path) -> None:
    """One engine encodes what the other does not: nothing here can tell whether ``a%20b`` and ``a b`` are one file."""
    lake = lake_at(tmp_path, f"{tmp_path}/wh")
    folder = f"{lake.table.location}/data"
    os.makedirs(folder)
    for name in ("a b", quote("a b"), "c", quote("c d")):
        (Path(folder) / name).write_bytes(b"x")
    commit(lake.catalog, lake.table, AppendFiles(added=(data_file(f"{folder}/a b"), data_file(f"{folder}/c"))))
    report = clean(lake)
    assert [Path(f).name for f in report.files] == ["c%20d"]
    assert [(Path(s.file_path).name, s.reason) for s in report.skipped] == [
        ("a%20b", f"it may be the file that is recorded as {folder}/a b")
    ]


def test_a_lease_of_an_import_keeps_the_files_of_its_folder(tmp_path: Path) -> None:
    from iceberg_ops.deletion.leases import Lease, acquire_lease

    lake = lake_at(tmp_path, f"{tmp_path}/wh")
    (tmp_path / "link").symlink_to(tmp_path / "wh")
    folder = Path(lake.table.location) / "incoming"
    folder.mkdir(parents=True)
    (folder / "new.parquet").write_bytes(b"x")
    (folder.parent / "incoming-2").write_bytes(b"x")
    lease = Lease(holder="import", snapshot_id=None, expires_at_ms=2**60, folders=(f"{tmp_path}/link/ns/t/incoming",))
    acquire_lease(lake.table, lease)
    assert [Path(f).name for f in clean(lake).files] == ["incoming-2"]
    assert (folder / "new.parquet").exists()


def test_identity_follows_links_mappings_and_spellings(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    identity = identity_under(LocalFileIO())
    real = f"{tmp_path}/real".replace(str(tmp_path), os.path.realpath(tmp_path))
    for spelled in ("{}/link/f", "file:{}/link/f", "file://{}//real/./f", "{}/link/../link/x/../f", "file://localhost{}/link//f"):
        assert identity(spelled.format(tmp_path)) == f"{real}/f"
    for folder in ("{}/link", "{}/link/", "file:{}/real/."):
        assert folder_identity(identity, folder.format(tmp_path)) == real
    assert identity("s3a://b/x//y") == location_identity("s3://b/x//y") != location_identity("s3://b/x/y")
    assert identity("abfss://c@a.dfs.core.windows.net/x//y") == identity("wasb://c@a.blob.core.windows.net/x/y")
    assert coarse_identity("s3://b/x//y%20z") == coarse_identity("/x/y z")


def test_a_link_that_is_made_later_is_seen(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    before = identity_under(LocalFileIO())(f"{tmp_path}/link/f")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    after = identity_under(LocalFileIO())(f"{tmp_path}/link/f")
    assert (before, after) == (f"{os.path.realpath(tmp_path)}/link/f", f"{os.path.realpath(tmp_path)}/real/f")


def test_a_link_that_leads_elsewhere_later_is_seen_by_the_next_job(tmp_path: Path) -> None:
    """A disk is replaced while a scheduler runs: what was read through the link before says nothing about the files now."""
    lake = lake_at(tmp_path, f"{tmp_path}/disk2/wh", **{"write.data.path": f"{tmp_path}/current/files"})
    (tmp_path / "disk1").mkdir()
    (tmp_path / "current").symlink_to(tmp_path / "disk1")
    lake.append(numbered(0, 3))
    lake.delete_positions((lake.tasks()[0], [1]))
    rows = lake.rows()
    assert clean(lake).files == []
    shutil.move(tmp_path / "disk1/files", f"{lake.table.location}/files")
    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to(lake.table.location)
    report = clean(lake)
    assert (report.files, lake.rows()) == ([], rows)


def test_what_a_link_led_to_is_known_for_a_minute_and_an_identity_does_not_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "one")
    location, first = f"{tmp_path}/link/f", identity_under(LocalFileIO())
    assert first(location) == f"{os.path.realpath(tmp_path)}/one/f"
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(tmp_path / "two")
    later = time.monotonic() + 61
    monkeypatch.setattr("iceberg_ops.io.locations.time.monotonic", lambda: later)
    assert identity_under(LocalFileIO())(location) == f"{os.path.realpath(tmp_path)}/two/f"
    assert first(location) == f"{os.path.realpath(tmp_path)}/one/f"


def test_old_metadata_of_the_table_a_copy_was_registered_from_stays(tmp_path: Path) -> None:
    lake = lake_at(tmp_path, f"{tmp_path}/wh")
    lake.append(numbered(0, 3))
    copied = lake.table.io.read(lake.table.metadata_location).replace(b"/ns/t", b"/ns/copy")
    logged = [e.metadata_file for e in lake.table.metadata.metadata_log]
    place = f"{tmp_path}/wh/ns/copy/metadata/00001-x.metadata.json"
    lake.table.io.write(place, copied.replace(b"/ns/copy/metadata/00000", b"/ns/t/metadata/00000"))
    table = lake.catalog.register_table(("ns", "copy"), place)
    changes = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    for number in range(3):
        table = lake.catalog.commit_table(table, [], [SetProperties({**changes, "n": str(number)})])
    assert [path for path in logged if not lake.table.io.exists(path)] == []


def test_nothing_is_removed_where_it_is_not_known_which_file_a_mount_table_means(tmp_path: Path) -> None:
    lake = lake_at(tmp_path, f"{tmp_path}/wh", io=load_file_io())
    lake.append(numbered(0, 5))
    stray = Path(lake.table.location) / "data" / "stray.parquet"
    stray.write_bytes(b"x")
    commit(lake.catalog, lake.table, AppendFiles(added=(data_file("viewfs://gone/wh/t/f.parquet"),)))
    with pytest.raises(UnsupportedError, match="do not show where the mount table gone has it"):
        clean(lake)
    assert stray.exists()


@pytest.mark.parametrize(
    "place",
    ["hdfs://router/mounted/{}", "alluxio://host:19998/lake/{}", "s3://bucket/{}", "/mounted/lake/{}"],
    ids=["a router of HDFS", "a cache before the store", "a bucket that is mounted", "a folder that is mounted twice"],
)
def test_a_file_stays_whose_name_is_recorded_in_another_place(tmp_path: Path, place: str) -> None:
    """No location shows that it is the same file; but nobody gives another file such a name."""
    lake = lake_at(tmp_path, f"{tmp_path}/wh", io=load_file_io())
    lake.append(numbered(0, 5))
    folder = Path(lake.table.location) / "data"
    for name in ("live-0b5c.parquet", "stray.parquet", ".live-0b5c.parquet.crc"):
        (folder / name).write_bytes(b"x")
    recorded = place.format("ns/t/data/live-0b5c.parquet")
    commit(lake.catalog, lake.table, AppendFiles(added=(data_file(recorded),)))
    report = clean(lake)
    assert [*map(os.path.basename, report.files)] == ["stray.parquet"]
    assert {s.reason for s in report.skipped} == {f"it has the name of {recorded}, and may be that file"}
    assert sorted(os.listdir(folder))[:1] == [".live-0b5c.parquet.crc"]
    assert (folder / "live-0b5c.parquet").exists()


def test_a_file_stays_whose_name_is_recorded_in_the_table_where_its_data_path_is_searched(tmp_path: Path) -> None:
    """The data path may be the table's own folder by another path, which it has had only since the table's first commits."""
    other, stray = tmp_path / "mounted" / "data", tmp_path / "mounted" / "data" / "stray.parquet"
    other.mkdir(parents=True)
    lake = lake_at(tmp_path, f"{tmp_path}/wh")
    lake.append(numbered(0, 5))
    (live,) = (Path(lake.table.location) / "data").iterdir()
    (other / live.name).hardlink_to(live)
    stray.write_bytes(b"x")
    lake.catalog.commit_table(lake.table, [], [SetProperties({"write.data.path": f"{other}"})])
    report = clean(lake, location=f"{other}")
    assert report.files == [str(stray)]
    assert {s.reason for s in report.skipped} == {f"it has the name of {live}, and may be that file"}
