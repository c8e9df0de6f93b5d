"""check: the snapshots that a missing or broken file affects, and the newest state that can be read."""

from __future__ import annotations

import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Cli, lake

T = "lake.ns.t"


@pytest.fixture
def ids(cli: Cli, tmp_path: Path) -> list[int]:
    """A table of three appends, one row each; tag ``eod`` at the first snapshot, branch ``audit`` at the second."""
    assert cli("create", T, "id int").code == 0
    for n in range(3):
        pq.write_table(pa.table({"id": pa.array([n], pa.int32())}), tmp_path / f"{n}.parquet")
        done = cli("append", T, "--from", tmp_path / f"{n}.parquet", "--lane", "local")
        assert done.code == 0, done.err
    found = [s.snapshot_id for s in lake().load_table(("ns", "t")).metadata.snapshots]
    cli("tag", T, "eod", "--snapshot-id", str(found[0]))
    cli("branch", T, "audit", "--snapshot-id", str(found[1]))
    return found


def lose(kind: str, snapshot: int) -> None:
    """Delete a file that came with a snapshot."""
    table = lake().load_table(("ns", "t"))
    found = table.metadata.snapshot(snapshot)
    if kind == "manifest list":
        Path(found.manifest_list).unlink()
        return
    from iceberg_ops.table.manifests import entries_of, manifests_of

    manifest = next(m for m in manifests_of(table, found) if m.added_snapshot_id == snapshot)
    if kind == "manifest":
        Path(manifest.manifest_path).write_bytes(b"Obj\x01broken")
    else:
        Path(next(iter(entries_of(table, manifest))).data_file.file_path).unlink()


@pytest.mark.parametrize("kind", ["manifest list", "manifest", "data file"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_snapshot_is_affected_where_a_scan_of_it_fails(cli: Cli, ids: list[int], kind: str, which: int) -> None:
    lose(kind, ids[which])
    checked = cli("check", T, "--json")
    assert checked.code == 1
    affected = checked.json["affected"]
    fails = [i for i in ids if cli("scan", T, "--snapshot-id", str(i)).code != 0]
    assert fails
    assert set(affected["snapshot_ids"]) == set(fails)
    heads = {"eod": ids[0], "audit": ids[1], "main": ids[2]}
    assert affected["refs"] == sorted(name for name, i in heads.items() if i in fails)
    reads = [i for i in ids if i not in fails]
    assert affected["newest_intact_snapshot_id"] == (reads[-1] if reads else None)
    for i in ids:
        assert cli("check", T, "--snapshot-id", str(i)).code == (1 if i in fails else 0)
    assert cli("check", T, "--ref", "audit").code == (1 if ids[1] in fails else 0)


def test_the_command_that_check_prints_leads_to_a_table_that_reads(cli: Cli, ids: list[int]) -> None:
    lose("data file", ids[2])
    said = cli("check", T).out
    assert f"affected: 1 snapshot, branch main: {ids[2]}" in said
    command = said.split("to read the table as it was then: iceberg-ops ", 1)[1]
    assert cli(*shlex.split(command)).code == 0
    assert sorted(row["id"] for row in cli("scan", T, "--json").rows) == [0, 1]


def test_where_nothing_reads_check_says_what_is_left_to_do(cli: Cli, ids: list[int]) -> None:
    lose("data file", ids[0])
    assert "no snapshot is intact: restore the files from a backup" in cli("check", T).out
    assert f"iceberg-ops check {T} finds" in cli("check", T, "--ref", "main").out
