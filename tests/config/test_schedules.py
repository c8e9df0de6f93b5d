"""Valid schedules of a policy: those that Airflow accepts (tests/airflow/test_dag_builder.py asks Airflow itself)."""

from __future__ import annotations

import pytest

from iceberg_ops.config.schedules import PRESETS, schedule_problem

RIGHT = [
    *(f"@{name}" for name in PRESETS),
    *("*/5 * * * *", "5 * * * *", "0 0 L * *", "0 0 * * MON-FRI", "0,30 9-17 * * 1#2", "15 3 1 */3 *", "0 0 ? * *", "0 0 29 2 *"),
]
WRONG = {
    "daily": "must be a cron expression of five fields",
    "": "must be a cron expression of five fields",
    "* * * *": "must be a cron expression of five fields",
    "* * * * * *": "must be a cron expression of five fields",
    "0  0 * * *": "with one space between them",
    " 0 0 * * *": "with one space between them",
    "0 0 * * *\n": "with one space between them",
    "\n0 0 * * *": "with one space between them",
    "0 0 * * *\t": "with one space between them",
    "0\t0 * * * *": "with one space between them",
    "0 \u0660 * * *": "with one space between them",
    "@daily\n": "must be one of @hourly",
    "@Daily": "must be one of @hourly",
    "@every 5m": "must be one of @hourly",
    "61 * * * *": "is not a cron expression",
    "0 0 * * 8": "is not a cron expression",
    "a b c d e": "is not a cron expression",
    "H * * * *": "is not a cron expression",
    "0 0 30 2 *": "is not a cron expression",
    "0 0 31 4,6 *": "is not a cron expression",
    "R * * * *": "R is a random time",
    "0 r(1-5) * * *": "R is a random time",
}


@pytest.mark.parametrize("schedule", RIGHT)
def test_a_schedule_is_taken(schedule: str) -> None:
    assert schedule_problem(schedule) is None


@pytest.mark.parametrize(("schedule", "said"), WRONG.items(), ids=WRONG)
def test_what_is_no_schedule_is_refused_with_the_reason(schedule: str, said: str) -> None:
    assert said in (schedule_problem(schedule) or "")
