"""The lane without a JVM: worker processes of this machine rewrite file groups.

Work that is small in total runs in this process, because starting an interpreter with Arrow costs about half a second, in which a
core rewrites 20 MB. Larger runs use processes, at most one per CPU (``worker_processes``); all of them do a large sort together, in
two stages (``staged_sort``). Tables in memory exist only in this process, so their units of work never leave it.

The rules: the failure of a unit of work is an answer, not an exception, and so is the loss of its process. No worker outlives its
work: after a caller has closed the answers early, the workers have ended, and the caller can delete their files.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from functools import partial

from iceberg_ops.actions.workers.runner import GroupFailure, Stage, work_bytes
from iceberg_ops.actions.workers.stage_answers import answer_of_stage, attempt_stage, share_of_sort
from iceberg_ops.actions.workers.worker_processes import WorkerLostError, WorkerProcesses, usable_cpus
from iceberg_ops.config.lanes import LOCAL
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.data.rewriting.rewrite import rewrite_group
from iceberg_ops.data.rewriting.staged_sort import is_staged, sorted_in_stages, stage_parts
from iceberg_ops.errors import IcebergOpsError, InternalError, RetryableError
from iceberg_ops.io.machine_limits import typed_os_errors

INLINE_BYTES = 24 * 2**20


class LocalRunner:
    """``workers`` None: one per usable CPU. ``inline_bytes``: up to this total of input bytes, no process is started."""

    name = LOCAL

    def __init__(self, *, workers: int | None = None, inline_bytes: int = INLINE_BYTES) -> None:
        self.workers = workers or usable_cpus()
        self.inline_bytes = inline_bytes
        self._told: Callable[[str, float], None] = lambda group_id, share: None

    def watch(self, on_progress: Callable[[str, float], None]) -> None:
        """See ``WatchedRunner``."""
        self._told = on_progress

    def limited(self, works_at_a_time: int) -> LocalRunner:
        """The same runner, with at most that many works at a time."""
        return LocalRunner(workers=min(self.workers, works_at_a_time), inline_bytes=self.inline_bytes)

    def run(self, group_works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
        """See ``RewriteRunner.run``."""
        in_memory = any(work.io_properties.get("io-impl") == "memory" for work in group_works)
        divisible = len(group_works) > 1 or any(self._is_staged(work) for work in group_works)
        if in_memory or not divisible or self.workers < 2 or sum(map(work_bytes, group_works)) <= self.inline_bytes:
            yield from map(attempt, group_works)
        else:
            yield from self._in_processes(group_works)

    @property
    def parallelism(self) -> int:
        return self.workers

    def spread(self, stage: Stage, texts: Sequence[str]) -> Generator[str]:
        """See ``SpreadingRunner``: in worker processes, a single text in this one."""
        if len(texts) < 2 or self.workers < 2:
            yield from map(stage, texts)
            return
        with WorkerProcesses(min(self.workers, len(texts))) as workers:
            try:
                for _, answer in workers.answers(partial(attempt_stage, stage), texts):
                    yield answer_of_stage(answer.result())
            except WorkerLostError as e:
                raise RetryableError(_lost(e)) from e

    def _is_staged(self, work: GroupWork) -> bool:
        return is_staged(work) and work_bytes(work) > self.inline_bytes

    def _sorted(self, work: GroupWork, workers: WorkerProcesses) -> GroupResult | GroupFailure:
        def run_all(stage: Callable[[str], str], texts: list[str]) -> list[str]:
            answer_texts: dict[int, str] = {}
            errors: list[Exception] = []
            try:
                for done, (index, answer) in enumerate(workers.answers(partial(attempt_stage, stage), texts), 1):
                    try:
                        answer_texts[index] = answer_of_stage(answer.result())
                    except Exception as e:  # noqa: BLE001 - raised when no task writes any more
                        errors.append(e)
                    self._told(work.group_id, share_of_sort(stage, done, len(texts)))
            except BaseException:
                workers.end()  # before staged files are deleted
                raise
            if errors:
                raise errors[0]
            return [answer_texts[index] for index in range(len(texts))]

        try:
            return sorted_in_stages(work, stage_parts(work_bytes(work), self.workers), run_all)
        except IcebergOpsError as e:
            return GroupFailure(work.group_id, e.code, str(e))
        except Exception as e:  # noqa: BLE001 - a worker that is lost
            return _not_answered(work, e)

    def _in_processes(self, group_works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
        """Large sorts one after the other, by all workers; then the largest units of work first, so that the last one to finish is
        short."""
        staged = [work for work in group_works if self._is_staged(work)]
        others = sorted((work for work in group_works if not self._is_staged(work)), key=work_bytes, reverse=True)
        with WorkerProcesses(self.workers if staged else min(self.workers, len(group_works))) as workers:
            for work in staged:
                yield self._sorted(work, workers)
            for index, answer in workers.answers(attempt, others):
                yield _answer(answer, others[index])


def attempt(work: GroupWork) -> GroupResult | GroupFailure:
    """Do one work; any error becomes a GroupFailure."""
    try:
        with typed_os_errors():
            return rewrite_group(work)
    except IcebergOpsError as e:
        return GroupFailure(work.group_id, e.code, str(e))
    except Exception as e:  # noqa: BLE001 - a worker must answer for every work; the report carries the message
        return GroupFailure(work.group_id, InternalError.code, " ".join(f"{type(e).__name__}: {e}".split()))


def _answer(future: Future[GroupResult | GroupFailure], work: GroupWork) -> GroupResult | GroupFailure:
    try:
        return future.result()
    except Exception as e:  # noqa: BLE001 - a worker that is lost is the answer of its work
        return _not_answered(work, e)


def _not_answered(work: GroupWork, e: Exception) -> GroupFailure:
    """The failure of a work without an answer: a process that was killed (mostly for memory) or not started may succeed in a
    retry."""
    if isinstance(e, WorkerLostError):
        return GroupFailure(work.group_id, RetryableError.code, _lost(e))
    if isinstance(e, IcebergOpsError):
        return GroupFailure(work.group_id, e.code, str(e))
    return GroupFailure(work.group_id, InternalError.code, " ".join(f"{type(e).__name__}: {e}".split()))


def _lost(e: WorkerLostError) -> str:
    return " ".join(str(e).split())
