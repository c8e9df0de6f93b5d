"""The demo, step by step: real Airflow on loopback, real flights, three kinds of change, maintenance from a policy, and the proof.
The same on every stack.

Every step either succeeds or raises DemoError with what happened, the log and the next thing to try. Nothing is left running.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

from demo import proof
from demo.airflow_api import Airflow
from demo.credentials import secret_values
from demo.leaks import CommandLines, nothing_leaked
from demo.places import PROJECT, Places
from demo.printing import Printer, Step
from demo.processes import (
    COMPONENTS,
    DemoError,
    airflow_component,
    check_alive,
    last_line,
    pid_of,
    run,
    start,
    stop_all,
    wait_until,
)
from demo.runs_watch import backfill, run_and_wait
from demo.settings import USER, airflow_environment, password, write_catalogs_file, write_password
from demo.stack import Server, Stack
from demo.table_states import reports, states, table_folder
from iceberg_airflow.java import find_java
from iceberg_ops.config.report import TableState
from iceberg_ops.errors import RuntimeMissingError

FIRST_DAY = date(2013, 2, 6)
"""Two days before the blizzard of 8 February 2013: ordinary flights, hundreds of cancelled ones, and diverted ones."""

DAGS = {"flights_ingest", "reference_tables", "flights_corrections", "table_maintenance", "iceberg_maintenance"}
PLANTED_AGE_DAYS = 4
_START_SECONDS = 300.0


@dataclass(slots=True)
class Story:
    """The demo's state while it runs."""

    stack: Stack
    printer: Printer
    days: list[date]
    environment: Mapping[str, str] = field(default_factory=dict)
    sizes: dict[str, dict[str, TableState]] = field(default_factory=dict)
    planted: Path | None = None

    @property
    def places(self) -> Places:
        return self.stack.places

    def tell(self) -> None:
        """Run all steps. All servers are stopped at the end, whatever happened."""
        self.prepare()
        lines = CommandLines(secret_values(self.places), self.places.jobs)
        lines.start()
        try:
            self.start_servers()
            airflow = self.start_airflow()
            self.ingest(airflow)
            self.correct(airflow)
            self.maintain(airflow)
            airflow.close()
            stop_all(self.places, keep=self.stack.storage)
            with self.printer.step("prove every table against the source, with three readers") as step:
                results = proof.prove(self.stack, self.days, self.planted, step)
        finally:
            lines.stop()
            stop_all(self.places)
        with self.printer.step("look for secrets in command lines, settings of Spark, logs and other files") as step:
            step.detail = f"none in {nothing_leaked(self.stack, lines)}"
        proof.print_all(self.printer, self.stack, self.sizes, results)

    def prepare(self) -> None:
        """Start from scratch: stop and remove an earlier demo."""
        with self.printer.step(f"prepare {os.path.relpath(self.places.root, PROJECT)}") as step:
            stopped = stop_all(self.places)
            if stopped:
                step.note(f"stopped {', '.join(stopped)} of an earlier run")
            require_java()
            self.stack.remove()
            shutil.rmtree(self.places.root, ignore_errors=True)
            self.places.make()
            self.environment = airflow_environment(self.stack)
            write_password(self.places)
            write_catalogs_file(self.stack)

    def start_servers(self) -> None:
        """The stack's servers, and Airflow's database on them."""
        servers = self.stack.servers()
        if servers:
            with self.printer.step(f"start {', '.join(server.name for server in servers)}") as step:
                start_servers(self.stack, step)
        with self.printer.step(f"migrate Airflow's database ({self.stack.database})"):
            run([sys.executable, "-m", "airflow", "db", "migrate"], self.places, self.environment, "db-migrate")

    def start_airflow(self) -> Airflow:
        with self.printer.step("start api-server, scheduler and dag-processor") as step:
            airflow = start_components(self.places, self.environment)
            step.detail = airflow.url
            wait_for_dags(airflow, self.places)
        return airflow

    def ingest(self, airflow: Airflow) -> None:
        """Reference tables, the backfill, and one day a second time."""
        with self.printer.step("load weather, planes, airports and airlines (DAG reference_tables)") as step:
            run_and_wait(airflow, self.places, step, "reference_tables")
        with self.printer.step(f"backfill flights_ingest, {self.days[0]} to {self.days[-1]}, one Spark job a day") as step:
            backfill(airflow, self.places, step, self.environment, dag_id="flights_ingest", days=self.days)
            self.sizes["ingest"] = states(self.stack)
            step.detail = f"{self.sizes['ingest']['flights'].records:,} flights"
        with self.printer.step(f"run {self.days[1]} again: it must change nothing") as step:
            backfill(airflow, self.places, step, self.environment, dag_id="flights_ingest", days=[self.days[1]], again=True)
            self._expect_unchanged()
            step.detail = "already committed, still one copy"

    def correct(self, airflow: Airflow) -> None:
        with self.printer.step("late corrections (DAG flights_corrections): MERGE, UPDATE, DELETE") as step:
            run_and_wait(airflow, self.places, step, "flights_corrections")
            self.sizes["corrections"] = states(self.stack)
            step.detail = f"{self.sizes['corrections']['flights'].delete_files} position delete files on flights"

    def maintain(self, airflow: Airflow) -> None:
        with self.printer.step("maintain every table from the policy (DAG table_maintenance)") as step:
            self.planted = plant_orphan(table_folder(self.stack, "flights"))
            run_and_wait(airflow, self.places, step, "table_maintenance")
            self.sizes["maintenance"] = states(self.stack)
            step.detail = f"{self.sizes['maintenance']['flights'].data_files} data files, no delete file left on flights"

    def _expect_unchanged(self) -> None:
        now, before = states(self.stack)["flights"], self.sizes["ingest"]["flights"]
        if now.snapshot_id != before.snapshot_id:
            raise DemoError(f"a repeated day changed nyc.flights: {before.records:,} records became {now.records:,}")
        last = reports(self.places, "flights_ingest")[-1].report
        if last.status != "already-committed":
            raise DemoError(f"a repeated day was not recognised: its report says {last.status}")


def start_servers(stack: Stack, step: Step) -> None:
    """Start the stack's servers one after another, and wait for each. Raises DemoError that names the one that does not work."""
    for server in stack.servers():
        log = stack.places.log_of(server.name)
        step.show(server.name)
        server.prepare()
        start(server.program(), stack.places)

        def ended(server: Server = server) -> bool:
            return pid_of(server.name, stack.places) is None

        def settled(server: Server = server) -> bool:
            return ended(server) or server.is_ready()

        works = wait_until(settled, _START_SECONDS, poll=0.2)
        if ended():
            raise DemoError(f"{server.name} ended by itself: {last_line(log)}", log=log)
        if not works:
            raise DemoError(f"{server.name} did not answer within {_START_SECONDS:.0f} s: {last_line(log)}", log=log)
        server.fill()


def start_components(places: Places, environment: Mapping[str, str]) -> Airflow:
    """Start all components and wait until they are healthy. Raises DemoError that names the one that is not."""
    for name in COMPONENTS:
        start(airflow_component(name, places, environment), places)
    airflow = Airflow(f"http://127.0.0.1:{places.api_port()}", USER, password(places))

    def ready() -> bool:
        check_alive(places)
        return airflow.healthy("scheduler", "dag_processor")

    if not wait_until(ready, _START_SECONDS):
        log = places.logs / "api-server.log"
        raise DemoError(f"Airflow was not healthy after {_START_SECONDS:.0f} s: {last_line(log)}", log=log)
    return airflow


def wait_for_dags(airflow: Airflow, places: Places) -> None:
    """Wait until every DAG is there. Raises DemoError with the import error of a file that does not load."""

    def parsed() -> bool:
        check_alive(places)
        return airflow.dag_ids() >= DAGS or bool(airflow.import_errors())

    wait_until(parsed, _START_SECONDS)
    errors = airflow.import_errors()
    missing = DAGS - airflow.dag_ids()
    if errors or missing:
        log = places.logs / "dag-processor.log"
        raise DemoError(errors[0] if errors else f"DAGs not found: {', '.join(sorted(missing))}", log=log)


def plant_orphan(folder: Path) -> Path:
    """A file that nobody refers to, among a table's data files, old enough to count as an orphan."""
    some = next(folder.rglob("data/**/*.parquet"))
    orphan = some.with_name(f"00000-0-{uuid.uuid4()}-00001.parquet")
    shutil.copyfile(some, orphan)
    then = time.time() - timedelta(days=PLANTED_AGE_DAYS).total_seconds()
    os.utime(orphan, (then, then))
    return orphan


def require_java() -> None:
    """Raise DemoError if Spark's Java is missing, before anything is started."""
    try:
        find_java()
    except RuntimeMissingError as e:
        raise DemoError(str(e), next_step="install a Java 17 runtime, or set JAVA_HOME to one") from e
