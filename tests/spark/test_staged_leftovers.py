"""Files of tasks that no answer names are deleted; files that the operation had staged before stay. Rows of two evaluations of a
plan that is not repeatable are never mixed."""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from iceberg_ops.data.writing.file_names import FileNames
from iceberg_ops.errors import DataError, RetryableError
from iceberg_ops.io.local import LocalFileIO
from spark_jobs.runners import staged_leftovers, tagged_jobs
from spark_jobs.runners.staged_leftovers import without_leftovers
from spark_jobs.runners.tagged_jobs import Attempts, tagged, tagged_attempts
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


@pytest.fixture
def operation() -> str:
    """The id in the names of its files; failed attempts of other operations do not count."""
    return str(uuid.uuid4())


def written(folder: Path, operation: str, *names: str) -> list[str]:
    found = [folder / FileNames(name, operation).next(".parquet") for name in names]
    for path in found:
        path.write_bytes(b"x")
    return [str(path) for path in found]


def names(folder: Path, operation: str) -> list[str]:
    return sorted(p.name.split(f"-{operation}-", maxsplit=1)[0] for p in folder.iterdir())


def attempts(session: SparkSession, folder: str, operation: str, fails: Callable[[int], bool]) -> list[str]:
    """One task after another writes a file; those that ``fails`` says die then, which the driver only hears of as a failed job."""

    def write(number: int) -> str:
        path = Path(folder) / FileNames(f"task{number}", operation).next(".parquet")
        path.write_bytes(b"x")
        if fails(number):
            raise OSError("the disk is gone")
        return str(path)

    return session.sparkContext.parallelize(range(2), 2).map(write).collect()


def done(place: Place, folder: Path, operation: str, before: Collection[str], fails: Callable[[int], bool]) -> list[str]:
    return without_leftovers(
        place.session,
        LocalFileIO(),
        [str(folder)],
        operation,
        lambda: attempts(place.session, str(folder), operation, fails),
        lambda files: files,
        before=before,
    )


def test_files_of_a_job_that_failed_are_deleted_and_what_was_there_before_stays(place: Place, folder: Path, operation: str) -> None:
    before = written(folder, operation, "before")
    (folder / "others.parquet").write_bytes(b"x")
    with pytest.raises(Exception, match="the disk is gone"):
        done(place, folder, operation, before, lambda number: number == 1)
    assert names(folder, operation) == ["before", "others.parquet"]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, MemoryError, SystemExit])
def test_files_of_a_job_that_was_interrupted_are_deleted(
    place: Place, folder: Path, operation: str, interrupt: type[BaseException]
) -> None:
    def work() -> list[str]:
        attempts(place.session, str(folder), operation, lambda number: False)
        raise interrupt

    with pytest.raises(interrupt):
        without_leftovers(place.session, LocalFileIO(), [str(folder)], operation, work, lambda files: files)
    assert names(folder, operation) == []


def test_tasks_that_still_write_when_a_job_is_interrupted_have_ended_before_files_are_deleted(
    place: Place, folder: Path, operation: str
) -> None:
    """Ctrl-C in a program that runs jobs itself only reaches the driver: Spark's tasks go on until they are cancelled. (PySpark
    then raises an error of its own, because its handler of the signal meets a connection in use.)"""
    where = str(folder)

    def slow(number: int) -> int:
        for i in range(300):
            (Path(where) / FileNames(f"task{number}-{i}", operation).next(".parquet")).write_bytes(b"x")
            time.sleep(0.1)
        return number

    def interrupt() -> None:
        while len(list(folder.iterdir())) < 4:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    tasks = place.session.sparkContext.parallelize(range(2), 2).map(slow)
    with pytest.raises((KeyboardInterrupt, Py4JError)):
        without_leftovers(place.session, LocalFileIO(), [where], operation, tasks.collect, lambda _: ())
    assert names(folder, operation) == []
    time.sleep(0.5)
    assert names(folder, operation) == [], "a task went on"


ANSWERED = ["before", "task0", "task1"]


@pytest.mark.parametrize(("speculates", "left"), [("false", ["before", "lost", "task0", "task1"]), ("true", ANSWERED)])
def test_a_job_is_looked_after_where_spark_may_have_run_twins(
    place: Place, folder: Path, operation: str, speculates: str, left: list[str]
) -> None:
    before = written(folder, operation, "before")
    written(folder, operation, "lost")
    settings: Any = place.session._jsparkSession.sparkContext().conf()
    settings.set("spark.speculation", speculates)
    try:
        assert len(done(place, folder, operation, before, lambda number: False)) == 2
    finally:
        settings.remove("spark.speculation")
    assert names(folder, operation) == left


def seen(monkeypatch: pytest.MonkeyPatch, *outcomes: Attempts) -> None:
    """What Spark tells of the jobs, one evaluation after the other."""
    told = list(outcomes)
    monkeypatch.setattr(staged_leftovers, "tagged_attempts", lambda *_: told.pop(0) if len(told) > 1 else told[0])


WHOLE, LOST = Attempts(lost=False, repeated=False, running=0), Attempts(lost=True, repeated=False, running=0)
MIXED = replace(LOST, repeated=True)


@pytest.mark.parametrize(("is_repeatable", "evaluations"), [(True, 1), (False, 2)])
def test_rows_of_two_evaluations_are_thrown_away_unless_these_are_the_same(
    place: Place, folder: Path, operation: str, monkeypatch: pytest.MonkeyPatch, is_repeatable: bool, evaluations: int
) -> None:
    seen(monkeypatch, MIXED, WHOLE)
    answers: list[list[str]] = []

    def work() -> list[str]:
        answers.append(written(folder, operation, f"evaluation{len(answers) + 1}"))
        return answers[-1]

    answer = without_leftovers(
        place.session, LocalFileIO(), [str(folder)], operation, work, lambda files: files, is_repeatable=lambda: is_repeatable
    )
    assert answer == answers[-1]
    assert names(folder, operation) == [f"evaluation{evaluations}"]


def test_an_error_about_rows_of_two_evaluations_is_not_believed(
    place: Place, folder: Path, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen(monkeypatch, MIXED, WHOLE)
    evaluations = []

    def work() -> list[str]:
        evaluations.append(written(folder, operation, "file"))
        if len(evaluations) == 1:
            raise DataError("2 source rows of key (7)")
        return evaluations[-1]

    io = LocalFileIO()
    without_leftovers(place.session, io, [str(folder)], operation, work, lambda files: files, is_repeatable=lambda: False)
    assert len(evaluations) == 2
    assert names(folder, operation) == ["file"]


def test_a_plan_that_never_comes_through_in_one_piece_is_a_retryable_error(
    place: Place, folder: Path, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen(monkeypatch, MIXED)
    with pytest.raises(RetryableError, match="evaluated 4 times"):
        without_leftovers(
            place.session,
            LocalFileIO(),
            [str(folder)],
            operation,
            lambda: written(folder, operation, "file"),
            lambda files: files,
            is_repeatable=lambda: False,
        )
    assert names(folder, operation) == []


def test_a_job_whose_tasks_ran_once_has_lost_nothing(session: SparkSession) -> None:
    with tagged(session) as tag:
        session.sparkContext.parallelize(range(4), 2).map(lambda i: (i % 2, i)).groupByKey().count()
    assert tagged_attempts(session, tag) == WHOLE


def test_a_tag_leaves_the_programs_own_job_group_as_it_is(session: SparkSession) -> None:
    context = session.sparkContext
    context.setJobGroup("mine", "of the program")
    try:
        with tagged(session):
            context.parallelize(range(2), 2).count()
        assert len(context.statusTracker().getJobIdsForGroup("mine")) == 1
        assert context.getLocalProperty("spark.job.description") == "of the program"
        assert len(context.getJobTags()) == 0
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]


def test_what_spark_has_forgotten_may_have_been_lost_and_repeated(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    with tagged(session) as tag:
        session.sparkContext.parallelize(range(2), 2).count()
    monkeypatch.setattr(tagged_jobs, "_attempts", lambda *_: [])
    assert tagged_attempts(session, tag) == Attempts(lost=True, repeated=True, running=0)
