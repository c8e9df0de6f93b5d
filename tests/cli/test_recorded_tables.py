"""Recorded tables of other engines through the command line: files with deletes, checks, inspection, scans in every format."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.cli.inspection import TOPICS
from tests.cli.conftest import Cli
from tests.fixture_paths import FIXTURES, requires_fixtures

pytestmark = [pytest.mark.fixtures, requires_fixtures]

POSITIONAL = "impala-v2_delete_positional"
VECTORS = "impala-v3_deletion_vectors"
PARTITIONED = "impala-partitioned"


def target(name: str) -> list[str]:
    """The metadata file of a recorded table and the mapping of its locations."""
    assert FIXTURES is not None
    folder = FIXTURES / name
    recorded = json.loads((folder / "expected.json").read_text())
    found = [str(folder / recorded.get("table_dir", "table") / recorded["current_metadata"])]
    for mapping in recorded["path_mapping"]:
        found += ["--map-location", f"{mapping['recorded_prefix']}={(folder / mapping['local']).resolve()}"]
    return found


def test_files_come_with_their_deletes(cli: Cli) -> None:
    (file,) = cli("files", *target(POSITIONAL), "--json").json
    assert [d["content"] for d in file["deletes"]] == ["position"]
    found = cli("files", *target(VECTORS), "--json").json
    assert {d["content"] for f in found for d in f["deletes"]} == {"deletion-vector"}


def test_files_are_pruned_by_a_filter(cli: Cli) -> None:
    every = cli("files", *target(PARTITIONED), "--json").json
    some = cli("files", *target(PARTITIONED), "--where", "action = 'view'", "--json").json
    assert 0 < len(some) < len(every)
    assert {f["partition"]["action"] for f in some} == {"view"}
    assert all(f["residual"] is True for f in some)


def test_the_output_is_the_same_every_time(cli: Cli) -> None:
    assert cli("files", *target(PARTITIONED), "--json").out == cli("files", *target(PARTITIONED), "--json").out


def test_rows_come_in_every_format(cli: Cli, tmp_path: Path) -> None:
    lines = cli("scan", *target(POSITIONAL)).rows
    assert lines
    assert cli("scan", *target(POSITIONAL), "--json").rows == lines
    parquet, arrow, csv = (str(tmp_path / name) for name in ("x.parquet", "x.arrow", "x.csv"))
    for kind, path in (("parquet", parquet), ("arrow", arrow), ("csv", csv)):
        assert cli("scan", *target(POSITIONAL), "--format", kind, "-o", path).code == 0
    assert pq.read_table(parquet).num_rows == len(lines)
    with pa.OSFile(arrow) as source:
        assert pa.ipc.open_stream(source).read_all().num_rows == len(lines)
    assert len(Path(csv).read_text().splitlines()) == len(lines) + 1


def test_columns_and_limit_cut_rows(cli: Cli) -> None:
    every = cli("scan", *target(PARTITIONED)).rows
    assert [list(r) for r in cli("scan", *target(PARTITIONED), "--columns", "action,id", "--limit", "3").rows] == [
        ["action", "id"]
    ] * 3
    assert cli("scan", *target(PARTITIONED), "--limit", "0").rows == []
    assert len(cli("scan", *target(PARTITIONED), "--limit", "100000").rows) == len(every)
    refused = cli("scan", *target(PARTITIONED), "--columns", "nope")
    assert refused.err.startswith("error: BAD_SCHEMA: no column named 'nope'")


@pytest.mark.parametrize("topic", TOPICS)
def test_every_topic_can_be_inspected(cli: Cli, topic: str) -> None:
    for name in (POSITIONAL, VECTORS, PARTITIONED):
        shown, said = cli("inspect", *target(name), topic, "--json"), cli("inspect", *target(name), topic)
        assert (shown.code, said.code) == (0, 0), shown.err + said.err
        assert isinstance(shown.json, list)


@pytest.mark.parametrize("name", [POSITIONAL, VECTORS, PARTITIONED, "impala-v2_delete_equality", "impala-partitioned_orc"])
def test_a_whole_table_passes_the_check(cli: Cli, name: str) -> None:
    done = cli("check", *target(name), "--deep", "--json")
    assert (done.code, done.json["ok"]) == (0, True), done.out


def test_a_check_lists_what_is_missing(cli: Cli) -> None:
    done = cli("check", *target("trino-tpch-sf1000-unpartitioned-nation"), "--json")
    assert done.code == 1
    assert {f["rule"] for f in done.json["findings"] if f["severity"] == "error"} == {"data-file-exists"}


def test_a_check_finds_counts_that_do_not_add_up(cli: Cli) -> None:
    done = cli("check", *target("duckfork-large_partitioned_table"), "--json")
    assert done.code == 1
    assert "manifest-counts" in {f["rule"] for f in done.json["findings"]}
