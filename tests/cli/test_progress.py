"""Without a terminal, long work writes a progress line to standard error now and then, and standard output holds only the
report."""

from __future__ import annotations

import pytest

from iceberg_ops.actions.workers.runner import Progress
from iceberg_ops.cli.progress import LINE_SECONDS, lines


def test_lines_come_at_intervals_and_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    tell = lines(lambda: now)
    for now in (1.0, LINE_SECONDS, LINE_SECONDS + 1, 3 * LINE_SECONDS):
        tell(Progress(int(now), 40, int(now) * 2**20, 40 * 2**20, now, "rewriting", "files"))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "rewriting 10 of 40 files, 10.0 of 40.0 MiB, 0:30 left",
        "rewriting 30 of 40 files, 30.0 of 40.0 MiB, 0:10 left",
    ]


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress(3, 0, 0, 0, 5.0, "listing", "folders"), "listing 3 folders"),
        (Progress(0, 8, 0, 0, 5.0, "listing", "folders"), "listing 0 of 8 folders"),
        (Progress(2, 8, 0, 0, 5.0, "deleting", "files"), "deleting 2 of 8 files, 0:15 left"),
        (Progress(1, 8, 512, 2048, 60.0, "moving", "files"), "moving 1 of 8 files, 0.5 of 2.0 KiB, 3:00 left"),
    ],
)
def test_progress_says_what_is_known(progress: Progress, text: str) -> None:
    assert str(progress) == text
