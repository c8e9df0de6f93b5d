"""Files of task attempts that did not count: of failed tasks, of lost speculative twins, of executors that died.

Every staged file holds the operation's id in its name, so what the driver has not been told of is found by listing. It is looked
for when a job fails, and when Spark ran attempts that it did not use; a job whose every task ran once is not listed for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from pyspark.sql import SparkSession

from iceberg_ops.actions.progress import Meter
from iceberg_ops.deletion.own_files import discard_own
from iceberg_ops.io.file_io import FileIO
from spark_jobs.runners.task_progress import watched_tasks

log = logging.getLogger(__name__)
_STILL_RUNNING_SECONDS = 15.0


@contextmanager
def job_group(session: SparkSession, name: str, told: Callable[[int, int], None] | None = None) -> Iterator[None]:
    """Run Spark jobs under a name by which their attempts are counted afterwards. ``told``: tasks done, of how many, every second;
    without it the log says so now and then."""
    context = session.sparkContext
    context.setJobGroup(name, name)
    told = told or Meter("running", 0, 0, unit="tasks", subject=context.appName or name).at
    try:
        with watched_tasks(session, name, told):
            yield
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]


T = TypeVar("T")


def without_leftovers(
    session: SparkSession,
    io: FileIO,
    locations: Sequence[str],
    group: str,
    work: Callable[[], T],
    staged: Callable[[T], Collection[str]],
    *,
    before: Collection[str] = (),
) -> T:
    """What ``work`` answers, which runs the group's Spark jobs. Below ``locations`` the files stay that its answer has ``staged``,
    and those that were there ``before``; when it fails, only these."""

    def clean(keep: Collection[str]) -> None:
        for location in locations:
            delete_leftovers(session, io, location, group, [*before, *keep])

    try:
        with job_group(session, group):
            answer = work()
    except Exception:
        clean(())
        raise
    if may_have_lost_attempts(session, group):
        clean(staged(answer))
    return answer


def may_have_lost_attempts(session: SparkSession, group: str) -> bool:
    """Whether an attempt of the group's jobs may have written what nobody answers for."""
    context = session.sparkContext
    if str(context.getConf().get("spark.speculation", "false")).lower() == "true":
        return True
    tracker = context.statusTracker()
    for job_id in tracker.getJobIdsForGroup(group):
        job = tracker.getJobInfo(job_id)
        for stage_id in job.stageIds if job else ():
            stage = tracker.getStageInfo(stage_id)
            if stage is not None and stage.numFailedTasks:
                return True
    return False


def delete_leftovers(session: SparkSession, io: FileIO, location: str, group: str, keep: Collection[str]) -> int:
    """Delete the group's files below ``location`` but ``keep``, once none of its tasks runs any more; how many there were."""
    _wait_for_tasks(session, group)
    kept = frozenset(keep)
    gone = [f.location for f in io.list_prefix(location) if group in f.location and f.location not in kept]
    if gone:
        log.info("%d files of attempts that did not count are deleted below %s", len(gone), location)
        discard_own(io, gone)
    return len(gone)


def _wait_for_tasks(session: SparkSession, group: str) -> None:
    """A killed twin may write for a moment after its stage is done."""
    tracker = session.sparkContext.statusTracker()
    deadline = time.monotonic() + _STILL_RUNNING_SECONDS
    while time.monotonic() < deadline:
        stages = [s for j in tracker.getJobIdsForGroup(group) if (job := tracker.getJobInfo(j)) for s in job.stageIds]
        infos = [tracker.getStageInfo(s) for s in stages]
        if not any(info is not None and info.numActiveTasks for info in infos):
            return
        time.sleep(0.1)
