"""A rewrite reports other runs on its table, and continues."""

from __future__ import annotations

import json
import logging

import pytest

from iceberg_ops.actions.run.other_runs import STEP
from iceberg_ops.config.report import ActionReport
from iceberg_ops.deletion.leases import Lease, acquire_lease, active_leases
from iceberg_ops.io.memory import MemoryFileIO
from tests.actions.lake import NOW, Lake, make_lake, numbered


def small_files() -> Lake:
    lake = make_lake()
    lake.append(*(numbered(100 * i, 100) for i in range(6)))
    return lake


def held(lake: Lake, action: str, holder: str, until: int = 2**60) -> str:
    return acquire_lease(lake.table, Lease(holder=holder, snapshot_id=None, expires_at_ms=until, marks=(holder,), action=action))


def told(report: ActionReport) -> list[str]:
    return [step.detail for step in report.steps if step.name == STEP]


def test_a_second_rewrite_is_told_of_the_first_and_does_its_work(caplog: pytest.LogCaptureFixture) -> None:
    lake = small_files()
    held(lake, "rewrite_data_files", "night", until=NOW + 90 * 60_000)
    with caplog.at_level(logging.WARNING):
        report = lake.run("rewrite_data_files")
    assert (report.status, [line.partition(";")[0] for line in told(report)]) == (
        "committed",
        [
            "rewrite_data_files (run night) holds a lease on the table for 90 min: it works on it now, or was killed and does not",
        ],
    )
    assert told(report)[0] in caplog.text


def test_of_many_runs_a_few_are_named() -> None:
    lake = small_files()
    for n in range(5):
        held(lake, "update", f"update-{n}", until=NOW + (n + 1) * 60_000)
    assert told(lake.run("rewrite_data_files")) == [
        "update (run update-0), update (run update-1), update (run update-2) and 2 more hold leases on the table for up to 5 min: "
        "each works on it now, or was killed and does not; of two runs that replace the same files, the one that commits last is "
        "refused"
    ]


def test_a_try_that_was_killed_is_not_said_to_work_when_its_run_is_tried_again() -> None:
    lake = small_files()
    held(lake, "rewrite_data_files", "night", until=NOW + 2)
    (line,) = told(lake.run("rewrite_data_files", run_key="night"))
    assert line.startswith(
        "rewrite_data_files (an earlier try of this run, night) holds a lease on the table for 1 min: it works on it now, or was "
        "killed and does not; "
    )


def test_runs_that_replace_no_file_or_ran_out_are_not_told_of() -> None:
    lake = small_files()
    held(lake, "append", "ingest")
    held(lake, "compute_table_stats", "stats")
    held(lake, "rewrite_data_files", "died", until=NOW)
    held(lake, "", "of another release")
    report = lake.run("rewrite_data_files")
    assert (report.status, told(report)) == ("committed", [])


def test_a_store_that_does_not_list_does_not_fail_the_rewrite(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lake = small_files()

    def refused(*_: object) -> list[Lease]:
        raise PermissionError("no listing")

    monkeypatch.setattr("iceberg_ops.actions.run.other_runs.active_leases", refused)
    report = lake.run("rewrite_data_files")
    assert (report.status, told(report)) == ("committed", [])
    assert "cannot see whether other runs work on the table: no listing" in caplog.text


def test_a_running_rewrite_says_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = small_files()
    seen: list[Lease] = []
    write = MemoryFileIO.write

    def looking(io: MemoryFileIO, location: str, data: bytes, *, overwrite: bool = False) -> None:
        write(io, location, data, overwrite=overwrite)
        if location.endswith("-m0.avro"):
            seen.extend(active_leases(lake.table))

    monkeypatch.setattr(MemoryFileIO, "write", looking)
    lake.run("rewrite_data_files", run_key="night")
    assert {(lease.action, lease.holder) for lease in seen} == {("rewrite_data_files", "night")}


def test_a_lease_without_an_action_is_read() -> None:
    lake = small_files()
    location = held(lake, "update", "older")
    lease = json.loads(lake.table.io.read(location))
    del lease["action"]
    lake.table.io.write(location, json.dumps(lease).encode(), overwrite=True)
    assert [(found.holder, found.action) for found in active_leases(lake.table)] == [("older", "")]
