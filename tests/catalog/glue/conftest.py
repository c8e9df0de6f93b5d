"""A catalog on AWS Glue behind a proxy that can spoil requests and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from iceberg_ops.catalog.glue.glue_catalog import GlueCatalog
from iceberg_ops.catalog.glue.glue_client import Glue
from iceberg_ops.io.local import LocalFileIO
from tests.catalog.every_catalog import glue
from tests.servers.proxy import FaultProxy, Request

SECRET = "glue-secret-of-the-test"


@pytest.fixture
def proxy(glue_endpoint: str) -> Iterator[FaultProxy]:
    address = urlsplit(glue_endpoint)
    assert address.hostname is not None
    assert address.port is not None
    with FaultProxy((address.hostname, address.port)) as found:
        yield found


@pytest.fixture
def catalog(glue_endpoint: str, proxy: FaultProxy, tmp_path: Path) -> GlueCatalog:
    """It has namespace ``ns``, which was made past the proxy."""
    glue(glue_endpoint, tmp_path)
    keys = {"glue.region": "us-east-1", "glue.access-key-id": "test", "glue.secret-access-key": SECRET}
    client = Glue("glue", {"glue.endpoint": proxy.endpoint, **keys}, sleep=lambda _: None)
    return GlueCatalog("glue", client, LocalFileIO(), warehouse=str(tmp_path / "warehouse"), sleep=lambda _: None)


def call(name: str) -> Callable[[Request], bool]:
    """Whether a request is of that name."""
    return lambda request: request.headers.get("X-Amz-Target", request.headers.get("x-amz-target")) == f"AWSGlue.{name}"
