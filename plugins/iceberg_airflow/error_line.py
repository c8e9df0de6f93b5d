"""Makes the last entry of a failed task's log its error, on one line, without stack frames.

Airflow logs a task's exception with the frames between its runner and the operator. For an error of ``iceberg_ops.errors`` they
are useless: another process raised it, and its message names thing, value and rule. Other exceptions keep their frames.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from iceberg_ops.errors import IcebergOpsError


def leave_frames_out() -> None:
    """After this, an IcebergOpsError is logged without frames in this process. Airflow uses a separate process for every try."""
    processors = structlog.get_config()["processors"]
    if isinstance(processors, list) and without_frames not in processors:
        processors.insert(0, without_frames)


def without_frames(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor of structlog."""
    given = event.get("exc_info")
    error = given if isinstance(given, BaseException) else given[1] if isinstance(given, tuple) else given and sys.exc_info()[1]
    if isinstance(error, IcebergOpsError):
        event["exc_info"] = (type(error), error, None)
    return event
