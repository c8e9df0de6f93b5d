"""The output of the demo while it works and at the end: a live line on a terminal, plain lines elsewhere (a log, CI)."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.status import Status
from rich.table import Table
from rich.text import Text

from demo.processes import DemoError

_QUIET_SECONDS = 10.0
_LOG_WIDTH = 120


@dataclass(slots=True)
class Step:
    """A running step: ``show`` replaces its live text, ``note`` leaves a line."""

    name: str
    printer: Printer
    detail: str = ""
    _shown: str = ""
    _shown_at: float = 0.0

    def show(self, text: str) -> None:
        """The current activity. If output is not a terminal, a text is not repeated, and printed at most every ten seconds."""
        status = self.printer.status
        if status is not None:
            status.update(f"[bold]{escape(self.name)}[/] [dim]{escape(text)}")
        elif text != self._shown and time.monotonic() - self._shown_at > _QUIET_SECONDS:
            self.printer.console.print(f"    {text}", highlight=False, markup=False)
            self._shown, self._shown_at = text, time.monotonic()

    def note(self, text: str) -> None:
        self.printer.console.print(f"    {text}", highlight=False, markup=False)


@dataclass(slots=True)
class Printer:
    """Steps in order, with the time each took."""

    console: Console = field(default_factory=lambda: Console(width=None if sys.stdout.isatty() else _LOG_WIDTH))
    timings: list[tuple[str, float]] = field(default_factory=list)
    status: Status | None = None

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Run a step; an error gets the step's name, so that the failure message contains it."""
        step = Step(name, self)
        started = time.monotonic()
        if self.console.is_terminal:
            self.status = self.console.status(f"[bold]{escape(name)}")
            self.status.start()
        else:
            self.console.print(f"... {name}", highlight=False, markup=False)
        try:
            yield step
        except DemoError as e:
            e.add_note(name)
            raise
        finally:
            if self.status is not None:
                self.status.stop()
                self.status = None
        seconds = time.monotonic() - started
        self.timings.append((name, seconds))
        self.console.print(f"[green]ok[/]  {escape(name)} [dim]{seconds:.1f} s[/] {escape(step.detail)}", highlight=False)

    def failure(self, error: DemoError) -> None:
        """Which step failed, why, which log to read, and the next thing to try."""
        step = (getattr(error, "__notes__", None) or ["the demo"])[0]
        self.console.print(Panel(Text(str(error)), title=escape(f"failed: {step}"), border_style="red", title_align="left"))
        # Outside the panel and unwrapped, so that paths can be copied.
        if error.log is not None:
            self.console.print(f"log:  {error.log}", soft_wrap=True, highlight=False, markup=False)
        advice = error.next_step or "read the log, then run the demo again (it starts from scratch)"
        self.console.print(f"next: {advice}", soft_wrap=True, highlight=False, markup=False)


def comparison(title: str, columns: list[str], rows: list[list[str]]) -> Table:
    """A table of texts and figures, figures to the right."""
    table = Table(title=title, title_justify="left", header_style="bold")
    texts = {"table", "step", "after"}
    for name in columns:
        table.add_column(name, justify="left" if name in texts else "right", no_wrap=name in texts)
    for row in rows:
        table.add_row(*row)
    return table


def size(count: int) -> str:
    """Bytes in words."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
