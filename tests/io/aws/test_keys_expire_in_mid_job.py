"""Keys expire while a job works: the next request has new ones, and the old ones are refused (by a proxy in front of moto)."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from iceberg_ops.catalog.glue.glue_client import Glue
from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.errors import IcebergOpsError, TerminalError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.load import load_file_io
from tests.builders import IDENTIFIER, make_table
from tests.catalog.rest.fake_server import FakeServer, answers, error
from tests.servers.aws_keys import EXPIRED, AwsServices, aws_services
from tests.servers.proxy import Answer, FaultProxy
from tests.servers.stores import BUCKET, Store

LIFE_S = 2.0


@pytest.fixture(autouse=True)
def _only_the_instance(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsServices]:
    with aws_services() as found:
        found.life_s = LIFE_S
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", found.endpoint)
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", found.endpoint)
        yield found


@pytest.fixture
def moto(object_store: Callable[[str], Store], services: AwsServices) -> Iterator[FaultProxy]:
    """moto behind a proxy that refuses what is not signed by a key that counts."""
    with FaultProxy(("127.0.0.1", object_store("moto").port)) as found:
        found.spoil(Answer(400, EXPIRED), when=services.is_refused)
        yield found


def _instance(endpoint: str) -> dict[str, str]:
    return {"s3.endpoint": endpoint, "client.region": "us-east-1"}


def _role(endpoint: str) -> dict[str, str]:
    keys = {"client.access-key-id": "AKIA", "client.secret-access-key": "s"}
    return {**_instance(endpoint), **keys, "client.role-arn": "arn:aws:iam::1:role/r"}


def _until_expired(services: AwsServices) -> None:
    time.sleep(max(0.0, max(services.good_until.values()) - time.time()) + 0.1)


@pytest.mark.parametrize("properties", [_instance, _role])
def test_files_are_read_and_written_after_the_keys_have_expired(
    properties: Callable[[str], Mapping[str, str]], moto: FaultProxy, services: AwsServices
) -> None:
    io = load_file_io(properties(moto.endpoint))
    place = f"s3://{BUCKET}/mid-job-{properties.__name__}"
    io.write(f"{place}/a", b"x" * 600_000, overwrite=True)
    opened, begun = io.open_input(f"{place}/a"), io.open_output(f"{place}/b")
    begun.write(b"y" * (12 << 20))
    _until_expired(services)
    assert opened.read(10) == b"x" * 10
    begun.write(b"z" * (12 << 20))
    begun.close()
    assert io.length(f"{place}/b") == 24 << 20
    assert [failure.reason for failure in io.delete_many([f"{place}/a", f"{place}/b"])] == []
    assert len(services.good_until) >= 2


def test_without_new_keys_the_expiry_is_told(moto: FaultProxy, services: AwsServices) -> None:
    """The proof that the proxy refuses old keys."""
    services.next_key()
    keys = {"s3.access-key-id": "ASIA1", "s3.secret-access-key": "s", "s3.session-token": "token-of-ASIA1"}
    io = load_file_io({**_instance(moto.endpoint), **keys})
    io.write(f"s3://{BUCKET}/expiring", b"x", overwrite=True)
    _until_expired(services)
    with pytest.raises(TerminalError, match="credentials have expired"):
        io.read(f"s3://{BUCKET}/expiring")


def test_glue_is_asked_with_new_keys(glue_endpoint: str, services: AwsServices) -> None:
    port = int(glue_endpoint.rstrip("/").rpartition(":")[2])
    with FaultProxy(("127.0.0.1", port)) as proxy:
        proxy.spoil(Answer(400, b'{"__type": "ExpiredTokenException"}'), when=services.is_refused)
        glue = Glue("glue", {"glue.endpoint": proxy.endpoint, "client.region": "us-east-1"}, sleep=lambda _: None)
        glue.read("GetDatabases")
        _until_expired(services)
        glue.read("GetDatabases")
    assert len(services.good_until) == 2


def test_a_rest_catalog_is_asked_with_new_keys(services: AwsServices) -> None:
    server = FakeServer()
    properties = {"rest.sigv4-enabled": "true", "rest.signing-region": "us-east-1"}
    catalog = server.catalog(properties, environment=dict(os.environ))
    catalog.list_namespaces()
    _until_expired(services)
    catalog.list_namespaces()
    signed = [request.headers["Authorization"].partition("Credential=")[2].partition("/")[0] for request in server.requests]
    assert (signed[0], signed[-1]) == ("ASIA1", "ASIA2")


# what a REST catalog lends


class _Lending(FakeServer):
    """Lends other keys with each load."""

    services: AwsServices

    def lend(self) -> None:
        key, ends = self.services.next_key()
        keys = {"s3.access-key-id": key, "s3.secret-access-key": f"lent-of-{key}", "s3.session-token": f"token-of-{key}"}
        config = {**keys, "s3.session-token-expires-at-ms": str(int(ends * 1000))}
        self.credentials = [{"prefix": f"s3://{BUCKET}", "config": config}]


def _lending(moto: FaultProxy, object_store: Callable[[str], Store], services: AwsServices, name: str) -> _Lending:
    inner = MemoryCatalog("inner", load_file_io(object_store("moto").properties), warehouse=f"s3://{BUCKET}/{name}")
    inner.create_namespace(("ns",))
    server = _Lending(inner, table_config=_instance(moto.endpoint))
    server.services = services
    handle = server.handle

    def lend_and_answer(request: httpx.Request) -> httpx.Response:
        """On a separate thread, like a server: the client's threads ask for credentials."""
        server.lend()
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(handle, request).result()

    server.handle = lend_and_answer  # type: ignore[method-assign]
    return server


def test_what_a_catalog_lends_is_renewed_in_mid_job(
    moto: FaultProxy, object_store: Callable[[str], Store], services: AwsServices
) -> None:
    server = _lending(moto, object_store, services, "lent")
    catalog = server.catalog({"client.role-arn": "arn:aws:iam::1:role/not-for-lent-keys"}, io=None)
    table = make_table(catalog)
    io: FileIO = table.io
    place = f"{table.location}/data/f"
    io.write(place, b"x" * 600_000)
    opened, sent = io.open_input(place), pickle.loads(pickle.dumps(io.properties))
    assert type(sent) is dict, "a worker gets what is current, and nothing that asks the catalog"
    _until_expired(services)
    assert opened.read(1) == b"x"
    assert io.read(place)[:1] == b"x"
    assert table.io.properties["s3.session-token"] != sent["s3.session-token"], "what is sent to a worker now is new"
    assert services.asked == [], "the role of the catalog's own properties has nothing to do with it"
    with pytest.raises(TerminalError, match="credentials have expired"):
        load_file_io(sent).read(place)
    lent = f"lent-of-ASIA{len(services.good_until)}"
    server.spoil(answers(lambda: error(400, message=f"who uses {lent}?")), "GET", "/namespaces")
    with pytest.raises(IcebergOpsError) as caught:
        catalog.list_namespaces()
    assert "lent-of" not in str(caught.value)


def test_a_server_that_is_away_is_asked_again_while_the_old_keys_serve(
    moto: FaultProxy, object_store: Callable[[str], Store], services: AwsServices, caplog: pytest.LogCaptureFixture
) -> None:
    services.life_s = 3600.0
    now = [int(time.time() * 1000)]
    server = _lending(moto, object_store, services, "away")
    catalog = server.catalog(io=None, clock=lambda: now[0])
    table = make_table(catalog)
    first = table.io.properties["s3.session-token"]
    now[0] += 56 * 60_000
    catalog.load_table(IDENTIFIER)
    asked = len(server.requests)
    server.handle = lambda _: (_ for _ in ()).throw(httpx.ConnectError("away"))  # type: ignore[method-assign]
    assert table.io.properties["s3.session-token"] == first
    assert "were not renewed, and are used until they expire" in caplog.text
    assert len(server.requests) == asked
