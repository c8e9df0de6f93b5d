"""The plugin in the list of `airflow plugins`, to which views and links are added: entry point ``airflow.plugins``.

Operators, hook and DAG builder need no registration: DAG files import ``iceberg_airflow``.
"""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin


class IcebergPlugin(AirflowPlugin):
    """iceberg-ops."""

    name = "iceberg_ops"
