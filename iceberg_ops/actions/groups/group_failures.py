"""How a group's failure is reported, and the exception for it, with its consequence for the run."""

from __future__ import annotations

from collections.abc import Sequence

from iceberg_ops.actions.groups.group_plans import FailedGroup
from iceberg_ops.actions.run.report_file import error_report
from iceberg_ops.errors import IcebergOpsError


def error_text(error: BaseException) -> str:
    """An error in a group's line of the report: its code and its message."""
    met = error_report(error)
    return f"{met.code}: {met.message}"


def combined_error(errors: Sequence[Exception], consequence: str) -> Exception:
    """The error to raise if groups failed and nothing is committed: the first one, with its own code, and the number of others. An
    exception outside the tree is raised unchanged."""
    first = errors[0]
    if not isinstance(first, IcebergOpsError):
        return first
    more = f" and {len(errors) - 1} more failures" if len(errors) > 1 else ""
    return type(first)(f"{consequence}: {first}{more}")


def group_error(failed: FailedGroup, consequence: str) -> Exception:
    """The error to raise for a failed group; ``consequence`` says what it means for the run. An exception outside the tree is
    raised unchanged."""
    if not isinstance(failed.error, IcebergOpsError):
        return failed.error
    error = type(failed.error)(f"group {failed.group_id}: {failed.error} ({consequence})")
    error.__cause__ = failed.error
    return error
