"""Ways in which the system refuses to read an existing file."""

from __future__ import annotations

from pathlib import Path

import pytest


def folder(path: Path) -> None:
    """A folder lies under the file's name."""
    path.unlink()
    path.mkdir()


def loop(path: Path) -> None:
    """A symbolic link to itself lies under the file's name."""
    path.unlink()
    path.symlink_to(path)


HOW = pytest.mark.parametrize("how", [folder, loop])
