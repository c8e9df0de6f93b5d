"""The blocks of docs/catalogs.md do what they say, on the servers that they are about."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from iceberg_ops.catalog.hive.metastore import Metastore
from tests.docs.markdown import ROOT, blocks
from tests.docs.test_tutorial import pattern, typed
from tests.servers.hive_metastore import HiveMetastore
from tests.servers.nessie.server import NessieServer
from tests.servers.postgresql import PostgreSQL
from tests.servers.rest.reference import ReferenceServer
from tests.servers.stores import Store

PAGE = ROOT / "docs" / "catalogs.md"


def _runs(folder: Path, config: str) -> None:
    """A table is made, filled and listed with the block's catalog."""
    (folder / "catalogs.yml").write_text(config.replace("file:///data/warehouse", f"file://{folder}/warehouse"))
    (folder / "orders.csv").write_text("id,customer\n1,Ada\n2,Grace\n")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ICEBERG_OPS_")} | {"PYTHONPATH": str(ROOT)}
    steps = (
        ["create", "lake.shop.orders", "id bigint NOT NULL, customer string", "--create-namespace"],
        ["append", "lake.shop.orders", "--from", "orders.csv", "--run-key", "orders-1"],
        ["scan", "lake.shop.orders", "--where", "id > 1"],
    )
    for step in steps:
        command = [str(Path(sys.executable).parent / "iceberg-ops"), *step]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{step} ends with {done.returncode}: {done.stderr}"
    assert done.stdout == '{"id": 2, "customer": "Grace"}\n'


def _block(kind: str, uri: str, real: str) -> str:
    found = next(body for body in blocks(PAGE, "yaml") if f"type: {kind}" in body)
    assert uri in found
    return found.replace(uri, real)


def test_the_block_of_a_sql_catalog_works_on_postgresql(tmp_path: Path, postgresql_server: PostgreSQL) -> None:
    _runs(tmp_path, _block("sql", "postgresql+psycopg2://iceberg@127.0.0.1:5432/iceberg", postgresql_server.database()))


def test_the_block_of_a_filesystem_catalog_works_on_hdfs(tmp_path: Path, object_store: Callable[[str], Store]) -> None:
    real = f"{object_store('hdfs').root}/{uuid.uuid4().hex}"
    _runs(tmp_path, _block("filesystem", "hdfs://127.0.0.1:8020/warehouse", real))


def test_the_block_of_a_hive_catalog_works(tmp_path: Path, hive_metastore: HiveMetastore) -> None:
    metastore = Metastore("lake", hive_metastore.uri)
    if "shop" in metastore.call(lambda client: client.get_all_databases()):
        metastore.call(lambda client: client.drop_database("shop", False, True))
    _runs(tmp_path, _block("hive", "thrift://127.0.0.1:9083", hive_metastore.uri))


def test_the_block_of_a_glue_catalog_works(tmp_path: Path, glue_endpoint: str) -> None:
    here = {"glue.endpoint": glue_endpoint, "glue.access-key-id": "test", "glue.secret-access-key": "test-secret"}
    lines = ["file:///data/warehouse", *(f"      {key}: {value}" for key, value in here.items())]
    _runs(tmp_path, _block("glue", "s3://bucket/warehouse", "\n".join(lines)))


@pytest.mark.oracle
def test_the_first_steps_with_a_rest_catalog_are_as_shown(tmp_path: Path, rest_server: ReferenceServer) -> None:
    config = next(body for body in blocks(PAGE, "yaml") if "type: rest" in body)
    assert "uri: http://127.0.0.1:8181" in config
    _as_shown(tmp_path, config.replace("http://127.0.0.1:8181", rest_server.uri(rest_server.new_name())), 1)


@pytest.mark.oracle
def test_the_first_steps_with_a_nessie_catalog_are_as_shown(tmp_path: Path, nessie_server: NessieServer) -> None:
    _as_shown(tmp_path, _block("nessie", "http://127.0.0.1:19120/api/v2", nessie_server.uri), 0)


def _as_shown(folder: Path, config: str, number: int) -> None:
    """The commands of the page's block answer what it says; ``number`` of those with a table ``lake.shop.orders``."""
    steps = [body for body in blocks(PAGE, "") if "lake.shop.orders" in body][number]
    (folder / "catalogs.yml").write_text(config.replace("file:///data/warehouse", f"file://{folder}/warehouse"))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ICEBERG_OPS_")}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{environment['PATH']}", "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    for command, answer in typed(steps):
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        said = done.stdout + done.stderr
        assert re.fullmatch(pattern(answer), said), f"{command}\nanswers\n{said}"
