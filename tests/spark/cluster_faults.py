"""What goes wrong with tasks and executors of the torture's cluster, put into the functions that jobs run in tasks.

It travels with the packages (``--py-files``), so it imports nothing of the tests. A fault hits the first attempt at one task of the
stage that writes, or of the stage that evaluates the source of a MERGE once. Notes lie in a folder that all processes share.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from iceberg_ops.data.writing import file_names

Tasks = Callable[[Iterator[Any]], Iterator[Any]]

DIES = ("dies before it writes", "dies after it wrote")
SLOW = ("twin of a task that is slow before it writes", "twin of a task that is slow after it wrote")
ZOMBIE = ("lost to the driver, and publishes after the commit",)
EXECUTOR = ("executor is lost while results of its stages are read", "shuffle files of an executor are lost")
NONE = "nothing"
SLOW_S = 30.0
COUNTED_S = 3.0
"""How long the driver may take to hear that a task is done."""


@dataclass(frozen=True)
class Fault:
    """``kind`` hits partition ``partition`` of the stage whose files carry an operation id that ends with ``stage``.
    ``one_name``: attempts do not differ in the names of their files, as if the package did not see to it. ``after_another``: it
    hits once another task of the stage has been counted, so that this one's rows are of a later evaluation."""

    kind: str
    partition: int
    notes: str
    stage: str = ""
    one_name: bool = False
    after_another: bool = False


class Faults:
    """Wraps functions for tasks, once; ``fault`` is what happens to those that are made from now on."""

    def __init__(self) -> None:
        self.fault = Fault(NONE, 0, "")

    def in_iterators(self, real: Callable[..., Tasks], operation_of: Callable[..., str]) -> Callable[..., Tasks]:
        """``real`` makes a function over the rows of a partition, ``operation_of`` its arguments' operation id."""

        def make(*told: Any) -> Tasks:
            return _faulty(real(*told), self.fault, operation_of(*told).endswith(self.fault.stage or ""))

        return make

    def in_calls(self, real: Callable[..., Callable[[str], str]]) -> Callable[..., Callable[[str], str]]:
        """``real`` makes a function of a text; a task calls it once."""

        def make(*told: Any) -> Callable[[str], str]:
            work = real(*told)
            tasks = _faulty(lambda texts: map(work, texts), self.fault, True)
            return lambda text: next(tasks(iter([text])))

        return make


def _faulty(work: Tasks, fault: Fault, is_meant: bool) -> Tasks:
    def attempt(given: Iterator[Any]) -> Iterator[Any]:
        task = TaskContext.get()
        assert task is not None
        if fault.one_name:
            file_names._MAKERS.next = lambda: "0" * 12  # type: ignore[method-assign]
        if not is_meant or fault.kind == NONE or task.partitionId() != fault.partition or not is_first(fault):
            yield from work(given)
            if is_meant and fault.after_another:
                (Path(fault.notes) / "another").touch()
            return
        if fault.after_another:
            wait_for((Path(fault.notes) / "another").exists, SLOW_S)
            time.sleep(COUNTED_S)
        if fault.kind == DIES[0]:
            os._exit(3)
        if fault.kind == SLOW[0]:
            wait_for((Path(fault.notes) / "job-is-over").exists, SLOW_S)
        if fault.kind in ZOMBIE:
            become_a_zombie(work, given, fault)
        if fault.kind == EXECUTOR[0]:
            given = lose_executor(given)
        if fault.kind == EXECUTOR[1]:
            given = lose_shuffle_files(given)
        answers = list(work(given))
        if fault.kind == DIES[1]:
            os._exit(3)
        if fault.kind == SLOW[1]:
            wait_for((Path(fault.notes) / "job-is-over").exists, SLOW_S)
        yield from answers

    return attempt


def is_first(fault: Fault) -> bool:
    """Whether no attempt was hit yet. (A task does not know how often its stage was tried.)"""
    try:
        with (Path(fault.notes) / "hit").open("x"):
            return True
    except FileExistsError:
        return False


def wait_for(what: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not what() and time.monotonic() < deadline:
        time.sleep(0.1)


def become_a_zombie(work: Tasks, given: Iterator[Any], fault: Fault) -> None:
    """The attempt is lost to Spark at once, while its process, unknown to Spark, continues: it publishes when the job has ended
    long ago."""
    rows = list(given)
    if os.fork():
        os._exit(3)
    os.setsid()
    os.closerange(3, 4096)  # or Spark would wait for this process, at the other end of the worker's connection
    try:
        wait_for((Path(fault.notes) / "job-is-over").exists, SLOW_S)
        list(work(iter(rows)))
        (Path(fault.notes) / "published").touch()
    finally:
        os._exit(0)


def lose_executor(given: Iterator[Any]) -> Iterator[Any]:
    """After its first rows the whole executor is gone, and with it what its finished tasks had for other stages."""
    for number, rows in enumerate(given):
        yield rows
        if number == 0:
            os.kill(executor_pid(), signal.SIGKILL)
            os._exit(3)
    os.kill(executor_pid(), signal.SIGKILL)
    os._exit(3)


def lose_shuffle_files(given: Iterator[Any]) -> Iterator[Any]:
    """What this executor holds for other stages is gone; the task itself dies, and the next reader gets a fetch failure."""
    folders = os.environ.get("SPARK_EXECUTOR_DIRS", os.environ.get("SPARK_LOCAL_DIRS", ""))
    next(given, None)
    for folder in filter(None, folders.replace(":", ",").split(",")):
        for path in Path(folder).rglob("shuffle_*"):
            path.unlink(missing_ok=True)
    os._exit(3)
    yield


def executor_pid() -> int:
    """The JVM above PySpark's daemon, which is above this process."""
    return int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])


def noisy(number: int) -> int:
    """A user function that claims to be deterministic, and gives another value in each evaluation."""
    return random.SystemRandom().randrange(4)
