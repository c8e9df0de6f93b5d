"""Which errors a task retries, how soon, and why: the exception tree of ``iceberg_ops.errors`` as an Airflow retry policy.

A conflict is retried because the next try makes a new plan on the new snapshot. An unknown outcome is retried because every
job carries a run key: the next try first checks whether the commit exists already. Bad input, a corrupt table, or
a failed certificate does not change by itself. ``retries`` of the task stays the upper bound; the reason is stored on the task
instance.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

from iceberg_ops.errors import ERROR_KINDS, IcebergOpsError, Retry, kind_of_code


def task_defaults(*, timeout: timedelta, owner: str = "data-platform", retries: int = 2) -> dict[str, Any]:
    """``default_args`` of a DAG with tasks of this package: the retry policy decides by the error, ``retries`` is its bound."""
    return {
        "owner": owner,
        "retries": retries,
        "retry_delay": timedelta(seconds=30),
        "retry_policy": iceberg_retry_policy(),
        "execution_timeout": timeout,
    }


def iceberg_retry_policy() -> ExceptionRetryPolicy:
    """The policy of every task of this package. The first matching rule decides, so narrow classes come first; a class has no
    separate rule if it is the same as its base's."""
    return ExceptionRetryPolicy(
        rules=[_rule(k.error, k.retry) for k in ERROR_KINDS if k.error and k.retry and _differs(k.error, k.retry)]
    )


def _differs(error: type[IcebergOpsError], retry: Retry) -> bool:
    bases = (kind_of_code(base.code) for base in error.__bases__ if issubclass(base, IcebergOpsError))
    return not any(base is not None and base.retry == retry for base in bases)


def _rule(error: type[IcebergOpsError], retry: Retry) -> RetryRule:
    name = f"{error.__module__}.{error.__qualname__}"
    if retry.after_s is None:
        return RetryRule(exception=name, action=RetryAction.FAIL, reason=retry.reason)
    return RetryRule(exception=name, action=RetryAction.RETRY, retry_delay=timedelta(seconds=retry.after_s), reason=retry.reason)
