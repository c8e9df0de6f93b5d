"""``import``, ``register`` and sources on the command line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Cli, lake


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for n, region in enumerate(("eu", "us")):
        at = tmp_path / "old" / f"region={region}"
        at.mkdir(parents=True)
        pq.write_table(pa.table({"id": [n * 2, n * 2 + 1], "name": ["a", None]}), at / "part-0.parquet")
    return tmp_path / "old"


EXPECTED = [(0, "a", "eu"), (1, None, "eu"), (2, "a", "us"), (3, None, "us")]


def sql_catalog(tmp_path: Path) -> None:
    """From here on ``lake`` is a SQL catalog."""
    (tmp_path / "catalogs.yml").write_text(
        "catalogs:\n  - name: lake\n    type: sql\n"
        f"    properties: {{uri: 'sqlite:///{tmp_path}/c.db', warehouse: '{tmp_path}/warehouse'}}\n"
    )


def rows_of(cli: Cli, name: str) -> list[tuple[object, ...]]:
    return sorted((r["id"], r["name"], r["region"]) for r in cli("scan", name).rows)


def test_a_folder_becomes_a_table_that_leaves_its_files_alone(cli: Cli, folder: Path) -> None:
    ran = cli("import", "lake.ns.t", str(folder), "--json")
    assert ran.code == 0, ran.err
    assert ran.json["metrics"]["imported-files-count"] == 2
    assert rows_of(cli, "lake.ns.t") == EXPECTED
    assert lake().load_table(("ns", "t")).properties["gc.enabled"] == "false"


def test_a_folder_becomes_the_home_of_its_table(cli: Cli, folder: Path, tmp_path: Path) -> None:
    sql_catalog(tmp_path)
    ran = cli("import", "lake.ns.t", str(folder), "--mode", "migrate", "--create-namespace")
    assert ran.code == 0, ran.err
    assert rows_of(cli, "lake.ns.t") == EXPECTED
    table = lake().load_table(("ns", "t"))
    assert (table.location, table.properties.get("gc.enabled")) == (str(folder), None)
    assert cli("run", "remove_orphan_files", "lake.ns.t").code == 0
    assert len(list(folder.rglob("*.parquet"))) == 2


def test_an_import_that_fails_leaves_no_table_and_every_file(cli: Cli, folder: Path) -> None:
    (folder / "region=us" / "part-1.parquet").write_bytes(b"no")
    ran = cli("import", "lake.ns.t", str(folder))
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "part-1.parquet is not a whole Parquet file" in ran.err
    assert not lake().table_exists(("ns", "t"))
    assert len(list(folder.rglob("*.parquet"))) == 3


def test_more_files_are_added_to_a_table_that_exists(cli: Cli, folder: Path, tmp_path: Path) -> None:
    cli("import", "lake.ns.t", str(folder))
    later = tmp_path / "later" / "region=eu"
    later.mkdir(parents=True)
    pq.write_table(pa.table({"id": [9], "name": ["z"]}), later / "x.parquet")
    ran = cli("run", "add_files", "lake.ns.t", "--option", f"source-path={tmp_path / 'later'}")
    assert ran.code == 0, ran.err
    assert len(cli("scan", "lake.ns.t").rows) == 5


def test_a_metadata_file_is_no_table_of_a_catalog_of_folders(cli: Cli, folder: Path) -> None:
    cli("import", "lake.ns.t", str(folder))
    table = lake().load_table(("ns", "t"))
    ran = cli("register", "lake.ns.again", table.metadata_location)
    assert (ran.code, ran.out) == (1, "")
    assert "UNSUPPORTED: not supported: registering table ns.again, because in a filesystem catalog" in ran.err


def test_a_metadata_file_is_taken_as_a_table_where_the_catalog_can(cli: Cli, folder: Path, tmp_path: Path) -> None:
    sql_catalog(tmp_path)
    assert cli("import", "lake.ns.t", str(folder), "--create-namespace").code == 0
    location = lake().load_table(("ns", "t")).metadata_location
    assert cli("register", "lake.ns.again", location).err.startswith(
        "error: UNSUPPORTED: not supported: table lake.ns.again, because"
    )
    lake().drop_table(("ns", "t"))
    ran = cli("register", "lake.ns.again", location, "--json")
    assert ran.code == 0, ran.err
    assert rows_of(cli, "lake.ns.again") == EXPECTED


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--from", "/rows", "--query", "SELECT 1"], "give one source"),
        (["--format", "csv"], "belong to --from"),
        (["--from", "/rows", "--source-option", "header"], "must be KEY=VALUE"),
        ([], "use iceberg-ops append"),
        (["--query", "SELECT 1", "--lane", "local"], "without Spark"),
    ],
)
def test_a_source_is_one_and_whole(cli: Cli, arguments: list[str], says: str) -> None:
    ran = cli("run", "append", "lake.ns.t", *arguments)
    assert (ran.code, says in ran.err) == (1, True), ran.err


def test_a_relative_folder_is_recorded_as_the_absolute_one(
    cli: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql_catalog(tmp_path)
    monkeypatch.setenv("ICEBERG_OPS_CATALOGS", str(tmp_path / "catalogs.yml"))
    monkeypatch.chdir(folder.parent)
    assert cli("import", "lake.ns.t", folder.name, "--create-namespace").code == 0
    metadata_file = lake().load_table(("ns", "t")).metadata_location.removeprefix("file://")
    monkeypatch.chdir(Path(metadata_file).parent)
    assert rows_of(cli, "lake.ns.t") == EXPECTED
    lake().drop_table(("ns", "t"))
    assert cli("register", "lake.ns.again", Path(metadata_file).name).code == 0
    monkeypatch.chdir("/")
    assert rows_of(cli, "lake.ns.again") == EXPECTED


def test_a_job_is_not_given_a_relative_folder(cli: Cli, folder: Path) -> None:
    assert cli("import", "lake.ns.t", str(folder)).code == 0
    ran = cli("run", "add_files", "lake.ns.t", "--option", f"source-path={folder.name}")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "must be absolute" in ran.err
