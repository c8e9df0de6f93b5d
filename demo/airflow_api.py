"""The demo's requests to Airflow's REST API: health, DAGs, runs, task states, and the tail of a task's log.

A thin client: JSON in, values out. It retries only for a busy metadata database (sqlite sometimes answers 500 "locked").
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from demo.processes import DemoError

FINAL = frozenset({"success", "failed"})
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Run:
    """A DAG run."""

    dag_id: str
    run_id: str
    state: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Task:
    """A task instance of a run. ``label`` has the readable map index if there is one."""

    task_id: str
    label: str
    state: str
    seconds: float | None
    try_number: int
    map_index: int


class Airflow:
    """Airflow's public API at ``url`` for one user."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self.url = url
        self._login = {"username": user, "password": password}
        self._client = httpx.Client(base_url=url, timeout=30, trust_env=False)

    def close(self) -> None:
        self._client.close()

    def healthy(self, *components: str) -> bool:
        """True if the server answers, and these components' heartbeats are fresh."""
        try:
            answer = self._client.get("/api/v2/monitor/health")
        except httpx.HTTPError:
            return False
        if answer.status_code != httpx.codes.OK:
            return False
        status = answer.json()
        return all(status.get(name, {}).get("status") == "healthy" for name in components)

    def dag_ids(self) -> set[str]:
        """DAGs that were parsed and stored."""
        return {d["dag_id"] for d in self._call("GET", "/api/v2/dags", params={"limit": 1000})["dags"]}

    def import_errors(self) -> list[str]:
        """One line for each DAG file that does not load."""
        found = self._call("GET", "/api/v2/importErrors", params={"limit": 100})["import_errors"]
        return [f"{e['filename']}: {e['stack_trace'].strip().splitlines()[-1]}" for e in found]

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Start a manual run and return its id."""
        body = {"logical_date": None, "conf": dict(conf or {})}
        return str(self._call("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=body)["dag_run_id"])

    def runs(self, dag_id: str) -> list[Run]:
        """Runs of a DAG, oldest first."""
        found = self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns", params={"limit": 100, "order_by": "logical_date"})
        return [Run(dag_id, r["dag_run_id"], r["state"], r.get("duration")) for r in found["dag_runs"]]

    def backfill_is_open(self, dag_id: str) -> bool:
        """True while a backfill of the DAG is not marked complete; Airflow allows one at a time, and looks every half minute."""
        found = self._call("GET", "/api/v2/backfills", params={"dag_id": dag_id, "limit": 100})["backfills"]
        return any(b["completed_at"] is None for b in found)

    def run(self, dag_id: str, run_id: str) -> Run:
        """One run."""
        r = self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}")
        return Run(dag_id, r["dag_run_id"], r["state"], r.get("duration"))

    def tasks(self, dag_id: str, run_id: str) -> list[Task]:
        """Task instances of a run."""
        found = self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances", params={"limit": 500})
        return [
            Task(
                t["task_id"],
                t.get("rendered_map_index") or (str(t["map_index"]) if t["map_index"] >= 0 else ""),
                t["state"] or "waiting",
                t.get("duration"),
                t["try_number"],
                t["map_index"],
            )
            for t in found["task_instances"]
        ]

    def log_lines(self, dag_id: str, run_id: str, task: Task) -> list[str]:
        """The log of a task's last try, as text lines."""
        path = f"{_task_path(dag_id, run_id, task)}/logs/{max(task.try_number, 1)}"
        parameters = {"map_index": task.map_index, "full_content": "true"}
        answer = self._call("GET", path, params=parameters, headers={"Accept": "application/json"})
        content = answer.get("content", [])
        if isinstance(content, str):
            return content.splitlines()
        return [_log_text(entry) for entry in content]

    def xcom(self, dag_id: str, run_id: str, task: Task, key: str = "return_value") -> Any:
        """A task's XCom value, or None."""
        path = f"{_task_path(dag_id, run_id, task)}/xcomEntries/{key}"
        try:
            return self._call("GET", path, params={"map_index": task.map_index, "deserialize": "false"})["value"]
        except DemoError:
            return None

    def _call(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        last = ""
        extra = arguments.pop("headers", {})
        for attempt in range(_TRIES):
            try:
                self._log_in()
                answer = self._client.request(method, path, headers=extra, **arguments)
            except httpx.HTTPError as e:
                last = str(e) or type(e).__name__
            else:
                if answer.is_success:
                    return dict(answer.json()) if answer.content else {}
                last = f"{answer.status_code} {answer.text[:300]}"
                if answer.status_code == httpx.codes.UNAUTHORIZED:
                    self._client.headers.pop("Authorization", None)
                elif answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                    break
            time.sleep(0.5 * (attempt + 1))
        raise DemoError(f"Airflow's API did not accept {method} {path}: {last}")

    def _log_in(self) -> None:
        if "Authorization" not in self._client.headers:
            answer = self._client.post("/auth/token", json=self._login)
            answer.raise_for_status()
            self._client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"


def _task_path(dag_id: str, run_id: str, task: Task) -> str:
    return f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task.task_id}"


def _log_text(entry: Any) -> str:
    if not isinstance(entry, Mapping):
        return str(entry)
    errors = entry.get("error_detail") or []
    text = str(entry.get("event", ""))
    return text + "".join(f"\n{e.get('exc_type')}: {e.get('exc_value')}" for e in errors)
