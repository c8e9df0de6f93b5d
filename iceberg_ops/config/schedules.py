"""When a policy's steps run: valid schedules of Airflow, checked with the parser that Airflow uses (croniter)."""

from __future__ import annotations

import re

from croniter import croniter

from iceberg_ops.config.near_names import did_you_mean

PRESETS = ("hourly", "daily", "weekly", "monthly", "quarterly", "yearly", "annually", "midnight", "once", "continuous")
_FIELDS = 5
_RANDOM = re.compile(r"(^|[ ,])R", re.IGNORECASE)


def schedule_problem(schedule: str) -> str | None:
    """Why a text is not a schedule; None for a valid one."""
    if schedule.startswith("@"):
        if schedule[1:] in PRESETS:
            return None
        presets = [f"@{name}" for name in PRESETS]
        return f"{schedule!r} must be one of {', '.join(presets)}, or five fields of cron{did_you_mean(schedule, presets)}"
    fields = schedule.split(" ")
    if len(fields) != _FIELDS or fields != schedule.split() or not schedule.isascii():
        return f"{schedule!r} must be a cron expression of five fields with one space between them, or a preset such as @daily"
    if _RANDOM.search(schedule):
        return f"{schedule!r}: R is a random time, which would be another one whenever Airflow reads the policy"
    try:
        croniter(schedule).get_next()
    except ValueError as e:
        return f"{schedule!r} is not a cron expression: {e}"
    return None
