"""A catalog of every kind, with an empty namespace ``ns``. A new catalog is one more entry in ``CATALOGS`` or ``catalog_of``."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.glue.glue_catalog import GlueCatalog
from iceberg_ops.catalog.glue.glue_client import Glue
from iceberg_ops.catalog.hive.hive_catalog import HiveCatalog
from iceberg_ops.catalog.hive.metastore import Metastore
from iceberg_ops.catalog.nessie.nessie_catalog import NessieCatalog
from iceberg_ops.catalog.nessie.nessie_client import Nessie
from iceberg_ops.catalog.rest.rest_catalog import RestCatalog
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.local import LocalFileIO
from tests.builders import make_catalog
from tests.servers.hive_metastore import HiveMetastore
from tests.servers.nessie.server import NessieServer
from tests.servers.postgresql import PostgreSQL
from tests.servers.rest.reference import ReferenceServer
from tests.servers.stores import Store


def memory(folder: Path) -> Any:
    return make_catalog()


def file_system(folder: Path) -> Any:
    catalog = FileSystemCatalog("fs", LocalFileIO(), warehouse=str(folder / "warehouse"), sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    return catalog


def sql(folder: Path) -> Any:
    uri = f"sqlite:///{folder / 'catalog.db'}"
    catalog = SqlCatalog("db", uri, LocalFileIO(), warehouse=str(folder / "warehouse"), sleep=lambda _: None)
    if ("ns",) not in catalog.list_namespaces():
        catalog.create_namespace(("ns",))
    return catalog


def rest(server: ReferenceServer) -> Any:
    catalog = RestCatalog("rest", {"uri": server.uri(server.new_name())}, sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    return catalog


LATER_HIVE = {
    "hive 3.1.3 with locks": ("3.1.3", True),
    "hive 4.0.1 with locks": ("4.0.1", True),
    "hive 4.0.1 without locks": ("4.0.1", False),
}
"""Name -> version, and whether commits take locks. Hive 3 does not compare what a commit expects: see ``test_later_hive.py``."""
MORE = (
    *LATER_HIVE,
    "hive on postgresql with locks",
    "hive on postgresql without locks",
    "nessie on S3",
    "nessie by REST on S3",
)
EVERY = "ICEBERG_OPS_TORTURE" in os.environ
"""Whether ``MORE`` are tried, which differ from others by where their server or they themselves keep what they have."""
CATALOGS: dict[str, Callable[[Path], Any]] = {"memory": memory, "filesystem": file_system, "sql": sql}
"""Those that need no server."""


def file_system_on(store: Store) -> Any:
    io = load_file_io(store.properties)
    catalog = FileSystemCatalog("fs", io, warehouse=f"{store.root}/{uuid.uuid4().hex}", sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    return catalog


def postgresql(server: PostgreSQL, folder: Path) -> Any:
    catalog = SqlCatalog("pg", server.database(), LocalFileIO(), warehouse=str(folder / "warehouse"), sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    return catalog


def hive(server: HiveMetastore, folder: Path, *, locks: bool) -> Any:
    """One metastore serves all tests: what an earlier one has left is dropped."""
    metastore = Metastore("hms", server.uri)
    catalog = HiveCatalog("hms", metastore, LocalFileIO(), warehouse=str(folder / "warehouse"), locks=locks, sleep=lambda _: None)
    for (name,) in catalog.list_namespaces():
        if name != "default":
            metastore.call(lambda client, name=name: client.drop_database(name, False, True))
    catalog.create_namespace(("ns",))
    return catalog


def glue(endpoint: str, folder: Path) -> Any:
    """One Glue serves all tests: what an earlier one has left is dropped."""
    keys = {"glue.region": "us-east-1", "glue.access-key-id": "test", "glue.secret-access-key": "test-secret"}
    client = Glue("glue", {"glue.endpoint": endpoint, **keys}, sleep=lambda _: None)
    catalog = GlueCatalog("glue", client, LocalFileIO(), warehouse=str(folder / "warehouse"), sleep=lambda _: None)
    for (name,) in catalog.list_namespaces():
        for table in client.pages("GetTables", "TableList", DatabaseName=name):
            client.change("DeleteTable", DatabaseName=name, Name=table["Name"])
        client.change("DeleteDatabase", Name=name)
    catalog.create_namespace(("ns",))
    return catalog


def nessie(server: NessieServer, folder: Path, store: Store | None = None) -> Any:
    """A separate branch; the files are in ``store`` (None: in the folder)."""
    client = Nessie("nessie", {"uri": server.uri, "ref": server.new_branch()}, sleep=lambda _: None)
    io = LocalFileIO() if store is None else load_file_io(store.properties)
    warehouse = str(folder / "warehouse") if store is None else f"{store.root}/{uuid.uuid4().hex}"
    catalog = NessieCatalog("nessie", client, io, warehouse=warehouse, sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    return catalog


def nessie_by_rest(server: NessieServer, store: Store) -> Any:
    """The same by Nessie's Iceberg REST endpoint, whose warehouse is in the store."""
    properties = {"uri": server.rest_uri, "prefix": server.new_branch()}
    catalog = RestCatalog("rest", properties, load_file_io(store.properties), sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    return catalog


def catalog_of(kind: str, ask: Callable[[str], Any], folder: Path) -> Any:
    """A catalog of this kind. ``ask``: name of a fixture -> what it gives."""
    match kind:
        case "rest":
            return rest(ask("rest_server"))
        case "nessie":
            return nessie(ask("nessie_server"), folder)
        case "nessie on S3":
            return nessie(ask("nessie_server"), folder, ask("object_store")("versitygw"))
        case "nessie by REST on S3":
            return nessie_by_rest(ask("nessie_server"), ask("object_store")("versitygw"))
        case "filesystem on S3":
            return file_system_on(ask("object_store")("versitygw"))
        case "filesystem on HDFS":
            return file_system_on(ask("object_store")("hdfs"))
        case "glue":
            return glue(ask("glue_endpoint"), folder)
        case "postgresql":
            return postgresql(ask("postgresql_server"), folder)
        case "hive with locks" | "hive without locks":
            return hive(ask("hive_metastore"), folder, locks=kind == "hive with locks")
        case "hive on postgresql with locks" | "hive on postgresql without locks":
            return hive(ask("hive_on_postgresql"), folder, locks="without" not in kind)
    if kind in LATER_HIVE:
        version, locks = LATER_HIVE[kind]
        return hive(ask("later_hive")(version), folder, locks=locks)
    return CATALOGS[kind](folder)


def keeps_one_snapshot(catalog: Any) -> bool:
    """Nessie's Iceberg REST endpoint does; docs/catalogs.md tells what else differs there."""
    return isinstance(catalog, RestCatalog) and catalog._settings.is_nessie
