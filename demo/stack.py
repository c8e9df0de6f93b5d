"""Where the demo's work happens: the servers beside Airflow, the databases, the Spark master, and the place of the tables.

The story, its proof and its report are the same on every stack. ``LocalStack`` is this machine alone: sqlite, ``local[2]`` and a
folder. ``cluster_stack`` has what a deployment has, natively on loopback: PostgreSQL for Airflow and for the catalog, a standalone
Spark cluster, and tables in an S3 store. docker-compose.yml describes the same.

Secrets reach jobs by Airflow's connection alone: no command line, no setting of Spark and no file but ``Places.secret_files``
has one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from demo.places import Places
from demo.processes import Program

CATALOG = "demo"


@dataclass(frozen=True, slots=True)
class Server:
    """A server beside Airflow. ``prepare`` is called before each start, then ``program``, and ``fill`` when it is ready; the first
    and the last do what is not done yet."""

    name: str
    program: Callable[[], Program]
    is_ready: Callable[[], bool]
    prepare: Callable[[], None] = lambda: None
    fill: Callable[[], None] = lambda: None


class Stack(Protocol):
    """One of the surroundings of the demo."""

    @property
    def places(self) -> Places: ...

    @property
    def database(self) -> str:
        """The kind of Airflow's database, for people."""
        ...

    @property
    def tables(self) -> str:
        """Where tables lie, for people."""
        ...

    @property
    def up(self) -> str:
        """The command that starts what the demo left on it."""
        ...

    @property
    def events(self) -> Path | None:
        """The folder of Spark's event logs, if there are any."""
        ...

    @property
    def storage(self) -> tuple[str, ...]:
        """The names of the servers without which nobody reads the tables."""
        ...

    def servers(self) -> Sequence[Server]:
        """In the order in which they start. Raises DemoError if a program is missing."""
        ...

    def environment(self) -> dict[str, str]:
        """Airflow's variables that differ between stacks."""
        ...

    def catalog_properties(self) -> dict[str, str]:
        """Of the catalog ``demo``, secrets included."""
        ...

    def file_of(self, location: str) -> Path:
        """The file of a location of a table."""
        ...

    def remove(self) -> None:
        """Remove what lies outside ``places.root``. Nothing of it may run."""
        ...


@dataclass(frozen=True, slots=True)
class LocalStack:
    """This machine without servers: sqlite databases, Spark in the driver's process, tables in a folder."""

    places: Places
    database = "sqlite"
    up = "make up"
    events = None
    storage = ()

    @property
    def tables(self) -> str:
        return str(self.places.warehouse)

    def servers(self) -> Sequence[Server]:
        return ()

    def environment(self) -> dict[str, str]:
        connection = {"conn_type": "iceberg_ops", "extra": {"name": CATALOG, "type": "sql", **self.catalog_properties()}}
        return {
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.places.airflow_home / 'airflow.db'}",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "AIRFLOW_CONN_ICEBERG_DEFAULT": json.dumps(connection),
        }

    def catalog_properties(self) -> dict[str, str]:
        return {"uri": f"sqlite:///{self.places.catalog_database}", "warehouse": str(self.places.warehouse)}

    def file_of(self, location: str) -> Path:
        return Path(location.removeprefix("file://"))

    def remove(self) -> None:
        """Everything is below ``places.root``."""
