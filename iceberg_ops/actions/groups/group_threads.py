"""Does the work of groups on threads of this process, for groups that read and write few bytes each."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Protocol, TypeVar

from iceberg_ops.actions.groups.group_plans import F, FailedGroup
from iceberg_ops.actions.workers.progress import Meter
from iceberg_ops.io.machine_limits import typed_os_errors


class SizedGroup(Protocol):
    """A planned group, with the sizes that a meter counts."""

    @property
    def group_id(self) -> str: ...
    @property
    def input_bytes(self) -> int: ...
    @property
    def input_files(self) -> int: ...


G = TypeVar("G", bound=SizedGroup)


def worked_on_threads(groups: Sequence[G], work: Callable[[G], F], at_once: int, meter: Meter) -> Generator[F | FailedGroup]:
    """``work`` of each group, ``at_once`` of them in parallel, started in the given order; see ``group_plans.Work``.

    A caller that closes it early waits for the running groups: their files exist only after that."""

    def attempt(group: G) -> tuple[G, F | FailedGroup]:
        try:
            with typed_os_errors():
                return group, work(group)
        except Exception as e:  # noqa: BLE001 - a group that fails costs only itself, whatever it met
            return group, FailedGroup(group.group_id, e)

    threads = ThreadPoolExecutor(at_once, thread_name_prefix="groups")
    try:
        for future in as_completed([threads.submit(attempt, group) for group in groups]):
            group, result = future.result()
            meter.advance(group.input_files, group.input_bytes)
            yield result
    finally:
        threads.shutdown(wait=True, cancel_futures=True)
