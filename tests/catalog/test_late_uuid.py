"""A v1 table that got its uuid in a later commit is one table: its drop also deletes the earlier versions."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.versions import HINT
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.io.file_io import DeleteFailure
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, make_table

LOGS_ONE = {"write.metadata.previous-versions-max": "1"}


class Undeletable(LocalFileIO):
    """Files of ``names`` are not deleted."""

    names: frozenset[str] = frozenset()

    def delete_many(self, locations: Any) -> Any:
        found = list(locations)
        stuck = [location for location in found if location.rpartition("/")[2] in self.names]
        failures = super().delete_many(location for location in found if location not in stuck)
        return [*failures, *(DeleteFailure(location, "Injected") for location in stuck)]


@pytest.fixture
def io() -> Undeletable:
    return Undeletable()


@pytest.fixture
def catalog(tmp_path: Path, io: Undeletable) -> FileSystemCatalog:
    catalog = FileSystemCatalog("fs", io, warehouse=str(tmp_path / "wh"), sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    return catalog


def without_uuid(path: str) -> None:
    metadata = json.loads(Path(path).read_text())
    del metadata["table-uuid"]
    Path(path).write_text(json.dumps(metadata))


def late(catalog: FileSystemCatalog, early: int = 1, **properties: str) -> Table:
    """A table whose first ``early`` versions have no uuid; two that have one follow."""
    table = make_table(catalog, version=1, properties=properties)
    for n in range(early + 1):
        if n < early:
            without_uuid(table.metadata_location)
        table = commit(
            catalog, catalog.load_table(IDENTIFIER), AppendFiles(added=(data_file(f"{table.location}/data/a{n}"),))
        ).table
    return table


@pytest.mark.parametrize("early", [1, 3])
@pytest.mark.parametrize("hint", [True, False])
def test_a_drop_leaves_nothing_of_it(catalog: FileSystemCatalog, early: int, hint: bool) -> None:
    table = late(catalog, early)
    if not hint:
        os.unlink(f"{table.location}/metadata/{HINT}")
    catalog.drop_table(IDENTIFIER, purge=True)
    assert list(catalog.io.list_prefix(table.location)) == []
    assert not catalog.table_exists(IDENTIFIER)
    make_table(catalog)


@pytest.mark.parametrize("stuck", ["v1.metadata.json", "v2.metadata.json", "v3.metadata.json"])
def test_a_version_that_a_drop_cannot_delete_brings_nothing_back(catalog: FileSystemCatalog, io: Undeletable, stuck: str) -> None:
    late(catalog, 2)
    io.names = frozenset({stuck})
    catalog.drop_table(IDENTIFIER, purge=True)
    assert not catalog.table_exists(IDENTIFIER)
    assert make_table(catalog).metadata == catalog.load_table(IDENTIFIER).metadata


def test_a_table_without_a_uuid_below_a_leftover_of_a_dropped_one_is_alive(catalog: FileSystemCatalog) -> None:
    """Another engine made it after the drop; a late writer of the dropped one left a version above."""
    dropped = make_table(catalog, version=1)
    leftover = Path(dropped.metadata_location).read_bytes()
    catalog.drop_table(IDENTIFIER, purge=True)
    folder = Path(dropped.location) / "metadata"
    folder.mkdir(parents=True)
    (folder / "v1.metadata.json").write_bytes(leftover)
    without_uuid(str(folder / "v1.metadata.json"))
    (folder / "v2.metadata.json").write_bytes(leftover)
    assert catalog.load_table(IDENTIFIER).metadata_location.endswith("/v1.metadata.json")


def test_two_tables_without_a_uuid_are_not_taken_for_one(catalog: FileSystemCatalog) -> None:
    for name in ("t", "u"):
        table = make_table(catalog, version=1, identifier=("ns", name))
        catalog.io.write(f"{table.location}/data/{name}.parquet", b"x")
        without_uuid(
            commit(catalog, table, AppendFiles(added=(data_file(f"{table.location}/data/{name}.parquet"),))).table.metadata_location
        )
        without_uuid(table.metadata_location)
    catalog.drop_table(("ns", "t"), purge=True)
    left = [info.location.rpartition("/")[2] for info in catalog.io.list_prefix(table.location.rpartition("/")[0])]
    assert "t.parquet" not in left
    assert "u.parquet" in left


@pytest.mark.parametrize("gone", [("v3.metadata.json",), ("v3.metadata.json", "v4.metadata.json")])
def test_a_drop_leaves_nothing_of_it_where_versions_in_between_are_gone(catalog: FileSystemCatalog, gone: tuple[str, ...]) -> None:
    """Old versions are cleaned away one by one, and one that cannot be deleted stays."""
    table = late(catalog, 4, **LOGS_ONE)
    for name in gone:
        os.unlink(f"{table.location}/metadata/{name}")
    os.unlink(f"{table.location}/metadata/v1.metadata.json")
    catalog.drop_table(IDENTIFIER, purge=True)
    assert list(catalog.io.list_prefix(table.location)) == []
    assert not catalog.table_exists(IDENTIFIER)


def orphans_removed(catalog: FileSystemCatalog, name: str = "t") -> None:
    job = JobSpec(
        job="remove_orphan_files",
        table=f"fs.ns.{name}",
        catalog=CatalogConfig(name="fs", type="filesystem"),
        options={"older-than": "2100-01-01T00:00:00Z"},
    )
    run_job(job, catalog=catalog, now=lambda: 4_200_000_000_000)


@pytest.mark.parametrize("early", [1, 2, 5])
def test_orphan_removal_takes_versions_from_before_its_uuid_that_fell_out_of_its_log(
    catalog: FileSystemCatalog, early: int
) -> None:
    table = late(catalog, early, **LOGS_ONE)
    for n in range(early + 1):
        table.io.write(f"{table.location}/data/a{n}", b"x")
    table.io.write(f"{table.location}/data/orphan", b"x")
    table = commit(catalog, table, AppendFiles(added=(data_file(f"{table.location}/data/last"),))).table
    table.io.write(f"{table.location}/data/last", b"x")
    orphans_removed(catalog)
    left = {info.location.rpartition("/")[2] for info in catalog.io.list_prefix(table.location)}
    assert "orphan" not in left
    assert {name for name in left if name.startswith("v") and name != HINT} == {
        f"v{early + 2}.metadata.json",
        f"v{early + 3}.metadata.json",
    }
    assert catalog.load_table(IDENTIFIER).metadata == table.metadata


@pytest.mark.parametrize("mine_has_one", [True, False], ids=["of a table with a uuid", "of a table without"])
@pytest.mark.parametrize("theirs_has_one", [True, False], ids=["beside one with a uuid", "beside one without"])
def test_metadata_that_is_not_shown_to_be_the_tables_stops_orphan_removal(
    catalog: FileSystemCatalog, mine_has_one: bool, theirs_has_one: bool
) -> None:
    mine, theirs = make_table(catalog, version=1), make_table(catalog, version=1, identifier=("ns", "u"))
    for table, has_one in ((mine, mine_has_one), (theirs, theirs_has_one)):
        if not has_one:
            without_uuid(table.metadata_location)
    inside = f"{mine.location}/other/v1.metadata.json"
    catalog.io.write(inside, catalog.io.read(theirs.metadata_location))
    with pytest.raises(UnsupportedError, match=r"holds another table: .*/other/v1\.metadata\.json is"):
        orphans_removed(catalog)
    assert catalog.io.exists(inside)
