"""How many tasks of a group of Spark jobs are done, told while the driver waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_LOOK_SECONDS = 1.0


@contextmanager
def watched_tasks(
    session: SparkSession, group: str, told: Callable[[int, int], None], every: float = _LOOK_SECONDS
) -> Iterator[None]:
    """Call ``told`` with the tasks that are done, and how many there are, of the jobs that run under ``group`` meanwhile."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(every):
            told(*tasks_of(session, group))

    thread = threading.Thread(target=watch, name=f"progress {group}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def tasks_of(session: SparkSession, group: str) -> tuple[int, int]:
    """Tasks that are done, and tasks in all, of the group's jobs so far; stages that Spark has forgotten are left out."""
    tracker = session.sparkContext.statusTracker()
    done = total = 0
    for job_id in tracker.getJobIdsForGroup(group):
        job = tracker.getJobInfo(job_id)
        for stage_id in job.stageIds if job else ():
            stage = tracker.getStageInfo(stage_id)
            if stage is not None:
                done += stage.numCompletedTasks
                total += stage.numTasks
    return done, total
