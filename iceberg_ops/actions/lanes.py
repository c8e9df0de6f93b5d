"""Chooses where a job with lane ``auto`` runs: on this machine, or on Spark.

Spark is worth its start-up and its machines if a job reads more bytes than one machine should. The threshold is the catalog's
property ``spark-from-bytes``; the bytes are counted as the job itself would plan them. Spark is chosen only for actions whose
reading Spark's tasks share, and only if a master with other machines is configured: ``local[N]`` would add a JVM and no core. In
doubt the work stays local. The report gives the reason.
"""

from __future__ import annotations

import importlib.util
import logging
from dataclasses import dataclass

from msgspec.structs import replace

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.actions import ACTIONS
from iceberg_ops.config.job_spec import TEXT_FORMATS, JobSpec
from iceberg_ops.config.lanes import (
    DEFAULT_SPARK_FROM_BYTES,
    LOCAL,
    MOST_BYTES_IN_MEMORY,
    MOST_COMPUTED_ROWS,
    MOST_ROW_BYTES,
    MOST_TEXT_BYTES,
    SPARK,
    SPARK_FROM_BYTES,
    Lane,
    is_this_machine,
)
from iceberg_ops.config.report import ActionReport
from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.errors import IcebergOpsError, OptionError
from iceberg_ops.spec import summary_keys

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LaneChoice:
    """Local or Spark, and the reason."""

    lane: Lane
    reason: str


def choose_lane(job: JobSpec, master: str | None, *, catalog: Catalog | None = None) -> LaneChoice:
    """The lane of a maintenance job. ``master`` is the configured Spark master (None: not configured).

    Raises OptionError for a threshold that is not a number. A table that cannot be planned is left to the run, which reports why.
    """
    if job.lane != "auto":
        return LaneChoice(job.lane, "asked for")
    threshold = _threshold(job)
    if job.dry_run or not ACTIONS[job.job].shared_by_tasks:
        what = "a dry run" if job.dry_run else job.job
        return LaneChoice(LOCAL, f"auto: {what} is done by one process in any lane")
    if master is None or is_this_machine(master):
        why = "no Spark master is configured" if master is None else f"Spark master {master} is this machine"
        return LaneChoice(LOCAL, f"auto: {why}")
    if importlib.util.find_spec("pyspark") is None:
        return LaneChoice(LOCAL, "auto: pyspark is not installed")
    try:
        planned = _planned_bytes(job, threshold, catalog)
    except IcebergOpsError as e:
        return LaneChoice(LOCAL, f"auto: the work could not be sized: {e.code}")
    lane, how = (SPARK, "not less") if planned >= threshold else (LOCAL, "less")
    choice = LaneChoice(lane, f"auto: {planned:,} bytes to read, {how} than {SPARK_FROM_BYTES} {threshold:,}")
    log.info("%s %s: lane %s, %s", job.job, job.table, choice.lane, choice.reason)
    return choice


def choose_row_lane(job: JobSpec, planned: ActionReport) -> LaneChoice:
    """The lane of a row operation, from the report of its dry run: local for little data. If the statement turns out to need Spark,
    it still runs there (``NeedsSparkError``)."""
    source = planned.metrics.get("planned-source-bytes-count", 0)
    size = source + planned.metrics.get("planned-bytes-count", 0)
    computed = planned.metrics.get("planned-computed-records-count", 0)
    if planned.metrics.get("metadata-only"):
        return LaneChoice(LOCAL, "auto: no row is read")
    if size > MOST_ROW_BYTES:
        return LaneChoice(SPARK, f"auto: {size:,} bytes to read, more than {MOST_ROW_BYTES:,}")
    if computed > MOST_COMPUTED_ROWS:
        why = f"auto: a condition or a value is computed from each of {computed:,} rows, more than {MOST_COMPUTED_ROWS:,}"
        return LaneChoice(SPARK, why)
    if job.source is not None and job.source.format in TEXT_FORMATS and source > MOST_TEXT_BYTES:
        return LaneChoice(SPARK, f"auto: {source:,} bytes of {job.source.format} to parse, more than {MOST_TEXT_BYTES:,}")
    if job.job in ("merge", "upsert") and source > MOST_BYTES_IN_MEMORY:
        return LaneChoice(SPARK, f"auto: a source of {source:,} bytes, more than {MOST_BYTES_IN_MEMORY:,} to hold in memory")
    return LaneChoice(LOCAL, f"auto: {size:,} bytes to read")


def _planned_bytes(job: JobSpec, threshold: int, catalog: Catalog | None) -> int:
    """Bytes of the branch's files; if these are many, only those that the plan selects."""
    catalog = load_catalog(job.catalog) if catalog is None else catalog
    table = catalog.load_table(job.identifier)
    head = table.metadata.branch_head(job.branch)
    size = parse_count(head.summary.get(summary_keys.TOTAL_FILES_SIZE)) if head is not None else None
    if size is not None and (size < threshold or job.job != "rewrite_data_files"):
        return size
    report = run_job(replace(job, dry_run=True, report=None), catalog=catalog)
    if job.job == "rewrite_data_files":
        return report.metrics.get("planned-input-bytes-count", 0)
    return 0 if report.before is None else report.before.bytes


def _threshold(job: JobSpec) -> int:
    text = job.catalog.properties.get(SPARK_FROM_BYTES)
    if text is None:
        return DEFAULT_SPARK_FROM_BYTES
    if (size := parse_count(text)) is None:
        raise OptionError(f"catalog {job.catalog.name}: {SPARK_FROM_BYTES} = {text!r}: must be a whole number of bytes")
    return size
