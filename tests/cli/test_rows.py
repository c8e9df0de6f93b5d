"""``append``, ``overwrite``, ``delete`` without Spark, ``publish``, and the job specs of the other row commands."""

from __future__ import annotations

import bz2
import gzip
import json
from datetime import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Cli, lake


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "landing"
    folder.mkdir()
    pq.write_table(pa.table({"ID": pa.array([3, 1], pa.int32()), "city": ["Rome", "Oslo"]}), folder / "a.parquet")
    pq.write_table(
        pa.table({"ID": pa.array([2], pa.int32()), "city": [None]}, pa.schema({"ID": pa.int32(), "city": pa.string()})),
        folder / "b.parquet",
    )
    (folder / "_SUCCESS").touch()
    return folder


@pytest.fixture(params=["1", "2", "3"])
def table(cli: Cli, request: pytest.FixtureRequest) -> str:
    created = ["id bigint NOT NULL, city string", "--partitioned-by", "city", "--ordered-by", "id"]
    assert cli("create", "lake.ns.t", *created, "--property", f"format-version={request.param}").code == 0
    return str(request.param)


def append(cli: Cli, source: Path, *more: str) -> Any:
    ran = cli("append", "lake.ns.t", "--from", str(source), "--lane", "local", "--json", *more)
    assert ran.code == 0, ran.err
    return ran.json


def rows(cli: Cli, *more: str) -> dict[int, str | None]:
    return {row["id"]: row["city"] for row in cli("scan", "lake.ns.t", *more).rows}


ALL = {1: "Oslo", 2: None, 3: "Rome"}


def test_rows_are_appended_once_per_run_key(cli: Cli, table: str, source: Path) -> None:
    report = append(cli, source, "--run-key", "k")
    assert (report["status"], report["metrics"]["added-records"]) == ("committed", 3)
    assert append(cli, source, "--run-key", "k")["status"] == "already-committed"
    assert rows(cli) == ALL
    head = cli("inspect", "lake.ns.t", "snapshots", "--json").json[-1]
    assert head["operation"] == "append"


def test_a_table_that_is_missing_is_created_by_the_command_that_the_error_names(cli: Cli, source: Path) -> None:
    file = str(source / "a.parquet")
    said = cli("append", "lake.new.t", "--from", file).err
    assert said.startswith("error: NO_SUCH_TABLE: ")
    command = said.strip().partition(". To create it: iceberg-ops ")[2]
    assert command == f"create lake.new.t --like {file} --create-namespace"
    assert cli(*command.split()).code == cli("append", "lake.new.t", "--from", file).code == 0
    assert "To create it" not in cli("append", "lake.new.u", "--from", str(source)).err, "a folder is no file to take columns of"


def test_rows_are_sorted_within_a_file(cli: Cli, tmp_path: Path) -> None:
    cli("create", "lake.ns.t", "id bigint, city string", "--ordered-by", "id DESC")
    pq.write_table(pa.table({"id": [2, 9, 4, 7], "city": ["a", "b", "c", "d"]}), tmp_path / "x.parquet")
    append(cli, tmp_path / "x.parquet")
    assert list(rows(cli)) == [9, 7, 4, 2]
    (task,) = cli("inspect", "lake.ns.t", "files", "--json").json
    assert task["sort_order_id"] == 1


def test_rows_of_another_table_are_appended(cli: Cli, table: str, source: Path) -> None:
    append(cli, source)
    cli("create", "lake.ns.copy", "city string, id bigint")
    ran = cli("append", "lake.ns.copy", "--from-table", "lake.ns.t", "--lane", "local")
    assert ran.code == 0, ran.err
    assert {row["id"]: row["city"] for row in cli("scan", "lake.ns.copy").rows} == ALL


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_are_deleted(cli: Cli, table: str, source: Path, mode: str) -> None:
    append(cli, source)
    append(cli, source)
    ran = cli("delete", "lake.ns.t", "--where", "id > 2 OR (city IS NULL AND id < 7)", "--mode", mode, "--lane", "local", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["metrics"]["metadata-only"] == 1
    assert rows(cli) == {1: "Oslo"}
    assert cli("check", "lake.ns.t", "--deep").code == 0


def test_some_rows_of_a_file_of_a_v1_table_are_not_deleted_on_read(cli: Cli, source: Path) -> None:
    cli("create", "lake.ns.t", "id bigint NOT NULL, city string", "--property", "format-version=1")
    append(cli, source)
    ran = cli("delete", "lake.ns.t", "--where", "id > 2", "--mode", "merge-on-read", "--lane", "local")
    assert (ran.code, "v1 has no row-level deletes" in ran.err) == (1, True)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_only_the_matching_rows_of_a_file_go(cli: Cli, source: Path, mode: str) -> None:
    cli("create", "lake.ns.t", "id bigint NOT NULL, city string", "--property", "format-version=3")
    append(cli, source)
    before = {row["id"]: row["_row_id"] for row in cli("scan", "lake.ns.t", "--columns", "id,_row_id").rows}
    ran = cli("delete", "lake.ns.t", "--where", "city = 'Rome'", "--mode", mode, "--lane", "local", "--json")
    assert (ran.code, ran.json["metrics"]["deleted-records"]) == (0, 1), ran.err
    assert rows(cli) == {1: "Oslo", 2: None}
    after = {row["id"]: row["_row_id"] for row in cli("scan", "lake.ns.t", "--columns", "id,_row_id").rows}
    assert after == {i: row_id for i, row_id in before.items() if i != 3}
    assert ("rewritten-data-files-count" in ran.json["metrics"]) == (mode == "copy-on-write")


def test_whole_files_are_deleted_without_being_read(cli: Cli, table: str, source: Path) -> None:
    append(cli, source)
    ran = cli("delete", "lake.ns.t", "--where", "city = 'Rome'", "--lane", "local", "--json")
    assert ran.json["metrics"] == {"evaluations-count": 1, "deleted-data-files": 1, "metadata-only": 1}
    assert rows(cli) == {1: "Oslo", 2: None}


def test_rows_replace_partitions_or_what_a_filter_selects(cli: Cli, table: str, source: Path, tmp_path: Path) -> None:
    append(cli, source)
    pq.write_table(pa.table({"id": [8], "city": ["Oslo"]}), tmp_path / "new.parquet")
    ran = cli("overwrite", "lake.ns.t", "--from", str(tmp_path / "new.parquet"), "--lane", "local")
    assert ran.code == 0, ran.err
    assert rows(cli) == {2: None, 3: "Rome", 8: "Oslo"}
    pq.write_table(pa.table({"id": [9], "city": ["Rome"]}), tmp_path / "newer.parquet")
    where = ["--where", "city = 'Rome'", "--option", "isolation-level=serializable"]
    ran = cli("overwrite", "lake.ns.t", "--from", str(tmp_path / "newer.parquet"), "--lane", "local", *where)
    assert ran.code == 0, ran.err
    assert rows(cli) == {2: None, 8: "Oslo", 9: "Rome"}


@pytest.mark.parametrize("lane", ["auto", "local", "spark"])
def test_a_dry_run_says_what_would_be_looked_at_in_any_lane(cli: Cli, table: str, source: Path, lane: str) -> None:
    append(cli, source)
    ran = cli("delete", "lake.ns.t", "--where", "city = 'Rome'", "--dry-run", "--lane", lane, "--json")
    assert ran.code == 2, ran.err
    assert (ran.json["dry-run"], ran.json["metrics"]["planned-data-files-count"]) == (True, 1)
    assert cli("delete", "lake.ns.t", "--where", "id > 99", "--dry-run", "--lane", lane).code == 0
    assert cli("update", "lake.ns.t", "--set", "city = upper(city)", "--dry-run", "--lane", lane).code == 2
    assert rows(cli) == ALL


def test_a_staged_append_is_published_once(cli: Cli, table: str, source: Path) -> None:
    staged = append(cli, source, "--wap-id", "w7")
    assert rows(cli) == {}
    assert rows(cli, "--snapshot-id", str(staged["snapshot-ids"][0])) == ALL
    assert cli("publish", "lake.ns.t", "--wap-id", "w7").code == 0
    assert rows(cli) == ALL
    ran = cli("publish", "lake.ns.t", "--wap-id", "w7")
    assert rows(cli) == ALL
    assert (ran.code, "already an ancestor" in ran.err) == (1, True), ran
    append(cli, source, "--wap-id", "w8", "--branch", "audit")
    assert cli("publish", "lake.ns.t", "--wap-id", "w8", "--branch", "main").code == 0
    assert len(cli("scan", "lake.ns.t").rows) == 6


def test_conditions_and_values_are_computed_from_rows_and_files_says_what_they_rule_out(cli: Cli, table: str, source: Path) -> None:
    append(cli, source)
    before = rows(cli)
    assert rows(cli, "--where", "upper(city) = 'ROME'") == {i: city for i, city in before.items() if city == "Rome"}
    listed = cli("files", "lake.ns.t", "--where", "upper(city) = 'ROME' AND id > 99", "--json")
    assert (listed.json, listed.err.count("\n")) == ([], 1)
    assert listed.err.startswith("note: UPPER(city) = 'ROME' rules out no file, because it is computed from each row; ")
    refused = cli("files", "lake.ns.t", "--where", "soundex(city) = 'R500'", "--json")
    assert (refused.code, len(refused.json)) == (0, len(cli("files", "lake.ns.t", "--json").json))
    says = "on rows only Spark evaluates function soundex; without Spark are evaluated comparisons, "
    assert refused.err.startswith("note: SOUNDEX(city) = 'R500' rules out no file, and " + says)
    scanned = cli("scan", "lake.ns.t", "--where", "soundex(city) = 'R500'")
    assert (scanned.code, "BAD_WHERE" in scanned.err, "only Spark evaluates function soundex" in scanned.err) == (1, True, True)
    assert cli("update", "lake.ns.t", "--set", "city = upper(city)", "--where", "id % 2 = 0", "--lane", "local").code == 0
    assert rows(cli) == {i: city.upper() if city and i % 2 == 0 else city for i, city in before.items()}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["append", "--from", "{landing}", "--option", "merge-schema=true"], "append with merge-schema"),
        (["append", "--from", "{tmp}/nothing"], "there is no such path"),
        (["append", "--query", "SELECT 1"], "a source query"),
        (["append", "--from", "{tmp}/text.parquet"], "column id is string, not long"),
        (["append", "--from", "{tmp}/more.parquet"], "'nope' is not a column of the table"),
        (["append", "--from", "{tmp}/null.parquet"], "required column id holds nulls"),
        (["append", "--from", "{tmp}/broken.parquet"], "cannot be read"),
        (["append", "--from", "{tmp}/half"], "is half written"),
        (["append", "--from", "{tmp}/empty"], "is empty"),
        (["append", "--from", "{tmp}/folders"], "values in folder names"),
        (["append", "--from-table", "lake.ns.t"], "is the target"),
        (["append"], "append needs rows: --from PATH, --query SQL or --from-table TABLE"),
        (["delete", "--where", "soundex(city) = 'R500'"], "without Spark"),
        (["delete", "--where", "nope = 1"], "no column named 'nope'"),
        (["update", "--set", "id = hash(id)"], "without Spark"),
        (["publish", "--wap-id", "unknown"], "no staged snapshot with wap.id unknown"),
        (["publish"], "either --wap-id or --snapshot-id"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(cli: Cli, source: Path, tmp_path: Path, arguments: list[str], says: str) -> None:
    cli("create", "lake.ns.t", "id bigint NOT NULL, city string")
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "text.parquet")
    pq.write_table(pa.table({"id": [1], "nope": [1]}), tmp_path / "more.parquet")
    pq.write_table(pa.table({"id": pa.array([1, None], pa.int64())}), tmp_path / "null.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no PAR1")
    for name in ("half/_temporary", "empty", "folders/city=Rome"):
        (tmp_path / name).mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), tmp_path / "folders/city=Rome/x.parquet")
    command, *rest = [a.format(landing=source, tmp=tmp_path) for a in arguments]
    ran = cli(command, "lake.ns.t", *rest, *([] if command == "publish" else ["--lane", "local"]))
    assert (ran.code, ran.err.count("\n"), says in ran.err) == (1, 1, True), ran.err
    location = Path(lake().load_table(("ns", "t")).location.removeprefix("file://"))
    assert not [p for p in (location / "data").rglob("*") if p.is_file()]
    assert lake().load_table(("ns", "t")).metadata.snapshots == ()


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_are_updated_merged_and_upserted_without_spark(cli: Cli, source: Path, tmp_path: Path, mode: str) -> None:
    cli("create", "lake.ns.t", "id bigint NOT NULL, city string", "--property", "format-version=3")
    append(cli, source)
    local = ["--lane", "local", "--json"]
    ran = cli("update", "lake.ns.t", "--set", "city = 'Paris'", "--where", "id > 1 AND city IS NULL", "--mode", mode, *local)
    assert (ran.code, ran.json["status"]) == (0, "committed"), ran.err
    assert rows(cli) == {1: "Oslo", 2: "Paris", 3: "Rome"}
    pq.write_table(pa.table({"id": [1, 2, 9], "city": ["Bern", None, "Lima"]}), tmp_path / "late.parquet")
    clauses = ["MATCHED AND source.city IS NULL THEN DELETE", "MATCHED THEN UPDATE SET *", "NOT MATCHED THEN INSERT *",
               "NOT MATCHED BY SOURCE AND target.id = 3 THEN UPDATE SET city = 'Nice'"]  # fmt: skip
    when = [word for clause in clauses for word in ("--when", clause)]
    late = ["--from", str(tmp_path / "late.parquet")]
    ran = cli("merge", "lake.ns.t", *late, "--on", "target.id = source.id", *when, "--mode", mode, *local)
    assert (ran.code, ran.json["metrics"]["deleted-records"], ran.json["metrics"]["added-records"]) == (0, 3, 3), ran.err
    assert rows(cli) == {1: "Bern", 3: "Nice", 9: "Lima"}
    ran = cli("upsert", "lake.ns.t", "--from", str(source), "--keys", "id", "--option", "delete-when=city = 'Rome'", *local)
    assert (ran.code, ran.json["metrics"]["upserted-keys"]) == (0, 3), ran.err
    assert rows(cli) == {1: "Oslo", 2: None, 9: "Lima"}
    assert cli("check", "lake.ns.t", "--deep").code == 0


def test_types_that_spark_has_no_form_for_are_appended_without_it(cli: Cli, tmp_path: Path) -> None:
    assert cli("create", "lake.ns.types", "tm time, u uuid, n timestamp_ns", "--property", "format-version=3").code == 0
    columns = {
        "tm": pa.array([time(23, 59, 59, 999999), None], pa.time64("us")),
        "u": pa.array([UUID(int=5).bytes, None], pa.binary(16)),
        "n": pa.array([1700000000123456789, None], pa.timestamp("ns")),
    }
    pq.write_table(pa.table(columns), tmp_path / "bytes.parquet")
    pq.write_table(pa.table(columns | {"u": columns["u"].cast(pa.uuid())}), tmp_path / "uuid.parquet")
    for name in ("bytes", "uuid"):
        assert cli("append", "lake.ns.types", "--from", str(tmp_path / f"{name}.parquet"), "--lane", "local").code == 0
    row = {"tm": "23:59:59.999999", "u": "00000000-0000-0000-0000-000000000005", "n": "2023-11-14T22:13:20.123456789"}
    nothing = dict.fromkeys(row)
    assert cli("scan", "lake.ns.types").rows == [row, nothing, row, nothing]


@pytest.mark.parametrize("key", [(), ("--run-key", "k")])
def test_a_report_of_before_does_not_stand_after_a_ctrl_c(
    cli: Cli, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...]
) -> None:
    cli("create", "lake.ns.t", "id bigint NOT NULL, city string")
    report = tmp_path / "report.json"
    assert cli("append", "lake.ns.t", "--from", str(source), "--report", str(report)).code == 0

    def interrupted(config: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("iceberg_ops.actions.dispatch.load_catalog", interrupted)
    assert cli("append", "lake.ns.t", "--from", str(source), "--report", str(report), *key).code == 130
    found = json.loads(report.read_text())
    assert (found["status"], found["error"]["code"]) == ("failed", "INTERRUPTED")


@pytest.mark.parametrize("name", ["a.csv", "A.CSV", "a.csv.gz", "a.CSV.bz2", "a.json", "a.jsonl", "a.ndjson", "a.JSONL.gz"])
def test_the_name_of_a_file_tells_its_format(cli: Cli, tmp_path: Path, name: str) -> None:
    cli("create", "lake.ns.t", "id bigint, city string")
    text = b"id,city\n1,Rome\n" if "csv" in name.lower() else b'{"id": 1, "city": "Rome"}\n'
    packed = gzip.compress(text) if name.endswith("gz") else bz2.compress(text) if name.endswith("bz2") else text
    (tmp_path / name).write_bytes(packed)
    ran = cli("append", "lake.ns.t", "--from", str(tmp_path / name), "--lane", "local")
    assert ran.code == 0, ran.err
    assert rows(cli) == {1: "Rome"}
