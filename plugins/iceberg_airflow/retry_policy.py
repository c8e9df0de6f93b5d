"""Which errors a task tries again, how soon, and why: the exception tree of ``iceberg_ops.errors`` as an Airflow retry policy.

A conflict is tried again because the next try plans anew on the new snapshot. An unknown outcome is tried again because every job
carries a run key: the next try first looks whether the commit is there already. What a person wrote wrong, a corrupt table, or a
failed certificate will not get better by itself. ``retries`` of the task stays the upper bound; the reason is stored on the task
instance.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

_TREE = "iceberg_ops.errors."


def _again(error: str, after: timedelta, reason: str) -> RetryRule:
    return RetryRule(exception=_TREE + error, action=RetryAction.RETRY, retry_delay=after, reason=reason)


def _never(error: str, reason: str) -> RetryRule:
    return RetryRule(exception=_TREE + error, action=RetryAction.FAIL, reason=reason)


def task_defaults(*, timeout: timedelta, owner: str = "data-platform", retries: int = 2) -> dict[str, Any]:
    """``default_args`` of a DAG whose tasks are this package's: the retry policy decides by the error, ``retries`` is its bound."""
    return {
        "owner": owner,
        "retries": retries,
        "retry_delay": timedelta(seconds=30),
        "retry_policy": iceberg_retry_policy(),
        "execution_timeout": timeout,
    }


def iceberg_retry_policy() -> ExceptionRetryPolicy:
    """The policy of every task of this package. The first rule that matches decides, so narrow classes come first."""
    return ExceptionRetryPolicy(
        rules=[
            _again("CommitFailedError", timedelta(seconds=10), "the table moved on: plan and commit again"),
            _again("CatalogUnavailableError", timedelta(minutes=1), "catalog or store did not answer: nothing was changed"),
            _again("RetryableError", timedelta(seconds=30), "nothing was changed: the same job may succeed later"),
            _again("CommitStateUnknownError", timedelta(minutes=1), "outcome unknown: the next try looks for the run key first"),
            _again("IncompleteError", timedelta(minutes=1), "a part is done: the next try does the rest"),
            _again("ValidationError", timedelta(seconds=30), "a concurrent change conflicts: plan again on the new snapshot"),
            _never("BadInputError", "what was asked for is wrong: correct the policy, option or statement"),
            _never("CorruptTableError", "the table is damaged: see iceberg-ops check"),
            _never("VerificationError", "a rewrite did not keep its rows: nothing was committed; report it"),
            _never("RuntimeMissingError", "this worker lacks what the job needs"),
            _never("TerminalError", "the job can not succeed as it is"),
        ]
    )
