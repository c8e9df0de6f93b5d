"""The metadata of the connection types for Airflow's connection form: entry point ``apache_airflow_provider``.

Without it the types are missing in the form's list, and their Test buttons find no hook. Imports nothing of Airflow, because every
Airflow process reads it.
"""

from __future__ import annotations

from typing import Any

from iceberg_airflow.connection_types import ANY_CATALOG, TYPES


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata, after Airflow's ``provider_info.schema.json``."""
    example = '{"name": "lake", "type": "sql", "uri": "postgresql+psycopg2://db:5432/iceberg", "warehouse": "/data/warehouse"}'
    return {
        "package-name": "iceberg-ops",
        "name": "Iceberg table maintenance",
        "description": "Row operations and maintenance of Apache Iceberg tables",
        "connection-types": [
            {
                "connection-type": ANY_CATALOG,
                "hook-class-name": "iceberg_airflow.hook.IcebergCatalogHook",
                "hook-name": "Iceberg catalog",
                "ui-field-behaviour": {
                    "hidden-fields": ["port", "schema", "host"],
                    "relabeling": {"login": "Catalog user", "password": "Catalog password"},
                    "placeholders": {"extra": example},
                },
            },
            *(kind.form() for kind in TYPES.values()),
        ],
    }
