"""Command line arguments must be values: not blank, not given twice, valid text, and numbers that the format can hold."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Cli, lake


@pytest.fixture
def table(cli: Cli, tmp_path: Path) -> Path:
    """Table ``lake.ns.t``, and a folder with rows for it."""
    assert cli("create", "lake.ns.t", "id bigint").code == 0
    (tmp_path / "rows").mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "rows/a.parquet")
    return tmp_path / "rows"


@pytest.mark.parametrize(
    ("option", "value"),
    [("--run-key", ""), ("--branch", " "), ("--from", ""), ("--report", ""), ("--wap-id", "\t"), ("--option", "")],
)
def test_an_option_without_a_value_is_refused(cli: Cli, table: Path, option: str, value: str) -> None:
    """A run key that a shell variable left blank was shared by every such call: the second day's rows were never loaded."""
    source = [] if option == "--from" else ["--from", str(table)]
    for given in ([option, value], [f"{option}={value}"] if option != "-o" else []):
        done = cli("append", "lake.ns.t", *source, "--lane", "local", *given)
        assert (done.code, done.err) == (1, f"error: BAD_OPTION: {option} is blank: leave it out, or give it a value\n")
    assert list(lake().load_table(("ns", "t")).metadata.refs) == []


def test_a_blank_table_is_refused(cli: Cli) -> None:
    assert cli("scan", "").err == "error: BAD_OPTION: an argument is blank: leave it out, or give it a value\n"


def test_a_blank_value_of_a_key_is_one(cli: Cli, table: Path) -> None:
    """``KEY=`` sets a property, or an option of Spark's reader, to blank text."""
    assert cli("evolve", "lake.ns.t", "SET TBLPROPERTIES ('note' = '')").code == 0
    assert cli("create", "lake.ns.u", "id bigint", "--property", "note=").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["tag", "lake.ns.t", os.fsdecode(b"g\xff")],
        ["evolve", "lake.ns.t", os.fsdecode(b"ADD COLUMN d int COMMENT '\xff'")],
        ["append", "lake.ns.t", "--from", "/x", "--lane", "local", "--run-key", os.fsdecode(b"k\xff")],
    ],
)
def test_text_that_is_no_utf_8_is_refused_before_anything_is_tried(cli: Cli, table: Path, arguments: list[str]) -> None:
    """It was tried until its outcome was unknown, for minutes."""
    done = cli(*arguments)
    assert done.code == 1
    assert done.err.startswith("error: BAD_OPTION: ")
    assert done.err.endswith(" is not UTF-8 text: write it in UTF-8\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["create", "lake.ns.u", "id int", "--property", "a=1", "--property", "a=2"], "--property a: is given twice"),
        (["evolve", "lake.ns.t", "SET TBLPROPERTIES ('a' = '1', 'a' = '2')"], "property a is set twice"),
        (["evolve", "lake.ns.t", "SET TBLPROPERTIES ('a'='1')", "SET TBLPROPERTIES ('a'='2')"], "property a is set twice"),
        (["scan", "lake.ns.t", "--map-location", "/a=/b", "--map-location", "/a=/c"], "--map-location /a: is given twice"),
        (
            ["append", "lake.ns.t", "--from", "/x.csv", "--source-option", "sep=,", "--source-option", "sep=;"],
            "--source-option sep: is given twice",
        ),
        (
            ["plan", "remove_orphan_files", "lake.ns.t", "--option", "equal-schemes=a=b,a=c"],
            "must be from=to pairs, each from once",
        ),
    ],
)
def test_what_is_given_twice_is_refused(cli: Cli, table: Path, arguments: list[str], said: str) -> None:
    done = cli(*arguments)
    assert done.code == 1
    assert done.err.startswith("error: BAD_OPTION: ")
    assert said in done.err


TOO_LARGE = [
    ["branch", "lake.ns.t", "b", "--min-snapshots", "2147483648"],
    ["tag", "lake.ns.t", "g", "--retain", "999999999999999d"],
    ["branch", "lake.ns.t", "b", "--max-snapshot-age", "106751991168d"],
    ["evolve", "lake.ns.t", "ADD PARTITION FIELD bucket(2147483648, id)"],
    ["evolve", "lake.ns.t", "ADD PARTITION FIELD truncate(2147483648, id)"],
    ["evolve", "lake.ns.t", "ADD COLUMN f fixed(2147483648)"],
    ["evolve", "lake.ns.t", "WRITE ORDERED BY bucket(4294967296, id)"],
    ["evolve", "lake.ns.t", "SET TBLPROPERTIES ('format-version' = '²')"],
    ["evolve", "lake.ns.t", f"SET TBLPROPERTIES ('format-version' = '{'9' * 5000}')"],
    ["plan", "expire_snapshots", "lake.ns.t", "--option", f"retain-last={'9' * 5000}"],
    ["plan", "rewrite_data_files", "lake.ns.t", "--option", f"target-file-size-bytes={2**63}"],
]


@pytest.mark.parametrize("arguments", TOO_LARGE, ids=[" ".join(a)[:60] for a in TOO_LARGE])
def test_a_number_that_the_format_has_no_room_for_is_refused(cli: Cli, table: Path, arguments: list[str]) -> None:
    """It was written, and after that the table could not be read."""
    assert cli("append", "lake.ns.t", "--from", str(table), "--lane", "local").code == 0
    before = lake().load_table(("ns", "t")).metadata_location
    done = cli(*arguments)
    assert done.code == 1
    assert done.err.partition(": ")[2].partition(":")[0] in ("BAD_OPTION", "USAGE")
    assert lake().load_table(("ns", "t")).metadata_location == before


DEEP = {
    "structs": "struct<a:" * 120 + "int" + ">" * 120,
    "lists": "array<" * 40 + "int" + ">" * 40,
    "deeper than Python's stack": "struct<a:" * 5000 + "int" + ">" * 5000,
}


@pytest.mark.parametrize("name", DEEP)
def test_a_column_nested_deeper_than_files_are_read_is_refused(cli: Cli, table: Path, name: str) -> None:
    """Rows were written, and from then on no column of the table could be read."""
    for arguments in (["evolve", "lake.ns.t", f"ADD COLUMN n {DEEP[name]}"], ["create", "lake.ns.u", f"n {DEEP[name]}"]):
        done = cli(*arguments)
        assert done.code == 1
        assert done.err.startswith(("error: BAD_OPTION: ", "error: BAD_SCHEMA: "))
        assert "deep" in done.err
    inner = "struct<a:" * 50 + "int" + ">" * 50
    assert cli("evolve", "lake.ns.t", f"ADD COLUMN n {inner}").code == 0
    place = ".".join(["n"] + ["a"] * 49)
    assert "BAD_SCHEMA" in cli("evolve", "lake.ns.t", f"ADD COLUMN {place}.b {inner}").err
    assert cli("append", "lake.ns.t", "--from", str(table), "--lane", "local").code == 0
    assert len(cli("scan", "lake.ns.t").rows) == 3


def test_a_table_may_be_called_json(cli: Cli, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counted as the path of a metadata file."""
    assert cli("create", "lake.ns.json", "id bigint").code == 0
    assert cli("append", "lake.ns.json", "--from", str(table), "--lane", "local").code == 0
    assert len(cli("scan", "lake.ns.json").rows) == 3
    metadata = max((tmp_path / "warehouse/ns/json/metadata").glob("v*.metadata.json"), key=lambda p: p.stat().st_mtime)
    monkeypatch.chdir(metadata.parent)
    assert len(cli("scan", metadata.name).rows) == 3


def test_a_dry_run_of_evolve_shows_and_checks_properties(cli: Cli, table: Path) -> None:
    assert cli("evolve", "lake.ns.t", "SET TBLPROPERTIES ('a' = '1', 'b' = '2')").code == 0
    steps = ("SET TBLPROPERTIES ('c' = '3')", "UNSET TBLPROPERTIES ('a')", "--json")
    shown = cli("evolve", "lake.ns.t", *steps, "--dry-run").json["properties"]
    assert shown.keys() & {"a", "b", "c"} == {"b", "c"}
    assert "c" not in lake().load_table(("ns", "t")).properties
    assert shown == cli("evolve", "lake.ns.t", *steps).json["properties"]
    for more in ([], ["--dry-run"]):
        refused = cli("evolve", "lake.ns.t", "SET TBLPROPERTIES ('current-schema' = 'x')", *more)
        assert (refused.code, "error: BAD_OPTION" in refused.err) == (1, True)


@pytest.mark.parametrize("order", [1, -1])
def test_a_property_that_one_call_sets_and_unsets_is_refused(cli: Cli, table: Path, order: int) -> None:
    steps = ["SET TBLPROPERTIES ('x' = '1')", "UNSET TBLPROPERTIES ('x')"][::order]
    refused = cli("evolve", "lake.ns.t", *steps)
    assert "error: BAD_OPTION: property x is set and unset in one call" in refused.err


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"a\tb", "a\tb"), (r"\n\r\b\Z\0", "\n\r\b\x1a\0"), (r"\\t", r"\t"), (r"\'''", "''"), (r"100\%\_", r"100\%\_"),
        (r"A\101é\u00e9", "AAéé"), (r"\U0001F600\uD83D\uDE00", "😀😀"), (r"\x\u12", "xu12"), (r"\200", "200"),
    ],
)  # fmt: skip
def test_escapes_in_a_text_are_those_of_spark(cli: Cli, table: Path, written: str, text: str) -> None:
    set_to = cli("evolve", "lake.ns.t", f"SET TBLPROPERTIES ('k' = '{written}')", "--json", "--dry-run")
    assert set_to.json["properties"]["k"] == text


HALVES = (
    r"SET TBLPROPERTIES ('a' = '\uD800')",
    r"SET TBLPROPERTIES ('\uDC00' = 'a')",
    r"ALTER COLUMN id COMMENT '\uD800'",
    r"ADD COLUMN b string COMMENT 'x\uD83D'",
)


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize("step", HALVES)
def test_half_of_a_surrogate_pair_is_the_callers_mistake_and_changes_nothing(
    cli: Cli, table: Path, step: str, dry: tuple[str, ...]
) -> None:
    """It was an unknown outcome, after eight seconds of looking for it; a dry run said that the change was fine."""
    before = lake().load_table(("ns", "t")).metadata_location
    refused = cli("evolve", "lake.ns.t", step, *dry)
    assert (refused.code, refused.err.partition(": ")[2].partition(":")[0]) == (1, "BAD_OPTION"), refused.err
    assert lake().load_table(("ns", "t")).metadata_location == before


FIELD = '{"type":"struct","fields":[{"id":1,"name":"%s","required":false,"type":"%s"}]}'
WRONG_SCHEMAS = {
    "a length beyond 32 bits": FIELD % ("a", "fixed[99999999999999999999]"),
    "too deep": "[" * 3000 + "]" * 3000,
    "half a surrogate pair": FIELD % (r"\ud800", "int"),
    "a list": "[1]",
    "no JSON": "{",
    "no UTF-8": "é",
    "an id twice": (FIELD % ("a", "int")).replace("]}", "," + (FIELD % ("b", "int")).partition("[")[2]),
}


@pytest.mark.parametrize("what", WRONG_SCHEMAS)
def test_a_wrong_schema_file_is_the_callers_mistake_and_makes_no_table(cli: Cli, table: Path, tmp_path: Path, what: str) -> None:
    (tmp_path / "s.json").write_bytes(WRONG_SCHEMAS[what].encode("latin-1"))
    refused = cli("create", "lake.ns.u", "--like", str(tmp_path / "s.json"))
    assert (refused.code, refused.err.partition(": ")[2].partition(":")[0]) == (1, "BAD_OPTION"), refused.err
    assert [name for *_, name in lake().list_tables(("ns",))] == ["t"]


def test_nothing_that_a_job_spec_says_may_stand_beside_it(cli: Cli, table: Path, tmp_path: Path) -> None:
    """Nor what would be the default without one: the document may say something else."""
    for given in (["--branch", "main"], ["--where", "true"], ["--option", "a=b"], ["append"]):
        refused = cli("run", *given, "--job-spec", str(tmp_path / "j.json"))
        assert "error: BAD_OPTION: --job-spec: the document says" in refused.err


def test_a_wrong_instant_is_reported_with_its_option(cli: Cli, table: Path) -> None:
    assert "error: BAD_OPTION: --to-time 'xx': must be an ISO 8601" in cli("rollback", "lake.ns.t", "--to-time", "xx").err
    assert "error: BAD_OPTION: --as-of 'xx': must be an ISO 8601" in cli("scan", "lake.ns.t", "--as-of", "xx").err
