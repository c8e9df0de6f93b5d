"""How the files of a table in a REST catalog are reached."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.rest.storage import VendedConfig, expires_at_ms
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.local import LocalFileIO
from tests.builders import IDENTIFIER, make_table
from tests.catalog.rest.fake_server import FakeServer, answers, error

MINUTE_MS = 60_000


def _lent(*prefixes: str) -> VendedConfig:
    credentials = [(prefix, {"s3.access-key-id": prefix, "s3.session-token": "lent"}) for prefix in prefixes]
    return VendedConfig({"s3.access-key-id": "config", "s3.endpoint": "e", "token": "x", "io-impl": "Java"}, credentials)


@pytest.mark.parametrize(
    ("prefixes", "expected"),
    [
        ((), "config"),
        (("s3://other",), "config"),
        (("s3", "s3://b", "s3://b/wh/t", "s3://b/wh"), "s3://b/wh/t"),
        (("s3://b/wh/t/", "s3"), "s3"),
        (("s3://b/wh/", "s3"), "s3://b/wh/"),
        (("s3://b/wh/t2", "s3://b/w", "s3://bb"), "config"),
        (("gs",), "config"),
    ],
)
def test_the_credentials_of_the_longest_prefix_count_over_the_tables_config(prefixes: tuple[str, ...], expected: str) -> None:
    """REST-08"""
    found = _lent(*prefixes).for_location("s3://b/wh/t")
    assert found["s3.access-key-id"] == expected
    assert found["s3.endpoint"] == "e"
    assert "io-impl" not in found
    assert "token" not in found, "that is for asking the server"


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, None),
        ({"s3.session-token-expires-at-ms": "5", "gcs.oauth2.token-expires-at": "7"}, 5),
        ({"adls.sas-token-expires-at-ms.account": "9"}, 9),
        ({"s3.session-token-expires-at-ms": "soon"}, None),
    ],
)
def test_credentials_run_out_when_the_first_of_them_does(properties: Mapping[str, str], expected: int | None) -> None:
    assert expires_at_ms(properties) == expected


def _server(folder: Path) -> tuple[FakeServer, Any]:
    """A server with tables on a disk, which also sends the settings for the client's access."""
    server = FakeServer()
    server.inner._io = LocalFileIO()
    server.inner._warehouse = str(folder)
    return server, server.catalog({"token": "geheim-1", "header.X": "geheim-2", "s3.endpoint": "own"}, io=None)


def _about_files(io: FileIO) -> dict[str, str]:
    return {name: value for name, value in io.properties.items() if name != "io-impl"}


def test_a_tables_files_are_reached_as_the_server_says_and_nothing_of_how_it_is_asked_is_passed_on(tmp_path: Path) -> None:
    server, catalog = _server(tmp_path)
    server.table_config = {"client.region": "eu"}
    server.credentials = [{"prefix": "/", "config": {"s3.access-key-id": "k"}}]
    table = make_table(catalog)
    assert _about_files(table.io) == {"client.region": "eu", "s3.access-key-id": "k", "s3.endpoint": "own"}
    assert _about_files(catalog.io) == {"s3.endpoint": "own"}
    assert load_file_io(table.io.properties).properties == table.io.properties
    other = make_table(catalog, identifier=("ns", "u"))
    assert other.io is table.io, "tables of the same properties share one"
    assert catalog.commit_table(table, [], []).io is table.io


@pytest.mark.parametrize(
    ("own", "lent", "expected"),
    [
        ({}, {}, "true"),
        ({"s3.remote-signing-enabled": "false"}, {}, "false"),
        ({"s3.access-key-id": "k"}, {}, None),
        ({}, {"s3.access-key-id": "k"}, None),
    ],
)
def test_a_server_that_offers_to_sign_is_not_asked_where_there_are_keys(
    tmp_path: Path, own: dict[str, str], lent: dict[str, str], expected: str | None
) -> None:
    """Nessie offers remote signing with every table; without keys, the FileIO refuses what it cannot do."""
    server, _ = _server(tmp_path)
    make_table(server.inner)
    server.table_config = {"s3.remote-signing-enabled": "true", **lent}
    table = server.catalog(own, io=None).load_table(IDENTIFIER)
    assert table.io.properties.get("s3.remote-signing-enabled") == expected


def test_credentials_that_end_soon_are_asked_for_again(tmp_path: Path) -> None:
    now = [10**12]
    server, _ = _server(tmp_path)
    catalog = server.catalog(io=None, clock=lambda: now[0])
    make_table(server.inner)
    server.credentials = [
        {"prefix": "/", "config": {"s3.session-token": "t1", "s3.session-token-expires-at-ms": str(now[0] + 60 * MINUTE_MS)}}
    ]
    first = catalog.load_table(IDENTIFIER)
    now[0] += 54 * MINUTE_MS
    assert catalog.load_table(IDENTIFIER) is first
    server.credentials[0]["config"]["s3.session-token"] = "t2"
    now[0] += 2 * MINUTE_MS
    assert catalog.load_table(IDENTIFIER).io.properties["s3.session-token"] == "t2"


def test_a_lent_secret_is_not_shown(tmp_path: Path) -> None:
    server, catalog = _server(tmp_path)
    server.credentials = [{"prefix": "/", "config": {"s3.secret-access-key": "lent-secret"}}]
    table = make_table(catalog)
    server.spoil(answers(lambda: error(400, message="who uses lent-secret?")), "GET", "/namespaces")
    with pytest.raises(Exception, match=r"who uses \*\*\*"):
        catalog.list_namespaces()
    assert "lent-secret" not in repr(table)
