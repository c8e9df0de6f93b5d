"""Measures a piece of work: wall time, CPU time of this process and its descendants, and the memory peak of Python workers.

Wall time is unreliable on a shared machine; CPU time of the whole process tree shows the cost of the work. Read from /proc, so only
on Linux.
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
    """``cpu_s`` counts this process and its descendants; ``worker_mib`` is the largest resident size that a Python child process
    ever had (0: none is left to measure)."""

    wall_s: float
    cpu_s: float
    worker_mib: int
    value: Any


def measured(work: Callable[[], Any]) -> Measured:
    """Do the work once and measure it."""
    cpu, begun = _cpu_seconds(), time.perf_counter()
    value = work()
    wall = time.perf_counter() - begun
    return Measured(round(wall, 3), round(_cpu_seconds() - cpu, 2), _largest_worker(), value)


def _tree() -> list[int]:
    """This process and its descendants."""
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
    """utime, stime and those of finished children."""
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
