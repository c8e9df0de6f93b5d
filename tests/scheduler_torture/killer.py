"""Kills processes of running tasks: the task's own process, its guard, its engine, and the engine's children."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import psutil

from demo.processes import pid_of
from tests.scheduler_torture.world import World

SIGNALS = {
    "task": (signal.SIGKILL, signal.SIGTERM),
    "guard": (signal.SIGKILL, signal.SIGTERM),
    "engine": (signal.SIGKILL, signal.SIGTERM),
    "engine's child": (signal.SIGKILL,),
    "worker": (signal.SIGKILL,),
}
"""A worker is Airflow's process that watches over a task; where it dies, Airflow takes the task for dead when its heartbeat is
late."""


@dataclass(slots=True)
class Killer:
    """Called again and again, it kills one process every few seconds, as many of each kind as ``kinds`` says."""

    world: World
    seed: int
    kinds: Mapping[str, int]
    pause: tuple[float, float] = (0.5, 5.0)
    killed: Counter[str] = field(default_factory=Counter)
    _next: float = 0.0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def __call__(self) -> None:
        if time.monotonic() < self._next:
            return
        found = [(kind, process) for kind, process in victims(self.world) if self.killed[kind] < self.kinds.get(kind, 0)]
        if not found:
            return
        # First the kind: a task has one guard, but an engine may have many children.
        kind = self._random.choice(sorted({kind for kind, _ in found}, key=lambda k: (self.killed[k], k))[:2])
        process = self._random.choice([process for k, process in found if k == kind])
        number = self._random.choice(SIGNALS[kind])
        try:
            process.send_signal(number)
        except psutil.Error:
            return
        self.killed[kind] += 1
        self.world.counts[f"{number.name} of a {kind}"] += 1
        self._next = time.monotonic() + self._random.uniform(*self.pause)


def victims(world: World) -> Iterator[tuple[str, psutil.Process]]:
    """Processes of tasks that have one of ours running."""
    scheduler = pid_of("scheduler", world.places)
    if scheduler is None:
        return
    for guard in psutil.Process(scheduler).children(recursive=True):
        try:
            if not any(part.endswith("guard.py") for part in guard.cmdline()[:3]):
                continue
            yield "guard", guard
            if (task := guard.parent()) is not None and task.pid != scheduler:
                yield "task", task
                if (worker := task.parent()) is not None and worker.pid != scheduler:
                    yield "worker", worker
            for engine in guard.children():
                yield "engine", engine
                yield from (("engine's child", child) for child in engine.children(recursive=True))
        except psutil.Error:
            continue
