"""A table's uuid is a value: metadata files of one table may spell it in upper or lower case and still belong to one table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.versions import HINT
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.errors import IcebergOpsError, NoSuchTableError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, live_paths, make_table


@pytest.fixture
def catalog(tmp_path: Path) -> FileSystemCatalog:
    catalog = FileSystemCatalog("fs", LocalFileIO(), warehouse=str(tmp_path / "wh"), sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    return catalog


def in_upper_case(path: Path) -> None:
    metadata = json.loads(path.read_text())
    metadata["table-uuid"] = metadata["table-uuid"].upper()
    path.write_text(json.dumps(metadata))


def spelled(catalog: FileSystemCatalog, *upper: int) -> Table:
    """A table of three versions, of which these spell the uuid in upper case."""
    table = make_table(catalog)
    for name in ("a", "b"):
        table = commit(catalog, table, AppendFiles(added=(data_file(f"{table.location}/data/{name}.parquet"),))).table
    for version in upper:
        in_upper_case(Path(f"{table.location}/metadata/v{version}.metadata.json"))
    return catalog.load_table(IDENTIFIER)


@pytest.mark.parametrize("upper", [(1,), (2,), (3,), (1, 2), (2, 3), (1, 3)])
@pytest.mark.parametrize("hint", [True, False], ids=["with a hint", "without"])
def test_a_drop_leaves_no_version_however_it_spells_the_uuid(
    catalog: FileSystemCatalog, upper: tuple[int, ...], hint: bool
) -> None:
    table = spelled(catalog, *upper)
    if not hint:
        Path(f"{table.location}/metadata/{HINT}").unlink()
    catalog.drop_table(IDENTIFIER, purge=True)
    assert not catalog.table_exists(IDENTIFIER)
    assert list(catalog.io.list_prefix(table.location)) == []
    assert make_table(catalog).metadata == catalog.load_table(IDENTIFIER).metadata


@pytest.mark.parametrize("late_is_upper", [True, False])
def test_a_late_version_does_not_bring_a_dropped_table_back_however_it_spells_the_uuid(
    catalog: FileSystemCatalog, late_is_upper: bool
) -> None:
    table = spelled(catalog, *(() if late_is_upper else (3,)))
    late = Path(table.metadata_location)
    content = late.read_text()
    catalog.drop_table(IDENTIFIER, purge=True)
    late.parent.mkdir(parents=True)
    late.write_text(content.replace(table.metadata.table_uuid, table.metadata.table_uuid.swapcase()))
    assert not catalog.table_exists(IDENTIFIER)
    with pytest.raises(NoSuchTableError):
        catalog.load_table(IDENTIFIER)
    new = make_table(catalog)
    assert int(Path(new.metadata_location).name[1:].partition(".")[0]) > 3
    commit(catalog, new, AppendFiles(added=(data_file("c"),)))
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"c"}


def test_a_writer_that_is_late_is_refused_however_it_spells_the_uuid(catalog: FileSystemCatalog) -> None:
    table = spelled(catalog, 1, 2, 3)
    stale = Path(table.metadata_location)
    content = stale.read_text()
    catalog.drop_table(IDENTIFIER, purge=True)
    stale.parent.mkdir(parents=True)
    stale.write_text(content.replace(table.metadata.table_uuid, table.metadata.table_uuid.lower()))
    with pytest.raises(IcebergOpsError):
        commit(catalog, table, AppendFiles(added=(data_file("x"),)), sleep=lambda _: None)
    assert not catalog.table_exists(IDENTIFIER)


@pytest.mark.parametrize("upper", [(1,), (2,), (3,), (1, 3)])
def test_commits_go_on_above_a_version_that_spells_the_uuid_otherwise(catalog: FileSystemCatalog, upper: tuple[int, ...]) -> None:
    table = spelled(catalog, *upper)
    in_between = commit(catalog, table, AppendFiles(added=(data_file("c"),))).table
    in_upper_case(Path(in_between.metadata_location))
    commit(catalog, table, AppendFiles(added=(data_file("d"),)))
    assert {"c", "d"} <= live_paths(catalog.load_table(IDENTIFIER))


def test_orphan_removal_knows_versions_of_a_dropped_table_however_they_spell_its_uuid(catalog: FileSystemCatalog) -> None:
    table = spelled(catalog, 2)
    old = {path: path.read_text() for path in Path(f"{table.location}/metadata").glob("v[123].metadata.json")}
    catalog.drop_table(IDENTIFIER, purge=True)
    make_table(catalog)
    for path, content in old.items():
        path.write_text(content)
    job = JobSpec(
        job="remove_orphan_files",
        table="fs.ns.t",
        catalog=CatalogConfig(name="fs", type="filesystem"),
        options={"older-than": "2100-01-01T00:00:00Z"},
    )
    run_job(job, catalog=catalog, now=lambda: 4_200_000_000_000)
    assert not any(path.exists() for path in old)
    assert catalog.table_exists(IDENTIFIER)
