"""Ctrl-C while the report of a job is written: the report has the same content as after an earlier Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.actions import dispatch
from iceberg_ops.actions.run.context import Outcome
from iceberg_ops.errors import CommitInterruptedError, CommitStateUnknownError, IncompleteError, IncompleteInterruptedError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from tests.actions.lake import make_lake, numbered
from tests.actions.rows_place import RowsPlace


def stopped(error: type[BaseException]) -> Callable[..., None]:
    def write_report(*_: object) -> None:
        raise error

    return write_report


@pytest.fixture
def place(tmp_path: Path) -> RowsPlace:
    found = RowsPlace.at(tmp_path)
    found.create(Schema.of(NestedField(1, "id", LONG)))
    return found


def append(place: RowsPlace, *others: Callable[[], object], **parts: Any) -> None:
    place.run("append", *others, source=place.source([{"id": 1}], pa.schema({"id": pa.int64()})), **parts)


def assert_key_repeats_it(place: RowsPlace, error: BaseException) -> None:
    """The message names the run key that was made up, once, and a run under it does nothing again."""
    (key,) = re.findall(r"--run-key (run-[0-9a-f-]{36})", str(error))
    rows = place.rows()
    report = place.run("append", source=place.source([{"id": 1}], pa.schema({"id": pa.int64()})), run_key=key)
    assert report.status == "already-committed"
    assert place.rows() == rows


@pytest.mark.parametrize(("error", "expected"), [(KeyboardInterrupt, IncompleteInterruptedError), (MemoryError, IncompleteError)])
def test_what_ends_the_report_of_a_committed_job_says_that_it_is_committed(
    place: RowsPlace, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], expected: type[IncompleteError]
) -> None:
    monkeypatch.setattr(dispatch, "write_report", stopped(error))
    with pytest.raises(expected) as raised:
        append(place)
    head = place.table().metadata.current_snapshot_id
    assert f"the work is committed (snapshot {head})" in str(raised.value)
    assert raised.value.only_clean_up
    monkeypatch.undo()
    assert_key_repeats_it(place, raised.value)


@pytest.mark.usefixtures("without_pauses")
def test_an_interrupt_of_the_report_of_an_unknown_outcome_is_an_unknown_outcome(
    place: RowsPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost() -> None:
        raise CommitStateUnknownError("connection reset")

    monkeypatch.setattr(dispatch, "write_report", stopped(KeyboardInterrupt))
    with pytest.raises(CommitInterruptedError, match="connection reset"):
        append(place, lost)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_of_the_report_of_a_job_that_changed_nothing_stays_one(
    place: RowsPlace, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    monkeypatch.setattr(dispatch, "write_report", stopped(error))
    for options in ({}, {"unknown": "option"}):
        with pytest.raises(error) as raised:
            place.run("rewrite_data_files", options=options)
        assert type(raised.value) is error


def test_an_interrupt_of_the_report_of_a_rewrite_says_that_it_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = make_lake()
    for i in range(4):
        lake.append(numbered(10 * i, 5))
    monkeypatch.setattr(dispatch, "write_report", stopped(KeyboardInterrupt))
    with pytest.raises(IncompleteInterruptedError, match="is committed"):
        lake.run("rewrite_data_files", rewrite_all="true")


def test_ctrl_c_while_a_report_waits_for_the_reader_of_its_pipe(place: RowsPlace) -> None:
    pipe = place.folder / "pipe"
    os.mkfifo(pipe)

    def stop() -> None:
        while not place.table().metadata.snapshots:
            time.sleep(0.01)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=stop).start()
    with pytest.raises(IncompleteInterruptedError):
        append(place, report=str(pipe))


@pytest.mark.parametrize(
    ("error", "expected"), [(KeyboardInterrupt, CommitInterruptedError), (MemoryError, CommitStateUnknownError)]
)
def test_what_ends_a_job_before_its_commit_is_recorded_says_that_it_is_committed(
    place: RowsPlace, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], expected: type[CommitStateUnknownError]
) -> None:
    def ended(*_: object) -> None:
        raise error

    monkeypatch.setattr(Outcome, "record", ended)
    with pytest.raises(expected, match="it was committed: snapshot") as raised:
        append(place)
    assert place.rows() == [{"id": 1}]
    monkeypatch.undo()
    assert_key_repeats_it(place, raised.value)


def test_a_run_key_that_was_given_is_not_named_as_made_up(place: RowsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "write_report", stopped(MemoryError))
    with pytest.raises(IncompleteError) as raised:
        append(place, run_key="mine")
    assert "made up" not in str(raised.value)
