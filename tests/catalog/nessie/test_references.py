"""Branches, tags and commits of Nessie by the catalog's properties and in names; listings and namespaces."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest

from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.catalog.nessie.nessie_catalog import NessieCatalog
from iceberg_ops.catalog.nessie.nessie_client import Nessie, delete, put
from iceberg_ops.catalog.nessie.references import Reference, split_name
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.errors import (
    BadInputError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TerminalError,
)
from iceberg_ops.io.local import LocalFileIO
from tests.builders import IDENTIFIER, live_paths, make_table
from tests.catalog.nessie.helpers import Open, append, metadata_files
from tests.servers.nessie.server import NessieServer
from tests.servers.proxy import Before, FaultProxy, Request

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("t", ("t", None)),
        ("t@dev", ("t", Reference("dev"))),
        ("`t@dev`", ("t", Reference("dev"))),
        ("t@feature/a#1234abcd", ("t", Reference("feature/a", "1234abcd"))),
        ("t#1234abcd", ("t", Reference(None, "1234abcd"))),
        ("'t'", ("'t'", None)),
    ],
)
def test_a_name_may_hold_a_reference(name: str, expected: Any) -> None:
    assert split_name(name) == expected


@pytest.mark.parametrize("name", ["t@", "@dev", "t@a@b", "t#", "t#yesterday", "t@dev#2024-01-01", "t@dev#1234", "t#1234abcd@dev"])
def test_a_name_that_names_no_reference_is_refused(catalog: NessieCatalog, name: str) -> None:
    with pytest.raises(BadInputError, match="with @ or # it must be table@reference"):
        catalog.load_table(("ns", name))


def test_a_branch_a_tag_and_a_commit_are_read_and_only_the_branch_is_written(
    catalog: NessieCatalog, open_catalog: Open, nessie_server: NessieServer, branch: str
) -> None:
    make_table(catalog)
    append(catalog, "a")
    at_a, tag, other = nessie_server.hash(branch), f"tag-{branch}", f"feature/{branch}"
    nessie_server.new_branch(branch, tag, kind="TAG")
    nessie_server.new_branch(branch, other)
    append(catalog, "b", ("ns", f"t@{other}"))
    append(catalog, "c")
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a", "c"}
    assert (
        live_paths(catalog.load_table(("ns", f"`t@{other}`")))
        == {"a", "b"}
        == live_paths(open_catalog(ref=other).load_table(IDENTIFIER))
    )
    for reader, name in (
        (catalog, f"t@{tag}"),
        (open_catalog(ref=tag), "t"),
        (catalog, f"t#{at_a}"),
        (open_catalog(ref_hash=at_a), "t"),
    ):
        before = metadata_files(catalog)
        assert live_paths(reader.load_table(("ns", name))) == {"a"}
        with pytest.raises(TerminalError, match=r"can be read only.*name a branch; nothing was changed"):
            append(reader, "x", ("ns", name))
        with pytest.raises(TerminalError, match="can be read only"):
            reader.drop_table(("ns", name))
        with pytest.raises(TerminalError, match="can be read only"):
            reader.rename_table(("ns", name), ("ns", "u"))
        assert metadata_files(catalog) == before
    with pytest.raises(TerminalError, match="can be read only"):
        make_table(open_catalog(ref=tag), identifier=("ns", "new"))
    with pytest.raises(TerminalError, match="can be read only"):
        open_catalog(ref=tag).create_namespace(("more",))


def test_a_reference_that_is_missing_is_no_missing_table(open_catalog: Open, catalog: NessieCatalog) -> None:
    make_table(catalog)
    for reader, name in ((open_catalog(ref="nowhere"), "t"), (catalog, "t@nowhere"), (catalog, f"t#{'12' * 32}")):
        with pytest.raises(TerminalError, match="Create the reference in Nessie, or set the property ref") as error:
            reader.load_table(("ns", name))
        assert not isinstance(error.value, NoSuchTableError)
        with pytest.raises(TerminalError, match="refused"):
            reader.table_exists(("ns", name))


def test_without_a_reference_the_servers_default_branch_is_used(nessie_server: NessieServer) -> None:
    config = CatalogConfig(name="n", type="nessie", properties={"nessie.uri": nessie_server.uri, "warehouse": "/wh"})
    assert load_catalog(config).list_namespaces() == []
    assert Nessie("n", config.properties).reference_name(Reference()) == "main"


def test_a_table_is_created_renamed_and_dropped_on_another_branch_by_its_name(
    catalog: NessieCatalog, open_catalog: Open, nessie_server: NessieServer
) -> None:
    other = nessie_server.new_branch()
    there = open_catalog(ref=other)
    there.create_namespace(("ns",), {"location": f"{catalog._warehouse}/elsewhere"})
    made = make_table(catalog, identifier=("ns", f"t@{other}"))
    assert made.location.startswith(f"{catalog._warehouse}/elsewhere/t_")
    assert there.list_tables(("ns",)) == [IDENTIFIER]
    assert catalog.list_tables(("ns",)) == []
    with pytest.raises(TerminalError, match="is on another reference"):
        catalog.rename_table(("ns", f"t@{other}"), ("ns", "u"))
    catalog.rename_table(("ns", f"t@{other}"), ("ns", f"u@{other}"))
    there.rename_table(("ns", "u"), ("ns", f"v@{other}"))
    catalog.drop_table(("ns", f"v@{other}"))
    assert there.list_tables(("ns",)) == []


def test_tables_of_one_name_on_two_branches_lie_in_two_folders(
    catalog: NessieCatalog, open_catalog: Open, nessie_server: NessieServer
) -> None:
    there = open_catalog(ref=nessie_server.new_branch())
    there.create_namespace(("ns",))
    assert make_table(catalog).location != make_table(there).location


# listings and namespaces


def test_lists_come_in_pages_of_one_state(
    open_catalog: Open, catalog: NessieCatalog, nessie_server: NessieServer, branch: str
) -> None:
    """Further pages are asked for on the commit of the first, so a table that is renamed in the meantime is listed once."""
    content = {"type": "ICEBERG_TABLE", "metadataLocation": "m", "snapshotId": -1, "schemaId": 0, "specId": 0, "sortOrderId": 0}
    tables = [("ns", f"t{n}") for n in range(9)]
    nessie_server.commit(branch, *(put(key, content) for key in tables), put(("ns", "t@x"), content))

    def small(request: Request) -> Request:
        return replace(request, path=request.path.replace("max-records=1000", "max-records=4"))

    with FaultProxy(nessie_server.address, ask_as=small) as proxy:
        reader = open_catalog(uri=f"{proxy.endpoint}/api/v2")
        rename = Before(lambda _: nessie_server.commit(branch, delete(("ns", "t0")), put(("ns", "t99"), content)))
        proxy.spoil(rename, path="page-token")
        assert reader.list_tables(("ns",)) == tables
        assert len([r for r in proxy.requests if "page-token" in r.path]) == 2
    assert ("ns", "t99") in catalog.list_tables(("ns",))


def test_namespaces_need_not_be_created_and_may_have_any_name(
    catalog: NessieCatalog, nessie_server: NessieServer, branch: str
) -> None:
    odd = ("a.b", "x\"\\y'z", "ü日 %`")
    catalog.create_namespace(odd, {"k": "v"})
    assert catalog.namespace_properties(odd) == {"k": "v"}
    assert catalog.namespace_properties(odd[:2]) == {}
    assert catalog.list_namespaces(odd[:2]) == [odd]
    make_table(catalog, identifier=(*odd, "t.1"))
    append(catalog, "a", (*odd, "t.1"))
    assert catalog.list_tables(odd) == [(*odd, "t.1")]
    assert catalog.list_tables(odd[:1]) == []
    assert catalog.list_namespaces() == [("a.b",), ("ns",)]
    with pytest.raises(BadInputError, match="is not empty"):
        catalog.drop_namespace(odd)
    with pytest.raises(BadInputError, match="is not a namespace"):
        catalog.create_namespace((*odd, "t.1", "below"))
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables((*odd, "t.1"))
    for wrong in (("a@b",), ("a#b",), ("x" * 255, "y" * 255), ("😀" * 63,) * 4, tuple("abcdefghijklmnopqrstu")):
        with pytest.raises(BadInputError):
            catalog.create_namespace(wrong)
        assert not catalog.table_exists((*wrong, "t")) or "@" in wrong[0]
    for nowhere in (("ns", ""), ("ns", "a\n"), ("ns", "x" * 600), ("ns",), ()):
        assert not catalog.table_exists(nowhere)


@pytest.mark.parametrize("is_table", [False, True], ids=["only its tables show it", "it is a table, too"])
def test_a_namespace_that_was_never_created_is_found(is_table: bool) -> None:
    """Of servers that do not check namespaces: answered by a fake one, because this server checks."""
    table = {"key": {"elements": ["old"]}, "content": {"type": "ICEBERG_TABLE", "id": "1", "metadataLocation": "/m"}}
    entry = {"type": "ICEBERG_TABLE", "name": {"elements": ["old", "t"]}}

    def answer(request: httpx.Request) -> httpx.Response:
        effective = {"type": "BRANCH", "name": "b", "hash": "ab" * 32}
        if request.url.path.endswith("/contents"):
            is_asked = is_table and b'"old"' in request.content
            return httpx.Response(200, json={"contents": [table] if is_asked else [], "effectiveReference": effective})
        return httpx.Response(200, json={"entries": [entry], "hasMore": False, "effectiveReference": effective})

    client = Nessie("n", {"uri": "http://n/api/v2", "ref": "b"}, transport=httpx.MockTransport(answer))
    old = NessieCatalog("n", client, LocalFileIO())
    assert old.list_namespaces() == [("old",)]
    assert old.list_tables(("old",)) == [("old", "t")]
    assert old.namespace_properties(("old",)) == {}
    with pytest.raises(NoSuchNamespaceError):
        old.list_tables(("new",))
