"""The location of the recorded tables of other engines and of the golden vectors.

``ICEBERG_OPS_FIXTURES`` names the folder; the default is ``../shared/fixtures`` beside the checkout. Tests over them run if the
folder exists; in CI (``CI`` set) a missing folder is a failure, not a skip.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_named = os.environ.get("ICEBERG_OPS_FIXTURES")
_candidate = Path(_named) if _named else Path(__file__).resolve().parents[2] / "shared" / "fixtures"
FIXTURES: Path | None = _candidate if _candidate.is_dir() else None
GOLDEN: Path | None = FIXTURES / "golden" if FIXTURES else None

requires_fixtures = pytest.mark.skipif(
    FIXTURES is None and not os.environ.get("CI"),
    reason="no folder of recorded tables (set ICEBERG_OPS_FIXTURES)",
)


def cases() -> list[Path]:
    """The folders that hold a recorded table and its expected.json."""
    return sorted(p.parent for p in FIXTURES.glob("*/expected.json")) if FIXTURES else []
