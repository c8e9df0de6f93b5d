"""Runs a stage of a sort so that it always answers, across processes: with its result or its error.

``iceberg_ops.data.rewriting.staged_sort`` is the work; runners ship ``attempt_stage`` to workers and decode the answers here.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from iceberg_ops.data.rewriting.staged_sort import write_range
from iceberg_ops.errors import IcebergOpsError, error_of_code
from iceberg_ops.io.machine_limits import typed_os_errors


def attempt_stage(stage: Callable[[str], str], text: str) -> str:
    """The stage's answer to ``text``, or its typed failure, as one text."""
    try:
        with typed_os_errors():
            return json.dumps({"answer": stage(text)})
    except IcebergOpsError as e:
        return json.dumps({"code": e.code, "message": str(e)})


def answer_of_stage(text: str) -> str:
    """The answer. Raises the error of the stage."""
    document = json.loads(text)
    if "answer" not in document:
        raise error_of_code(document["code"], document["message"])
    return str(document["answer"])


def share_of_sort(stage: Callable[[str], str], done: int, tasks: int) -> float:
    """The finished share of a sort in two stages after ``done`` of a stage's tasks; either stage processes every row once."""
    return (done / tasks + (stage is write_range)) / 2
