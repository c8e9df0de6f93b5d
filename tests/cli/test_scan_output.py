"""``scan -o FILE`` and ``--report FILE``: the file is complete or unchanged, and never a file of the table."""

from __future__ import annotations

import gzip
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from tests.builders import data_file as added_file
from tests.cli.conftest import Cli, lake


@pytest.fixture
def data_file(cli: Cli, tmp_path: Path) -> Path:
    """The only data file of ``lake.ns.t``."""
    assert cli("create", "lake.ns.t", "id bigint").code == 0
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "a.parquet")
    assert cli("append", "lake.ns.t", "--from", str(tmp_path / "a.parquet"), "--lane", "local").code == 0
    return next((tmp_path / "warehouse/ns/t/data").glob("*.parquet"))


def test_an_output_in_the_tables_folder_is_refused(cli: Cli, data_file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(data_file)
    for output in (data_file, tmp_path / "link", data_file.with_name("new.parquet")):
        ran = cli("scan", "lake.ns.t", "-o", str(output))
        assert (ran.code, "error: BAD_OPTION" in ran.err) == (1, True)
    assert len(cli("scan", "lake.ns.t").rows) == 3


def test_a_report_in_the_tables_folder_is_refused_before_the_work(cli: Cli, data_file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(data_file)
    before = data_file.read_bytes()
    metadata = next((tmp_path / "warehouse/ns/t/metadata").glob("*.metadata.json"))
    for report in (data_file, tmp_path / "link", data_file.with_name("new.json"), data_file.parent / "deep/new.json", metadata):
        for command in (
            ("plan", "rewrite_data_files", "lake.ns.t"),
            ("run", "expire_snapshots", "lake.ns.t", "--lane", "local"),
            ("append", "lake.ns.t", "--from", str(tmp_path / "a.parquet"), "--lane", "local"),
            ("append", "lake.ns.t", "--from", str(tmp_path / "a.parquet"), "--lane", "spark"),
            ("run", "expire_snapshots", "lake.ns.t", "--option", "no-such=1"),
        ):
            ran = cli(*command, "--report", str(report))
            assert (ran.code, "error: BAD_OPTION: report" in ran.err) == (1, True), (command, ran)
    assert data_file.read_bytes() == before
    assert [p.name for p in data_file.parent.iterdir()] == [data_file.name]
    assert len(cli("scan", "lake.ns.t").rows) == 3


def test_a_report_does_not_replace_a_data_file_of_any_table(cli: Cli, data_file: Path, tmp_path: Path) -> None:
    """The source of the rows, say; also where the job fails before it looks at its table."""
    source = tmp_path / "a.parquet"
    before = source.read_bytes()
    for table in ("lake.ns.t", "lake.ns.missing"):
        ran = cli("append", table, "--from", str(source), "--lane", "local", "--report", str(source))
        assert (ran.code, "it would replace a file of format Parquet" in ran.err) == (1, True)
    assert source.read_bytes() == before


def test_a_scan_that_fails_leaves_an_earlier_output_as_it_was(cli: Cli, data_file: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    output = tmp_path / "out" / "rows.jsonl"
    assert cli("scan", "lake.ns.t", "-o", str(output)).code == 0
    before = output.read_bytes()
    assert before.count(b"\n") == 3
    data_file.write_bytes(b"")
    assert cli("scan", "lake.ns.t", "-o", str(output)).code == 1
    assert output.read_bytes() == before
    assert [p.name for p in output.parent.iterdir()] == ["rows.jsonl"]


@pytest.mark.parametrize("place", ["/dev/fd/99999999999999", "/proc/self/fd/99999999999999", "new/", "new/.", "socket"])
def test_an_output_that_no_file_can_be_is_refused_in_one_line(
    cli: Cli, data_file: Path, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    os.mknod("socket", stat.S_IFSOCK | 0o600)
    for kind in ("jsonl", "parquet"):
        ran = cli("scan", "lake.ns.t", "--format", kind, "-o", place)
        assert (ran.code, ran.err[:11], f"{place}: " in ran.err) == (1, "error: IO: ", True), ran
    assert os.listdir() == ["socket"]


@pytest.fixture
def outside(cli: Cli, tmp_path: Path) -> Path:
    """A file of ``lake.ns.t`` that another writer added where it lies: no property of the table names its folder."""
    assert cli("create", "lake.ns.t", "id bigint").code == 0
    (tmp_path / "elsewhere").mkdir()
    place = tmp_path / "elsewhere" / "rows.parquet"
    ids = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    pq.write_table(pa.table({"id": [1, 2, 3]}, schema=ids), place)
    file = added_file(str(place), rows=3, size=place.stat().st_size)
    commit(lake(), lake().load_table(("ns", "t")), AppendFiles(added=(file,)))
    return place


@pytest.mark.parametrize("folder", ["missing", "file"])
def test_an_output_that_cannot_be_made_is_named_as_it_was_given(cli: Cli, data_file: Path, tmp_path: Path, folder: str) -> None:
    """The error named the file that would have replaced it."""
    (tmp_path / "file").write_text("")
    place = tmp_path / folder / "rows.jsonl"
    said = "No such file or directory" if folder == "missing" else "Not a directory"
    assert cli("scan", "lake.ns.t", "-o", str(place)) == (1, "", f"error: IO: {place}: {said}\n")


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "arrow"])
def test_an_output_never_takes_the_place_of_a_live_file_wherever_that_lies(
    cli: Cli, outside: Path, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "link").symlink_to(outside)
    (tmp_path / "folder").symlink_to(outside.parent)
    before = outside.read_bytes()
    for output in (outside, tmp_path / "link", tmp_path / "folder" / outside.name):
        ran = cli("scan", "lake.ns.t", "--format", kind, "-o", str(output))
        assert (ran.code, "table lake.ns.t refers to this file" in ran.err) == (1, True), ran
    assert outside.read_bytes() == before
    assert sorted(p.name for p in outside.parent.iterdir()) == [outside.name]


def test_an_output_never_takes_the_place_of_a_file_that_only_an_older_snapshot_has(cli: Cli, outside: Path) -> None:
    assert cli("delete", "lake.ns.t", "--where", "true", "--lane", "local").code == 0
    ran = cli("scan", "lake.ns.t", "-o", str(outside))
    assert (ran.code, "table lake.ns.t refers to this file" in ran.err) == (1, True)


def test_an_output_never_takes_the_place_of_a_file_behind_a_recorded_link(cli: Cli, outside: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.bin"
    outside.rename(target)
    outside.symlink_to(target)
    ran = cli("scan", "lake.ns.t", "-o", str(target))
    assert (ran.code, "table lake.ns.t refers to this file" in ran.err) == (1, True)


@pytest.mark.parametrize(
    ("name", "begin"),
    [("a.orc", b"ORC"), ("a.avro", b"Obj\x01"), ("p.puffin", b"PFA1"), ("c.db", b"SQLite format 3\0"), ("a.bin", b"PAR1")],
)
def test_an_output_takes_the_place_of_no_file_of_a_tables_formats(
    cli: Cli, outside: Path, tmp_path: Path, name: str, begin: bytes
) -> None:
    """It may be another table's."""
    other = tmp_path / name
    other.write_bytes(begin + b"rest")
    ran = cli("scan", "lake.ns.t", "-o", str(other))
    assert (ran.code, "that may belong to a table" in ran.err) == (1, True)
    assert other.read_bytes() == begin + b"rest"
    ran = cli("scan", "lake.ns.t", "-o", str(tmp_path / "v1.metadata.json"))
    assert (ran.code, "a table's metadata" in ran.err) == (1, True)


def test_an_output_takes_not_the_place_of_a_parquet_file_that_a_scan_wrote_and_a_table_took_in(
    cli: Cli, outside: Path, tmp_path: Path
) -> None:
    (tmp_path / "export").mkdir()
    export = tmp_path / "export" / "rows.parquet"
    assert cli("scan", "lake.ns.t", "--format", "parquet", "-o", str(export)).code == 0
    assert cli("import", "lake.ns.other", str(export.parent)).code == 0
    for kind in ("parquet", "csv"):
        ran = cli("scan", "lake.ns.t", "--limit", "1", "--format", kind, "-o", str(export))
        assert (ran.code, "that may belong to a table: name another file, or replace this one with --overwrite" in ran.err) == (
            1,
            True,
        )
    assert cli("scan", "lake.ns.other").out.count("id") == 3


@pytest.mark.parametrize("packed", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_an_output_takes_not_the_place_of_a_tables_metadata_whatever_that_is_called(
    cli: Cli, outside: Path, tmp_path: Path, packed: Callable[[bytes], bytes]
) -> None:
    """A table can be registered with any file, and is gone with it."""
    assert cli("create", "lake.ns.other", "id bigint").code == 0
    metadata = next((tmp_path / "warehouse/ns/other/metadata").glob("*.metadata.json")).read_bytes()
    other = tmp_path / "foo.json"
    content = packed(metadata)
    other.write_bytes(content)
    ran = cli("scan", "lake.ns.t", "-o", str(other))
    assert (ran.code, "it would replace a table's metadata" in ran.err) == (1, True)
    assert other.read_bytes() == content


def test_an_output_takes_the_place_of_rows_that_have_the_names_of_metadata(cli: Cli, outside: Path, tmp_path: Path) -> None:
    output = tmp_path / "rows"
    output.write_text('{"format-version": 2, "location": "x"}\n' * 2)
    assert cli("scan", "lake.ns.t", "-o", str(output)).code == 0
    assert output.read_text().count("\n") == 3


def test_an_output_never_takes_the_place_of_the_catalogs_file_or_of_a_catalogs_database(cli: Cli, tmp_path: Path) -> None:
    catalogs, database = tmp_path / "catalogs.yml", tmp_path / "cat.db"
    properties = f"{{uri: 'sqlite:///{database}', warehouse: '{tmp_path}/wh'}}"
    catalogs.write_text(f"catalogs:\n  - name: lake\n    type: sql\n    properties: {properties}\n")
    assert cli("create", "lake.ns.t", "id bigint", "--create-namespace").code == 0
    (tmp_path / "link").symlink_to(catalogs)
    for place in (catalogs, database, tmp_path / "link"):
        before = place.read_bytes()
        ran = cli("scan", "lake.ns.t", "-o", str(place), "--overwrite")
        assert (ran.code, "catalogs are read from this file" in ran.err, place.read_bytes()) == (1, True, before)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "arrow"])
def test_an_output_with_overwrite_takes_the_place_of_a_file_of_any_format(
    cli: Cli, outside: Path, tmp_path: Path, kind: str
) -> None:
    output = tmp_path / "out"
    for earlier in ("parquet", "arrow", kind):
        assert cli("scan", "lake.ns.t", "--limit", "1", "--format", earlier, "-o", str(output), "--overwrite").code == 0
        assert cli("scan", "lake.ns.t", "--format", kind, "-o", str(output), "--overwrite").code == 0
    if kind == "parquet":
        assert pq.read_table(output)["id"].to_pylist() == [1, 2, 3]
    output.write_bytes(b"ORC")
    assert cli("scan", "lake.ns.t", "-o", str(output), "--overwrite").code == 0
    assert output.read_text() == '{"id": 1}\n{"id": 2}\n{"id": 3}\n'


def test_overwrite_replaces_nothing_that_the_table_refers_to(cli: Cli, outside: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(outside)
    metadata = next((tmp_path / "warehouse/ns/t/metadata").glob("v*.metadata.json"))
    before = outside.read_bytes()
    for place in (outside, tmp_path / "link", metadata, metadata.with_name("new.parquet"), metadata.parents[1] / "data/x"):
        ran = cli("scan", "lake.ns.t", "-o", str(place), "--overwrite")
        assert (ran.code, "error: BAD_OPTION: -o " in ran.err, "--overwrite" in ran.err) == (1, True, False), ran
    assert outside.read_bytes() == before
    assert cli("scan", "lake.ns.t").code == 0


def test_overwrite_that_fails_leaves_the_earlier_file(cli: Cli, outside: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    assert cli("scan", "lake.ns.t", "--format", "parquet", "-o", str(output)).code == 0
    outside.write_bytes(b"")
    assert cli("scan", "lake.ns.t", "--format", "parquet", "-o", str(output), "--overwrite").code == 1
    assert pq.read_table(output).num_rows == 3


def test_overwrite_is_for_a_file_that_is_replaced(cli: Cli, outside: Path, tmp_path: Path) -> None:
    """An open file is added to: a Parquet file would be damaged, not replaced."""
    ran = cli("scan", "lake.ns.t", "--overwrite")
    assert (ran.code, "error: BAD_OPTION: --overwrite needs -o FILE" in ran.err) == (1, True)
    other = tmp_path / "other.parquet"
    other.write_bytes(b"PAR1 and more")
    shell = f"{PROGRAM} scan lake.ns.t --overwrite -o /dev/fd/3 3>> {other}"
    done = subprocess.run(shell, shell=True, check=False, capture_output=True, text=True)
    assert (done.returncode, "it would be added to a file of format Parquet" in done.stderr) == (1, True)
    assert other.read_bytes() == b"PAR1 and more"


@pytest.mark.parametrize("kind", ["jsonl", "csv", "arrow"])
def test_an_output_takes_the_place_of_an_earlier_one(cli: Cli, outside: Path, tmp_path: Path, kind: str) -> None:
    output = tmp_path / "out"
    for _ in range(2):
        assert cli("scan", "lake.ns.t", "--format", kind, "-o", str(output)).code == 0
    assert cli("scan", "lake.ns.t", "--format", "csv", "-o", str(output)).code == 0
    assert output.read_text() == "id\n1\n2\n3\n"


PROGRAM = f"{sys.executable} -m iceberg_ops.cli.main"


@pytest.mark.parametrize("place", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "LINK", "LOG"])
def test_an_output_that_is_standard_output_is_added_to_it(cli: Cli, data_file: Path, tmp_path: Path, place: str) -> None:
    """What the file had was lost, and what the shell wrote afterwards went into the file that was gone."""
    log, link = tmp_path / "log", tmp_path / "link"
    link.symlink_to("/proc/self/fd/1")
    place = place.replace("LINK", str(link)).replace("LOG", str(log))
    for mode in (">", ">>"):
        log.write_text("earlier\n")
        shell = f"exec {mode} {log}; echo before; {PROGRAM} scan lake.ns.t -o {place}; echo later"
        subprocess.run(shell, shell=True, check=True)
        earlier = ["earlier"] if mode == ">>" else []
        assert log.read_text().splitlines() == [*earlier, "before", '{"id": 1}', '{"id": 2}', '{"id": 3}', "later"]
    assert link.is_symlink()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_report_to_an_open_file_is_added_to_it(cli: Cli, data_file: Path, tmp_path: Path, number: int) -> None:
    log = tmp_path / "log"
    log.write_text("earlier\n")
    shell = f"exec {number}>> {log}; {PROGRAM} plan rewrite_data_files lake.ns.t --report /dev/fd/{number}; echo later >&{number}"
    subprocess.run(shell, shell=True, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    said = log.read_text()
    assert (said.startswith("earlier\n"), said.endswith("later\n"), said.count('"status"')) == (True, True, 1)


def test_an_output_keeps_links_and_permissions(cli: Cli, data_file: Path, tmp_path: Path) -> None:
    """A file that only its owner may read was readable by all afterwards."""
    (tmp_path / "rows").write_text("old")
    (tmp_path / "rows").chmod(0o600)
    (tmp_path / "link").symlink_to("rows")
    assert cli("scan", "lake.ns.t", "-o", str(tmp_path / "link")).code == 0
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE((tmp_path / "rows").stat().st_mode) == 0o600
    assert (tmp_path / "rows").read_text().count("\n") == 3


def test_a_report_does_not_replace_the_database_of_its_catalog(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogs = tmp_path / "catalogs.yml"
    properties = f"{{uri: 'sqlite:///{tmp_path}/cat.db', warehouse: '{tmp_path}/wh'}}"
    catalogs.write_text(f"catalogs:\n  - name: lake\n    type: sql\n    properties: {properties}\n")
    assert cli("create", "lake.ns.t", "id bigint", "--create-namespace").code == 0
    for place in (tmp_path / "cat.db", catalogs):
        before = place.read_bytes()
        ran = cli("plan", "rewrite_manifests", "lake.ns.t", "--report", str(place))
        assert (ran.code, "error: BAD_OPTION: report" in ran.err, place.read_bytes()) == (1, True, before)
    assert cli("scan", "lake.ns.t").code == 0


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_rows_without_columns_are_not_written_where_their_number_would_be_lost(cli: Cli, data_file: Path, kind: str) -> None:
    assert cli("create", "lake.ns.u", "id bigint").code == 0
    assert cli("append", "lake.ns.u", "--from-table", "lake.ns.t", "--lane", "local").code == 0
    assert cli("evolve", "lake.ns.u", "DROP COLUMN id").code == 0
    ran = cli("scan", "lake.ns.u", "--format", kind)
    assert (ran.code, ran.out) == (1, "")
    assert f"error: UNSUPPORTED: not supported: --format {kind} without columns" in ran.err
    assert cli("scan", "lake.ns.u").out == "{}\n" * 3


@pytest.mark.parametrize("special", ["\r", "\n", "\r\n", '"', ","])
def test_a_cell_of_csv_with_any_end_of_a_line_is_quoted(cli: Cli, tmp_path: Path, special: str) -> None:
    """A bare carriage return was not: readers that end a line there read two records."""
    assert cli("create", "lake.ns.t", f"id bigint, `a{special}` string").code == 0
    pq.write_table(pa.table({"id": [1, 2], f"a{special}": [f"x{special}y", "plain"]}), tmp_path / "a.parquet")
    assert cli("append", "lake.ns.t", "--from", str(tmp_path / "a.parquet"), "--lane", "local").code == 0
    assert cli("scan", "lake.ns.t", "--format", "csv", "-o", str(tmp_path / "a.csv")).code == 0
    quoted = special.replace('"', '""')
    assert (tmp_path / "a.csv").read_bytes().decode() == f'id,"a{quoted}"\n1,"x{quoted}y"\n2,plain\n'
    read = pyarrow.csv.read_csv(tmp_path / "a.csv", parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True))
    assert read.to_pylist() == [{"id": 1, f"a{special}": f"x{special}y"}, {"id": 2, f"a{special}": "plain"}]


@pytest.mark.parametrize("columns", ["_partition", "id,_partition"])
def test_a_struct_without_fields_is_not_printed_as_parquet(cli: Cli, data_file: Path, columns: str) -> None:
    ran = cli("scan", "lake.ns.t", "--columns", columns, "--format", "parquet")
    assert (ran.code, ran.out) == (1, "")
    assert "error: UNSUPPORTED: not supported: --format parquet with column '_partition', a struct without fields" in ran.err
    assert cli("scan", "lake.ns.t", "--columns", columns).out.count('"_partition": {}') == 3
