"""A catalog on a branch of the test's own, and the same behind a proxy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from iceberg_ops.catalog.nessie.nessie_catalog import NessieCatalog
from iceberg_ops.catalog.nessie.nessie_client import Nessie
from iceberg_ops.io.local import LocalFileIO
from tests.catalog.nessie.helpers import Open
from tests.servers.nessie.server import NessieServer
from tests.servers.proxy import FaultProxy


@pytest.fixture
def branch(nessie_server: NessieServer) -> str:
    return nessie_server.new_branch()


@pytest.fixture
def open_catalog(nessie_server: NessieServer, branch: str, tmp_path: Path) -> Open:
    """Further properties -> a catalog on the test's branch, unless they say another reference."""

    def opened(**properties: str) -> NessieCatalog:
        given = {"uri": nessie_server.uri, "ref": branch, **{key.replace("_", "."): value for key, value in properties.items()}}
        client = Nessie("nessie", given, sleep=lambda _: None)
        return NessieCatalog("nessie", client, LocalFileIO(), warehouse=str(tmp_path / "warehouse"), sleep=lambda _: None)

    return opened


@pytest.fixture
def catalog(open_catalog: Open) -> NessieCatalog:
    made = open_catalog()
    made.create_namespace(("ns",))
    return made


@pytest.fixture
def proxy(nessie_server: NessieServer) -> Iterator[FaultProxy]:
    with FaultProxy(nessie_server.address) as found:
        yield found


@pytest.fixture
def spoiled(catalog: NessieCatalog, open_catalog: Open, proxy: FaultProxy) -> NessieCatalog:
    """The same catalog behind the proxy."""
    return open_catalog(uri=f"{proxy.endpoint}/api/v2")
