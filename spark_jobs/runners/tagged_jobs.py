"""Runs Spark jobs under a tag, and finds out how Spark ran them: how often a stage ran, which attempts were discarded.

A tag does not change the job group of the program's own thread, and reaches the jobs that Spark starts itself for broadcasts,
subqueries and the stages of an adaptive plan. The information comes from Spark's status store, after all events have reached
it: otherwise a failed attempt may not be known yet when its job is done.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from spark_jobs.runners.scala_values import items

T = TypeVar("T")
log = logging.getLogger(__name__)
_EVENTS_MS = 10_000
"""How long Spark's events may take to reach the status store; a listener of the program's own may be slow."""
_ENDING_SECONDS = 15.0
"""How long the tasks of a cancelled or finished job may take to end: Spark kills their Python workers after two seconds."""
_WORKER_SECONDS = 1.0
"""A Python worker continues after its task has ended, until its next read or write fails."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """``lost``: attempts that do not count may have run, and left files. ``repeated``: a stage may have been run more than once
    because results of an earlier stage were lost, so that a part of a plan was evaluated twice. ``running``: tasks that may not
    have ended."""

    lost: bool
    repeated: bool
    running: int


@contextmanager
def tagged(session: SparkSession) -> Iterator[str]:
    """Run Spark jobs of this thread under a tag of their own. If an exception ends the block, they are cancelled, and it waits
    until the tasks have ended."""
    context, tag = session.sparkContext, f"iceberg-ops-{uuid.uuid4()}"
    context.addJobTag(tag)
    try:
        yield tag
    except BaseException:
        cancel(session, tag)
        raise
    finally:
        with _unless_gone("a tag is left"):
            context.removeJobTag(tag)


def cancel(session: SparkSession, tag: str) -> None:
    """Cancel a tag's jobs, and wait until their tasks have ended. A JVM that no longer answers (Ctrl-C in a terminal also ends it)
    has no jobs: this does not replace the error for which they are cancelled."""
    with _unless_gone("its jobs have ended with it"):
        session.sparkContext.cancelJobsWithTag(tag)
        wait_for_tasks(session, tag)
    time.sleep(_WORKER_SECONDS)


@contextmanager
def _unless_gone(meaning: str) -> Iterator[None]:
    try:
        yield
    except (Py4JError, OSError) as e:
        log.warning("Spark does not answer, %s: %s", meaning, " ".join(str(e).split())[:200])


def in_own_thread(session: SparkSession, call: Callable[[], T]) -> T:
    """The result of ``call``, done in a thread with this thread's tags and properties. For calls of PySpark that cannot be
    interrupted: they wait for Spark to pass rows that they no longer read. After an interrupt such a thread ends with
    its jobs."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as e:  # noqa: BLE001 - raised where it is waited for
            answer.set_exception(e)

    threading.Thread(target=inheritable_thread_target(session)(run), name="own thread", daemon=True).start()
    return answer.result()


def tagged_attempts(session: SparkSession, tag: str) -> Attempts:
    """The known attempts of the jobs of a tag; anything unknown counts as lost and as repeated."""
    scala: Any = session.sparkContext._jsc.sc()
    try:
        scala.listenerBus().waitUntilEmpty(_EVENTS_MS)
    except Py4JJavaError as e:
        log.warning("Spark's listeners are behind, so attempts are not known: %s", str(e).splitlines()[0])
        return Attempts(lost=True, repeated=True, running=1)
    lost, repeated, running = _speculates(session), False, 0
    for stage_id in _stages(scala, tag):
        attempts = [] if stage_id is None else _attempts(session, stage_id)
        lost |= not attempts or any(a.attemptId() or a.numFailedTasks() or a.numKilledTasks() for a in attempts)
        repeated |= not attempts or any(a.attemptId() for a in attempts)
        running += sum(a.numActiveTasks() for a in attempts)
    return Attempts(lost, repeated, running)


def wait_for_tasks(session: SparkSession, tag: str) -> None:
    """Wait until no task of the tag's jobs runs: a killed one may write for a moment after its stage is done."""
    deadline = time.monotonic() + _ENDING_SECONDS
    while tagged_attempts(session, tag).running and time.monotonic() < deadline:
        time.sleep(0.1)


def _speculates(session: SparkSession) -> bool:
    # PySpark's getConf copies every setting, with one call of the JVM for each.
    jvm: Any = session._jsparkSession
    return str(jvm.sparkContext().conf().get("spark.speculation", "false")).lower() == "true"


def _stages(scala: Any, tag: str) -> Iterator[int | None]:
    """Ids of the stages of a tag's jobs; None for a job that Spark no longer records."""
    tracker = scala.statusTracker()
    for job_id in tracker.getJobIdsForTag(tag):
        info = tracker.getJobInfo(job_id)
        if info.isDefined():
            yield from info.get().stageIds()
        else:
            yield None


def _attempts(session: SparkSession, stage_id: int) -> list[Any]:
    """Every attempt at a stage, as Spark's status API describes it; empty if Spark no longer records it."""
    gateway: Any = session.sparkContext._gateway
    no_tasks, no_quantiles = gateway.jvm.java.util.ArrayList(), gateway.new_array(gateway.jvm.double, 0)
    store: Any = session.sparkContext._jsc.sc().statusStore()
    return list(items(store.stageData(stage_id, False, no_tasks, False, no_quantiles)))
