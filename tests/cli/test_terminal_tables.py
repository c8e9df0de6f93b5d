"""Tables on terminals of several widths: ids, times and numbers are shown whole, other columns are dropped or shortened and then
named."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from iceberg_ops.cli import output
from iceberg_ops.cli.ages import age_text, parse_age
from iceberg_ops.cli.output import print_rows
from iceberg_ops.cli.report_view import _took
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.config.plurals import counted
from tests.builders import data_file
from tests.cli.conftest import Cli, lake

ROWS = [
    {
        "snapshot": 4813132938424574091 + n,
        "committed (UTC)": "2026-11-23 17:45:06",
        "run": "7ce57e97-64d3-4a8d-872b-aad5bb0a6d1a",
        "path": f"data/day=2026-11-23/00000-7ce57e97-64d3-4a8d-872b-aad5bb0a6d1a-{n}.parquet",
        "records": 10**6 * n,
        "nothing": None,
    }
    for n in range(3)
]


@pytest.mark.parametrize("width", [30, 60, 80, 120, 200])
def test_at_every_width_what_is_shown_is_whole_and_what_is_not_is_named(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "PIPE_WIDTH", width)
    print_rows(ROWS, title="t", empty="none")
    said = capsys.readouterr().out
    assert max(len(line) for line in said.splitlines()) <= width
    hidden = " ".join(said.split()).partition("too narrow for: ")[2]
    assert "nothing" not in said
    for name in ("snapshot", "committed (UTC)", "run", "records"):
        values = [str(row[name]) if name != "records" else f"{row[name]:,}" for row in ROWS]
        shown = all(re.search(rf"[│ ]{re.escape(value)} ", said) for value in values)
        assert shown != (name in hidden.split(", ")), f"{name} at {width}:\n{said}"
    if "path" not in hidden:
        folded = re.sub(r"[^\w./=-]", "", "".join(line.split("│")[4] for line in said.splitlines() if line.startswith("│")))
        assert folded == "".join(str(row["path"]) for row in ROWS)


def test_the_snapshots_of_a_table_show_their_ids_and_times_in_80_columns(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("create", "lake.ns.t", "id int")
    catalog = lake()
    done = commit(catalog, catalog.load_table(("ns", "t")), AppendFiles(added=(data_file("/t/1.parquet"),)))
    assert done.snapshot is not None
    monkeypatch.setattr(output, "PIPE_WIDTH", 80)
    said = cli("inspect", "lake.ns.t", "snapshots").out
    made = datetime.fromtimestamp(done.snapshot.timestamp_ms // 1000, UTC)
    assert f"{done.snapshot.snapshot_id} │ {made:%Y-%m-%d %H:%M:%S} │ append" in said


@pytest.mark.parametrize("text", ["1ms", "1500ms", "2s", "90s", "15m", "36h", "30d"])
def test_an_age_is_written_as_it_is_read(text: str) -> None:
    ms = parse_age(text)
    assert ms is not None
    assert parse_age(age_text(ms)) == ms
    assert len(age_text(ms)) <= len(text)


def test_counts_have_the_right_plural() -> None:
    assert [counted(n, "file") for n in (0, 1, 2, 1000)] == ["0 files", "1 file", "2 files", "1,000 files"]


def test_a_dry_run_shows_the_table_once_and_no_count_of_what_it_did_not_do(cli: Cli) -> None:
    cli("create", "lake.ns.t", "id int")
    said = cli("plan", "expire_snapshots", "lake.ns.t").out
    assert "before" not in said
    assert "count" not in said


def test_values_do_not_steer_the_terminal_and_wide_texts_have_room(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{"name": "東京東京", "value": "\x1b[31mred\x07"}], title="t", empty="")
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "東京東京" in shown
    assert "\\x1b[31mred\\x07" in shown


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 ms"), (999, "999 ms"), (1854, "1.9 s"), (59_900, "59.9 s"), (125_400, "2 min 5 s"), (11_400_000, "3 h 10 min")],
)
def test_the_time_of_a_step_is_short(ms: int, text: str) -> None:
    assert _took(ms) == text


def test_files_show_partitions_as_people_write_them(cli: Cli) -> None:
    cli("create", "lake.ns.t", "id int, at timestamp_ntz", "--partitioned-by", "months(at)")
    source = Path(os.environ["ICEBERG_OPS_CATALOGS"]).with_name("rows.csv")
    source.write_text("id,at\n1,2026-07-04 08:00:00\n")
    assert cli("append", "lake.ns.t", "--from", str(source), "--lane", "local").code == 0
    assert "at_month=2026-07" in cli("files", "lake.ns.t").out
    assert cli("files", "lake.ns.t", "--json").json[0]["partition"] == {"at_month": 678}
