"""A recorded location has the same meaning in every working folder, whatever the relative path that it came from looks like."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateLocation
from iceberg_ops.errors import BadInputError
from tests.builders import data_file
from tests.cli.conftest import Cli, lake
from tests.cli.test_imports import sql_catalog

RELATIVE = ["plain", "events_10:30", "day=10:30", "bk:1/deep", "file:plain", "data_v:2", "a-b:c"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder; ``elsewhere`` beside it is another one."""
    sql_catalog(tmp_path)
    for name in ("here", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.mark.parametrize("relative", RELATIVE)
def test_an_imported_folder_is_read_and_kept_in_every_working_folder(
    cli: Cli, here: Path, relative: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = here / relative.removeprefix("file:")
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2, 3]}), folder / "a.parquet")
    assert cli("import", "lake.ns.t", relative, "--mode", "migrate", "--create-namespace").code == 0
    monkeypatch.chdir(here.parent / "elsewhere")
    assert len(cli("scan", "lake.ns.t").rows) == 3
    ran = cli("run", "remove_orphan_files", "lake.ns.t", "--option", "older-than=0d", "--option", "unsafe-allow-recent=true")
    assert ran.code == 0, ran.err
    assert len(cli("scan", "lake.ns.t").rows) == 3


@pytest.mark.parametrize("relative", RELATIVE)
def test_a_created_or_registered_table_is_found_in_every_working_folder(
    cli: Cli, here: Path, relative: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("create", "lake.ns.t", "id bigint", "--create-namespace", "--location", relative).code == 0
    table = lake().load_table(("ns", "t"))
    backup = here / relative.removeprefix("file:") / "00007-x.metadata.json"
    shutil.copy(table.metadata_location.removeprefix("file:"), backup)
    monkeypatch.chdir(here.parent / "elsewhere")
    assert cli("inspect", "lake.ns.t", "refs").code == 0
    lake().drop_table(("ns", "t"))
    monkeypatch.chdir(here)
    assert cli("register", "lake.ns.r", f"{relative}/00007-x.metadata.json").code == 0
    monkeypatch.chdir(here.parent / "elsewhere")
    assert cli("inspect", "lake.ns.r", "refs").code == 0


@pytest.mark.parametrize("at", ["table", "namespace"])
def test_a_home_folder_that_no_shell_has_replaced_is_no_location(cli: Cli, here: Path, at: str) -> None:
    """``--location=~/t`` was a folder called ~ in the working folder."""
    where = ("--property", "location=~/ns") if at == "namespace" else ()
    assert cli("namespace", "lake.ns", "--create", *where).code == 0
    ran = cli("create", "lake.ns.t", "id bigint", *(() if where else ("--location=~/t",)))
    rule = "the location of table ns.t begins with ~, which only a shell replaces: write the whole path"
    assert (ran.code, ran.err) == (1, f"error: BAD_OPTION: {rule}\n")
    assert not (here / "~").exists()


@pytest.mark.parametrize("relative", RELATIVE)
def test_a_data_path_that_is_relative_lies_below_the_table(
    cli: Cli, here: Path, relative: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"id": [1, 2, 3]}), here / "a.parquet")
    made = ("--property", f"write.data.path={relative}", "--property", f"write.metadata.path={relative}-m")
    assert cli("create", "lake.ns.t", "id bigint", "--create-namespace", *made).code == 0
    assert cli("append", "lake.ns.t", "--from", str(here / "a.parquet"), "--lane", "local").code == 0
    assert [f["file_path"][:1] for f in json.loads(cli("files", "lake.ns.t", "--json").out)] == ["/"]
    monkeypatch.chdir(here.parent / "elsewhere")
    assert len(cli("scan", "lake.ns.t").rows) == 3


def test_add_files_refuses_a_relative_folder_with_a_colon(cli: Cli, here: Path) -> None:
    assert cli("create", "lake.ns.t", "id bigint", "--create-namespace").code == 0
    for relative in RELATIVE:
        ran = cli("run", "add_files", "lake.ns.t", "--option", f"source-path={relative}")
        assert (ran.code, "must be absolute" in ran.err) == (1, True)


@pytest.mark.parametrize("relative", RELATIVE)
def test_a_commit_refuses_to_move_a_table_to_a_relative_location(cli: Cli, here: Path, relative: str) -> None:
    assert cli("create", "lake.ns.t", "id bigint", "--create-namespace").code == 0
    catalog = lake()
    with pytest.raises(BadInputError, match="is relative"):
        commit(catalog, catalog.load_table(("ns", "t")), UpdateLocation(location=relative))


def test_orphan_removal_refuses_a_table_that_records_relative_paths(cli: Cli, here: Path) -> None:
    assert cli("create", "lake.ns.t", "id bigint", "--create-namespace").code == 0
    catalog = lake()
    commit(catalog, catalog.load_table(("ns", "t")), AppendFiles(added=(data_file("bk:1/a.parquet"),)))
    ran = cli("run", "remove_orphan_files", "lake.ns.t", "--option", "older-than=0d", "--option", "unsafe-allow-recent=true")
    assert (ran.code, "error: UNSUPPORTED" in ran.err, "bk:1/a.parquet" in ran.err) == (1, True, True)
