"""Object stores for tests: versitygw and moto speak S3, moto behind a translator speaks Google Cloud Storage, Azurite speaks Azure
Blob Storage.

Each is started once for a test session, by a fixture of ``tests/conftest.py``, and holds one bucket, ``BUCKET``. ``properties`` are
those of a catalog that reaches it.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path

from iceberg_ops.io.aws.keys import AwsKeys
from iceberg_ops.io.aws.signature import signing_headers
from tests.servers.process import LOOPBACK, SERVERS, Server, free_port, listens, missing, program, start, started
from tests.servers.proxy import FaultProxy, Reply, Request

BUCKET = "lake"
ACCESS_KEY, SECRET_KEY = "test-access-key", "test-secret-key"
_VERSIONING = (
    b'<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Status>Enabled</Status></VersioningConfiguration>'
)
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account of every Azurite; it is not a secret."""
PAGES = {"versitygw": 1_000, "moto": 100, "gcs": 100, "azurite": 5_000}
"""Keys in a page of a listing, by store: moto is slow with a thousand keys, so its pages are short; the others are real ones."""
_FOR_S3 = f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20260101/us-east-1/s3/aws4_request"
"""By which moto knows what a request is for; it verifies no signature."""


@dataclass(frozen=True, slots=True)
class Store:
    """A running store. ``root``: the location of its bucket. ``folders``: whether a key cannot be both an object and the beginning
    of others, because objects are files."""

    name: str
    port: int
    root: str
    properties: Mapping[str, str]
    folders: bool = False

    def behind(self, endpoint: str) -> Store:
        """The same store, reached by another address."""
        here = f"http://{LOOPBACK}:{self.port}"
        return replace(self, properties={k: v.replace(here, endpoint) for k, v in self.properties.items()})


def s3_properties(port: int) -> dict[str, str]:
    """Of a catalog on an S3 of this machine."""
    return {
        "s3.endpoint": f"http://{LOOPBACK}:{port}",
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "client.region": "us-east-1",
    }


class Versitygw:
    """An S3 that keeps objects as files, with real signatures. Its port and its objects outlive a ``kill``. Stop it with
    ``close``."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.port = folder, free_port()
        for name in (f"data/{BUCKET}", "meta", "versions"):
            (folder / name).mkdir(parents=True)
        self._server: Server
        self.start()

    @property
    def store(self) -> Store:
        return Store("versitygw", self.port, f"s3://{BUCKET}", s3_properties(self.port), folders=True)

    def start(self) -> None:
        """Start it again after a ``kill``. Raises ServerError."""
        folder, keys = self._folder, {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
        command: list[str | Path] = [program("versitygw"), "--port", f"{LOOPBACK}:{self.port}", "posix"]
        command += ["--sidecar", folder / "meta", "--versioning-dir", folder / "versions", folder / "data"]
        self._server = start("versitygw", command, log=folder / "log", ready=lambda: listens(self.port), environment=keys)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._server.kill()

    def close(self) -> None:
        self._server.stop()


@contextmanager
def versitygw(folder: Path) -> Iterator[Store]:
    """A ``Versitygw`` that is not killed."""
    server = Versitygw(folder)
    try:
        yield server.store
    finally:
        server.close()


@contextmanager
def moto(folder: Path) -> Iterator[Store]:
    """An S3 whose keys need not be names of files, without signatures."""
    port, python = free_port(), SERVERS / "moto" / "bin" / "python"
    if not python.exists():
        missing("moto")
    command: list[str | Path] = [python, "-m", "moto.server", "-H", LOOPBACK, "-p", str(port)]
    pages = {"MOTO_S3_DEFAULT_MAX_KEYS": str(PAGES["moto"])}
    with started(
        "moto", command, log=folder / "log", ready=lambda: _answers(port, "/moto-api/"), environment=pages, patience_s=60, stop_s=0
    ):
        _ask(port, "PUT", f"/{BUCKET}", headers={"Authorization": _FOR_S3})
        yield Store("moto", port, f"s3://{BUCKET}", s3_properties(port))


def versioned_bucket(store: Store) -> str:
    """The location of a new bucket of moto or versitygw that keeps former versions."""
    name = f"versioned-{secrets.token_hex(4)}"
    made: list[tuple[str, bytes]] = [(f"/{name}", b""), (f"/{name}?versioning", _VERSIONING)]
    for path, body in made:
        status = _ask(store.port, "PUT", path, body, _signed_for_s3(store.port, path, body))
        assert status == HTTPStatus.OK, f"{path}: {status}"
    return f"s3://{name}"


def _signed_for_s3(port: int, path: str, body: bytes) -> Mapping[str, str]:
    keys, (bare, _, query) = AwsKeys(ACCESS_KEY, SECRET_KEY), path.partition("?")
    headers = {"Host": f"{LOOPBACK}:{port}", "x-amz-content-sha256": hashlib.sha256(body).hexdigest()}
    asked = {"keys": keys, "service": "s3", "region": "us-east-1", "at": datetime.now(UTC)}
    return {**headers, **signing_headers("PUT", bare, query, headers, body, **asked)}  # type: ignore[arg-type]


@contextmanager
def gcs(folder: Path) -> Iterator[Store]:
    """The XML interface of Google Cloud Storage, as far as it is that of S3 by other names: moto behind a translator.
    (fake-gcs-server has the JSON interface only.)"""
    with moto(folder) as s3, FaultProxy((LOOPBACK, s3.port), ask_as=_as_s3, answer_as=_as_gcs) as translator:
        properties = {"gcs.service.host": translator.endpoint, "gcs.no-auth": "true"}
        yield Store("gcs", translator.port, f"gs://{BUCKET}", properties)


@contextmanager
def azurite(folder: Path) -> Iterator[Store]:
    """An Azure Blob Storage with real signatures."""
    port, script = free_port(), SERVERS / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    if not script.exists():
        missing("azurite")
    command: list[str | Path] = [
        script,
        "--blobHost",
        LOOPBACK,
        "--blobPort",
        str(port),
        "--location",
        folder,
        "--skipApiVersionCheck",
        "--silent",
    ]
    endpoint = f"http://{LOOPBACK}:{port}/{AZURE_ACCOUNT}"
    with started("azurite", command, log=folder / "log", ready=lambda: listens(port), patience_s=60, stop_s=0):
        _ask(port, "PUT", f"/{AZURE_ACCOUNT}/{BUCKET}?restype=container", headers=_signed_for_azure())
        properties = {"adls.account-name": AZURE_ACCOUNT, "adls.account-key": AZURE_KEY, "adls.endpoint": endpoint}
        yield Store("azurite", port, f"abfss://{BUCKET}@{AZURE_ACCOUNT}.dfs.core.windows.net", properties)


STORES: Mapping[str, Callable[[Path], AbstractContextManager[Store]]] = {
    "versitygw": versitygw,
    "moto": moto,
    "gcs": gcs,
    "azurite": azurite,
}


def _answers(port: int, path: str) -> bool:
    return _ask(port, "GET", path) < 500


def _as_s3(request: Request) -> Request:
    """What asks for generation 0 asks that there be none."""
    headers = {name.lower().replace("x-goog-meta-", "x-amz-meta-"): value for name, value in request.headers.items()}
    if headers.pop("x-goog-if-generation-match", None) == "0":
        headers["if-none-match"] = "*"
    return replace(request, headers={**headers, "authorization": _FOR_S3})


def _as_gcs(reply: Reply) -> Reply:
    headers = tuple((name.lower().replace("x-amz-meta-", "x-goog-meta-"), value) for name, value in reply.headers)
    return replace(reply, headers=(*headers, ("x-goog-generation", "1")))


def _signed_for_azure() -> dict[str, str]:
    """Headers of the request that makes the container (Shared Key)."""
    when = formatdate(usegmt=True)
    headers = f"x-ms-date:{when}\nx-ms-version:2021-08-06\n"
    text = "PUT" + "\n" * 12 + headers + f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{BUCKET}\nrestype:container"
    signature = b64encode(hmac.digest(b64decode(AZURE_KEY), text.encode(), "sha256")).decode()
    return {"x-ms-date": when, "x-ms-version": "2021-08-06", "Authorization": f"SharedKey {AZURE_ACCOUNT}:{signature}"}


def _ask(port: int, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> int:
    client = http.client.HTTPConnection(LOOPBACK, port, timeout=10)
    try:
        client.request(method, path, body, dict(headers or {}))
        answer = client.getresponse()
        answer.read()
        return answer.status
    finally:
        client.close()
