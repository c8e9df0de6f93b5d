"""The scenarios for Airflow, one after the other; each raises TortureError if an invariant does not hold."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from demo.processes import wait_until
from iceberg_airflow.job_sweep import prune
from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.config.job_spec import JobSpec, Source
from iceberg_ops.config.secrets import secrets_in_properties
from tests.scheduler_torture.killer import Killer, victims
from tests.scheduler_torture.world import TortureError, World

COMMITS_BETWEEN = 70
"""Keyed commits between a run and its clearing weeks later: more than the entries that a table's properties hold."""
MANY_TABLES = 2_000
ODD_RUN_IDS = ("y:1", "y+1", "y~1", "Y:1", "try-1")
"""Airflow itself refuses ``..`` in an id."""


def kills(world: World) -> None:
    """Two runs of mapped appends while their processes are killed."""
    runs = []
    for i, numbers in enumerate((range(6), range(10, 16))):
        table = world.make_table(f"killed_{i}")
        world.trigger("loads", f"killed_{i}", table=table, list=world.list(f"killed_{i}", numbers))
        runs.append((("loads", f"killed_{i}"), table, numbers))
    killer = Killer(world, seed=1, kinds={"task": 8, "guard": 8, "engine": 8, "worker": 2})
    world.expect(world.wait(*(run for run, _, _ in runs), meanwhile=killer), "success")
    for _, table, numbers in runs:
        world.check_rows(table, numbers, "killed tasks")
    missing = set(killer.kinds) - set(killer.killed)
    if missing:
        raise TortureError(f"nothing of kind {missing} was killed: {killer.killed}")


def kill_scheduler(world: World) -> None:
    """The scheduler dies; what it started goes on beside what its successor starts."""
    table = world.make_table("scheduler")
    world.trigger("loads", "scheduler", table=table, list=world.list("scheduler", range(20, 26)))
    if not wait_until(lambda: len(world.strays()) > 2, 300):
        raise TortureError("no append began")
    session = world.kill_scheduler()
    world.start("scheduler")
    world.expect(world.wait(("loads", "scheduler")), "success")
    world.end_orphans(session)
    world.check_rows(table, range(20, 26), "a killed scheduler")


def clear_while_running(world: World) -> None:
    """A run is cleared while its tasks run: the old tries are stopped, the new ones find what they had done."""
    table = world.make_table("cleared")
    world.trigger("loads", "cleared", table=table, list=world.list("cleared", range(27, 30)))
    if not wait_until(lambda: any(kind == "engine" for kind, _ in victims(world)), 300, poll=0.1):
        raise TortureError("no append began")
    world.clear("loads", "cleared")
    world.expect(world.wait(("loads", "cleared")), "success")
    world.check_rows(table, range(27, 30), "a run cleared while it ran")


def odd_run_ids(world: World) -> None:
    """Runs whose ids once shared a folder, at the same time on different tables."""
    tables = {}
    for i, run_id in enumerate(ODD_RUN_IDS):
        tables[run_id] = world.make_table(f"odd_{i}"), [30 + i]
        table, numbers = tables[run_id]
        world.trigger("loads", run_id, table=table, list=world.list(f"odd_{i}", numbers))
    world.expect(world.wait(*(("loads", run_id) for run_id in ODD_RUN_IDS)), "success")
    for run_id, (table, numbers) in tables.items():
        world.check_rows(table, numbers, "odd run ids")
        (task,) = [t for t in world.tasks("loads", run_id) if t.task_id == "append"]
        told = world.api.xcom("loads", run_id, task)
        if table not in str(told):
            raise TortureError(f"run {run_id} read the report of another: {told}")


def changed_lists(world: World) -> None:
    """A run is cleared after its list changed; and after many other commits and an expiry, as weeks later."""
    table = world.make_table("changed")
    world.trigger("loads", "changed", table=table, list=world.list("changed", [40, 41, 42]))
    world.expect(world.wait(("loads", "changed")), "success")
    world.list("changed", [43, 41, 40])
    world.clear("loads", "changed")
    world.expect(world.wait(("loads", "changed")), "success")
    world.check_rows(table, range(40, 44), "a changed list")
    others = range(100, 100 + COMMITS_BETWEEN)
    for number in others:
        _append(world, table, number)
    expire = JobSpec(job="expire_snapshots", table=f"{world.config.name}.{table}", catalog=world.config,
                     options={"older-than": "0s", "retain-last": "1"}, run_key="weekly")  # fmt: skip
    run_job(expire)
    world.counts["commits before a run was cleared"] += COMMITS_BETWEEN
    world.clear("loads", "changed")
    world.expect(world.wait(("loads", "changed")), "success")
    world.check_rows(table, [*range(40, 44), *others], "a run cleared after weeks")


def empty_conditions(world: World) -> None:
    """A condition that a form leaves empty changes nothing."""
    table = world.make_table("conditions")
    _append(world, table, 50)
    cases = {"none": (None, "failed"), "empty": ("", "failed"), "blank": (" ", "failed"), "no-row": ("id < 0", "success")}
    for name, (where, _) in cases.items():
        world.trigger("native", name, table=table, where=where)
    states = world.wait(*(("native", name) for name in cases))
    for name, (_, state) in cases.items():
        world.expect({("native", name): states["native", name]}, state)
    world.check_rows(table, [50], "empty conditions")


def policies(world: World) -> None:
    """Policies with keys twice, odd crons, another catalog, 2,000 tables, and a table whose plan fails."""
    errors = world.api.import_errors()
    if not any("key 'defaults' is given twice" in error for error in errors):
        raise TortureError(f"a key given twice: {errors}")
    crons = [dag_id for dag_id in world.api.dag_ids() if dag_id.startswith("odd_crons__")]
    if not (len(crons) == 4 and wait_until(lambda: all(world.api.runs(dag_id) for dag_id in crons), 120)):
        raise TortureError(f"of four schedules these ran: {[d for d in crons if world.api.runs(d)]}")
    world.counts["schedules that ran"] += len(crons)
    foreign = world.make_table("foreign")
    _append(world, foreign, 60)
    _append(world, foreign, 61)
    few = {name: world.make_table(name, "few") for name in ("good_1", "good_2", "bad", "ev.2024")}
    for table in (few["good_1"], few["good_2"], few["bad"]):
        _append(world, table, 62)
        _append(world, table, 63)
    for dag_id in ("foreign", "some"):
        world.trigger(dag_id, dag_id)
    world.expect(world.wait(("foreign", "foreign"), ("some", "some")), "failed")
    _check_policies(world, foreign, few)
    for i in range(MANY_TABLES):
        world.make_table(f"t{i}", "many")
    world.counts["tables of one catalog"] += MANY_TABLES
    world.trigger("many", "many")
    world.expect(world.wait(("many", "many")), "failed")
    (task,) = [t for t in world.tasks("many", "many") if t.task_id == "discover"]
    if "Airflow maps a task over at most 1,024" not in "\n".join(world.api.log_lines("many", "many", task)):
        raise TortureError(f"2,000 tables: {world.last_line('many', 'many', task)}")


def _check_policies(world: World, foreign: str, few: dict[str, str]) -> None:
    def snapshots(table: str) -> int:
        namespace, _, name = table.partition(".")
        return len(world.catalog().load_table((namespace, name)).metadata.snapshots)

    if snapshots(foreign) != 2:
        raise TortureError("a policy for another catalog was applied")
    if [snapshots(few[name]) for name in ("good_1", "good_2", "bad")] != [1, 1, 2]:
        raise TortureError(f"maintenance of one table was stopped by another's: {[snapshots(t) for t in few.values()]}")
    for name in ("good_1", "good_2", "bad"):
        world.check_rows(few[name], [62, 63], "maintenance beside a table that fails")
    world.check_rows(foreign, [60, 61], "a policy for another catalog")
    report = [t for t in world.tasks("some", "some") if t.task_id == "report"]
    if [t.state for t in report] != ["success"]:
        raise TortureError("nothing was reported of a run with a failure")


def stopped(world: World) -> None:
    """A Spark task that was stopped while its engine started commits nothing afterwards, whoever stopped it, and leaves nothing."""

    def mark_failed(run_id: str) -> None:
        path = f"/api/v2/dags/once/dagRuns/{run_id}/taskInstances/append"
        world.api._call("PATCH", path, json={"new_state": "failed"})

    def signal_task(number: signal.Signals) -> Callable[[str], None]:
        return lambda _run_id: next(p for kind, p in victims(world) if kind == "task").send_signal(number)

    ways = {"marked": mark_failed, "killed": signal_task(signal.SIGKILL), "asked": signal_task(signal.SIGTERM)}
    for run_id, stop in ways.items():
        table = world.make_table(f"stopped_{run_id}")
        world.trigger("once", run_id, table=table, list=world.file(80))
        if not wait_until(lambda: any(kind == "engine" for kind, _ in victims(world)), 300, poll=0.1):
            raise TortureError(f"{run_id}: no Spark began")
        stop(run_id)
        world.expect(world.wait(("once", run_id)), "failed")
        if not wait_until(lambda: not world.strays(), 30):
            raise TortureError(f"{run_id}: still running: {[p.cmdline()[:6] for p in world.strays()]}")
        world.counts["Spark tasks stopped for good"] += 1
    for run_id in ways:
        world.check_rows(f"a.stopped_{run_id}", [], "a stopped task")


def spark(world: World) -> None:
    """Spark drivers, their JVM and Python workers are killed; a stopped task commits nothing afterwards."""
    table = world.make_table("spark")
    world.trigger("spark_loads", "spark", table=table, list=world.list("spark", [70, 71]))
    killer = Killer(world, seed=2, kinds={"task": 1, "guard": 1, "engine": 2, "engine's child": 1}, pause=(10.0, 25.0))
    world.expect(world.wait(("spark_loads", "spark"), meanwhile=killer), "success")
    world.check_rows(table, [70, 71], "killed Spark tasks")


def nothing_left(world: World) -> None:
    """No process, no file with secrets, no secret in any log, report or database; old folders can be removed."""
    if not wait_until(lambda: not world.strays(), 60):
        raise TortureError(f"still running: {[' '.join(p.cmdline())[:200] for p in world.strays()]}")
    private = list(world.places.jobs.rglob("private-*"))
    if private:
        raise TortureError(f"files with secrets are left: {private}")
    secrets = [secret.encode() for secret in secrets_in_properties(world.config.properties)]
    read = 0
    for path in world.places.root.rglob("*"):
        if path.is_file() and world.places.warehouse not in path.parents:
            read += 1
            if any(secret in path.read_bytes() for secret in secrets):
                raise TortureError(f"a secret is in {path}")
    world.counts["files searched for secrets"] += read
    world.counts["job folders removed"] += prune(world.places.jobs, older_than_s=0)
    if left := list(world.places.jobs.rglob("try-*")):
        raise TortureError(f"job folders are left: {left}")


def _append(world: World, table: str, number: int) -> None:
    source = Source(format="parquet", paths=[world.file(number)])
    run_job(
        JobSpec(job="append", table=f"{world.config.name}.{table}", catalog=world.config, source=source, run_key=f"other/{number}")
    )


SCENARIOS: tuple[Callable[[World], None], ...] = (
    *(
        kills,
        kill_scheduler,
        clear_while_running,
        odd_run_ids,
        changed_lists,
        empty_conditions,
        policies,
        stopped,
        spark,
        nothing_left,
    ),
)


def tell(world: World, only: tuple[str, ...] = ()) -> list[str]:
    """All scenarios, each with the time it took; what does not hold, a line each. Airflow is stopped at the end in any case."""
    violations = []
    world.prepare()
    try:
        world.start()
        if not wait_until(lambda: {"loads", "spark_loads", "native", "many"} <= world.api.dag_ids(), 300):
            raise TortureError(f"DAGs were not found: {world.api.import_errors()}")
        for scenario in SCENARIOS:
            if only and scenario.__name__ not in only:
                continue
            begun = time.monotonic()
            try:
                scenario(world)
            except Exception as e:  # noqa: BLE001 - the other scenarios are told as well
                violations.append(f"{scenario.__name__}: {type(e).__name__}: {e}")
            print(f"{scenario.__name__}: {time.monotonic() - begun:.0f} s", flush=True)
    finally:
        world.stop()
    return violations
