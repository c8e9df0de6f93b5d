"""The exception that the failure of a group stands for.

A worker's error crosses processes as its code and message; here it becomes the class of the tree again, with its consequence for
the run.
"""

from __future__ import annotations

from collections.abc import Sequence

from iceberg_ops.actions.report_file import error_report
from iceberg_ops.actions.runner import GroupFailure
from iceberg_ops.errors import IcebergOpsError, error_of_code


def text_of(error: BaseException) -> str:
    """An error in a group's line of the report: its code and its message."""
    met = error_report(error)
    return f"{met.code}: {met.message}"


def ending_of(errors: Sequence[Exception], consequence: str) -> Exception:
    """The error to raise where groups failed and nothing is committed: the first one, with its own code, and how many more there
    are. One that is not of the tree is raised as it is."""
    first = errors[0]
    if not isinstance(first, IcebergOpsError):
        return first
    more = f" and {len(errors) - 1} more failures" if len(errors) > 1 else ""
    return type(first)(f"{consequence}: {first}{more}")


def error_of(failure: GroupFailure, consequence: str) -> IcebergOpsError:
    """The error to raise for a failed group; ``consequence`` says what it means for the run."""
    group = failure.group_id.partition("/")[0]
    return error_of_code(failure.code, f"group {group}: {failure.message} ({consequence})")
