"""The fixture of every catalog, for tests of the behaviour that they have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.catalog.every_catalog import CATALOGS, EVERY, MORE, catalog_of


@pytest.fixture(
    params=[
        *CATALOGS,
        "filesystem on S3",
        "filesystem on HDFS",
        "glue",
        "postgresql",
        "hive with locks",
        "hive without locks",
        *(pytest.param(name, marks=pytest.mark.oracle) for name in MORE if EVERY),
        pytest.param("rest", marks=pytest.mark.oracle),
        pytest.param("nessie", marks=pytest.mark.oracle),
    ]
)
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return catalog_of(request.param, request.getfixturevalue, tmp_path)
