"""``scan -o FILE`` and ``--report FILE``: the file is whole or as it was before, and never one of the table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Cli


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
        assert (ran.code, "it would take the place of a file of format Parquet" in ran.err) == (1, True)
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
