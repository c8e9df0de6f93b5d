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
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.io.local import LocalFileIO
from tests.builders import IDENTIFIER, data_file, live_paths, make_table
from tests.catalog.every_catalog import LATER_HIVE, hive
from tests.servers.hive_metastore import LaterHiveMetastore

pytestmark = [pytest.mark.java, pytest.mark.oracle]

EVERY = "ICEBERG_OPS_TORTURE" in os.environ
COMMITS = 25 if EVERY else 5
"""Of each writer; five or a multiple of it."""
TRIED = LATER_HIVE if EVERY else {name: LATER_HIVE[name] for name in ("hive 4.0.1 without locks",)}
PATIENT = {"commit.retry.num-retries": "100", "commit.retry.min-wait-ms": "5", "commit.retry.max-wait-ms": "500"}


def _mixed(uri: str, worker: int) -> None:
    """Of five commits, three append a file, one removes the file before, one sets a property."""
    catalog = HiveCatalog("hms", Metastore("hms", uri), LocalFileIO())
    for n in range(COMMITS):
        if n % 5 == 4:
            operation: Operation = UpdateProperties(updates={f"by.{worker}": str(n)})
        elif n % 5 == 3:
            operation = DeleteFiles(paths=(f"file:/{worker}/{n - 1}",))
        else:
            operation = AppendFiles(added=(data_file(f"file:/{worker}/{n}"),))
        commit(catalog, catalog.load_table(IDENTIFIER), operation)


@pytest.mark.parametrize(("version", "locks"), TRIED.values(), ids=TRIED)
def test_java_and_three_processes_lose_no_commit(
    later_hive: Callable[[str], LaterHiveMetastore], tmp_path: Path, version: str, locks: bool
) -> None:
    server = later_hive(version)
    catalog = hive(server, tmp_path, locks=locks)
    make_table(catalog, properties={**PATIENT, "engine.hive.lock-enabled": str(locks).lower()})
    context = get_context("spawn")
    workers = [context.Process(target=_mixed, args=(server.uri, worker)) for worker in range(3)]
    java = server.java_appends(COMMITS)
    for worker in workers:
        worker.start()
    printed, _ = java.communicate()
    for worker in workers:
        worker.join()
    assert (java.returncode, [worker.exitcode for worker in workers]) == (0, [0, 0, 0]), printed[-3000:]
    table = catalog.load_table(IDENTIFIER)
    ours = {f"file:/{worker}/{n}" for worker in range(3) for n in range(COMMITS) if n % 5 < 2}
    assert live_paths(table) == ours | {f"file:/java/{n}" for n in range(COMMITS)}
    assert len(table.metadata.snapshots) == COMMITS + 3 * (COMMITS - COMMITS // 5)
    assert {table.properties[f"by.{worker}"] for worker in range(3)} == {str(COMMITS - 1)}
