"""The functions that the demo's DAGs call in a task: landing in the folder that ``ICEBERG_OPS_LANDING`` names."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

from demo.landing import land_corrections, land_day, land_reference
from iceberg_ops.errors import OptionError


def land_flights(day: str | None) -> dict[str, Any]:
    """Land one day: its files, and the run key with which they are appended only once. Raises OptionError, DataError."""
    if not day:
        raise OptionError("no day given: a manual run of flights_ingest needs one, as YYYY-MM-DD")
    try:
        chosen = date.fromisoformat(day)
    except ValueError:
        raise OptionError(f"day {day!r} must be YYYY-MM-DD") from None
    return {"source": land_day(landing_folder(), chosen), "run_key": f"flights_ingest/{chosen}"}


def land_table(name: str) -> dict[str, Any]:
    """Land a reference table; its rows are appended once, whatever run asks for it. Raises DataError."""
    return {"table": f"nyc.{name}", "source": land_reference(landing_folder(), name), "run_key": f"reference_tables/{name}"}


def land_late_corrections(run_id: str) -> dict[str, Any]:
    """Land the corrections of every landed day as one batch. Raises DataError."""
    batch = "".join(c if c.isalnum() or c in "-_" else "_" for c in run_id)
    return land_corrections(landing_folder(), batch)


def landing_folder() -> Path:
    """Raises OptionError if the environment does not name it."""
    named = os.environ.get("ICEBERG_OPS_LANDING")
    if not named:
        raise OptionError("ICEBERG_OPS_LANDING is not set: it names the folder where source rows are laid")
    return Path(named)
