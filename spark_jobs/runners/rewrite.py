"""Rewrites file groups on Spark's executors.

Each unit of work is one JSON text; small ones share a Spark task, so that a thousand tiny groups are not a thousand Spark jobs, and
a large sort is done in two stages of tasks (``staged_sort``). Answers are returned as they complete: the driver runs one small job
per batch of units of work from a few threads, which ``iceberg_ops.actions`` needs for partial progress.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from iceberg_ops.actions.workers.runner import GroupFailure, Stage, work_bytes
from iceberg_ops.actions.workers.stage_answers import answer_of_stage, attempt_stage, share_of_sort
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.data.rewriting.rewrite import rewrite_group
from iceberg_ops.data.rewriting.staged_sort import is_staged, sorted_in_stages, stage_parts
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.errors import IcebergOpsError, InternalError, TerminalError
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.machine_limits import typed_limits
from spark_jobs.runners.spark_end import ended_error, has_ended, spark_needed
from spark_jobs.runners.staged_leftovers import delete_leftovers
from spark_jobs.runners.tagged_jobs import cancel, tagged, tagged_attempts, wait_for_tasks
from spark_jobs.runners.task_process import begin_task
from spark_jobs.runners.task_progress import watched_tasks
from spark_jobs.session import task_slots

T = TypeVar("T")
log = logging.getLogger(__name__)
_BATCH_BYTES = 32 * 1024 * 1024
"""Works are batched up to this many input bytes: a Spark job costs about 0.1 s, less than reading 32 MB."""


class SparkRewriteRunner:
    """A ``RewriteRunner`` (iceberg_ops.actions.workers.runner) on a Spark session."""

    name = "spark"

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._told: Callable[[str, float], None] = lambda group_id, share: None
        self._running: set[str] = set()
        """Tags of the running Spark jobs."""
        self._has_lost_attempts = False
        self._is_over = False
        """The caller waits for no more answers: a failure after that comes from cancelling."""

    def watch(self, on_progress: Callable[[str, float], None]) -> None:
        """See ``WatchedRunner``."""
        self._told = on_progress

    def run(self, group_works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
        """One answer per work, in completion order. Files of discarded attempts are deleted after the last one."""
        self._has_lost_attempts = False
        kept: list[str] = []
        with spark_needed(self._session, "a rewrite on Spark"):
            batches = _batches(group_works, task_slots(self._session))
            for answers in self._in_threads([partial(self._rewrite, batch) for batch in batches]):
                for answer in answers:
                    kept += [str(f["file_path"]) for f in answer.added] if isinstance(answer, GroupResult) else []
                    yield answer
        if self._has_lost_attempts:
            _delete_leftovers(group_works, kept)

    @property
    def parallelism(self) -> int:
        """See ``SpreadingRunner``."""
        return task_slots(self._session)

    def spread(self, stage: Stage, texts: Sequence[str]) -> Generator[str]:
        """See ``SpreadingRunner``: one Spark job per text, as many in parallel as there are slots."""
        try:
            with spark_needed(self._session, "tasks on Spark"):
                for answers in self._in_threads([partial(self._run_all, stage, [text]) for text in texts]):
                    yield from answers
        except Py4JError as e:
            raise TerminalError(f"Spark gave up a task: {' '.join(str(e).split())[:500]}") from e

    def _in_threads(self, calls: Sequence[Callable[[], T]]) -> Iterator[T]:
        """The answers of the calls, as they complete; as many in parallel as there are task slots. Their Spark jobs have the
        properties of this thread's jobs (its pool, its group), and are cancelled if the caller stops early."""
        self._is_over = False
        with ThreadPoolExecutor(task_slots(self._session), thread_name_prefix="rewrite") as threads:
            # Each call has a copy of the properties: with a shared one, a call's tag would be on the jobs of the others, and
            # cancelling the jobs of a failed call would cancel theirs.
            pending = {threads.submit(inheritable_thread_target(self._session)(call)) for call in calls}
            try:
                while pending:
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            except BaseException:
                self._is_over = True
                for future in pending:
                    future.cancel()
                for tag in list(self._running):
                    cancel(self._session, tag)
                raise

    def _rewrite(self, batch: Sequence[GroupWork]) -> list[GroupResult | GroupFailure]:
        """The result of each work. If Spark gives up the task of several works, each is done in a separate task: one of them ended
        the task, and the others must not fail because of it."""
        context = self._session.sparkContext
        try:
            if is_staged(batch[0]) and work_bytes(batch[0]) > _BATCH_BYTES:
                return [self._sorted(batch[0])]
            texts = context.parallelize([work.to_json() for work in batch], 1).mapPartitions(_rewriting())
            with self._tagged():
                answers = texts.collect()
        except Exception as e:  # noqa: BLE001 - Spark gave the task up: whatever killed it is this batch's failure, not the run's
            self._has_lost_attempts = True
            if has_ended(self._session):
                ended = ended_error("a rewrite on Spark")
                return [GroupFailure(work.group_id, ended.code, str(ended)) for work in batch]
            reason = _said(e)
            if len(batch) == 1 or self._is_over:
                return [GroupFailure(work.group_id, InternalError.code, reason) for work in batch]
            log.warning("Spark gave up a task of %d groups, so each group runs in a task of its own: %s", len(batch), reason)
            return [answer for work in batch for answer in self._rewrite([work])]
        return [_answer(json.loads(text)) for text in answers]

    def _sorted(self, work: GroupWork) -> GroupResult | GroupFailure:
        def run_all(stage: Stage, texts: list[str]) -> list[str]:
            def on_progress(done: int, tasks: int) -> None:
                if tasks:
                    self._told(work.group_id, share_of_sort(stage, done, tasks))

            return self._run_all(stage, texts, on_progress)

        try:
            return sorted_in_stages(work, stage_parts(work_bytes(work), task_slots(self._session)), run_all)
        except IcebergOpsError as e:
            return GroupFailure(work.group_id, e.code, str(e))

    def _run_all(self, stage: Stage, texts: list[str], on_progress: Callable[[int, int], None] | None = None) -> list[str]:
        if not texts:
            return []
        staged = self._session.sparkContext.parallelize(texts, len(texts)).map(_staging(stage))
        with self._tagged() as tag, nullcontext() if on_progress is None else watched_tasks(self._session, tag, on_progress):
            answers = staged.collect()
        return [answer_of_stage(text) for text in answers]

    @contextmanager
    def _tagged(self) -> Iterator[str]:
        """Run Spark jobs under a tag, and record whether attempts were lost."""
        with tagged(self._session) as tag:
            self._running.add(tag)
            try:
                yield tag
            finally:
                self._running.discard(tag)
        if tagged_attempts(self._session, tag).lost:
            self._has_lost_attempts = True
            wait_for_tasks(self._session, tag)


def _delete_leftovers(group_works: Sequence[GroupWork], keep: Sequence[str]) -> None:
    """Delete the files of units of work that are not in answers."""
    places = {(WriteContext.from_json(work.write).data_location, work.operation_id): work for work in group_works}
    for (location, operation_id), work in places.items():
        delete_leftovers(load_file_io(work.io_properties), location, operation_id, keep)


def _batches(group_works: Sequence[GroupWork], slots: int) -> list[list[GroupWork]]:
    """Works in order, cut so that there is a batch for every slot."""
    batches: list[list[GroupWork]] = []
    limit = min(_BATCH_BYTES, -(-sum(map(work_bytes, group_works)) // slots))
    size = limit
    for work in group_works:
        bytes_ = work_bytes(work)
        if not batches or size + bytes_ > limit:
            batches.append([])
            size = 0
        batches[-1].append(work)
        size += bytes_
    return batches


def _rewriting() -> Callable[[Iterable[str]], Iterator[str]]:
    def rewrite(texts: Iterable[str]) -> Iterator[str]:
        begin_task()
        for text in texts:
            work = GroupWork.from_json(text)
            try:
                with typed_limits():
                    answer = json.dumps({"result": rewrite_group(work).to_json()})
                yield answer
            except IcebergOpsError as e:
                yield json.dumps({"failure": [work.group_id, e.code, str(e)]})

    return rewrite


def _said(error: Exception) -> str:
    """What ended a task, on one line: the last line of a Python traceback, otherwise Spark's message."""
    lines = str(error).splitlines()
    start = next((i + 1 for i, line in enumerate(lines) if line.endswith("Traceback (most recent call last):")), 0)
    raised = next((line for line in lines[start:] if line and not line.startswith(" ")), "") if start else ""
    return " ".join((raised or str(error)).split())[:500]


def _staging(stage: Callable[[str], str]) -> Callable[[str], str]:
    def run(text: str) -> str:
        begin_task()
        return attempt_stage(stage, text)

    return run


def _answer(document: dict[str, object]) -> GroupResult | GroupFailure:
    if "failure" in document:
        return GroupFailure(*document["failure"])  # type: ignore[misc]
    return GroupResult.from_json(str(document["result"]))
