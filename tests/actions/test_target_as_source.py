"""A table cannot be its own source, by whatever name or catalog it is loaded; other tables, and its other states, can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, MergeClause, RowChange, Source
from iceberg_ops.errors import NoSuchSnapshotError, OptionError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from tests.actions.rows_place import RowsPlace

IDS = pa.schema({"id": pa.int64()})
JOBS: dict[str, dict[str, Any]] = {
    "append": {},
    "overwrite": {},
    "upsert": {"options": {"upsert-keys": "id"}},
    "merge": {"change": RowChange(on="target.id = source.id", clauses=[MergeClause(when="not-matched", action="insert")])},
}
EVERY_JOB = pytest.mark.parametrize("job", JOBS)


def place_at(folder: Path) -> RowsPlace:
    found = RowsPlace.at(folder)
    found.create(Schema.of(NestedField(1, "id", LONG)))
    found.run("append", source=found.source([{"id": 1}], IDS))
    return found


def catalog_at(warehouse: Path, name: str) -> CatalogConfig:
    return CatalogConfig(name=name, type="filesystem", properties={"warehouse": str(warehouse)})


@EVERY_JOB
@pytest.mark.parametrize("name", ["test", "other"])
@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("linked", [True, False])
def test_the_target_by_another_catalog_is_no_source(tmp_path: Path, job: str, name: str, dry_run: bool, linked: bool) -> None:
    place = place_at(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "warehouse")
    source = Source(format="table", table=f"{name}.db.t", catalog=catalog_at(tmp_path / ("link" if linked else "warehouse"), name))
    with pytest.raises(OptionError, match="is the target"):
        place.run(job, source=source, dry_run=dry_run, **JOBS[job])
    assert place.rows() == [{"id": 1}]


@EVERY_JOB
def test_another_table_of_a_catalog_of_the_same_name_is_a_source(tmp_path: Path, job: str) -> None:
    place, other = place_at(tmp_path / "one"), place_at(tmp_path / "two")
    other.run("append", source=other.source([{"id": 2}], IDS))
    place.run("delete", where="id = 1")
    place.run(job, source=Source(format="table", table="test.db.t", catalog=other.config), **JOBS[job])
    assert place.rows() == [{"id": 1}, {"id": 2}]


@EVERY_JOB
def test_an_earlier_snapshot_of_the_target_by_another_catalog_is_a_source(tmp_path: Path, job: str) -> None:
    place = place_at(tmp_path)
    first = place.table().metadata.current_snapshot_id
    place.run("delete", where="id = 1")
    other = catalog_at(tmp_path / "warehouse", "other")
    place.run(job, source=Source(format="table", table="other.db.t", catalog=other, snapshot_id=first), **JOBS[job])
    assert place.rows() == [{"id": 1}]


@EVERY_JOB
def test_an_earlier_snapshot_of_the_target_by_its_own_name_is_a_source(tmp_path: Path, job: str) -> None:
    place = place_at(tmp_path)
    first = place.table().metadata.current_snapshot_id
    place.run("delete", where="id = 1")
    place.run(job, source=Source(format="table", table="test.db.t", snapshot_id=first), **JOBS[job])
    assert place.rows() == [{"id": 1}]


@EVERY_JOB
def test_another_branch_of_the_target_is_a_source(tmp_path: Path, job: str) -> None:
    place = place_at(tmp_path)
    place.run("append", branch="audit", source=place.source([{"id": 2}], IDS))
    place.run("delete", where="id = 1")
    place.run(job, source=Source(format="table", table="test.db.t", ref="audit"), **JOBS[job])
    assert place.rows() == [{"id": 1}, {"id": 2}]


@EVERY_JOB
@pytest.mark.parametrize("branch", ["main", "audit", "new"])
@pytest.mark.parametrize("name", ["test", "other"])
def test_the_rows_that_a_branch_has_or_begins_with_are_no_source(tmp_path: Path, job: str, branch: str, name: str) -> None:
    place = place_at(tmp_path)
    place.run("append", branch="audit", source=place.source([{"id": 2}], IDS))
    ref = "audit" if branch == "audit" else "main"
    source = Source(format="table", table=f"{name}.db.t", catalog=catalog_at(tmp_path / "warehouse", name), ref=ref)
    error, says = OptionError, "is the target"
    if (job, branch) == ("merge", "new"):  # A merge makes no branch.
        error, says = NoSuchSnapshotError, "has no branch or tag 'new'"
    with pytest.raises(error, match=says):
        place.run(job, branch=branch, source=source, **JOBS[job])


def test_the_target_is_known_though_it_was_changed_before_the_source_is_loaded(tmp_path: Path) -> None:
    place = place_at(tmp_path)
    other = catalog_at(tmp_path / "warehouse", "other")
    load, loads = type(place.catalog).load_table, 0

    class Busy:
        """Another writer commits whenever the catalog has loaded the table."""

        def __getattr__(self, name: str) -> Any:
            return getattr(place.catalog, name)

        def load_table(self, identifier: tuple[str, ...]) -> Any:
            nonlocal loads
            loads += 1
            found = load(place.catalog, identifier)
            if loads == 1:
                place.run("append", source=place.source([{"id": 7}], IDS))
            return found

    source = Source(format="table", table="other.db.t", catalog=other)
    job = JobSpec(job="append", table="test.db.t", catalog=place.config, lane="local", source=source)
    with pytest.raises(OptionError, match="is the target"):
        run_job(job, catalog=Busy())
    assert place.rows() == [{"id": 1}, {"id": 7}]
