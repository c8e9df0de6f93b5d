"""Iceberg Java's HiveCatalog, with Hive's own client, and three processes of this package on one metastore of Hive 3 or 4."""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import pytest

from iceberg_ops.catalog.hive.hive_catalog import HiveCatalog
from iceberg_ops.catalog.hive.metastore import Metastore
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.io.local import LocalFileIO
from tests.builders import IDENTIFIER, data_file, live_paths, make_table
from tests.catalog.test_conformance import LATER_HIVE, hive
from tests.servers.hive_metastore import LaterHiveMetastore

pytestmark = [pytest.mark.java, pytest.mark.oracle]

EVERY = "ICEBERG_OPS_TORTURE" in os.environ
COMMITS = 25 if EVERY else 4
"""Of each writer."""
TRIED = LATER_HIVE if EVERY else {name: LATER_HIVE[name] for name in ("hive 4.0.1 without locks",)}
PATIENT = {"commit.retry.num-retries": "100", "commit.retry.min-wait-ms": "5", "commit.retry.max-wait-ms": "500"}


def _appends(uri: str, worker: int) -> None:
    catalog = HiveCatalog("hms", Metastore("hms", uri), LocalFileIO())
    for n in range(COMMITS):
        commit(catalog, catalog.load_table(IDENTIFIER), AppendFiles(added=(data_file(f"file:/{worker}/{n}"),)))


@pytest.mark.parametrize(("version", "locks"), TRIED.values(), ids=TRIED)
def test_java_and_three_processes_lose_no_commit(
    later_hive: Callable[[str], LaterHiveMetastore], tmp_path: Path, version: str, locks: bool
) -> None:
    server = later_hive(version)
    catalog = hive(server, tmp_path, locks=locks)
    make_table(catalog, properties={**PATIENT, "engine.hive.lock-enabled": str(locks).lower()})
    context = get_context("spawn")
    workers = [context.Process(target=_appends, args=(server.uri, worker)) for worker in range(3)]
    java = server.java_appends(COMMITS)
    for worker in workers:
        worker.start()
    printed, _ = java.communicate()
    for worker in workers:
        worker.join()
    assert (java.returncode, [worker.exitcode for worker in workers]) == (0, [0, 0, 0]), printed[-3000:]
    table = catalog.load_table(IDENTIFIER)
    assert live_paths(table) == {f"file:/{writer}/{n}" for writer in ("java", 0, 1, 2) for n in range(COMMITS)}
    assert len(table.metadata.snapshots) == 4 * COMMITS
