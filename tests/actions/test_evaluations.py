"""A statement that is re-evaluated reads under its lease, and a committed statement is not re-evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.manifests import staged_files
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, RowChange, Source
from iceberg_ops.deletion.leases import active_leases
from iceberg_ops.errors import IncompleteError, OptionError, ValidationError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from tests.actions.rows_place import RowsPlace

IDS = pa.schema({"id": pa.int64()})


@pytest.fixture
def place(tmp_path: Path) -> RowsPlace:
    made = RowsPlace.at(tmp_path)
    made.create(Schema.of(NestedField(1, "id", LONG)), format__version="2")
    for i in (1, 2):
        made.run("append", source=made.source([{"id": i}], IDS))
    return made


def compact(place: RowsPlace) -> None:
    job = JobSpec(job="rewrite_data_files", table="test.db.t", catalog=place.config, options={"rewrite-all": "true"})
    run_job(job, runner=LocalRunner(workers=1))


def test_the_lease_holds_the_snapshot_of_each_evaluation(place: RowsPlace) -> None:
    held: list[tuple[int | None, int | None]] = []

    def look() -> None:
        (lease,) = active_leases(place.table(), 0)
        held.append((lease.snapshot_id, place.table().metadata.current_snapshot_id))

    def first() -> None:
        look()
        compact(place)

    report = place.run("update", first, look, change=RowChange(set={"id": "7"}), where="id = 1")
    assert report.metrics["evaluations-count"] == 2
    assert [lease for lease, _ in held] == [snapshot for _, snapshot in held]
    assert len({lease for lease, _ in held}) == 2
    assert active_leases(place.table(), 0) == []


def test_the_starting_snapshot_of_a_report_is_that_of_its_first_state(place: RowsPlace) -> None:
    before = place.table().metadata.current_snapshot_id
    report = place.run("update", lambda: compact(place), change=RowChange(set={"id": "7"}), where="id = 1")
    assert (report.starting_snapshot_id, report.metrics["evaluations-count"]) == (before, 2)


@pytest.mark.parametrize("job", ["overwrite", "update"])
def test_a_conflict_that_is_reported_after_the_commit_evaluates_nothing(
    place: RowsPlace, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    before = place.table().metadata.current_snapshot_id
    parts: dict[str, dict[str, Any]] = {
        "update": {"change": RowChange(set={"id": "7"})},
        "overwrite": {"source": place.source([{"id": 9}], IDS)},
    }

    def fails(*_: object, **__: object) -> None:
        raise ValidationError("x")

    monkeypatch.setattr(staged_files, "discard", fails)
    with pytest.raises(IncompleteError, match=r"the work is committed .* only clean-up is left"):
        place.run(job, **parts[job])
    assert [s.parent_snapshot_id for s in place.table().metadata.snapshots].count(before) == 1


def test_a_plan_id_stands_in_the_snapshot_and_in_the_report(place: RowsPlace) -> None:
    report = place.run("append", source=place.source([{"id": 3}], IDS), plan_id="plan-1")
    assert report.plan_id == place.table().metadata.snapshot(report.snapshot_ids[0]).summary["iceberg-ops.plan-id"] == "plan-1"


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_source_table_of_a_catalog_that_nothing_configures_is_refused(place: RowsPlace, dry_run: bool) -> None:
    place.create(Schema.of(NestedField(1, "id", LONG)), name="other")
    with pytest.raises(OptionError, match="is in catalog 'prod', which the source does not configure"):
        place.run("append", source=Source(format="table", table="prod.db.other"), dry_run=dry_run)
    elsewhere = CatalogConfig(name="prod", type="filesystem", properties=place.config.properties)
    place.run("append", source=Source(format="table", table="prod.db.other", catalog=elsewhere), dry_run=dry_run)


def test_whole_files_go_also_where_the_format_of_new_ones_is_not_written(place: RowsPlace) -> None:
    commit(place.catalog, place.table(), UpdateProperties(updates={"write.format.default": "orc"}))
    report = place.run("delete", where="id < 100", change=RowChange(mode="copy-on-write"))
    assert (report.metrics["metadata-only"], place.rows()) == (1, [])
