"""Every catalog that Iceberg Java can write: Java and three processes of this package commit to one table at the same time, and
pyiceberg where it has such a catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.at_once import Processes, all_at_once, processes
from tests.interop.catalogs import Shared, shared_catalog

pytestmark = [pytest.mark.java, pytest.mark.oracle, pytest.mark.slow]

ASKS_OFTEN = {"lock-check-min-wait-time": "0.05", "lock-check-max-wait-time": "0.2", "lock-check-retries": "500"}
"""pyiceberg waits two seconds before it asks for a lock again, then four, and no other writer gets the lock in the meantime."""


def _sql_of_pyiceberg(shared: Shared) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog(shared.config.name, **shared.config.properties)


def _hive_of_pyiceberg(shared: Shared) -> Any:
    from pyiceberg.catalog.hive import HiveCatalog

    return HiveCatalog("hms", uri=shared.config.properties["uri"], **ASKS_OFTEN)


CASES: dict[str, tuple[str, Callable[[Shared], Any] | None, str]] = {
    "sqlite": ("sqlite", None, ""),
    "postgresql": ("postgresql", _sql_of_pyiceberg, ""),
    "hive with locks": ("hive", _hive_of_pyiceberg, ", 'engine.hive.lock-enabled'='true'"),
    "hive without locks": ("hive", None, ", 'engine.hive.lock-enabled'='false'"),
    "nessie": ("nessie", None, ""),
    "glue": ("glue", None, ""),
    "rest": ("rest", None, ""),
    "hadoop on HDFS": ("hadoop", None, ""),
}
"""Each with pyiceberg's catalog of the kind (None: it writes none, or, without locks, takes locks all the same), and properties of
the table."""


@pytest.fixture(scope="module")
def ours() -> Iterator[Processes]:
    with processes() as started:
        yield started


@pytest.mark.parametrize("case", CASES)
def test_java_and_three_processes_lose_no_commit(
    case: str, ours: Processes, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    kind, pyiceberg, more = CASES[case]
    shared = shared_catalog(kind, request.getfixturevalue, tmp_path)
    all_at_once(shared, ours, None if pyiceberg is None else lambda: pyiceberg(shared), more)
