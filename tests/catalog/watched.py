"""Every catalog on a real server, and what its server is asked for.

A file system catalog's server is its store, so what it is asked for includes the tables' files. The files of the others are
local, and counted on their own.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from sqlalchemy import event

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
from tests.servers.process import LOOPBACK
from tests.servers.proxy import FaultProxy

GLUE_KEYS = {"glue.region": "us-east-1", "glue.access-key-id": "test", "glue.secret-access-key": "test-secret"}


class CountedFiles(LocalFileIO):
    """``used``: files that were read and written."""

    def __init__(self) -> None:
        super().__init__()
        self.used: Counter[str] = Counter()

    def read(self, location: str) -> bytes:
        self.used["read"] += 1
        return super().read(location)

    def open_input(self, location: str) -> BinaryIO:
        self.used["read"] += 1
        return super().open_input(location)

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        self.used["written"] += 1
        super().write(location, data, overwrite=overwrite)

    def open_output(self, location: str) -> BinaryIO:
        self.used["written"] += 1
        return super().open_output(location)


@dataclass
class Watched:
    """``namespace`` is empty, and the test's own. ``server``: what else a test needs to fill it."""

    catalog: Any
    namespace: str
    asked: Callable[[], list[str]]
    """What the server was asked for since ``forget``, in order."""
    forget: Callable[[], None]
    server: Any = None
    files: Counter[str] = field(default_factory=Counter)


def _of_proxy(proxy: FaultProxy) -> dict[str, Any]:
    return {"asked": lambda: [_shown(r.method, r.path, r.headers) for r in proxy.requests], "forget": proxy.forget}


def _shown(method: str, path: str, headers: Any) -> str:
    call = next((value for name, value in headers.items() if name.lower() == "x-amz-target"), None)
    return str(call) if call else f"{method} {path}"


@contextmanager
def _sql(uri: str, folder: Path) -> Iterator[Watched]:
    files = CountedFiles()
    catalog = SqlCatalog("c", uri, files, warehouse=f"{folder}/wh", sleep=lambda _: None)
    statements: list[str] = []
    event.listen(catalog._engine, "before_cursor_execute", lambda *told: statements.append(told[2]))
    yield Watched(catalog, "ns", lambda: list(statements), statements.clear, catalog._engine, files.used)


@contextmanager
def _hive(uri: str, folder: Path, locks: bool) -> Iterator[Watched]:
    files, calls, database = CountedFiles(), list[str](), f"d{uuid.uuid4().hex}"

    class Counted(Metastore):
        def call(self, do: Any) -> Any:
            return super().call(lambda client: do(_Noting(client, calls)))

    metastore = Counted("hms", uri)
    yield Watched(
        HiveCatalog("hms", metastore, files, warehouse=f"{folder}/wh", locks=locks, sleep=lambda _: None),
        database,
        lambda: list(calls),
        calls.clear,
        metastore,
        files.used,
    )
    metastore.call(lambda client: client.drop_database(database, False, True))


class _Noting:
    def __init__(self, client: Any, calls: list[str]) -> None:
        self._client, self._calls = client, calls

    def __getattr__(self, name: str) -> Any:
        self._calls.append(name)
        return getattr(self._client, name)


@contextmanager
def _glue(endpoint: str, folder: Path) -> Iterator[Watched]:
    files, database = CountedFiles(), f"d{uuid.uuid4().hex}"
    with FaultProxy((LOOPBACK, int(endpoint.rpartition(":")[2]))) as proxy:
        client = Glue("glue", {"glue.endpoint": proxy.endpoint, **GLUE_KEYS}, sleep=lambda _: None)
        catalog = GlueCatalog("glue", client, files, warehouse=f"{folder}/wh", sleep=lambda _: None)
        yield Watched(catalog, database, **_of_proxy(proxy), server=client, files=files.used)


@contextmanager
def _nessie(server: Any, folder: Path) -> Iterator[Watched]:
    files, branch = CountedFiles(), server.new_branch()
    with FaultProxy(server.address) as proxy:
        client = Nessie("nessie", {"uri": f"{proxy.endpoint}/api/v2", "ref": branch}, sleep=lambda _: None)
        catalog = NessieCatalog("nessie", client, files, warehouse=f"{folder}/wh", sleep=lambda _: None)
        yield Watched(catalog, "ns", **_of_proxy(proxy), server=(server, branch), files=files.used)


@contextmanager
def _rest(server: Any, properties: dict[str, str]) -> Iterator[Watched]:
    files, name = CountedFiles(), server.new_name()
    with FaultProxy(server.address) as proxy:
        catalog = RestCatalog("rest", {"uri": server.uri(name, proxy.port), **properties}, io=files, sleep=lambda _: None)
        yield Watched(catalog, "ns", **_of_proxy(proxy), server=server.folder / f"{name}.db", files=files.used)


@contextmanager
def _filesystem(store: Any) -> Iterator[Watched]:
    with FaultProxy((LOOPBACK, store.port)) as proxy:
        io = load_file_io(store.behind(proxy.endpoint).properties)
        catalog = FileSystemCatalog("fs", io, warehouse=f"{store.root}/{uuid.uuid4().hex}", sleep=lambda _: None)
        yield Watched(catalog, "ns", **_of_proxy(proxy), server=store)


def opened(kind: str, request: pytest.FixtureRequest, folder: Path, **properties: str) -> AbstractContextManager[Watched]:
    """A catalog of this kind. ``properties``: more of a REST catalog."""
    fixture = request.getfixturevalue
    match kind:
        case "sqlite":
            return _sql(f"sqlite:///{folder}/c.db", folder)
        case "postgresql":
            return _sql(fixture("postgresql_server").database(), folder)
        case "hive with locks" | "hive without locks":
            return _hive(fixture("hive_metastore").uri, folder, kind == "hive with locks")
        case "glue":
            return _glue(fixture("glue_endpoint"), folder)
        case "nessie":
            return _nessie(fixture("nessie_server"), folder)
        case "rest":
            return _rest(fixture("rest_server"), properties)
    assert kind == "filesystem on S3", kind
    return _filesystem(fixture("object_store")("versitygw"))
