"""The certificates that clients of catalogs trust are read once in a process, and again when they are others."""

from __future__ import annotations

import shutil
from pathlib import Path

import certifi
import httpx
import pytest

from iceberg_ops.catalog.rest import connection


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry for each time that certificates were read."""
    found: list[None] = []
    read = httpx.create_ssl_context
    monkeypatch.setattr(connection.httpx, "create_ssl_context", lambda: (found.append(None), read())[1])
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    connection._read_once.cache_clear()
    return found


def new_catalog() -> None:
    """As far as it has a client."""
    connection.new_client({}, (1.0, 1.0))


def test_many_catalogs_read_them_once(reads: list[None]) -> None:
    for _ in range(3):
        new_catalog()
    assert len(reads) == 1


def test_a_file_that_has_changed_is_read_again(reads: list[None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_catalog()
    shutil.copy(certifi.where(), tmp_path / "a.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "a.pem"))
    new_catalog()
    new_catalog()
    assert len(reads) == 2
    with (tmp_path / "a.pem").open("a") as file:
        file.write("# more\n")
    new_catalog()
    assert len(reads) == 3
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    new_catalog()
    assert len(reads) == 4


def test_a_file_that_is_missing_is_an_error_until_it_is_there(
    reads: list[None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "a.pem"))
    with pytest.raises(OSError, match="No such file"):
        new_catalog()
    shutil.copy(certifi.where(), tmp_path / "a.pem")
    new_catalog()
