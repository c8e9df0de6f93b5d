"""Measuring a piece of work: the clock, the CPU time of this process and all below it, and the memory peak of Python workers.

Wall time says little on a machine that others use; CPU time of the whole process tree says what the work cost. Read from /proc, so
on Linux only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Measured:
    """``cpu_s`` counts this process and its descendants; ``worker_mib`` is the largest resident size a Python process below this
    one ever had (0: there is none left to look at)."""

    wall_s: float
    cpu_s: float
    worker_mib: int
    value: Any


def measured(work: Callable[[], Any]) -> Measured:
    """Do it once."""
    cpu, begun = _cpu_seconds(), time.perf_counter()
    value = work()
    wall = time.perf_counter() - begun
    return Measured(round(wall, 3), round(_cpu_seconds() - cpu, 2), _largest_worker(), value)


def _tree() -> list[int]:
    """This process and everything below it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = [], [os.getpid()]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue.extend(parents.get(pid, ()))
    return found


def _stat(pid: int) -> list[str]:
    """Fields of /proc/<pid>/stat from the state on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _cpu_seconds() -> float:
    """utime, stime and those of children that were waited for."""
    return sum(sum(map(int, fields[11:15])) for pid in _tree() if (fields := _stat(pid))) / _TICKS


def _largest_worker() -> int:
    peaks = [0]
    for pid in _tree():
        if pid == os.getpid():
            continue
        try:
            status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        except (FileNotFoundError, ProcessLookupError):
            continue
        if status["Name"].strip().startswith("python"):
            peaks.append(int(status.get("VmHWM", "0 kB").split()[0]) // 1024)
    return max(peaks)
