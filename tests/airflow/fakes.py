"""Stand-ins for the running task and the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from iceberg_airflow.operators import IcebergOpsOperator
from iceberg_airflow.outcome import ProcessEnd
from iceberg_ops.config.document import from_json, to_json
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.report import ActionReport


@dataclass(slots=True)
class FakeLane:
    """An engine that writes the report it is told to, or none, and remembers the job specs it was given."""

    report: Callable[[JobSpec], ActionReport | bytes | None]
    ended: ProcessEnd = field(default_factory=lambda: ProcessEnd(0))
    seen: list[JobSpec] = field(default_factory=list)

    def run(self, spec: Path, document: bytes) -> ProcessEnd:
        job = from_json(document, JobSpec, str(spec))
        self.seen.append(job)
        report = self.report(job)
        if report is not None:
            assert job.report is not None
            Path(job.report).write_bytes(report if isinstance(report, bytes) else to_json(report))
        return self.ended


def with_lane(operator: IcebergOpsOperator, lane: FakeLane) -> IcebergOpsOperator:
    """The operator, started on ``lane`` whatever it would choose."""
    operator._choose_lane = lambda _job: lane  # type: ignore[method-assign]
    return operator


def a_report(job: JobSpec, status: str = "committed", **fields: Any) -> ActionReport:
    """A report of ``job`` with the given fields."""
    own = {"action": job.job, "table": job.table, "run_key": job.run_key, "job_id": job.job_id}
    return ActionReport(**{**own, "status": status, "started_at": "2026-01-01T00:00:00Z", "duration_ms": 5, **fields})


def a_context(
    try_number: int = 1, map_index: int = -1, run_id: str = "manual__2026-01-01T00:00:00+00:00", **fields: Any
) -> dict[str, Any]:
    """The part of a task's context that operators read."""
    ti = SimpleNamespace(dag_id="a_dag", run_id=run_id, task_id="a_task", try_number=try_number, map_index=map_index)
    return {"ti": ti, **fields}
