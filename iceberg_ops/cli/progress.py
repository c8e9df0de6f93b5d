"""A line of progress on standard error while groups are rewritten."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iceberg_ops.actions.runner import Progress, ProgressCallback


@contextmanager
def progress_line(*, enabled: bool) -> Iterator[ProgressCallback | None]:
    """A callback that draws works and bytes done and the time left; None where there is no terminal."""
    if not enabled:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("rewriting"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("rewriting")

        def update(progress: Progress) -> None:
            bar.update(task, total=progress.bytes, completed=progress.bytes_done)

        yield update
