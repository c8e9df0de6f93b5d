"""What a row operation holds while it runs."""

from __future__ import annotations

import pytest

from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.deletion.leases import active_leases
from iceberg_ops.errors import DataError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from spark_jobs.jobs.job_run import LEASE_MS, JobRun
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark
SCHEMA = Schema.of(NestedField(1, "id", LONG, required=True))


def started(place: Place) -> JobRun:
    place.create("t", SCHEMA)
    return JobRun.start(place.session, JobSpec(job="delete", table="test.db.t", catalog=place.config, where="id = 1"))


def test_a_running_job_protects_its_snapshot_and_the_files_it_stages(place: Place) -> None:
    run = started(place)
    with run.lease():
        (lease,) = active_leases(place.table("t"), 0)
        for staged_by, is_held in ((run.operation_id, True), ("another", False)):
            assert lease.covers(f"{run.table.location}/data/00000-7-{staged_by}-00001.parquet", run.table.io) is is_held
        assert lease.is_active(lease.expires_at_ms - LEASE_MS)
    assert active_leases(place.table("t"), 0) == []


def test_a_job_that_fails_gives_its_lease_back(place: Place) -> None:
    run = started(place)
    with pytest.raises(DataError), run.lease():
        raise DataError("no")
    assert active_leases(place.table("t"), 0) == []
