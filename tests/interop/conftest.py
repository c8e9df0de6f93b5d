"""Iceberg Java, started once for all interop tests; missing jars skip them, or fail them if oracles are required."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.io.local import LocalFileIO
from tests.interop.lake import Java, Lake

JARS = Path(__file__).parents[2] / "build" / "ivy" / "jars"
PATTERNS = ("org.apache.iceberg_iceberg-spark-runtime-*.jar", "org.xerial_sqlite-jdbc-*.jar", "org.postgresql_postgresql-*.jar")
_NAMES = itertools.count()


def jars() -> list[Path]:
    """Iceberg Java's; absent ones skip the test, or fail it."""
    found = [path for pattern in PATTERNS for path in sorted(JARS.glob(pattern))]
    if len(found) != len(PATTERNS):
        reason = "Iceberg Java's jars are not in build/ivy/jars: `make jars` gets them"
        if os.environ.get("ICEBERG_OPS_REQUIRE_ORACLES") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def aws_jars() -> list[Path]:
    """Iceberg Java's for AWS Glue, where they are there."""
    return sorted((JARS.parents[1] / "jars" / "aws").glob("iceberg-aws-bundle-*.jar"))


@pytest.fixture(scope="session")
def java_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Java, SqlCatalog]]:
    folder = tmp_path_factory.mktemp("lake")
    catalog = SqlCatalog("lake", f"sqlite:///{folder}/catalog.db", LocalFileIO(), warehouse=f"{folder}/warehouse")
    catalog.create_namespace(("ns",))
    java = Java([*jars(), *aws_jars()], folder)
    yield java, catalog
    java.close()


@pytest.fixture
def lake(java_lake: tuple[Java, SqlCatalog]) -> Lake:
    """A name for a table of the test's own, in the catalog both sides share."""
    return Lake(*java_lake, f"t{next(_NAMES)}")
