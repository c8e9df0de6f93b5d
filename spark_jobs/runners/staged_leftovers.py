"""One evaluation of a plan by Spark: its answer, without files of discarded attempts.

No answer names the files of failed tasks, of discarded speculative copies and of executors that died. Every staged file has the
operation's id in its name, so they are found by listing. The listing is done if a job fails or is interrupted, and if Spark ran
attempts that it did not use; a job whose every task ran once needs no listing. A task that publishes a file even later (on an
executor that the driver has given up) leaves an orphan, because no answer names that file either.

If Spark lost results of one stage while the next one read them, it runs a part of the plan again. If the plan may give other
rows each time (a LIMIT, a window without a total order), the answer then contains rows of two evaluations: it is discarded, and the
whole plan is evaluated again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from pyspark.sql import SparkSession

from iceberg_ops.actions.workers.progress import Meter
from iceberg_ops.data.writing.file_names import operation_files_pattern
from iceberg_ops.deletion.own_files import CreatedFiles
from iceberg_ops.errors import IcebergOpsError, RetryableError
from iceberg_ops.io.file_io import FileIO
from spark_jobs.runners.tagged_jobs import tagged, tagged_attempts, wait_for_tasks
from spark_jobs.runners.task_progress import watched_tasks

log = logging.getLogger(__name__)
_EVALUATIONS = 4
"""The same number as Spark's attempts for a stage."""
_LOOKS, _BETWEEN_LOOKS_SECONDS = 30, 0.5
T = TypeVar("T")


def without_leftovers(
    session: SparkSession,
    io: FileIO,
    locations: Sequence[str],
    operation_id: str,
    work: Callable[[], T],
    staged: Callable[[T], Collection[str]],
    *,
    before: Collection[str] = (),
    is_repeatable: Callable[[], bool] = lambda: True,
) -> T:
    """The answer of ``work``, which runs Spark jobs in this thread. Of the operation's files below ``locations``, those that its
    answer has ``staged`` stay, and those that were there ``before``; if it fails, only the latter.

    ``is_repeatable``: every evaluation gives the same rows. Raises RetryableError if it does not, and no evaluation completed
    in one piece.
    """

    def clean(keep: Collection[str]) -> int:
        return sum(delete_leftovers(io, location, operation_id, [*before, *keep]) for location in locations)

    def clean_after_failure() -> None:
        """A Python worker whose task was killed may write once more after the first listing."""
        for _ in range(_LOOKS):
            if not clean(()):
                return
            time.sleep(_BETWEEN_LOOKS_SECONDS)

    on_progress = Meter("running", 0, 0, unit="tasks", subject=session.sparkContext.appName or operation_id).at
    for _ in range(_EVALUATIONS):
        tag = ""
        try:
            with tagged(session) as tag, watched_tasks(session, tag, on_progress):
                answer = work()
            if not locations and is_repeatable():
                return answer
            seen = tagged_attempts(session, tag)
            is_whole = not seen.repeated or is_repeatable()
        except BaseException as e:
            clean_after_failure()
            if isinstance(e, IcebergOpsError) and _may_be_of_two(session, tag, is_repeatable):
                continue
            raise
        if seen.lost or not is_whole:
            wait_for_tasks(session, tag)
            clean(staged(answer) if is_whole else ())
        if is_whole:
            return answer
        log.warning("results of a stage were lost while they were read, and the plan may give other rows now: evaluating it again")
    raise RetryableError(
        f"the source was evaluated {_EVALUATIONS} times, and each time results were lost while they were read (executors died, or "
        "Spark keeps no record of stages: spark.ui.retainedStages). It may give other rows in each evaluation, so nothing was "
        "committed: write the source to a table first, or order what it limits"
    )


def _may_be_of_two(session: SparkSession, tag: str, is_repeatable: Callable[[], bool]) -> bool:
    """An error about rows (for example a repeated key) may come from mixing rows of two evaluations."""
    return bool(tag) and tagged_attempts(session, tag).repeated and not is_repeatable()


def delete_leftovers(io: FileIO, location: str, operation_id: str, keep: Collection[str]) -> int:
    """Delete the operation's files below ``location`` except ``keep``; returns their number."""
    kept, named = frozenset(keep), operation_files_pattern(operation_id)
    gone = [f.location for f in io.list_prefix(location) if named.search(f.location) and f.location not in kept]
    if gone:
        log.info("%d files of attempts that did not count are deleted below %s", len(gone), location)
        CreatedFiles(io, gone).discard()
    return len(gone)
