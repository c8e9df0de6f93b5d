"""Every operator that starts a process ends it, and all that it started, when Airflow stops its task (``on_kill``)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from iceberg_airflow.operators import GuardedOperator, IcebergOpsOperator
from iceberg_airflow.policy_operators import CheckTableOperator, DiscoverTablesOperator
from iceberg_ops.errors import IcebergOpsError, JobDiedError
from tests.airflow.fakes import a_context
from tests.airflow.test_processes import Family, _within

pytestmark = pytest.mark.airflow

SLOW = """
import subprocess, sys
if sys.orig_argv[1:3] == ["-m", {module!r}]:
    subprocess.run({command!r}, stdout=subprocess.DEVNULL)
"""
"""Python runs it at its start: the process of that module has children, and does not come to its work."""


@pytest.mark.parametrize(
    ("module", "operator"),
    [
        ("iceberg_airflow.discovery", lambda: DiscoverTablesOperator(task_id="t", policy="/nowhere/policy.yml")),
        ("iceberg_airflow.table_check", lambda: CheckTableOperator(task_id="t", table="nyc.flights")),
        (
            "iceberg_ops.cli.main",
            lambda: IcebergOpsOperator(task_id="t", job="expire_snapshots", table="nyc.flights", lane="local"),
        ),
    ],
    ids=["discovery", "check", "job"],
)
def test_a_stopped_task_leaves_no_process(
    module: str, operator: Callable[[], GuardedOperator], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = Family(tmp_path)
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / "sitecustomize.py").write_text(SLOW.format(module=module, command=family.command))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'start'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    task, ended = operator(), []

    def run() -> None:
        try:
            task.execute(a_context())
        except IcebergOpsError as e:
            ended.append(e)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    assert _within(60, lambda: len(family.pids_file.read_text().split()) == 5)
    assert len(family.alive()) == 5
    task.on_kill()
    worker.join(60)
    assert not worker.is_alive()
    assert [type(e) for e in ended] == [JobDiedError]
    assert family.alive() == []
    assert [path for path in (tmp_path / "jobs").rglob("*") if path.name.startswith("private")] == []
