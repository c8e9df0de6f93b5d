"""A catalog of each kind that Iceberg Java in Spark and this package both write to."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.job_spec import CatalogConfig
from tests.catalog.watched import GLUE_KEYS
from tests.interop.conftest import aws_jars
from tests.interop.lake import Java
from tests.servers.process import missing

_NAMES = itertools.count()
Ask = Callable[[str], Any]
"""Name of a fixture -> what it gives."""


@dataclass(frozen=True)
class Shared:
    """Both sides call the catalog by the name in ``config``; its namespace ``ns`` is empty."""

    java: Java
    config: CatalogConfig
    catalog: Any


def _jdbc(ask: Ask, name: str, folder: Path, uri: str, more: Mapping[str, str]) -> tuple[CatalogConfig, dict[str, str]]:
    config = CatalogConfig(name=name, type="sql", properties={"uri": uri, "warehouse": f"file:{folder}/wh"})
    return config, {"type": "jdbc", "jdbc.schema-version": "V1", "warehouse": f"file:{folder}/wh", **more}


def _sqlite(ask: Ask, name: str, folder: Path) -> tuple[CatalogConfig, dict[str, str]]:
    return _jdbc(ask, name, folder, f"sqlite:///{folder}/c.db", {"uri": f"jdbc:sqlite:file:{folder}/c.db"})


def _postgresql(ask: Ask, name: str, folder: Path) -> tuple[CatalogConfig, dict[str, str]]:
    uri = ask("postgresql_server").database()
    theirs = "jdbc:" + uri.replace("+psycopg2", "").replace("postgres@", "")
    return _jdbc(ask, name, folder, uri, {"uri": theirs, "jdbc.user": "postgres"})


def _hive(ask: Ask, name: str, folder: Path) -> tuple[CatalogConfig, dict[str, str]]:
    both = {"uri": ask("hive_metastore").uri, "warehouse": f"file:{folder}/wh"}
    config = CatalogConfig(name=name, type="hive", properties=both)
    metastore = load_catalog(config)
    if ("ns",) in metastore.list_namespaces():
        metastore._metastore.call(lambda client: client.drop_database("ns", False, True))  # type: ignore[attr-defined]
    return config, {"type": "hive", "hadoop.iceberg.hive.lock-check-max-wait-ms": "200", **both}


def _nessie(ask: Ask, name: str, folder: Path) -> tuple[CatalogConfig, dict[str, str]]:
    """A branch of the test's own."""
    server = ask("nessie_server")
    both = {"uri": server.uri, "ref": server.new_branch(), "warehouse": f"file:{folder}/wh"}
    return CatalogConfig(name=name, type="nessie", properties=both), {"type": "nessie", **both}


def _glue(ask: Ask, name: str, folder: Path) -> tuple[CatalogConfig, dict[str, str]]:
    if not aws_jars():
        missing("Iceberg Java's bundle for AWS", "make jars")
    both = {"glue.endpoint": ask("glue_endpoint"), "warehouse": f"file:{folder}/wh"}
    config = CatalogConfig(name=name, type="glue", properties={**both, **GLUE_KEYS})
    glue: Any = load_catalog(config)
    if ("ns",) in glue.list_namespaces():
        for table in glue._tables_in("ns"):
            glue._glue.change("DeleteTable", DatabaseName="ns", Name=table["Name"])
        glue.drop_namespace(("ns",))
    return config, {
        "type": "glue",
        "client.region": "us-east-1",
        "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        **both,
    }


def _rest(ask: Ask, name: str, folder: Path) -> tuple[CatalogConfig, dict[str, str]]:
    uri = {"uri": ask("rest_server").uri(ask("rest_server").new_name())}
    return CatalogConfig(name=name, type="rest", properties=uri), {"type": "rest", **uri}


def _hadoop(ask: Ask, name: str, folder: Path) -> tuple[CatalogConfig, dict[str, str]]:
    """In HDFS, where Java's rename does not replace what is there."""
    warehouse = {"warehouse": f"{ask('object_store')('hdfs').root}/{uuid.uuid4().hex}"}
    return CatalogConfig(name=name, type="filesystem", properties=warehouse), {"type": "hadoop", **warehouse}


KINDS: dict[str, Callable[[Ask, str, Path], tuple[CatalogConfig, dict[str, str]]]] = {
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "hive": _hive,
    "nessie": _nessie,
    "glue": _glue,
    "rest": _rest,
    "hadoop": _hadoop,
}
"""Kind -> our configuration, and Spark's properties of the same catalog."""


def shared_catalog(kind: str, ask: Ask, folder: Path) -> Shared:
    """``folder`` has the tables, but for REST and HDFS."""
    java, name = ask("java_lake")[0], f"{kind}{next(_NAMES)}"
    config, theirs = KINDS[kind](ask, name, folder)
    for key, value in {"": "org.apache.iceberg.spark.SparkCatalog", ".cache-enabled": "false"}.items():
        java(f"SET `spark.sql.catalog.{name}{key}`=`{value}`")
    for key, value in theirs.items():
        java(f"SET `spark.sql.catalog.{name}.{key}`=`{value}`")
    catalog = load_catalog(config)
    catalog.create_namespace(("ns",))
    return Shared(java, config, catalog)
