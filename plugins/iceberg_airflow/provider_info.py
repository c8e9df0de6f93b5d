"""The metadata of the connection type ``iceberg_ops`` for Airflow's connection form: entry point ``apache_airflow_provider``.

Without it the type is missing in the form's list, and its Test button finds no hook. Imports nothing, because every Airflow
process reads it.
"""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata, after Airflow's ``provider_info.schema.json``."""
    example = '{"name": "lake", "type": "sql", "uri": "postgresql+psycopg2://db:5432/iceberg", "warehouse": "/data/warehouse"}'
    return {
        "package-name": "iceberg-ops",
        "name": "Iceberg table maintenance",
        "description": "Row operations and maintenance of Apache Iceberg tables",
        "connection-types": [
            {
                "connection-type": "iceberg_ops",
                "hook-class-name": "iceberg_airflow.hook.IcebergCatalogHook",
                "hook-name": "Iceberg catalog",
                "ui-field-behaviour": {
                    "hidden-fields": ["port", "schema", "host"],
                    "relabeling": {"login": "Catalog user", "password": "Catalog password"},
                    "placeholders": {"extra": example},
                },
            }
        ],
    }
