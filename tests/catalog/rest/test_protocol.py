"""What is asked of a server, and what its answers mean; the server is one in this process."""

from __future__ import annotations

import itertools
import json
from typing import Any

import httpx
import pytest

from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.catalog.neighbours import other_tables
from iceberg_ops.catalog.rest import namespaces
from iceberg_ops.catalog.rest.rest_catalog import RestCatalog
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.errors import (
    BadInputError,
    CatalogUnavailableError,
    CorruptTableError,
    IcebergOpsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    OptionError,
    TerminalError,
    UnsupportedError,
)
from iceberg_ops.spec.updates import SetProperties
from tests.builders import IDENTIFIER, make_table
from tests.catalog.rest.fake_server import URI, FakeServer, answers, error, lost_answer, no_connection

TABLE_ADDRESS = "/namespaces/ns/tables/t"


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


def test_defaults_of_the_server_count_below_and_overrides_above_what_is_configured(server: FakeServer) -> None:
    """REST-07"""
    server.config = {"defaults": {"a": "d", "b": "d", "prefix": "w%2F1"}, "overrides": {"c": "o", "b": "o"}}
    catalog = server.catalog({"a": "own", "b": "own", "c": "own", "warehouse": "w 1"})
    assert {k: catalog._settings.properties[k] for k in "abc"} == {"a": "own", "b": "o", "c": "o"}
    assert server.requests[0].url.params["warehouse"] == "w 1"
    assert catalog.list_namespaces() == [("ns",)]
    assert str(server.requests[-1].url).partition("?")[0] == f"{URI}/v1/w%2F1/namespaces"


@pytest.mark.parametrize("name", ["io-impl", "location-mapping", "read-only", "files-may-change"])
def test_how_files_are_reached_is_not_the_servers_to_say(server: FakeServer, name: str) -> None:
    server.config["overrides"] = {name: "org.apache.iceberg.aws.s3.S3FileIO"}
    assert name not in server.catalog()._settings.properties


def test_an_endpoint_that_the_server_does_not_list_is_not_asked(server: FakeServer) -> None:
    """REST-07"""
    server.config["endpoints"] = ["GET /v1/{prefix}/namespaces/{namespace}/tables/{table}"]
    catalog = server.catalog()
    make_table(server.inner)
    for call in (lambda: catalog.rename_table(IDENTIFIER, ("ns", "u")), lambda: catalog.register_table(("ns", "u"), "memory://x")):
        with pytest.raises(UnsupportedError, match="because its server has no POST"):
            call()
    assert catalog.table_exists(IDENTIFIER)
    assert not server.asked("HEAD")
    server.config["endpoints"].append("HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}")
    other = server.catalog()
    assert other.table_exists(IDENTIFIER)
    assert not other.table_exists(("ns", "no"))
    assert len(server.asked("HEAD")) == 2


@pytest.mark.parametrize(
    ("namespace", "sent"),
    [
        (("a",), "a"),
        (("a", "b"), "a%1Fb"),
        (("a.b", "c"), "a.b%1Fc"),
        (("a b+c%/d?e#f",), "a%20b%2Bc%25%2Fd%3Fe%23f"),
        (("Grüße", "日本"), "Gr%C3%BC%C3%9Fe%1F%E6%97%A5%E6%9C%AC"),
    ],
)
def test_names_are_percent_encoded_level_by_level(server: FakeServer, namespace: tuple[str, ...], sent: str) -> None:
    server.inner._namespaces[namespace] = {"k": "v"}
    catalog = server.catalog()
    assert catalog.namespace_properties(namespace) == {"k": "v"}
    assert server.requests[-1].url.raw_path.decode() == f"/api/v1/namespaces/{sent}"
    assert namespace in catalog.list_namespaces(namespace[:-1])


def test_the_servers_separator_is_used_but_where_a_level_has_it(server: FakeServer) -> None:
    server.config["overrides"] = {"namespace-separator": "%2E"}
    catalog = server.catalog()
    for namespace, sent in ((("a", "b"), "a.b"), (("a.b", "c"), "a.b%1Fc")):
        with pytest.raises(NoSuchNamespaceError):
            catalog.namespace_properties(namespace)
        assert server.requests[-1].url.raw_path.decode() == f"/api/v1/namespaces/{sent}"


@pytest.mark.parametrize("name", ["", ".", "..", "a\x1fb", "\ud800", "a\0"])
def test_a_name_that_would_ask_for_another_thing_is_not_there(server: FakeServer, name: str) -> None:
    catalog = server.catalog()
    asked = len(server.requests)
    with pytest.raises(NoSuchTableError):
        catalog.load_table(("ns", name))
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables((name,))
    assert not catalog.table_exists((name, "t"))
    assert catalog.list_namespaces((name,)) == []
    assert len(server.requests) == asked


def test_lists_are_read_page_by_page(server: FakeServer) -> None:
    """REST-09"""
    catalog = server.catalog()
    pages = [
        {"identifiers": [{"namespace": ["ns"], "name": "b"}], "next-page-token": "p 1"},
        {"identifiers": [], "next-page-token": "p&2"},
        {"identifiers": [{"namespace": ["ns"], "name": "a"}], "next-page-token": None},
    ]
    for page in pages:
        server.spoil(answers(lambda page=page: httpx.Response(200, json=page)), "GET", "/tables")  # type: ignore[misc]
    assert catalog.list_tables(("ns",)) == [("ns", "a"), ("ns", "b")]
    assert [r.url.params.get("pageToken") for r in server.asked("GET", "/tables")] == ["", "p 1", "p&2"]


def test_pages_are_asked_for_by_size(server: FakeServer) -> None:
    server.catalog({"rest-page-size": "7"}).list_namespaces()
    assert dict(server.requests[-1].url.params) == {"pageToken": "", "pageSize": "7"}
    with pytest.raises(OptionError, match="rest-page-size is '0': must be a whole number above 0"):
        server.catalog({"rest-page-size": "0"}).list_namespaces()


def test_a_server_that_gives_a_page_for_ever_is_an_error(server: FakeServer) -> None:
    page = {"namespaces": [["a"]], "next-page-token": "same"}
    server.spoil(answers(lambda: httpx.Response(200, json=page)), "GET", "/namespaces", times=3)
    with pytest.raises(CorruptTableError, match="the same page token twice"):
        server.catalog().list_namespaces()


@pytest.mark.parametrize("kind", ["NoSuchNamespaceException", "NoSuchObject", ""])
def test_a_server_that_knows_no_namespaces_at_all_is_not_an_empty_catalog(server: FakeServer, kind: str) -> None:
    """Whoever must know all tables before a file is deleted would see none."""
    server.spoil(answers(lambda: error(404, kind)), "GET", "/namespaces")
    with pytest.raises(TerminalError, match="listing namespaces: the server answers 404: check the properties"):
        server.catalog().list_namespaces()
    server.spoil(answers(lambda: error(404, "NoSuchNamespaceException")), "GET", "/namespaces")
    assert server.catalog().list_namespaces(("gone",)) == []


@pytest.mark.parametrize("body", [{"message": "please log in"}, {"error": "x", "identifiers": None, "namespaces": None}], ids=str)
def test_an_answer_without_a_list_is_no_empty_list(server: FakeServer, body: dict[str, Any]) -> None:
    """Whoever must know all tables before a file is deleted would see none."""
    catalog = server.catalog()
    for path, listed in (("/tables", lambda: catalog.list_tables(("ns",))), ("/namespaces", catalog.list_namespaces)):
        server.spoil(answers(lambda: httpx.Response(200, json=body)), "GET", path)
        with pytest.raises(CatalogUnavailableError, match=r"to listing .* has no (identifiers|namespaces)"):
            listed()


@pytest.mark.parametrize("body", [{}, {"identifiers": None, "next-page-token": ""}], ids=str)
def test_a_server_may_leave_an_empty_list_out(server: FakeServer, body: dict[str, Any]) -> None:
    server.spoil(answers(lambda: httpx.Response(200, json=body)), "GET", "/tables")
    assert server.catalog().list_tables(("ns",)) == []


def test_a_table_whose_namespace_is_dropped_meanwhile_is_gone(server: FakeServer) -> None:
    catalog = server.catalog()
    table = make_table(catalog)
    catalog.create_namespace(("other",))
    make_table(catalog, identifier=("other", "t"))
    server.spoil(answers(lambda: error(404, "NoSuchNamespaceException")), "GET", "/namespaces/other/tables/t", times=9)
    assert list(other_tables(catalog, table)) == []
    assert not catalog.table_exists(("other", "t"))


def test_a_server_that_has_ever_another_page_is_an_error(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "_MOST_PAGES", 3)
    tokens = itertools.count()
    page = answers(lambda: httpx.Response(200, json={"identifiers": [], "next-page-token": f"p{next(tokens)}"}))
    server.spoil(page, "GET", "/tables", times=4)
    with pytest.raises(CorruptTableError, match="listing tables of ns: the server returned 3 pages, and another token"):
        server.catalog().list_tables(("ns",))


def test_a_table_that_has_not_changed_is_not_sent_again(server: FakeServer) -> None:
    """REST-08"""
    catalog = server.catalog()
    table = make_table(catalog)
    assert catalog.load_table(IDENTIFIER) is table
    assert server.requests[-1].headers["If-None-Match"]
    changed = catalog.commit_table(table, [], [SetProperties({"a": "b"})])
    assert catalog.load_table(IDENTIFIER) is changed, "nor is one that was just committed to"
    server.inner.commit_table(changed, [], [SetProperties({"a": "c"})])
    assert catalog.load_table(IDENTIFIER).properties["a"] == "c"
    server.inner.rename_table(IDENTIFIER, ("ns", "u"))
    with pytest.raises(NoSuchTableError):
        catalog.load_table(IDENTIFIER)


@pytest.mark.parametrize("body", [b"", b"<html>bad gateway</html>", b'{"metadata": ', b"[]", b"\xff\xfe"])
def test_an_answer_that_is_no_table_does_not_pass_for_one(server: FakeServer, body: bytes) -> None:
    make_table(server.inner)
    server.spoil(answers(lambda: httpx.Response(200, content=body)), "GET", TABLE_ADDRESS)
    with pytest.raises((CatalogUnavailableError, CorruptTableError), match=r"the answer of the server to loading table ns.t"):
        server.catalog().load_table(IDENTIFIER)


MEANINGS: list[tuple[httpx.Response, type[IcebergOpsError], str]] = [
    (error(400, "BadRequestException", "Malformed request: x"), BadInputError, "Malformed request: x"),
    (error(401, "NotAuthorizedException"), TerminalError, "rejects the client's credentials"),
    (error(403, "ForbiddenException", "ns.t is not yours"), TerminalError, "does not permit this.*"),
    (error(404, "NoSuchTableException"), NoSuchTableError, r"catalog rest has no table ns\.t"),
    (error(404, "NoSuchNamespaceException"), NoSuchTableError, "404 NoSuchNamespaceException"),
    (error(404, "NotFoundException", "Failed to open input stream"), CorruptTableError, "a file of the table is missing"),
    (error(404, "NoSuchWarehouseException"), TerminalError, "check the properties uri, warehouse and prefix"),
    (httpx.Response(404, text="<h1>nginx</h1>"), CatalogUnavailableError, "404: <h1>nginx</h1>"),
    (error(406, "UnsupportedOperationException"), UnsupportedError, "not supported by the server"),
    (error(419, "AuthenticationTimeoutException"), TerminalError, "rejects the client's credentials"),
    (error(422, "UnprocessableEntityException"), BadInputError, "422"),
    (httpx.Response(307, headers={"Location": "http://elsewhere"}), TerminalError, "redirects are not followed"),
]


@pytest.mark.parametrize(("answer", "expected", "text"), MEANINGS, ids=lambda v: str(getattr(v, "status_code", "")))
def test_a_refusal_says_what_the_server_says(
    server: FakeServer, answer: httpx.Response, expected: type[IcebergOpsError], text: str
) -> None:
    """REST-05"""
    make_table(server.inner)
    server.spoil(answers(lambda: answer), "GET", TABLE_ADDRESS)
    with pytest.raises(expected, match=text) as raised:
        server.catalog().load_table(IDENTIFIER)
    assert type(raised.value) is expected


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_read_that_fails_for_now_is_asked_again(server: FakeServer, status: int) -> None:
    make_table(server.inner)
    catalog = server.catalog()
    server.spoil(answers(lambda: httpx.Response(status)), "GET", TABLE_ADDRESS, times=2)
    server.spoil(lost_answer, "GET", TABLE_ADDRESS)
    assert catalog.load_table(IDENTIFIER).identifier == ("rest", *IDENTIFIER)
    server.spoil(answers(lambda: httpx.Response(status)), "GET", TABLE_ADDRESS, times=4)
    with pytest.raises(CatalogUnavailableError, match=str(status)):
        catalog.load_table(IDENTIFIER)


@pytest.mark.parametrize(
    ("retry_after", "expected"),
    [("7", [7.0]), ("0", [0.0]), ("61", None), ("soon", [0.2]), ("Wed, 21 Oct 2015 07:28:00 GMT", [0.0])],
)
def test_a_server_that_asks_to_wait_is_waited_for(server: FakeServer, retry_after: str, expected: list[float] | None) -> None:
    waits: list[float] = []
    catalog = server.catalog(sleep=waits.append)
    server.spoil(answers(lambda: error(503, Retry_After=retry_after)), "GET", "/namespaces")
    if expected is None:
        with pytest.raises(CatalogUnavailableError):
            catalog.list_namespaces()
    else:
        assert catalog.list_namespaces() == [("ns",)]
    assert waits == (expected or [])


def test_a_server_that_is_not_there_is_unavailable(server: FakeServer) -> None:
    server.spoil(no_connection, times=4)
    with pytest.raises(CatalogUnavailableError, match=r"catalog rest at http://catalog.test was not reached: ConnectError"):
        server.catalog()


def test_an_address_without_a_catalog_is_told(server: FakeServer) -> None:
    server.spoil(answers(lambda: httpx.Response(404, text="not here")))
    with pytest.raises(TerminalError, match=r"no catalog at http://catalog.test/api/v1/config \(404: not here\)"):
        server.catalog()
    server.spoil(answers(lambda: httpx.Response(200, json=[1])))
    with pytest.raises(TerminalError, match="is not an Iceberg REST catalog"):
        server.catalog()


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("catalog:8181", "must be an address"),
        ("ftp://catalog", "must be an address"),
        ("http://", "must be an address"),
        ("http://h:x", "must be an address"),
        ("http://h/?a=b", "must be an address"),
        ("http://me:geheim@catalog", "must not hold a user or a password"),
    ],
)
def test_a_wrong_address_is_told_without_showing_it(uri: str, text: str) -> None:
    with pytest.raises(OptionError, match=f"catalog property uri {text}") as raised:
        RestCatalog("rest", {"uri": uri})
    assert "geheim" not in str(raised.value)


def test_a_rest_catalog_is_loaded_by_its_type() -> None:
    with pytest.raises(OptionError, match=r"catalog c .type rest. needs the property uri"):
        load_catalog(CatalogConfig(name="c", type="rest"))


def test_headers_are_sent_with_every_request(server: FakeServer) -> None:
    catalog = server.catalog({"header.X-Tenant": "t1", "header.X-Iceberg-Access-Delegation": "remote-signing"})
    make_table(catalog)
    for request in server.requests:
        assert request.headers["X-Tenant"] == "t1"
        assert request.headers["X-Iceberg-Access-Delegation"] == "remote-signing"
        assert request.headers["User-Agent"].startswith("iceberg-ops/")
    for name, value in (("header.", "x"), ("header.a b", "x"), ("header.a", "x\r\nY: z"), ("header.a", "ü")):
        with pytest.raises(OptionError):
            server.catalog({name: value})


@pytest.mark.parametrize(("given", "sent"), [({}, "vended-credentials"), ({"header.X-Iceberg-Access-Delegation": "none"}, None)])
def test_the_server_is_asked_for_credentials_unless_it_is_told_not_to(
    server: FakeServer, given: dict[str, str], sent: str | None
) -> None:
    make_table(server.catalog(given))
    assert server.asked("POST", "/tables")[-1].headers.get("X-Iceberg-Access-Delegation") == sent


def test_a_drop_asks_the_server_to_leave_the_files(server: FakeServer) -> None:
    catalog = server.catalog()
    table = make_table(catalog)
    catalog.drop_table(IDENTIFIER)
    assert dict(server.asked("DELETE")[-1].url.params) == {"purgeRequested": "false"}
    assert catalog.io.exists(table.metadata_location)


def test_a_created_table_is_sent_as_it_was_asked_for(server: FakeServer) -> None:
    table = make_table(server.catalog(), partitioned=True, version=3, properties={"a": "b"})
    sent: Any = json.loads(server.asked("POST", "/tables")[-1].content)
    assert (sent["name"], sent["stage-create"], sent["properties"]) == ("t", False, {"format-version": "3", "a": "b"})
    assert "location" not in sent
    assert (table.metadata.format_version, dict(table.properties)) == (3, {"a": "b"})
