"""create, evolve, branch, tag and rollback, as a person calls them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.cli import refs
from iceberg_ops.commit.loop import committer
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.protocol.operation import Committed
from tests.builders import data_file
from tests.catalog.wrappers import Meddles
from tests.cli.conftest import Cli, lake

T = "lake.ns.t"
KEPT = ("--min-snapshots", "2", "--max-snapshot-age", "7d", "--retain", "30d")


def make(cli: Cli, *more: str) -> None:
    made = cli("create", T, "id bigint NOT NULL, name string COMMENT 'who', ts timestamp, s struct<a: int>", *more)
    assert made.code == 0, made.err


def snapshots(count: int) -> list[int]:
    """Append ``count`` files, one a snapshot."""
    catalog, found = lake(), []
    for n in range(count):
        done = commit(catalog, catalog.load_table(("ns", "t")), AppendFiles(added=(data_file(f"/t/{n}.parquet"),)))
        assert done.snapshot is not None
        found.append(done.snapshot.snapshot_id)
    return found


def test_create_makes_the_table_that_was_described(cli: Cli) -> None:
    made = cli(
        "create", T, "id bigint NOT NULL, ts timestamp, tags map<string, int>",
        "--partitioned-by", "days(ts), bucket(4, id) AS shard",
        "--ordered-by", "ts DESC", "--identifier", "id", "--property", "format-version=3", "--property", "a=b", "--json",
    )  # fmt: skip
    assert made.code == 0, made.err
    doc = made.json
    assert doc["format-version"] == 3
    assert doc["properties"]["a"] == "b"
    assert [(f["id"], f["name"], f["required"]) for f in doc["schema"]["fields"]] == [
        (1, "id", True),
        (2, "ts", False),
        (3, "tags", False),
    ]
    assert doc["schema"]["identifier-field-ids"] == [1]
    assert [(f["name"], f["transform"], f["field-id"]) for f in doc["partition-spec"]["fields"]] == [
        ("ts_day", "day", 1000),
        ("shard", "bucket[4]", 1001),
    ]
    assert doc["sort-order"]["fields"][0]["direction"] == "desc"
    assert lake().load_table(("ns", "t")).metadata.format_version == 3


def test_create_takes_columns_from_a_parquet_file(cli: Cli, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([1], pa.int64()), "b": ["x"]}), tmp_path / "x.parquet")
    made = cli("create", T, "--like", str(tmp_path / "x.parquet"), "--json")
    assert [(f["name"], f["type"]) for f in made.json["schema"]["fields"]] == [("a", "long"), ("b", "string")]


def test_create_makes_the_namespace_when_asked(cli: Cli) -> None:
    assert cli("create", "lake.other.t", "a int").code == 1
    assert cli("create", "lake.other.t", "a int", "--create-namespace").code == 0


def test_evolve_changes_everything_in_one_commit(cli: Cli) -> None:
    make(cli, "--partitioned-by", "days(ts)")
    before = lake().load_table(("ns", "t")).metadata
    done = cli(
        "evolve", T, "ADD COLUMN s.b double COMMENT 'new' FIRST", "RENAME COLUMN name TO who", "ALTER COLUMN id DROP NOT NULL",
        "ALTER COLUMN s.a TYPE bigint", "REPLACE PARTITION FIELD days(ts) WITH hours(ts)",
        "ADD PARTITION FIELD truncate(2, who) AS w",
        "WRITE ORDERED BY id DESC", "SET TBLPROPERTIES ('x' = '1', 'y' = '2')", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    after = lake().load_table(("ns", "t")).metadata
    assert [f.name for f in after.schema.fields] == ["id", "who", "ts", "s"]
    assert [(f.name, str(f.type)) for f in after.schema.fields[3].type.fields] == [("b", "double"), ("a", "long")]
    assert after.schema.fields[0].optional
    assert [(f.name, str(f.transform)) for f in after.spec.fields] == [("ts_hour", "hour"), ("w", "truncate[2]")]
    assert after.sort_order.fields[0].direction.value == "desc"
    assert (after.properties["x"], after.properties["y"]) == ("1", "2")
    assert len(after.metadata_log) == len(before.metadata_log) + 1


def test_a_dot_in_back_quotes_is_a_part_of_the_added_columns_name(cli: Cli) -> None:
    """It was added to the struct."""
    make(cli)
    done = cli("evolve", T, "ADD COLUMN `s.z` int AFTER id", "ADD COLUMN s.y int FIRST", "ADD COLUMN s.`x.w` int")
    assert done.code == 0, done.err
    columns = lake().load_table(("ns", "t")).schema.fields
    assert [f.name for f in columns] == ["id", "s.z", "name", "ts", "s"]
    assert [f.name for f in columns[-1].type.fields] == ["y", "a", "x.w"]
    refused = cli("evolve", T, "ADD COLUMN `s.a` int")
    assert (refused.code, refused.err.startswith("error: BAD_SCHEMA: ")) == (1, True)


@pytest.mark.parametrize(
    ("renames", "named", "source"),
    [
        (["RENAME COLUMN id TO ts", "RENAME COLUMN ts TO id"], "id", "id"),  # the names change places
        (["RENAME COLUMN id TO key"], "id", "id"),
        (["RENAME COLUMN id TO key"], "KEY", "id"),  # a name that the call gives
        (["RENAME COLUMN s TO t", "RENAME COLUMN s.a TO b"], "s.a", "s.a"),
        (["DROP COLUMN id", "RENAME COLUMN ts TO id"], "id", "ts"),
        (["ADD COLUMN n int"], "n", None),
    ],
)
def test_partition_and_sort_steps_name_columns_as_they_are_before_the_call(
    cli: Cli, renames: list[str], named: str, source: str | None
) -> None:
    """They were applied to the renamed columns, by their old names: the table was partitioned by another column."""
    make(cli)
    before = lake().load_table(("ns", "t")).metadata
    done = cli("evolve", T, f"ADD PARTITION FIELD bucket(4, {named}) AS p", f"WRITE ORDERED BY {named}", *renames)
    assert done.code == 0, done.err
    after = lake().load_table(("ns", "t")).metadata
    field = after.schema.find("n") if source is None else before.schema.find(source)
    assert field is not None
    assert [f.source_id for f in after.spec.fields] == [field.field_id]
    assert [f.source_ids for f in after.sort_order.fields] == [(field.field_id,)]


def test_a_partition_field_of_a_renamed_column_is_replaced_by_the_old_name(cli: Cli) -> None:
    make(cli, "--partitioned-by", "days(ts), bucket(4, id)")
    done = cli(
        "evolve", T, "RENAME COLUMN ts TO id", "RENAME COLUMN id TO ts", "REPLACE PARTITION FIELD days(ts) WITH hours(ts)",
        "DROP PARTITION FIELD bucket(4, id)",
    )  # fmt: skip
    assert done.code == 0, done.err
    after = lake().load_table(("ns", "t")).metadata
    assert [(f.source_id, str(f.transform)) for f in after.spec.fields] == [(3, "hour")]


def test_evolve_upgrades_and_sets_defaults_in_one_go(cli: Cli) -> None:
    make(cli)
    done = cli(
        "evolve", T, "SET TBLPROPERTIES ('format-version' = '3')", "ADD COLUMN d date NOT NULL DEFAULT DATE '2024-02-29' AFTER id"
    )
    assert done.code == 0, done.err
    after = lake().load_table(("ns", "t")).metadata
    assert after.format_version == 3
    assert (after.schema.fields[1].name, after.schema.fields[1].initial_default) == ("d", 19782)


def test_defaults_are_stored_with_all_their_digits(cli: Cli) -> None:
    """DEFAULT-10: no exponents, which DuckDB fails on, and the float nearest to what was written."""
    make(cli)
    columns = ["zero decimal(9, 8) DEFAULT 0", "tiny decimal(38, 38) DEFAULT 1e-38BD", "f float DEFAULT 0.1"]
    steps = [f"ADD COLUMN {column}" for column in columns]
    assert cli("evolve", T, "SET TBLPROPERTIES ('format-version' = '3')", *steps).code == 0
    stored = json.loads(Path(lake().load_table(("ns", "t")).metadata_location.removeprefix("file://")).read_text("utf-8"))
    fields = stored["schemas"][-1]["fields"][-3:]
    assert [f["initial-default"] for f in fields] == ["0.00000000", f"0.{'0' * 37}1", 0.1]
    assert [f["write-default"] for f in fields] == ["0.00000000", f"0.{'0' * 37}1", 0.1]


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_a_default_of_null_is_none(cli: Cli, version: str) -> None:
    """DEFAULT-06: ``"write-default": null`` would keep Iceberg Java from loading the table."""
    assert cli("create", T, "id bigint, d int DEFAULT NULL", "--property", f"format-version={version}").code == 0
    assert cli("evolve", T, "ALTER COLUMN id SET DEFAULT 7", "ADD COLUMN e int DEFAULT NULL").code == 0
    assert cli("evolve", T, "ALTER COLUMN id SET DEFAULT NULL", "ALTER COLUMN d SET DEFAULT NULL").code == 0
    stored = Path(lake().load_table(("ns", "t")).metadata_location.removeprefix("file://")).read_text("utf-8")
    assert [f.get("write-default") for s in json.loads(stored)["schemas"] for f in s["fields"]].count(7) == 1
    assert '-default":null' not in stored


@pytest.mark.parametrize(
    ("steps", "stored"),
    [
        (["ADD COLUMN d int", "ALTER COLUMN d SET DEFAULT 5"], 5),
        (["ADD COLUMN s.d int", "ALTER COLUMN s.d SET DEFAULT 5"], 5),
        (["DROP COLUMN name", "ADD COLUMN name int", "ALTER COLUMN name SET DEFAULT 5"], 5),
        (["ALTER COLUMN f TYPE double", "ALTER COLUMN f SET DEFAULT 1.1"], 1.1),
        (["ALTER COLUMN F SET DEFAULT 1.5", "ALTER COLUMN f TYPE double"], 1.5),
        (["ALTER COLUMN day TYPE timestamp_ntz", "ALTER COLUMN day SET DEFAULT '2024-01-01'"], "2024-01-01T00:00:00"),
        (["DROP COLUMN day", "ADD COLUMN day int", "ALTER COLUMN day SET DEFAULT '2024-01-01'"], None),
        (["ALTER COLUMN nobody SET DEFAULT 1"], None),
        (["DROP COLUMN f", "ALTER COLUMN f SET DEFAULT 1.5"], None),
    ],
    ids=lambda v: "; ".join(v) if isinstance(v, list) else "",
)
def test_a_default_is_read_by_the_type_that_the_call_gives_the_column(cli: Cli, steps: list[str], stored: object) -> None:
    make(cli)
    assert cli("evolve", T, "SET TBLPROPERTIES ('format-version' = '3')", "ADD COLUMN f float", "ADD COLUMN day date").code == 0
    done = cli("evolve", T, *steps, "--json")
    assert done.code == (1 if stored is None else 0), done.err
    if stored is not None:
        assert f'"write-default":{json.dumps(stored)}' in json.dumps(done.json["schema"], separators=(",", ":"))
    assert cli("scan", T).code == 0


def test_a_dry_run_of_evolve_changes_nothing(cli: Cli) -> None:
    make(cli)
    shown = cli("evolve", T, "ADD COLUMN z int", "--dry-run", "--json")
    assert shown.json["schema"]["fields"][-1]["name"] == "z"
    assert lake().load_table(("ns", "t")).schema.find("z") is None


def test_evolve_takes_in_the_columns_of_a_file(cli: Cli, tmp_path: Path) -> None:
    make(cli)
    pq.write_table(pa.table({"id": pa.array([1], pa.int64()), "extra": ["x"]}), tmp_path / "x.parquet")
    assert cli("evolve", T, "--union-by-name", str(tmp_path / "x.parquet")).code == 0
    assert lake().load_table(("ns", "t")).schema.find("extra") is not None


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("ALTER COLUMN id TYPE int", "error: BAD_SCHEMA: cannot change the type of column 'id'"),
        ("DROP COLUMN nope", "error: BAD_SCHEMA: no column named 'nope'"),
        ("FLIP COLUMN a", "error: BAD_OPTION: 'FLIP COLUMN a' is not a step"),
        ("ADD COLUMN z int garbage", "error: BAD_OPTION: 'ADD COLUMN z int garbage': expected nothing more at 'garbage'"),
        ("ADD COLUMN z int DEFAULT 'abc'", "error: BAD_OPTION: default \"'abc'\": must be a literal of type int: "),
        ("ADD COLUMN z double DEFAULT 'NaN'", "error: BAD_OPTION: default \"'NaN'\": must be a literal of type double: "),
        ("DROP PARTITION FIELD nope", "error: BAD_SCHEMA: no partition field named 'nope': the fields are "),
        ("SET TBLPROPERTIES ('format-version' = 'x')", "error: BAD_OPTION: format-version 'x': must be a whole number"),
    ],
)
def test_a_wrong_step_changes_nothing_and_says_why_in_one_line(cli: Cli, step: str, message: str) -> None:
    make(cli)
    before = lake().load_table(("ns", "t")).metadata_location
    done = cli("evolve", T, "ADD COLUMN fine int", step)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(message)
    assert done.err.count("\n") == 1
    assert lake().load_table(("ns", "t")).metadata_location == before


def test_branches_and_tags_are_created_moved_and_dropped(cli: Cli) -> None:
    make(cli)
    first, second = snapshots(2)
    assert cli("tag", T, "v1", "--snapshot-id", str(first), "--retain", "7d", "--json").json["refs"]["v1"] == {
        "type": "tag",
        "snapshot-id": first,
    }
    assert lake().load_table(("ns", "t")).metadata.refs["v1"].max_ref_age_ms == 7 * 86_400_000
    assert cli("branch", T, "dev", "--ref", "v1", "--min-snapshots", "3", "--json").json["refs"]["dev"]["snapshot-id"] == first
    assert cli("branch", T, "dev").code == 1
    assert cli("branch", T, "dev", "--fast-forward", "main", "--json").json["refs"]["dev"]["snapshot-id"] == second
    assert cli("branch", T, "dev", "--replace", "--snapshot-id", str(first), "--json").json["refs"]["dev"]["snapshot-id"] == first
    assert "test" in cli("branch", T, "dev", "--rename", "test", "--json").json["refs"]
    assert set(cli("branch", T, "test", "--drop", "--json").json["refs"]) == {"main", "v1"}
    assert set(cli("tag", T, "v1", "--drop", "--json").json["refs"]) == {"main"}


@pytest.mark.parametrize("place", [(), ("--ref", "main")], ids=["no place", "its own"])
def test_retention_is_set_beside_commits_to_the_branch(cli: Cli, monkeypatch: pytest.MonkeyPatch, place: tuple[str, ...]) -> None:
    """An append comes between the look at the table and the first attempt, another between the stage and the swap."""
    make(cli)
    snapshots(1)

    def late_commit(catalog: Any, *args: Any) -> Committed:
        monkeypatch.setattr(committer, "commit", commit)
        snapshots(1)
        return commit(Meddles(catalog, lambda: snapshots(1)), *args)

    monkeypatch.setattr(committer, "commit", late_commit)
    done = cli("branch", T, "main", "--replace", "--min-snapshots", "7", *place)
    assert done.code == 0, done.err
    metadata = lake().load_table(("ns", "t")).metadata
    assert metadata.refs["main"].min_snapshots_to_keep == 7
    assert len(list(metadata.ancestors(metadata.current_snapshot_id))) == 3


@pytest.mark.parametrize(
    "arguments",
    [("tag", "dev"), ("tag", "dev", "--drop"), ("branch", "v1"), ("branch", "v1", "--drop"), ("branch", "v1", "--rename", "v2")],
    ids=" ".join,
)
def test_a_branch_is_not_taken_for_a_tag_nor_a_tag_for_a_branch(cli: Cli, arguments: tuple[str, ...]) -> None:
    make(cli)
    snapshots(1)
    assert cli("branch", T, "dev").code == cli("tag", T, "v1").code == 0
    command, name, *more = arguments
    ran = cli(command, T, name, *more)
    assert (ran.code, ran.err.split(":")[1].strip()) == (1, "BAD_INPUT")
    assert {n: ref["type"] for n, ref in cli("tag", T, "v1", "--json").json["refs"].items()} == {
        "main": "branch", "dev": "branch", "v1": "tag",
    }  # fmt: skip


def test_rollback_goes_to_an_ancestor_only_unless_told(cli: Cli) -> None:
    make(cli)
    first, second = snapshots(2)
    assert cli("rollback", T, "--snapshot-id", str(first), "--json").json["current-snapshot-id"] == first
    refused = cli("rollback", T, "--snapshot-id", str(second))
    assert (refused.code, refused.err.split(":")[1].strip()) == (1, "NOT_AN_ANCESTOR")
    assert cli("rollback", T, "--snapshot-id", str(second), "--any-snapshot", "--json").json["current-snapshot-id"] == second
    assert cli("rollback", T).code == 1


@pytest.mark.parametrize("age", ["7", "0d", "d", "-1d"])
def test_an_age_without_a_unit_is_refused(cli: Cli, age: str) -> None:
    make(cli)
    snapshots(1)
    done = cli("tag", T, "v", "--retain", age)
    assert done.err.startswith("error: BAD_OPTION: age ")


@pytest.mark.parametrize("option", ["--retain 30d", "--min-snapshots 7", "--max-snapshot-age 7d", "--snapshot-id 1", "--ref main"])
@pytest.mark.parametrize("act", ["branch b --fast-forward main", "branch b --rename c", "branch b --drop", "tag v --drop"])
def test_an_act_on_a_name_refuses_options_that_it_does_not_read(cli: Cli, act: str, option: str) -> None:
    """The command said that it was done, and the retention that was asked for was not there."""
    assert cli("create", T, "id bigint").code == 0
    command, *rest = act.split()
    done = cli(command, T, *rest, *option.split())
    if command == "tag" and option.startswith("--m"):
        assert "error: USAGE" in done.err
    else:
        assert f"error: BAD_OPTION: {option.split(maxsplit=1)[0]}: {rest[1]} does not read it; nothing was changed" in done.err
    assert done.code == 1


@pytest.mark.parametrize(
    "change",
    [
        ("rollback", T, "--snapshot-id", "{0}"),
        ("rollback", T, "--snapshot-id", "{1}", "--any-snapshot"),
        ("branch", T, "new one"),
        ("branch", T, "audit", "--rename", "it's"),
        ("branch", T, "audit", "--drop"),
        ("branch", T, "audit", "--fast-forward", "main"),
        (
            "branch",
            T,
            "audit",
            "--replace",
            "--snapshot-id",
            "{1}",
            "--min-snapshots",
            "2",
            "--max-snapshot-age",
            "7d",
            "--retain",
            "30d",
        ),
        ("tag", T, "eod", "--drop"),
        ("tag", T, "eod", "--replace", "--snapshot-id", "{2}", "--retain", "90d"),
        ("tag", T, "morning"),
        ("publish", T, "--snapshot-id", "{3}"),
    ],
    ids=lambda change: " ".join((change[0], *change[2:])),
)
def test_the_command_that_is_printed_undoes_a_change_of_refs(cli: Cli, change: tuple[str, ...]) -> None:
    make(cli)
    ids = snapshots(3)
    for line in (
        ("branch", T, "audit", "--snapshot-id", str(ids[0]), *KEPT),
        ("tag", T, "eod", "--snapshot-id", str(ids[0]), "--retain", "90d"),
    ):
        assert cli(*line).code == 0
    catalog = lake()
    staged = commit(catalog, catalog.load_table(("ns", "t")), AppendFiles(added=(data_file("/t/staged.parquet"),), staged=True))
    assert staged.snapshot is not None
    ids.append(staged.snapshot.snapshot_id)
    before = staged.table.metadata.refs
    done = cli(*(word.format(*ids) for word in change))
    assert done.code == 0, done.err
    undo = done.out.split("To undo: iceberg-ops ", 1)[1]
    assert catalog.load_table(("ns", "t")).metadata.refs != before
    undone = cli(*shlex.split(undo))
    assert undone.code == 0, undone.err
    assert catalog.load_table(("ns", "t")).metadata.refs == before


def test_no_undo_is_printed_where_others_committed_meanwhile(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    make(cli)
    ids = snapshots(3)
    opened = refs.open_in_catalog

    def and_another_commits(target: str) -> tuple[Any, Any]:
        found = opened(target)
        snapshots(1)
        return found

    monkeypatch.setattr(refs, "open_in_catalog", and_another_commits)
    done = cli("rollback", T, "--snapshot-id", str(ids[0]))
    assert done.code == 0, done.err
    assert "branch main: " in done.out
    assert "To undo" not in done.out


def test_table_properties_are_checked_where_they_are_set(cli: Cli) -> None:
    """A later append failed on them, or nothing ever did what they say."""
    wrong = cli("create", "lake.ns.t", "id int", "--property", "write.target-file-size-bytes=512MB")
    assert (wrong.code, "write 536870912 for 512MB" in wrong.err) == (1, True)
    made = cli("create", "lake.ns.t", "id int", "--property", "write.target-file-size-byte=5", "--property", "owner=me")
    assert made.code == 0
    assert made.err.startswith("warning: table property write.target-file-size-byte is not known to Iceberg (did you mean")
    assert made.err.count("\n") == 1
    for step in ("'write.parquet.compression-codec' = 'zsdt'", "'write.metadata.metrics.column.id' = 'all'"):
        assert "BAD_OPTION" in cli("evolve", "lake.ns.t", f"SET TBLPROPERTIES ({step})").err
    told = cli("evolve", "lake.ns.t", "ADD COLUMN v string", "SET TBLPROPERTIES ('write.metadata.metrics.column.v' = 'full')")
    assert (told.code, told.err) == (0, "")
