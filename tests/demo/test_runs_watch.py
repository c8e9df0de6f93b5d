"""Waiting for DAG runs: the output in the meantime, and a failure reported with the task's own last line."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console

from demo import runs_watch
from demo.airflow_api import Run, Task
from demo.places import Places
from demo.printing import Printer, Step
from demo.processes import DemoError

FAILED = Task("append", "nyc.weather", "failed", 3.0, 2, 0)


@dataclass
class FakeAirflow:
    """An Airflow whose runs go through the given states, one for each time they are asked for."""

    states: list[str]
    tasks_now: list[Task] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def run(self, dag_id: str, run_id: str) -> Run:
        return Run(dag_id, run_id, self.states.pop(0) if len(self.states) > 1 else self.states[0], 1.0)

    def tasks(self, dag_id: str, run_id: str) -> list[Task]:
        return self.tasks_now

    def log_lines(self, dag_id: str, run_id: str, task: Task) -> list[str]:
        return self.lines


@pytest.fixture
def printer() -> Printer:
    return Printer(Console(file=io.StringIO(), width=200))


def text_of(printer: Printer) -> str:
    assert isinstance(printer.console.file, io.StringIO)
    return printer.console.file.getvalue()


@pytest.fixture(autouse=True)
def nothing_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_watch, "check_alive", lambda _: None)
    monkeypatch.setattr(runs_watch, "_POLL_SECONDS", 0.0)


def wait(airflow: FakeAirflow, printer: Printer, tmp_path: Path) -> list[Run]:
    step = Step("a step", printer)
    return runs_watch.wait_for(airflow, Places.of(tmp_path), step, [("a_dag", "a_run")])  # type: ignore[arg-type]


def test_a_run_that_succeeds_is_given_back(printer: Printer, tmp_path: Path) -> None:
    assert wait(FakeAirflow(["queued", "running", "success"]), printer, tmp_path)[0].state == "success"


def test_meanwhile_running_tasks_are_named(printer: Printer, tmp_path: Path) -> None:
    tasks = [Task("land", "", "success", 1.0, 1, -1), Task("append", "nyc.weather", "running", None, 1, 0)]
    wait(FakeAirflow(["running", "success"], tasks), printer, tmp_path)
    assert "1 of 2 tasks done; running: append[nyc.weather]" in text_of(printer)


def test_a_failed_run_is_told_by_its_task_and_error_line(printer: Printer, tmp_path: Path) -> None:
    lines = ["reading", "Task failed with exception\nDataError: no flights on 2014-02-01 (next: choose a day of 2013)"]
    with pytest.raises(DemoError) as caught:
        wait(FakeAirflow(["running", "failed"], [FAILED], lines), printer, tmp_path)
    assert str(caught.value).startswith("a_dag, task append[nyc.weather]: DataError: no flights on 2014-02-01")
    assert caught.value.next_step == "choose a day of 2013"
    assert str(caught.value.log).endswith("dag_id=a_dag/run_id=a_run/task_id=append/map_index=0/attempt=2.log")


def test_a_failure_shows_step_reason_log_and_advice(printer: Printer, tmp_path: Path) -> None:
    with pytest.raises(DemoError) as caught, printer.step("load [weather]"):
        raise DemoError("task append[nyc.weather]: it broke", log=tmp_path / "x.log", next_step="try again")
    printer.failure(caught.value)
    shown = text_of(printer)
    assert "failed: load [weather]" in shown
    assert "task append[nyc.weather]: it broke" in shown
    assert f"log:  {tmp_path / 'x.log'}" in shown
    assert "next: try again" in shown


def test_steps_are_timed(printer: Printer) -> None:
    with printer.step("one") as step:
        step.detail = "done well"
    assert [name for name, _ in printer.timings] == ["one"]
    assert "done well" in text_of(printer)
