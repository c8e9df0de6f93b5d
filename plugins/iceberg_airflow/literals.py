"""Checks literal arguments in a DAG file when it is parsed: a misspelt job, lane or option becomes its import error.

Templates, and results of other tasks, are known only when the task runs; the operator checks them then. A mapped operator's fixed
arguments are checked when it is created, its mapped ones in each task.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iceberg_ops.config.actions import ACTIONS, Action, check_options
from iceberg_ops.config.near_names import did_you_mean
from iceberg_ops.errors import IcebergOpsError, OptionError

LANES = ("auto", "local", "spark")
_NOW_MS = 2**41
"""A time in 2039, for checking ages."""


def check_literals(task_id: Any, *, job: Any, lane: Any, options: Any) -> None:
    """Raises OptionError that names the DAG file, the task, the argument, and similar valid values."""
    action = ACTIONS.get(job) if isinstance(job, str) else None
    try:
        if _is_literal(job) and action is None:
            raise OptionError(f"there is no job {job!r}{did_you_mean(job, ACTIONS)}: the jobs are {', '.join(ACTIONS)}")
        if _is_literal(lane) and lane not in LANES:
            raise OptionError(f"lane {lane!r} must be auto, local or spark{did_you_mean(lane, LANES)}")
        if action is not None and isinstance(options, Mapping):
            _check_options(action, options)
    except IcebergOpsError as e:
        raise type(e)(f"{_place_of_author()}task {task_id!r}: {e}") from None


def _check_options(action: Action, options: Mapping[Any, Any]) -> None:
    """Always checks names; checks values if all of them are literal, because some rules are about two."""
    action.check_option_names(str(name) for name in options if _is_literal(name) or not isinstance(name, str))
    literal = (*map(_is_literal, options), *(_is_literal(v) or isinstance(v, bool | int | float) for v in options.values()))
    if all(literal):
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
        check_options(action.name, texts, now_ms=_NOW_MS)


def _is_literal(value: Any) -> bool:
    return isinstance(value, str) and not any(mark in value for mark in ("{{", "{%", "{#"))


def _place_of_author() -> str:
    """``file.py:12: `` of the line that created the operator: the first one outside this package and Airflow."""
    frame = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if module not in ("iceberg_airflow", "airflow"):
            return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}: "
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""
