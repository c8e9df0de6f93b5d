"""Iceberg Java on the same Spark, for benchmarks: one session (``local[2]``) with its runtime jar and SQL extensions, and one SQL
catalog in a sqlite database that both sides work on.

``make jars`` fetches the jars into build/ivy/jars; ``ICEBERG_JARS`` (comma-separated paths) names others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Storage:
    """Where the tables lie, if not in the lake's folder: the properties by which seeds are made, by which we reach them and by
    which Java does, and the jars that Java needs for it."""

    warehouse: str
    direct: Mapping[str, str]
    ours: Mapping[str, str]
    theirs: Mapping[str, str]
    jars: Sequence[Path]


class SharedLake:
    """A warehouse with its catalog, reached by Java (``sql``) and by us (``catalog`` for seeds, ``config`` for work)."""

    def __init__(self, folder: Path, storage: Storage | None = None) -> None:
        self.folder = folder.absolute()
        self.storage = storage or Storage(f"{self.folder}/wh", {}, {}, {}, ())
        self.config = self._config(self.storage.ours)
        self.catalog: Catalog = load_catalog(self._config(self.storage.direct))
        if (NAMESPACE,) not in self.catalog.list_namespaces():
            self.catalog.create_namespace((NAMESPACE,))
        self.session: SparkSession = spark_session("benchmarks", self.spark_configuration())
        self.session.sparkContext.setLogLevel("ERROR")

    def _config(self, storage: Mapping[str, str]) -> CatalogConfig:
        properties = {"uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": self.storage.warehouse, **storage}
        return CatalogConfig(name=CATALOG, type="sql", properties=properties)

    def spark_configuration(self) -> dict[str, str]:
        """The settings with which a Spark session uses the catalog through Iceberg Java."""
        prefix = f"spark.sql.catalog.{CATALOG}"
        return {
            "spark.jars": ",".join(map(str, [*jars(), *self.storage.jars])),
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            prefix: "org.apache.iceberg.spark.SparkCatalog",
            f"{prefix}.type": "jdbc",
            f"{prefix}.uri": f"jdbc:sqlite:file:{self.folder}/catalog.db",
            f"{prefix}.jdbc.schema-version": "V1",
            f"{prefix}.warehouse": self.storage.warehouse if "://" in self.storage.warehouse else f"file:{self.storage.warehouse}",
            **{f"{prefix}.{key}": value for key, value in self.storage.theirs.items()},
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
