"""Starts DAG runs and waits for them: it shows the current activity as text, and a failure by the task's own last line."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from demo.airflow_api import FINAL, Airflow, Run, Task
from demo.places import Places
from demo.printing import Step
from demo.processes import DemoError, check_alive, run, wait_until

_POLL_SECONDS = 1.0
# A step takes one or two minutes on two free cores; the limit allows for a machine ten times as busy.
_MOST_SECONDS = 1200.0
_CLOSING_SECONDS = 180.0
_ERROR_LINE = re.compile(r"^[A-Z]\w*(Error|Exception)\b.*")


def run_and_wait(airflow: Airflow, places: Places, step: Step, dag_id: str) -> Run:
    """Trigger a manual run and wait for its success. Raises DemoError."""
    run_id = airflow.trigger(dag_id)
    return wait_for(airflow, places, step, [(dag_id, run_id)])[0]


def backfill(
    airflow: Airflow,
    places: Places,
    step: Step,
    environment: Mapping[str, str],
    *,
    dag_id: str,
    days: list[date],
    again: bool = False,
) -> list[Run]:
    """``airflow backfill create`` over the days, and wait for every run of it. Raises DemoError."""
    if airflow.backfill_is_open(dag_id):
        step.show("waiting for the earlier backfill to be marked complete")
    if not wait_until(lambda: not airflow.backfill_is_open(dag_id), _CLOSING_SECONDS):
        raise DemoError(f"an earlier backfill of {dag_id} is still open", log=places.logs / "scheduler.log")
    before = {r.run_id: r for r in airflow.runs(dag_id)}
    arguments = [sys.executable, "-m", "airflow", "backfill", "create", "--dag-id", dag_id]
    arguments += ["--from-date", days[0].isoformat(), "--to-date", days[-1].isoformat(), "--max-active-runs", "2"]
    arguments += ["--reprocess-behavior", "completed"] if again else []
    step.show("airflow " + " ".join(arguments[3:]))
    run(arguments, places, environment, "backfill")
    # A repeated day keeps its run's id; wait for it to leave its old final state first.
    wanted = [r.run_id for r in airflow.runs(dag_id) if _day_of(r.run_id) in {d.isoformat() for d in days}]
    if len(wanted) != len(days):
        raise DemoError(f"backfill of {dag_id} made {len(wanted)} runs for {len(days)} days", log=places.logs / "backfill.log")
    if again:
        _wait_until_restarted(airflow, dag_id, wanted, before)
    return wait_for(airflow, places, step, [(dag_id, r) for r in wanted])


def wait_for(airflow: Airflow, places: Places, step: Step, runs: list[tuple[str, str]]) -> list[Run]:
    """Wait until all runs succeeded. Raises DemoError for a failed run, a dead component, or when the time is over."""
    end = time.monotonic() + _MOST_SECONDS
    while True:
        states = [airflow.run(dag_id, run_id) for dag_id, run_id in runs]
        for state in states:
            if state.state == "failed":
                raise _failure(airflow, places, state)
        if all(state.state in FINAL for state in states):
            return states
        step.show(_progress(airflow, states))
        check_alive(places)
        if time.monotonic() > end:
            waiting = next(state for state in states if state.state not in FINAL)
            raise DemoError(
                f"{waiting.dag_id} run {waiting.run_id} was still {waiting.state} after {_MOST_SECONDS:.0f} s",
                log=places.logs / "scheduler.log",
                next_step="start Airflow again (make up) and look at the run in its UI",
            )
        time.sleep(_POLL_SECONDS)


def task_log(places: Places, run: Run, task: Task) -> Path:
    """The file of a task's log."""
    index = f"map_index={task.map_index}/" if task.map_index >= 0 else ""
    folder = f"dag_id={run.dag_id}/run_id={run.run_id}/task_id={task.task_id}/{index}attempt={max(task.try_number, 1)}.log"
    return places.airflow_home / "logs" / folder


def _progress(airflow: Airflow, states: list[Run]) -> str:
    tasks = [(state, task) for state in states for task in airflow.tasks(state.dag_id, state.run_id)]
    counted = Counter(task.state for _, task in tasks)
    done = counted["success"] + counted["skipped"]
    running = [f"{task.task_id}{_where(state, task)}" for state, task in tasks if task.state == "running"]
    retrying = f", {counted['up_for_retry']} to be tried again" if counted["up_for_retry"] else ""
    return f"{done} of {len(tasks)} tasks done{retrying}" + (f"; running: {', '.join(running[:3])}" if running else "")


def _where(state: Run, task: Task) -> str:
    detail = task.label or _day_of(state.run_id)
    return f"[{detail}]" if detail else ""


def _day_of(run_id: str) -> str:
    found = re.search(r"\d{4}-\d\d-\d\d", run_id) if run_id.startswith("backfill") else None
    return found.group() if found else ""


def _wait_until_restarted(airflow: Airflow, dag_id: str, wanted: list[str], before: Mapping[str, Run]) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        now = {r.run_id: r for r in airflow.runs(dag_id)}
        if all(now[r].state not in FINAL or r not in before or now[r].seconds != before[r].seconds for r in wanted):
            return
        time.sleep(0.5)


def _failure(airflow: Airflow, places: Places, failed: Run) -> DemoError:
    tasks = [t for t in airflow.tasks(failed.dag_id, failed.run_id) if t.state == "failed"]
    if not tasks:
        return DemoError(f"{failed.dag_id} run {failed.run_id} failed", log=places.logs / "scheduler.log")
    task = tasks[0]
    lines = airflow.log_lines(failed.dag_id, failed.run_id, task)
    said = [line for text in lines for line in text.splitlines() if _ERROR_LINE.match(line.strip())]
    message = said[-1].strip() if said else "no error line in its log"
    name = f"{task.task_id}{f'[{task.label}]' if task.label else ''}"
    _, _, advice = message.partition("(next: ")
    return DemoError(
        f"{failed.dag_id}, task {name}: {message}", log=task_log(places, failed, task), next_step=advice.removesuffix(")")
    )
