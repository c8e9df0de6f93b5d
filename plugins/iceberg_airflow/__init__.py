"""The Airflow host: catalog connections, operators, retry policy, and DAGs built from a policy.

A task writes a job spec, starts an engine on it (``spark-submit`` or ``iceberg-ops``) and reads the action report; nothing else is
passed between host and engine, so the same document can also be run by hand.

DAG files import from here: ``from iceberg_airflow import IcebergAppendOperator``. A name is loaded on first use,
because every Airflow process imports this package for the connection type.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iceberg_airflow.dag_builder import Connections, build_maintenance_dags
    from iceberg_airflow.hook import IcebergCatalogHook
    from iceberg_airflow.operators import (
        IcebergAppendOperator,
        IcebergDeleteOperator,
        IcebergMergeOperator,
        IcebergOpsOperator,
        IcebergPlanOperator,
        IcebergUpdateOperator,
    )
    from iceberg_airflow.policy_operators import CheckTableOperator, DiscoverTablesOperator
    from iceberg_airflow.retry_policy import iceberg_retry_policy, task_defaults

__all__ = [
    "CheckTableOperator",
    "Connections",
    "DiscoverTablesOperator",
    "IcebergAppendOperator",
    "IcebergCatalogHook",
    "IcebergDeleteOperator",
    "IcebergMergeOperator",
    "IcebergOpsOperator",
    "IcebergPlanOperator",
    "IcebergUpdateOperator",
    "build_maintenance_dags",
    "iceberg_retry_policy",
    "task_defaults",
]
_MODULES = {
    "CheckTableOperator": "policy_operators",
    "Connections": "dag_builder",
    "DiscoverTablesOperator": "policy_operators",
    "IcebergCatalogHook": "hook",
    "build_maintenance_dags": "dag_builder",
    "iceberg_retry_policy": "retry_policy",
    "task_defaults": "retry_policy",
}
"""The module of a name; the other names are in ``operators``."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'operators')}"), name)
