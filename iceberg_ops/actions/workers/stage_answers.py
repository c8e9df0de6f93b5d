"""A stage of a sort as something that always answers, across processes: what it made, or which error it met.

``iceberg_ops.data.rewriting.staged_sort`` is the work; runners ship ``attempt_stage`` to workers and read what comes back here.
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
    """The answer. Raises the error the stage met."""
    found = json.loads(text)
    if "answer" not in found:
        raise error_of_code(found["code"], found["message"])
    return str(found["answer"])


def share_of_sort(stage: Callable[[str], str], done: int, tasks: int) -> float:
    """The share of a sort in two stages that is done with ``done`` of a stage's tasks; either stage handles every row once."""
    return (done / tasks + (stage is write_range)) / 2
