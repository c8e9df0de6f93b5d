"""The demo on servers of the kinds that a deployment has, natively on loopback: PostgreSQL for Airflow and for the catalog, a
standalone Spark cluster of two workers, and tables in an S3 store (versitygw, which ``make servers`` gets).

Executors get the keys of the store from the driver, as values in the tasks, and the driver from Airflow's connection: neither
Spark's settings nor the environment of the workers has them.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from demo import postgresql
from demo.credentials import POSTGRESQL_PASSWORD, S3_ACCESS_KEY, S3_SECRET_KEY, credentials
from demo.places import PROJECT, Places
from demo.postgresql import OWNER, PostgreSQL
from demo.processes import DemoError, Program
from demo.spark_cluster import WORKERS, SparkCluster
from demo.stack import CATALOG, Server

BUCKET = "lake"
REGION = "us-east-1"
DRIVER = "postgresql+psycopg2"
VERSITYGW = PROJECT / "build" / "servers" / "versitygw"
HEALTH = "/health"
"""The path at which the store says that it works."""
_ANSWER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ClusterStack:
    """PostgreSQL, Spark and S3 under ``places``."""

    places: Places
    database = "PostgreSQL"
    up = "make up STACK=cluster"
    storage = ("postgresql", "s3")

    @property
    def tables(self) -> str:
        return f"{self._warehouse} ({self._objects})"

    @property
    def events(self) -> Path | None:
        return self._spark.events

    def servers(self) -> Sequence[Server]:
        if not VERSITYGW.is_file():
            raise DemoError(f"the S3 store is not installed: there is no {VERSITYGW}", next_step="run make servers (it needs Go)")
        database, spark = self._postgresql, self._spark
        return [
            Server("postgresql", database.program, database.is_ready, database.prepare, database.fill),
            Server("s3", self._store, self._store_works, self._make_bucket),
            Server("spark-master", spark.master, partial(spark.has_workers, 0), spark.prepare),
            *(
                Server(name, partial(spark.worker, name), partial(spark.has_workers, count))
                for count, name in enumerate(WORKERS, start=1)
            ),
        ]

    def environment(self) -> dict[str, str]:
        uri = f"{DRIVER}://{self._postgresql.address}/iceberg"
        login = {"login": OWNER, "password": credentials(self.places)[POSTGRESQL_PASSWORD]}
        extra = {"name": CATALOG, "type": "sql", "uri": uri, **self._lake()}
        connection = {"conn_type": "iceberg_ops", **login, "extra": extra}
        spark = {"conn_type": "spark", "host": "spark://127.0.0.1", "port": self._spark.port}
        return {
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self._uri("airflow"),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark),
            "AIRFLOW_CONN_ICEBERG_DEFAULT": json.dumps(connection),
            "SPARK_CONF_DIR": str(self._spark.configuration),
        }

    def catalog_properties(self) -> dict[str, str]:
        return {"uri": self._uri("iceberg"), **self._lake()}

    def file_of(self, location: str) -> Path:
        """The store keeps objects as files."""
        return self._objects.parent / location.removeprefix("s3://")

    def remove(self) -> None:
        """The data of a PostgreSQL that does not run as this user."""
        postgresql.remove(self.places)

    @property
    def _warehouse(self) -> str:
        return f"s3://{BUCKET}/warehouse"

    @property
    def _endpoint(self) -> str:
        return f"http://127.0.0.1:{self.places.port('s3')}"

    @property
    def _objects(self) -> Path:
        """The folder of the bucket."""
        return self.places.root / "s3" / "data" / BUCKET

    @property
    def _postgresql(self) -> PostgreSQL:
        return PostgreSQL(self.places, credentials(self.places)[POSTGRESQL_PASSWORD])

    @property
    def _spark(self) -> SparkCluster:
        return SparkCluster(self.places)

    def _lake(self) -> dict[str, str]:
        """Properties of the catalog's store."""
        secret = credentials(self.places)
        return {
            "warehouse": self._warehouse,
            "s3.endpoint": self._endpoint,
            "s3.access-key-id": secret[S3_ACCESS_KEY],
            "s3.secret-access-key": secret[S3_SECRET_KEY],
            "client.region": REGION,
        }

    def _uri(self, database: str) -> str:
        password = credentials(self.places)[POSTGRESQL_PASSWORD]
        return f"{DRIVER}://{OWNER}:{password}@{self._postgresql.address}/{database}"

    def _store(self) -> Program:
        secret = credentials(self.places)
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "ROOT_ACCESS_KEY": secret[S3_ACCESS_KEY],
            "ROOT_SECRET_KEY": secret[S3_SECRET_KEY],
        }
        listening = ["--port", self._endpoint.removeprefix("http://"), "--region", REGION, "--health", HEALTH, "--quiet"]
        home = self.places.root / "s3"
        command = [str(VERSITYGW), *listening, "posix", "--sidecar", str(home / "meta"), str(home / "data")]
        return Program("s3", command, environment, self.places.root)

    def _make_bucket(self) -> None:
        """A folder is a bucket."""
        self._objects.mkdir(parents=True, exist_ok=True)
        (self.places.root / "s3" / "meta").mkdir(exist_ok=True)

    def _store_works(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._endpoint}{HEALTH}", timeout=_ANSWER_SECONDS) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
