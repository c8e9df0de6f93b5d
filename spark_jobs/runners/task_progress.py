"""Reports how many tasks of the Spark jobs of a tag are done, while the driver waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_LOOK_SECONDS = 1.0


@contextmanager
def watched_tasks(
    session: SparkSession, tag: str, on_progress: Callable[[int, int], None], every: float = _LOOK_SECONDS
) -> Iterator[None]:
    """Call ``told`` with the finished tasks and the total, for the jobs that run under ``tag`` meanwhile."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(every):
            on_progress(*count_tasks(session, tag))

    thread = threading.Thread(target=watch, name=f"progress {tag}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def count_tasks(session: SparkSession, tag: str) -> tuple[int, int]:
    """Finished tasks, and all tasks, of the tag's jobs so far; stages that Spark no longer records are left out."""
    tracker = session.sparkContext.statusTracker()
    done = total = 0
    for job_id in session.sparkContext._jsc.sc().statusTracker().getJobIdsForTag(tag):
        job = tracker.getJobInfo(job_id)
        for stage_id in job.stageIds if job else ():
            stage = tracker.getStageInfo(stage_id)
            if stage is not None:
                done += stage.numCompletedTasks
                total += stage.numTasks
    return done, total
