"""Lane auto: Spark if there is a cluster and enough to read, otherwise this machine, and always a reason."""

from __future__ import annotations

from dataclasses import replace as with_fields

import pytest
from msgspec.structs import replace

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.lanes import choose_lane
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.lanes import SPARK_FROM_BYTES
from iceberg_ops.errors import OptionError
from tests.actions.lake import Lake, make_lake, numbered

CLUSTER = "spark://master:7077"


@pytest.fixture
def lake() -> Lake:
    made = make_lake()
    for i in range(6):
        made.append(numbered(100 * i, 100))
    return made


def job_of(lake: Lake, action: str, threshold: object = None, **parts: object) -> JobSpec:
    job = lake.job(action)
    properties = {} if threshold is None else {SPARK_FROM_BYTES: str(threshold)}
    catalog = replace(job.catalog, properties=properties)
    return replace(job, catalog=catalog, **parts)


@pytest.mark.parametrize(
    ("action", "threshold", "master", "lane", "why"),
    [
        ("rewrite_data_files", 1, CLUSTER, "spark", "not less than spark-from-bytes 1"),
        ("rewrite_data_files", None, CLUSTER, "local", "less than spark-from-bytes 8,589,934,592"),
        ("rewrite_data_files", 1, None, "local", "no Spark master is configured"),
        ("rewrite_data_files", 1, "spark://localhost:7077", "spark", "not less"),
        ("rewrite_data_files", 1, "local[4]", "local", "Spark master local[4] is this machine"),
        ("compute_table_stats", 1, CLUSTER, "spark", "not less than spark-from-bytes 1"),
        ("expire_snapshots", 1, CLUSTER, "local", "expire_snapshots is done by one process in any lane"),
    ],
)
def test_the_lane_is_chosen_by_bytes_and_master(
    lake: Lake, action: str, threshold: int | None, master: str | None, lane: str, why: str
) -> None:
    choice = choose_lane(job_of(lake, action, threshold), master, catalog=lake.catalog)
    assert choice.lane == lane
    assert why in choice.reason


def test_what_counts_is_what_the_plan_reads_not_the_table(lake: Lake) -> None:
    lake.run("rewrite_data_files")
    job = job_of(lake, "rewrite_data_files", 1)
    assert "0 bytes to read, less than" in choose_lane(job, CLUSTER, catalog=lake.catalog).reason


def test_a_dry_run_and_a_lane_that_was_asked_for_are_not_sized(lake: Lake) -> None:
    dry = job_of(lake, "rewrite_data_files", 1, dry_run=True)
    assert choose_lane(dry, CLUSTER, catalog=lake.catalog).lane == "local"
    asked = job_of(lake, "rewrite_data_files", 1, lane="local")
    assert choose_lane(asked, CLUSTER, catalog=lake.catalog) == with_fields(
        choose_lane(asked, None, catalog=lake.catalog), reason="asked for"
    )


def test_a_table_that_can_not_be_sized_is_left_to_the_run(lake: Lake) -> None:
    job = replace(job_of(lake, "rewrite_data_files", 1), table="test.ns.none")
    choice = choose_lane(job, CLUSTER, catalog=lake.catalog)
    assert (choice.lane, choice.reason) == ("local", "auto: the work could not be sized: NO_SUCH_TABLE")


@pytest.mark.parametrize("text", ["8GiB", "²"])
def test_a_threshold_that_is_no_number_is_refused(text: str, lake: Lake) -> None:
    with pytest.raises(OptionError, match=f"spark-from-bytes = '{text}': must be a whole number of bytes"):
        choose_lane(job_of(lake, "rewrite_data_files", text), CLUSTER, catalog=lake.catalog)


def test_the_report_says_why(lake: Lake) -> None:
    report = run_job(replace(lake.job("rewrite_data_files"), lane_reason="auto: few bytes"), catalog=lake.catalog)
    assert report.lane_reason == "auto: few bytes"
