"""Events that may happen to a writer at a boundary, and the boundaries of the committer that are not I/O.

An exception is raised before or after a call takes effect, and the process continues: its handlers run, its caller retries or does
something else. ``lost answer`` is the unavailable store whose call took effect. Apart from I/O, a committer calls its operation,
its catalog, its caller (before a swap and after a commit), its clock, its sleep and its dice: an exception there comes from code
that it does not know."""

from __future__ import annotations

import errno
import importlib
import os
import pkgutil
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import iceberg_ops.commit
from iceberg_ops.commit.loop import committer
from iceberg_ops.commit.loop.statement import evaluate_until_committed
from iceberg_ops.commit.manifests.quiet_moment import wait_for_a_quiet_moment
from iceberg_ops.errors import CatalogUnavailableError
from tests.torture.stepping import AFTER_EFFECT, Writer, call_out, running

EXCEPTIONS: dict[str, Callable[[], BaseException]] = {
    "interrupt": lambda: KeyboardInterrupt("injected"),
    "exit": lambda: SystemExit("injected"),
    "out of memory": lambda: MemoryError("injected"),
    "I/O error": lambda: OSError(errno.EIO, os.strerror(errno.EIO), "injected"),
    "no space left": lambda: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "injected"),
    "time-out": lambda: TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), "injected"),
    "unavailable": lambda: CatalogUnavailableError("injected"),
    "too deep": lambda: RecursionError("injected"),
    "bug": lambda: RuntimeError("injected"),
}
LOST_ANSWER = "lost answer"
"""``unavailable`` after the call took effect, as it is counted."""
KILLED = "killed"
CALLS: dict[str, str | None] = {"prepare": "prepared", "validate": "validated", "stage": "staged", "in_force": None}
"""Calls out to an operation, and the boundaries after them; None: the call only looks."""
CALLBACKS: dict[str, str | None] = {"before_swap": None, "on_commit": "told", "random": None}
"""The same for what the committer gets from its caller besides sleep and clock."""
BOUNDARIES = frozenset(
    {"read", "write", "delete", "pointer", "swap", "sleep", "clock", *CALLS, *CALLBACKS, *AFTER_EFFECT},
)
"""Where a fault may occur: before an I/O step or a call out of the committer, and after one that has an effect."""


def _nobody(kind: str, boundary: str) -> None:
    return None


@dataclass
class Exceptions:
    """Raises ``kind`` at the ``at``-th boundary from now on, or at the ``at``-th of those named ``where``; ``told`` is called
    then."""

    kind: str
    at: int
    told: Callable[[str, str], None] = _nobody
    then: Exceptions | None = None
    """The exceptions after it."""
    where: str | None = None

    def __call__(self, writer: Writer, boundary: str) -> None:
        if self.where not in (None, boundary):
            return
        self.at -= 1
        if self.at >= 0:
            return
        writer.meets = self.then
        lost = self.kind == "unavailable" and boundary in AFTER_EFFECT
        error = EXCEPTIONS[self.kind]()
        writer.raised.append(error)
        if lost and boundary == "swapped":
            writer.misled = error
        self.told(LOST_ANSWER if lost else self.kind, boundary)
        raise error


def some_exception(
    rng: random.Random, told: Callable[[str, str], None], kinds: Sequence[str] = (), boundaries: Sequence[str] = ()
) -> Exceptions:
    """Early and late boundaries are equally likely, and so are rare and frequent ones: most boundaries are reads, but the
    interesting ones are near a swap. Two in five are followed by a second exception. ``kinds`` and ``boundaries``: the only ones;
    none: all."""
    kinds, boundaries = kinds or list(EXCEPTIONS), boundaries or sorted(BOUNDARIES)
    then = Exceptions(rng.choice(kinds), rng.randint(0, 8), told) if rng.random() < 0.4 else None
    if rng.random() < 0.6:
        return Exceptions(rng.choice(kinds), int(2 ** rng.uniform(0, 2.5)) - 1, told, then, rng.choice(boundaries))
    return Exceptions(rng.choice(kinds), int(2 ** rng.uniform(0, 7.5)), told, then)


def comes_from(error: BaseException | None, raised: list[BaseException]) -> bool:
    """Whether the error that ended the work is, or was caused by, an exception that was raised on purpose."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        found = waiting.pop()
        if found is None or id(found) in seen:
            continue
        if any(found is e for e in raised):
            return True
        seen.add(id(found))
        waiting += [found.__cause__, found.__context__]
    return False


_TIMED: tuple[Any, ...] = (committer.commit, evaluate_until_committed, wait_for_a_quiet_moment)


@contextmanager
def calls_out() -> Iterator[None]:
    """Within: calls to operations, callers, clock, sleep and dice of the committer are boundaries."""
    replaced = [(kind, name, kind.__dict__[name]) for kind in _operations() for name in CALLS if name in kind.__dict__]
    defaults = [(f.__kwdefaults__ or {}, dict(f.__kwdefaults__ or {})) for f in _TIMED]
    try:
        for kind, name, method in replaced:
            setattr(kind, name, _called_out(name, CALLS[name], method))
        replaced.append((committer._Loop, "run", committer._Loop.run))
        committer._Loop.run = _with_callbacks(committer._Loop.run)  # type: ignore[method-assign]
        for known, _ in defaults:
            known.update({k: v for k, v in (("sleep", _sleep), ("clock", _clock)) if k in known})
        yield
    finally:
        for kind, name, method in replaced:
            setattr(kind, name, method)
        for known, before in defaults:
            known.clear()
            known.update(before)


def _operations() -> list[type]:
    if not _OPERATIONS:
        for module in pkgutil.walk_packages(iceberg_ops.commit.__path__, f"{iceberg_ops.commit.__name__}."):
            for found in vars(importlib.import_module(module.name)).values():
                if isinstance(found, type) and not getattr(found, "_is_protocol", False) and hasattr(found, "branch"):
                    _OPERATIONS[found] = None
        assert _OPERATIONS
    return list(_OPERATIONS)


_OPERATIONS: dict[type, None] = {}


def _called_out(name: str, after: str | None, called: Any) -> Any:
    def call(*args: Any, **more: Any) -> Any:
        call_out(name)
        found = called(*args, **more)
        if after is not None:
            call_out(after)
        return found

    return call


def _with_callbacks(run: Any) -> Any:
    def running_loop(self: Any) -> Any:
        for name, after in CALLBACKS.items():
            setattr(self, name, _called_out(name, after, getattr(self, name)))
        return run(self)

    return running_loop


def _sleep(_: float) -> None:
    call_out("sleep")


def _clock() -> float:
    call_out("clock")
    writer = running()
    return time.monotonic() if writer is None else writer.now() / 1000
