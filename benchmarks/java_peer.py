"""Iceberg Java on the same Spark, for benchmarks: one session (``local[2]``) with its runtime jar and SQL extensions, and one SQL
catalog in a sqlite database that both sides work on.

``make jars`` fetches the jars into build/ivy/jars; ``ICEBERG_JARS`` (comma-separated paths) names others.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.job_spec import CatalogConfig
from spark_jobs.session import spark_session

PEER = "Iceberg Java 1.11"
CATALOG = "bench"
NAMESPACE = "db"
_JARS = Path(__file__).parent.parent / "build" / "ivy" / "jars"


class SharedLake:
    """A warehouse folder with its catalog, reached by Java (``sql``) and by us (``catalog``, ``config``)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.config = CatalogConfig(
            name=CATALOG, type="sql", properties={"uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": f"{self.folder}/wh"}
        )
        self.catalog: Catalog = load_catalog(self.config)
        if (NAMESPACE,) not in self.catalog.list_namespaces():
            self.catalog.create_namespace((NAMESPACE,))
        self.session: SparkSession = spark_session("benchmarks", self.spark_configuration())
        self.session.sparkContext.setLogLevel("ERROR")

    def spark_configuration(self) -> dict[str, str]:
        """The settings with which a Spark session uses the catalog through Iceberg Java."""
        prefix = f"spark.sql.catalog.{CATALOG}"
        return {
            "spark.jars": ",".join(map(str, jars())),
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            prefix: "org.apache.iceberg.spark.SparkCatalog",
            f"{prefix}.type": "jdbc",
            f"{prefix}.uri": f"jdbc:sqlite:file:{self.folder}/catalog.db",
            f"{prefix}.jdbc.schema-version": "V1",
            f"{prefix}.warehouse": f"file:{self.folder}/wh",
            f"{prefix}.cache-enabled": "false",
            "spark.sql.warehouse.dir": f"{self.folder}/spark-warehouse",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "2g",
        }

    def sql(self, statement: str) -> Any:
        """Run a statement with Java; returns the rows."""
        return self.session.sql(statement).collect()

    def register(self, seed: str, name: str) -> str:
        """Another table of the same files and metadata, under a new name; its name in SQL."""
        # Like other engines: register_table refuses a second name, because jobs on one would delete files of the other.
        cast(Any, self.catalog)._insert_pointer((NAMESPACE, name), self.catalog.load_table((NAMESPACE, seed)).metadata_location)
        return f"{CATALOG}.{NAMESPACE}.{name}"

    def exists(self, name: str) -> bool:
        return self.catalog.table_exists((NAMESPACE, name))

    def close(self) -> None:
        self.session.stop()


def jars() -> list[Path]:
    """Iceberg's runtime and the sqlite driver. Ends the program if they are missing."""
    if named := os.environ.get("ICEBERG_JARS"):
        return [Path(path) for path in named.split(",")]
    found = [*_JARS.glob("org.apache.iceberg_iceberg-spark-runtime-*.jar"), *_JARS.glob("org.xerial_sqlite-jdbc-*.jar")]
    if len(found) < 2:
        raise SystemExit("Iceberg Java's jars are not in build/ivy/jars: `make jars` gets them")
    return found
