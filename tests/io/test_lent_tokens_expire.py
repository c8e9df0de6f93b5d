"""Tokens that a catalog lends for Google Cloud Storage and Azure expire while a job works: the next request has a new one, and the
old one is refused (by a proxy in front of the first; by Azurite itself). S3: ``aws/test_keys_expire_in_mid_job.py``."""

from __future__ import annotations

import hmac
import time
import uuid
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from iceberg_ops.errors import TerminalError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.load import load_file_io
from tests.servers.process import LOOPBACK
from tests.servers.proxy import Answer, FaultProxy, Request
from tests.servers.stores import AZURE_ACCOUNT, AZURE_KEY, Store

LIFE_S = 2


@dataclass
class Issuer:
    """Gives a token for a short time; ``properties`` are those that say where its store is."""

    properties: Mapping[str, str]
    root: str
    make: Callable[[int, datetime], Mapping[str, str]]
    """Number of a token and its end -> the properties that lend it."""
    deletes: bool = True
    ends: list[datetime] = field(default_factory=list)

    def lend(self) -> Mapping[str, str]:
        self.ends.append(datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=LIFE_S))
        return {**self.properties, **self.make(len(self.ends), self.ends[-1])}

    def wait(self) -> None:
        time.sleep(max(0.0, (max(self.ends) - datetime.now(UTC)).total_seconds()) + 1.1)


def _ms(end: datetime) -> str:
    return str(int(end.timestamp() * 1000))


@pytest.fixture
def google(object_store: Callable[[str], Store]) -> Iterator[Issuer]:
    store = object_store("gcs")
    with FaultProxy((LOOPBACK, store.port)) as proxy:
        issuer = Issuer(
            {"gcs.service.host": proxy.endpoint},
            store.root,
            lambda n, end: {"gcs.oauth2.token": f"token-{n}", "gcs.oauth2.token-expires-at": _ms(end)},
        )

        def is_refused(request: Request) -> bool:
            token = next((value for name, value in request.headers.items() if name.lower() == "authorization"), "")
            number = int(token.removeprefix("Bearer token-") or 0)
            return not 0 < number <= len(issuer.ends) or datetime.now(UTC) > issuer.ends[number - 1]

        refusal = b"<Error><Code>AuthenticationRequired</Code><Message>Invalid credentials</Message></Error>"
        proxy.spoil(Answer(401, refusal), when=is_refused, times=None)
        yield issuer


def _sas(end: datetime) -> str:
    """An account's signature for all that a job does with blobs."""
    version, until = "2021-08-06", end.strftime("%Y-%m-%dT%H:%M:%SZ")
    given = {"sp": "rwdlac", "ss": "b", "srt": "sco", "st": "", "se": until, "sip": "", "spr": "", "sv": version, "ses": ""}
    text = "".join(f"{value}\n" for value in (AZURE_ACCOUNT, *given.values()))
    signature = b64encode(hmac.digest(b64decode(AZURE_KEY), text.encode(), "sha256")).decode()
    return urlencode({name: value for name, value in {**given, "sig": signature}.items() if value})


@pytest.fixture
def azure(object_store: Callable[[str], Store]) -> Issuer:
    store = object_store("azurite")
    here = {name: value for name, value in store.properties.items() if name != "adls.account-key"}
    lent = ("adls.sas-token", "adls.sas-token-expires-at-ms")
    return Issuer(here, store.root, lambda _, end: dict(zip(lent, (_sas(end), _ms(end)), strict=True)), deletes=False)


@pytest.fixture(params=["google", "azure"])
def issuer(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def _lent(issuer: Issuer) -> FileIO:
    io = load_file_io(issuer.lend())
    io.renew_with(issuer.lend)  # type: ignore[attr-defined]
    return io


def test_files_are_read_and_written_after_the_token_has_expired(issuer: Issuer) -> None:
    io, prefix = _lent(issuer), f"{issuer.root}/{uuid.uuid4().hex}"
    io.write(f"{prefix}/a", b"x" * 600_000)
    opened, begun = io.open_input(f"{prefix}/a"), io.open_output(f"{prefix}/b")
    begun.write(b"y" * 1_000)
    before = len(issuer.ends)
    issuer.wait()
    assert opened.read(10) == b"x" * 10
    begun.close()
    assert io.length(f"{prefix}/b") == 1_000
    assert sorted(info.location for info in io.list_prefix(prefix)) == [f"{prefix}/a", f"{prefix}/b"]
    if issuer.deletes:  # Azurite knows no bulk request that is signed by a token.
        assert io.delete_many([f"{prefix}/a", f"{prefix}/b"]) == []
    assert len(issuer.ends) > before


def test_without_a_new_token_the_store_refuses_access(issuer: Issuer) -> None:
    """The proof that old tokens are refused; each file of a bulk delete is named then."""
    io, prefix = load_file_io(issuer.lend()), f"{issuer.root}/{uuid.uuid4().hex}"
    io.write(f"{prefix}/a", b"x")
    issuer.wait()
    with pytest.raises(TerminalError, match=rf"{prefix}/a: the store refuses access"):
        io.read(f"{prefix}/a")
    failures = io.delete_many([f"{prefix}/a", f"{prefix}/b"])
    assert [failure.location for failure in failures] == [f"{prefix}/a", f"{prefix}/b"]
    assert _lent(issuer).read(f"{prefix}/a") == b"x"
