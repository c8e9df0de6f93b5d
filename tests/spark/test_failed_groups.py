"""A rewrite that fails names the failed group, not one that shared its task or was cancelled because of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.config.document import from_json
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.rewriting.group_work import GroupWork
from iceberg_ops.data.rewriting.rewrite import rewrite_group
from iceberg_ops.errors import TerminalError
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import LONG, NestedField
from spark_jobs.runners import rewrite
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark
SCHEMA = Schema.of(NestedField(1, "id", LONG, required=True), NestedField(2, "part", LONG))
SPEC = PartitionSpec(1, (PartitionField((2,), 1000, IDENTITY, "part"),))
GROUPS = 8
Rewriting = Callable[[], Callable[[Iterator[str]], Iterator[str]]]


def failing(how: str) -> Rewriting:
    """Tasks of which the one that meets partition 5 ends."""

    def make() -> Callable[[Iterator[str]], Iterator[str]]:
        def tasks(texts: Iterator[str]) -> Iterator[str]:
            import json

            for text in texts:
                work = GroupWork.from_json(text)
                if work.partition == (5,):
                    if how == "raises":
                        raise KeyError("what nobody foresaw")
                    os._exit(9)
                yield json.dumps({"result": rewrite_group(work).to_json()})

        return tasks

    return make


@pytest.fixture
def filled(place: Place) -> Place:
    place.create("t", SCHEMA, SPEC)
    for _ in range(2):
        ids = list(range(GROUPS * 10))
        place.fill("t", pa.table({"id": ids, "part": [i % GROUPS for i in ids]}))
    return place


@pytest.mark.parametrize("how", ["raises", "dies"])
def test_a_failed_rewrite_names_the_group_that_failed(filled: Place, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    before, path = filled.files_on_disk("t"), filled.folder / "report.json"
    monkeypatch.setattr(rewrite, "_rewriting", failing(how))
    with pytest.raises(TerminalError) as failed:
        run_job(job(filled, path, "false"), runner=rewrite.SparkRewriteRunner(filled.session))
    groups = report_at(path).groups
    (group,) = [g for g in groups if g.status == "failed"]
    assert group.partition == "part=5"
    assert str(failed.value).startswith(f"group {group.group_id}: ")
    assert ("KeyError" if how == "raises" else "Python worker exited unexpectedly") in group.reason
    assert {g.status for g in groups if g is not group} == {"dropped"}
    assert filled.files_on_disk("t") == before


@pytest.mark.parametrize("how", ["raises", "dies"])
def test_a_group_whose_task_is_given_up_costs_only_itself(filled: Place, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    path, rows = filled.folder / "report.json", filled.rows("t")
    monkeypatch.setattr(rewrite, "_rewriting", failing(how))
    report = run_job(job(filled, path, "true"), runner=rewrite.SparkRewriteRunner(filled.session))
    assert report.status == "partially-committed"
    assert {g.partition: g.status for g in report_at(path).groups} == {
        f"part={i}": "failed" if i == 5 else "committed" for i in range(GROUPS)
    }
    assert filled.rows("t") == rows
    live = {task for task in filled.files_on_disk("t") if task.endswith(".parquet")}
    assert len(live) == 2 * GROUPS + GROUPS - 1, "files of attempts that did not count are gone"


def job(place: Place, report: Path, partial: str) -> JobSpec:
    options = {"rewrite-all": "true", "partial-progress.enabled": partial}
    return JobSpec(job="rewrite_data_files", table="test.db.t", catalog=place.config, options=options, report=str(report))


def report_at(path: Path) -> ActionReport:
    return from_json(path.read_bytes(), ActionReport, str(path))
