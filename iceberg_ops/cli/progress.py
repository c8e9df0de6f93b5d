"""Progress of long work on standard error: a line that is redrawn on a terminal, else a new line every ten seconds.

Standard output is only for the report, so that ``--json`` stays one document.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iceberg_ops.actions.workers.runner import Progress, ProgressCallback

LINE_SECONDS = 10.0


@contextmanager
def progress_line(*, terminal: bool) -> Iterator[ProgressCallback]:
    """A callback that shows the finished work, the total, and the time left."""
    if not terminal:
        yield lines()
        return
    from rich.console import Console
    from rich.status import Status

    with Status("", console=Console(stderr=True)) as status:
        yield lambda progress: status.update(str(progress))


def lines(clock: Callable[[], float] = time.monotonic) -> ProgressCallback:
    """Print a line if ten seconds have passed since the last one, or since the start. ``clock`` gives seconds."""
    last = clock()

    def tell(progress: Progress) -> None:
        nonlocal last
        if (now := clock()) - last >= LINE_SECONDS:
            last = now
            with contextlib.suppress(OSError, ValueError):  # a failure to write a line must not fail the job
                print(progress, file=sys.stderr, flush=True)

    return tell
