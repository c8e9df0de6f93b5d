"""Looks for the demo's secrets where they must not be: in command lines and titles of processes, in Spark's event logs and
settings, and in every file that the demo wrote.

Processes are watched while the demo runs, because most live for seconds only: whatever a user of this machine could see. A check
that saw no job would prove nothing, so it fails.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from demo.credentials import secret_values
from demo.processes import DemoError
from demo.stack import Stack

_PAUSE_SECONDS = 0.5
_WAIT_SECONDS = 10.0
_HIDDEN_BY_SPARK = "(redacted)"
_JOB = "--job-spec"
_NEXT = "this is a bug: do not use what was shown, and report it"


@dataclass(slots=True)
class CommandLines:
    """Watches the command lines of all processes in a thread, from ``start`` to ``stop``. A process that changes its title changes
    its command line."""

    secrets: Mapping[str, str]
    specs: Path
    """The folder of the demo's job specs: a command line that names one started a job of this demo."""
    jobs: set[str] = field(default_factory=set)
    """Command lines that started one."""
    shown: set[tuple[str, str]] = field(default_factory=set)
    """Each secret that was shown, and by which program."""
    seen: set[str] = field(default_factory=set)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._watch, name="command lines", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Without effect where it is not running."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(_WAIT_SECONDS)

    def look(self) -> None:
        """Look at all processes once."""
        for process in psutil.process_iter(["name", "cmdline"], ad_value=None):
            words = process.info["cmdline"]
            line = " ".join(words or ())
            if not line or line in self.seen:
                continue
            self.seen.add(line)
            if _JOB in words and str(self.specs) in line:
                self.jobs.add(line)
            self.shown |= {(name, str(process.info["name"])) for name, value in self.secrets.items() if value in line}

    def _watch(self) -> None:
        while not self._over.is_set():
            self.look()
            self._over.wait(_PAUSE_SECONDS)


def nothing_leaked(stack: Stack, lines: CommandLines) -> str:
    """What was looked at, as text. Raises DemoError that names a secret, never its value, and where it is."""
    secrets = secret_values(stack.places)
    _must(bool(lines.jobs), "no job's command line was seen: nothing is proven about them")
    for name, program in sorted(lines.shown):
        _must(False, f"the {name} stood in the command line of {program}")
    files = 0
    for path in _files(stack):
        files += 1
        content = path.read_bytes()
        for name, value in secrets.items():
            _must(value.encode() not in content, f"the {name} stands in {path}")
    told = f"{len(lines.jobs)} command lines of jobs, {files:,} files"
    if stack.events is None:
        return told
    logs = list(_applications(stack.events))
    _must(bool(logs), f"Spark left no event log in {stack.events}")
    for path, settings in logs:
        hidden = [name for name, value in settings.items() if _HIDDEN_BY_SPARK in str(value)]
        _must(not hidden, f"Spark hides the setting {hidden[:1]} in {path}: a secret came to Spark's settings")
    return f"{told}, event logs of {len(logs)} applications"


def _files(stack: Stack) -> Iterator[Path]:
    """Every file below the demo's folder, and below the folders that links in it lead to."""
    root = stack.places.root
    for folder in (root, *(path.resolve() for path in root.iterdir() if path.is_symlink())):
        for path in folder.rglob("*"):
            if path.is_file() and path not in stack.places.secret_files:
                yield path


def _applications(events: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Each event log that shows an application's settings, and these."""
    for path in sorted(p for p in events.rglob("*") if p.is_file()):
        for line in path.read_text(errors="replace").splitlines():
            if '"SparkListenerEnvironmentUpdate"' in line:
                yield path, json.loads(line)["Spark Properties"]


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise DemoError(otherwise, next_step=_NEXT)
