"""Time and chance of the torture world: each I/O step takes a second, names come from the seed, and nobody sleeps.

So leases, ages and rhythms of writers mean in the world what they mean outside, and a seed is a schedule. Product code is not told:
it asks ``time`` and ``uuid`` as ever.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from iceberg_ops.actions import delete_runs
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.quiet_moment import wait_for_a_quiet_moment
from iceberg_ops.data import delete_keys
from iceberg_ops.io import load
from iceberg_ops.io.file_io import FileIO
from tests.torture.stepping import STORE, boundary

BEGIN_MS = 1_900_000_000_000
STEP_MS = 1_000


class Clock:
    """Milliseconds since the epoch, in the world."""

    def __init__(self) -> None:
        self.ms = BEGIN_MS

    def __call__(self) -> int:
        return self.ms

    def nanoseconds(self) -> int:
        return self.ms * 1_000_000

    def seconds(self) -> float:
        return self.ms / 1000


@contextmanager
def laws(rng: random.Random, clock: Clock, store: Callable[[], FileIO]) -> Iterator[None]:
    """Within: times from ``clock``, made-up names and jitter from ``rng``; works that are shipped find ``store``'s storage."""

    def uuid4() -> uuid.UUID:
        return uuid.UUID(int=rng.getrandbits(128), version=4)

    unhurried: dict[str, Any] = {"sleep": no_sleep}
    with ExitStack() as stack:
        for patch in (
            mock.patch.object(uuid, "uuid4", uuid4),
            mock.patch.object(time, "time_ns", clock.nanoseconds),
            mock.patch.object(time, "time", clock.seconds),
            mock.patch.object(delete_runs, "ThreadPoolExecutor", Inline),
            mock.patch.object(delete_keys, "_KEPT", _kept_keys()),
            mock.patch.dict(load._STORES, {STORE: lambda _: store()}),
            mock.patch.dict(commit.__kwdefaults__, unhurried),
            mock.patch.dict(wait_for_a_quiet_moment.__kwdefaults__, unhurried),
        ):
            stack.enter_context(patch)
        yield


def _kept_keys() -> delete_keys._Kept:
    """Keys of this world's deletes only, and locks over reading that are waited for in steps: writers share one thread."""
    return delete_keys._Kept(SteppedLock)  # type: ignore[arg-type]


class Inline(Executor):
    """Threads would take their steps unseen, and in an order of their own: what is submitted is done at once."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as e:  # noqa: BLE001 - whoever asks for the answer gets it
            done.set_exception(e)
        return done


class SteppedLock:
    def __init__(self) -> None:
        self.held = False

    def acquire(self) -> None:
        while self.held:
            boundary("lock")
        self.held = True

    def release(self) -> None:
        self.held = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def no_sleep(_: float) -> None:
    return None
