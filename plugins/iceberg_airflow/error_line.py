"""The last thing that a failed task's log says is its error, one line: no stack of frames around it.

Airflow logs what a task raises with the frames between its runner and the operator. For an error of ``iceberg_ops.errors`` they
tell nothing: it was met by another process, and its message names thing, value and rule. Other exceptions keep theirs.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from iceberg_ops.errors import IcebergOpsError


def leave_frames_out() -> None:
    """From now on, in this process, an IcebergOpsError is logged without frames. Airflow gives every try a process."""
    processors = structlog.get_config()["processors"]
    if isinstance(processors, list) and without_frames not in processors:
        processors.insert(0, without_frames)


def without_frames(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor of structlog."""
    given = event.get("exc_info")
    found = given if isinstance(given, BaseException) else given[1] if isinstance(given, tuple) else given and sys.exc_info()[1]
    if isinstance(found, IcebergOpsError):
        event["exc_info"] = (type(found), found, None)
    return event
