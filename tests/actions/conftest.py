"""What most tests of actions begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.actions.rows_place import RowsPlace


@pytest.fixture
def place(tmp_path: Path) -> RowsPlace:
    """Without a table; a module whose tests share one makes it in a fixture of this name."""
    return RowsPlace.at(tmp_path)
