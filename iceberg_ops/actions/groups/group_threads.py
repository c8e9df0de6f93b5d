"""The work of groups on threads of this process: for groups whose work is reading and writing few bytes each."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Protocol, TypeVar

from iceberg_ops.actions.groups.group_plans import F, FailedGroup
from iceberg_ops.actions.workers.progress import Meter
from iceberg_ops.io.machine_limits import typed_os_errors


class SizedGroup(Protocol):
    """A planned group, as far as a meter counts it."""

    @property
    def group_id(self) -> str: ...
    @property
    def input_bytes(self) -> int: ...
    @property
    def input_files(self) -> int: ...


G = TypeVar("G", bound=SizedGroup)


def worked_on_threads(groups: Sequence[G], work: Callable[[G], F], at_once: int, meter: Meter) -> Generator[F | FailedGroup]:
    """``work`` of each group, ``at_once`` of them side by side, begun in the order given; see ``group_plans.Work``.

    Whoever closes it early waits for the groups that are in work: what they write is there only then."""

    def attempt(group: G) -> tuple[G, F | FailedGroup]:
        try:
            with typed_os_errors():
                return group, work(group)
        except Exception as e:  # noqa: BLE001 - a group that fails costs only itself, whatever it met
            return group, FailedGroup(group.group_id, e)

    threads = ThreadPoolExecutor(at_once, thread_name_prefix="groups")
    try:
        for future in as_completed([threads.submit(attempt, group) for group in groups]):
            group, found = future.result()
            meter.advance(group.input_files, group.input_bytes)
            yield found
    finally:
        threads.shutdown(wait=True, cancel_futures=True)
