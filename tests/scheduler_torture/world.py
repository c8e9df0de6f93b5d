"""A real Airflow, a catalog, and files to load: starts them, queries them, and stops them by pid."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from demo.airflow_api import FINAL, Airflow, Task
from demo.places import PROJECT, Places
from demo.processes import COMPONENTS, DemoError, airflow_component, pid_of, run, start, stop, stop_all, wait_until
from demo.settings import USER, airflow_environment, password, write_password
from demo.stack import LocalStack
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField

CATALOG = "torture"
SECRET = "t0p/s3cret:p@ss"
"""A property of the catalog that nothing needs, so that no place where a secret may go lacks one."""
ROWS = 40
_START_SECONDS = 240.0
_RUN_SECONDS = 900.0


class TortureError(AssertionError):
    """Something is not as it must be."""


@dataclass(slots=True)
class World:
    """Everything under ``places.root``."""

    places: Places
    environment: Mapping[str, str] = field(default_factory=dict)
    airflow: Airflow | None = None
    counts: Counter[str] = field(default_factory=Counter)

    # the catalog

    @property
    def config(self) -> CatalogConfig:
        uri, warehouse = f"sqlite:///{self.places.catalog_database}", str(self.places.warehouse)
        properties = {"uri": uri, "warehouse": warehouse, "s3.secret-access-key": SECRET}
        return CatalogConfig(name=CATALOG, type="sql", properties=properties)

    def catalog(self) -> Catalog:
        return load_catalog(self.config)

    def make_table(self, name: str, namespace: str = "a") -> str:
        catalog = self.catalog()
        if (namespace,) not in catalog.list_namespaces():
            catalog.create_namespace((namespace,))
        catalog.create_table((namespace, name), Schema.of(NestedField(1, "id", LONG)))
        return f"{namespace}.{name}"

    def ids(self, table: str) -> list[int]:
        """Every row's id, sorted."""
        namespace, _, name = table.partition(".")
        return sorted(scan_table(self.catalog().load_table((namespace, name)))["id"].to_pylist())

    def file(self, number: int) -> str:
        """A Parquet file with ids of its own."""
        path = self.places.landing / f"{number:04}.parquet"
        if not path.exists():
            pq.write_table(pa.table({"id": pa.array(expected([number]), pa.int64())}), path)
        return str(path)

    def list(self, name: str, numbers: Iterable[int]) -> str:
        """A file that lists files; rewritten it is the list that changed."""
        path = self.places.landing / f"{name}.json"
        path.write_text(json.dumps([self.file(n) for n in numbers]))
        return str(path)

    def check_rows(self, table: str, numbers: Iterable[int], what: str) -> None:
        """Raise TortureError unless the table has exactly these files' rows, each once."""
        found, wanted = self.ids(table), expected(numbers)
        if found != wanted:
            lost, twice = set(wanted) - set(found), [i for i, n in Counter(found).items() if n > 1]
            raise TortureError(
                f"{what}: {table} lost {len(lost)} rows, has {len(twice)} twice, {len(set(found) - set(wanted))} foreign"
            )
        self.counts["tables with each row once"] += 1

    # Airflow

    def prepare(self) -> None:
        stop_all(self.places)
        shutil.rmtree(self.places.root, ignore_errors=True)
        self.places.make()
        write_password(self.places)
        extra = {"name": CATALOG, "type": "sql", **self.config.properties}
        self.environment = {
            **airflow_environment(LocalStack(self.places), {"torture": Path(__file__).parent / "dags"}),
            "PYTHONPATH": os.pathsep.join([str(PROJECT), str(PROJECT / "plugins")]),
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "3",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
            "AIRFLOW__CORE__KILLED_TASK_CLEANUP_TIME": "10",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
            "AIRFLOW_CONN_ICEBERG_DEFAULT": json.dumps({"conn_type": "iceberg_ops", "password": SECRET, "extra": extra}),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        }
        run([sys.executable, "-m", "airflow", "db", "migrate"], self.places, self.environment, "db-migrate")

    def start(self, *names: str) -> None:
        """Start components (default: all) and wait until they are healthy."""
        for name in names or COMPONENTS:
            start(airflow_component(name, self.places, self.environment), self.places)
        if self.airflow is None:
            self.airflow = Airflow(f"http://127.0.0.1:{self.places.api_port()}", USER, password(self.places))
        if not wait_until(lambda: self.api.healthy("scheduler", "dag_processor"), _START_SECONDS):
            raise TortureError("Airflow was not healthy in time: see the logs")

    @property
    def api(self) -> Airflow:
        assert self.airflow is not None
        return self.airflow

    def stop(self) -> None:
        if self.airflow is not None:
            self.airflow.close()
        stop_all(self.places)

    def kill_scheduler(self) -> int:
        """SIGKILL to the scheduler alone: its workers, their tasks and engines go on for a while. Returns their session."""
        pid = pid_of("scheduler", self.places)
        assert pid is not None
        psutil.Process(pid).kill()
        wait_until(lambda: pid_of("scheduler", self.places) is None, 10)
        self.counts["SIGKILL of a scheduler"] += 1
        return pid

    def end_orphans(self, session: int) -> None:
        """What a killed scheduler left, by its session: Airflow's own workers never notice that it is gone."""
        stop(session)

    def trigger(self, dag_id: str, run_id: str, **conf: Any) -> None:
        body = {"dag_run_id": run_id, "logical_date": None, "conf": conf}
        self.api._call("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=body)
        self.counts["runs"] += 1

    def clear(self, dag_id: str, run_id: str) -> None:
        """The whole run again."""
        body = {"dry_run": False, "only_failed": False}
        self.api._call("POST", f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/clear", json=body)
        self.counts["runs cleared"] += 1

    def wait(self, *runs: tuple[str, str], meanwhile: Callable[[], None] = lambda: None) -> dict[tuple[str, str], str]:
        """The final states of runs; ``meanwhile`` is called again and again."""
        until = time.monotonic() + _RUN_SECONDS
        while time.monotonic() < until:
            states = {(dag, run_id): self.api.run(dag, run_id).state for dag, run_id in runs}
            if all(state in FINAL for state in states.values()):
                self.counts["tries"] += sum(t.try_number for dag, run_id in runs for t in self.tasks(dag, run_id))
                return states
            meanwhile()
            time.sleep(0.3)
        raise TortureError(f"still running after {_RUN_SECONDS:.0f} s: {states}")

    def tasks(self, dag_id: str, run_id: str) -> list[Task]:
        return self.api.tasks(dag_id, run_id)

    def expect(self, states: Mapping[tuple[str, str], str], state: str) -> None:
        wrong = {run: found for run, found in states.items() if found != state}
        if wrong:
            (dag_id, run_id), _ = next(iter(wrong.items()))
            failed = [t for t in self.tasks(dag_id, run_id) if t.state not in ("success", "skipped")]
            said = [f"{t.task_id}[{t.label}] {t.state}: {self.last_line(dag_id, run_id, t)}" for t in failed[:4]]
            raise TortureError(f"{wrong}: expected {state}; " + "; ".join(said))
        self.counts[f"runs that ended {state}"] += len(states)

    def last_line(self, dag_id: str, run_id: str, task: Task) -> str:
        try:
            lines = [line for line in self.api.log_lines(dag_id, run_id, task) if line.strip() and not line.startswith("::")]
        except DemoError:  # a task that never ran
            lines = []
        return lines[-1] if lines else "no log"

    # what is left

    def strays(self) -> list[psutil.Process]:
        """Our processes that run: guards, engines, JVMs, modules. Airflow's own are not counted."""
        found = []
        for process in psutil.process_iter():
            try:
                line = " ".join(process.cmdline())
                mine = str(self.places.root) in line or process.environ().get("ICEBERG_OPS_JOBS") == str(self.places.jobs)
                ours = any(
                    word in line
                    for word in ("guard.py", "iceberg_ops.", "iceberg_airflow.", "spark_jobs", "SparkSubmit", "pyspark")
                )
                if mine and ours and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found


def expected(numbers: Iterable[int]) -> list[int]:
    """The ids of these files."""
    return sorted(n * 1000 + i for n in numbers for i in range(ROWS))
