"""ls, namespace, rename and drop, and the errors for names that are nearly right."""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.config.actions import ACTIONS, MAINTENANCE_ACTIONS, ROW_OPERATIONS, TABLE_ACTIONS
from iceberg_ops.config.job_spec import CatalogConfig
from tests.cli.conftest import Cli


@pytest.fixture
def prod(cli: Cli, tmp_path: Path) -> Callable[[], list[str]]:
    """Adds the sql catalog ``prod`` with the table ``prod.a.t``; gives the names of the tables in ``a``."""
    uri = f"sqlite:///{tmp_path}/catalog.db"
    with (tmp_path / "catalogs.yml").open("a") as config:
        config.write(f"  - {{name: prod, type: sql, properties: {{uri: '{uri}', warehouse: '{tmp_path}/prod'}}}}\n")
    assert cli("create", "prod.a.t", "id int", "--create-namespace").code == 0
    config = CatalogConfig(name="prod", type="sql", properties={"uri": uri, "warehouse": f"{tmp_path}/prod"})
    return lambda: [name[-1] for name in load_catalog(config).list_tables(("a",))]


def names(cli: Cli, *arguments: str) -> list[tuple[str, str]]:
    return [(row["type"], row["name"]) for row in cli("ls", *arguments, "--json").json]


def test_ls_lists_catalogs_namespaces_and_tables(cli: Cli, prod: object) -> None:
    cli("create", "lake.ns.t", "id int")
    cli("namespace", "lake.ns.deep", "--create")
    cli("create", "lake.ns.deep.u", "id int")
    assert names(cli) == [("filesystem", "lake"), ("sql", "prod")]
    assert names(cli, "lake") == [("namespace", "lake.ns")]
    assert names(cli, "lake.ns") == [("namespace", "lake.ns.deep"), ("table", "lake.ns.t")]
    assert names(cli, "lake", "-r") == [
        ("namespace", "lake.ns"),
        ("namespace", "lake.ns.deep"),
        ("table", "lake.ns.deep.u"),
        ("table", "lake.ns.t"),
    ]
    cli("namespace", "lake.empty", "--create")
    assert cli("ls", "lake.empty").out == "lake.empty: nothing is there\n"


def test_a_namespace_is_made_shown_and_dropped(cli: Cli, prod: object) -> None:
    assert cli("namespace", "prod.b", "--create", "--property", "owner=me").out == "prod.b: created\n"
    assert cli("namespace", "prod.b", "--json").json == {"namespace": "prod.b", "properties": {"owner": "me"}}
    assert cli("namespace", "prod.b", "--drop").out == "prod.b: dropped\n"
    assert "NO_SUCH_NAMESPACE" in cli("namespace", "prod.b").err
    assert "BAD_INPUT" in cli("namespace", "prod.a", "--drop").err


def test_a_dropped_table_comes_back_by_the_line_that_drop_prints(cli: Cli, prod: Callable[[], list[str]]) -> None:
    said = cli("drop", "prod.a.t").out
    assert prod() == []
    undo = said.split("iceberg-ops ", 1)[1].split()
    assert cli(*undo).code == 0
    assert prod() == ["t"]


def test_a_table_whose_metadata_is_broken_is_dropped_and_nothing_undoes_it(
    cli: Cli, prod: Callable[[], list[str]], tmp_path: Path
) -> None:
    for file in (tmp_path / "prod").rglob("*.metadata.json"):
        file.write_text("{")
    assert "CORRUPT_TABLE" in cli("drop", "prod.a.t", "--purge", "--yes").err
    assert prod() == ["t"]
    said = cli("drop", "prod.a.t")
    assert (said.code, "No command undoes it" in said.out, "register" in said.out) == (0, True, False)
    assert prod() == []


def test_a_purge_asks_and_without_an_answer_nothing_goes(cli: Cli, prod: Callable[[], list[str]], tmp_path: Path) -> None:
    assert cli("drop", "prod.a.t", "--purge").code != 0
    assert prod() == ["t"]
    assert cli("drop", "prod.a.t", "--purge", "--yes").code == 0
    assert prod() == []
    assert not list((tmp_path / "prod").rglob("*.json"))


def test_a_purge_says_which_files_stay(cli: Cli, prod: Callable[[], list[str]], tmp_path: Path) -> None:
    """It said that the files were deleted, also where a broken neighbour kept all of them."""
    assert cli("create", "prod.a.whole", "id int").code == 0
    assert "dropped; 1 file deleted\n" in cli("drop", "prod.a.whole", "--purge", "--yes").out
    assert cli("create", "prod.a.broken", "id int").code == 0
    for file in (tmp_path / "prod" / "a" / "broken").rglob("*.metadata.json"):
        file.write_text("{")
    said = cli("drop", "prod.a.t", "--purge", "--yes", "--json").json
    assert (said["dropped"], said["purged"], len(said["files-left"])) == (True, False, 1)
    assert Path(said["files-left"][0].removeprefix("file://")).exists()
    assert prod() == ["broken"]


def test_a_purge_without_an_answer_says_how_to_give_it(
    cli: Cli, prod: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    refused = cli("drop", "prod.a.t", "--purge")
    assert refused.err.splitlines()[-1] == (
        "error: BAD_OPTION: drop --purge asks before it deletes prod.a.t, and standard input did not answer yes: use --yes"
    )
    assert "t" in prod()


def test_a_purge_with_standard_input_closed_is_refused_in_one_line(prod: Callable[[], list[str]]) -> None:
    command = f"{shlex.quote(sys.executable)} -m iceberg_ops.cli.main drop prod.a.t --purge <&-"
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (
        1,
        "error: BAD_OPTION: drop --purge asks before it deletes prod.a.t, and standard input did not answer yes: use --yes",
    )
    assert prod() == ["t"]


def test_a_ctrl_c_at_the_question_is_no_missing_answer(
    cli: Cli, prod: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(io.StringIO):
        def readline(self, *_: object) -> str:  # type: ignore[override]
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin", Interrupted())
    stopped = cli("drop", "prod.a.t", "--purge")
    assert (stopped.code, "INTERRUPTED" in stopped.err) == (130, True)
    assert prod() == ["t"]


def test_a_namespace_that_another_command_creates_first_is_there(
    cli: Cli, prod: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    create = SqlCatalog.create_namespace

    def after_another(self: SqlCatalog, namespace: tuple[str, ...]) -> None:
        create(self, namespace)
        create(self, namespace)

    monkeypatch.setattr(SqlCatalog, "create_namespace", after_another)
    assert cli("create", "prod.new.t", "id int", "--create-namespace").code == 0


def test_a_missing_namespace_says_how_to_create_it(cli: Cli, prod: Callable[[], list[str]]) -> None:
    refused = cli("create", "prod.new.t", "id int").err
    assert refused.endswith("has no namespace new: give --create-namespace, or run iceberg-ops namespace prod.new --create\n")
    assert cli("namespace", "prod.new", "--create").code == 0
    assert cli("create", "prod.new.t", "id int").code == 0
    assert "run iceberg-ops namespace 'prod.two words' --create" in cli("create", "prod.two words.t", "id int").err


def test_a_table_that_took_the_name_while_the_question_was_open_is_not_purged(
    cli: Cli, prod: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object, **__: object) -> bool:
        assert cli("rename", "prod.a.t", "prod.a.old").code == 0
        assert cli("create", "prod.a.t", "id int").code == 0
        return True

    monkeypatch.setattr(click, "confirm", asked)
    assert cli("drop", "prod.a.t", "--purge").code == 1
    assert prod() == ["old", "t"]


@pytest.mark.parametrize("name", ["lake.ns.t", "prod.a.t"])
def test_a_table_that_forbids_to_delete_files_is_not_purged(cli: Cli, prod: Callable[[], list[str]], name: str) -> None:
    cli("create", "lake.ns.t", "id int")
    assert cli("evolve", name, "SET TBLPROPERTIES ('gc.enabled' = 'false')").code == 0
    refused = cli("drop", name, "--purge", "--yes")
    assert (refused.code, "GC_DISABLED" in refused.err, "gc.enabled is false" in refused.err) == (1, True, True)
    assert cli("check", name).code == 0


def test_a_rename_stays_in_its_catalog_and_says_how_to_undo_it(cli: Cli, prod: Callable[[], list[str]]) -> None:
    said = cli("rename", "prod.a.t", "prod.a.u").out
    assert prod() == ["u"]
    assert cli(*said.split("iceberg-ops ", 1)[1].split()).code == 0
    assert prod() == ["t"]
    assert "register its metadata file in lake" in cli("rename", "prod.a.t", "lake.ns.t").err


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("inpsect lake.ns.orders", "'inspect'"),
        ("run expire-snapshotz lake.ns.orders", "'expire_snapshots'"),
        ("inspect lake.ns.orders snapshot", "'snapshots'"),
        ("scan lkae.ns.orders", "'lake'"),
        ("scan lake.ns.order", "'ns.orders'"),
        ("plan expire_snapshots lake.ns.order", "'ns.orders'"),
        ("scan lake.nss.orders", "'ns'"),
        ("scan lake.ns.orders --where amuont=1", "'amount'"),
        ("evolve lake.ns.orders 'DROP COLUMN amuont'", "'amount'"),
        ("plan expire_snapshots lake.ns.orders --option retain_lst=1", "'retain-last'"),
    ],
)
def test_an_error_names_what_may_have_been_meant(cli: Cli, line: str, meant: str) -> None:
    cli("create", "lake.ns.orders", "id int, amount int")
    failed = cli(*shlex.split(line))
    assert failed.code == 1
    assert f"did you mean {meant}" in failed.err, failed.err


def test_arguments_may_come_in_either_order_and_actions_with_dashes(cli: Cli) -> None:
    cli("create", "lake.ns.orders", "id int")
    assert cli("inspect", "schema", "lake.ns.orders", "--json").json == cli("inspect", "lake.ns.orders", "schema", "--json").json
    assert cli("plan", "lake.ns.orders", "expire-snapshots", "--json").json["action"] == "expire_snapshots"
    assert cli("run", "lake.ns.orders", "expire-snapshots", "--json").json["status"] == "nothing-to-do"


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize("action", MAINTENANCE_ACTIONS)
def test_help_about_an_action_lists_its_options_with_their_defaults(cli: Cli, command: str, action: str) -> None:
    for said in (cli(command, action, "--help"), cli(command, "-h", action.replace("_", "-"))):
        assert said.code == 0, said.err
        words = "".join(said.out.split())
        for option in ACTIONS[action].options:
            assert "".join(f"{option.name}{option.meaning}[default:{option.default}]".split()) in words
    assert all(name in cli(command, "--help").out for name in TABLE_ACTIONS)


@pytest.mark.parametrize("action", ROW_OPERATIONS)
def test_help_of_a_row_command_ends_with_the_options_of_its_job(cli: Cli, action: str) -> None:
    words = "".join(cli(action, "--help").out.split())
    assert "--dry-run" in words
    for option in ACTIONS[action].options:
        assert "".join(f"{option.name}{option.meaning}[default:{option.default}]".split()) in words
