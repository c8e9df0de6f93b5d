"""What most tests of actions begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_ops.commit.loop import committer
from tests.actions.rows_place import RowsPlace


@pytest.fixture
def place(tmp_path: Path) -> RowsPlace:
    """Without a table; a module whose tests share one makes it in a fixture of this name."""
    return RowsPlace.at(tmp_path)


@pytest.fixture
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The committer does not wait, by default seven seconds, before it gives up looking for the outcome of a swap."""
    monkeypatch.setitem(committer.commit.__kwdefaults__, "sleep", lambda _: None)
