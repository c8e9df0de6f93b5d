"""Which failures are retried, and which are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import DAG, ExceptionRetryPolicy, RetryAction

from iceberg_airflow.operators import IcebergOpsOperator
from iceberg_airflow.policy_operators import CheckTableOperator
from iceberg_airflow.retry_policy import iceberg_retry_policy
from iceberg_ops import errors
from iceberg_ops.errors import JobDiedError

pytestmark = pytest.mark.airflow

AGAIN = [
    errors.CommitFailedError,
    errors.CatalogUnavailableError,
    errors.CommitStateUnknownError,
    errors.ValidationError,
    JobDiedError,
]
NEVER = [
    errors.OptionError,
    errors.WhereError,
    errors.NoSuchTableError,
    errors.DataError,
    errors.CorruptTableError,
    errors.VerificationError,
    errors.UnsupportedError,
    errors.RuntimeMissingError,
]


@pytest.mark.parametrize("kind", AGAIN, ids=lambda k: k.__name__)
def test_what_may_succeed_later_is_tried_again(kind: type[errors.IcebergOpsError]) -> None:
    decision = iceberg_retry_policy().evaluate(kind("x"), 1, 3)
    assert decision.action is RetryAction.RETRY
    assert decision.retry_delay
    assert decision.reason


@pytest.mark.parametrize("kind", NEVER, ids=lambda k: k.__name__)
def test_what_will_not_get_better_fails_at_once(kind: type[errors.IcebergOpsError]) -> None:
    assert iceberg_retry_policy().evaluate(kind("x"), 1, 3).action is RetryAction.FAIL


def test_every_error_of_the_tree_has_a_rule() -> None:
    def leaves(kind: type[errors.IcebergOpsError]) -> list[type[errors.IcebergOpsError]]:
        return [kind, *(leaf for child in kind.__subclasses__() for leaf in leaves(child))]

    in_tree = [k for k in leaves(errors.IcebergOpsError) if k.__module__ == errors.__name__ and k is not errors.IcebergOpsError]
    undecided = [k.__name__ for k in in_tree if iceberg_retry_policy().evaluate(k("x"), 1, 3).action is RetryAction.DEFAULT]
    assert undecided == []


def test_other_errors_are_left_to_the_task() -> None:
    assert iceberg_retry_policy().evaluate(ValueError("x"), 1, 3).action is RetryAction.DEFAULT


def test_the_policy_survives_serialization() -> None:
    policy = iceberg_retry_policy()
    assert ExceptionRetryPolicy.deserialize(policy.serialize()).serialize() == policy.serialize()


@pytest.mark.parametrize(
    "make", [lambda: IcebergOpsOperator(task_id="t", job="append", table="a.b"), lambda: CheckTableOperator(task_id="t")]
)
def test_an_operator_has_the_policy_unless_the_author_or_the_dag_chose_one(make: Callable[[], Any]) -> None:
    theirs = ExceptionRetryPolicy(rules=[])
    assert make().retry_policy.serialize() == iceberg_retry_policy().serialize()
    with DAG("d", schedule=None, default_args={"retry_policy": theirs}):
        assert make().retry_policy is theirs
