"""A filesystem catalog on object stores: the commit is a conditional PUT, and there are no folders."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.errors import NoSuchTableError, UnsupportedError
from iceberg_ops.io.load import load_file_io
from tests.builders import IDENTIFIER, append_file, live_paths, make_table
from tests.servers.process import LOOPBACK
from tests.servers.proxy import Answer, ChangedAnswer, FaultProxy, LostAnswer, Request
from tests.servers.stores import STORES, Store


def _catalog(properties: Mapping[str, str], warehouse: str) -> Any:
    return FileSystemCatalog("fs", load_file_io(properties), warehouse=warehouse, sleep=lambda _: None)


@pytest.fixture
def warehouse(object_store: Callable[[str], Store]) -> tuple[Store, str]:
    store = object_store("versitygw")
    return store, f"{store.root}/{uuid.uuid4().hex}"


@pytest.mark.parametrize("name", STORES)
def test_of_writers_that_meet_none_loses_a_commit(name: str, object_store: Callable[[str], Store]) -> None:
    store = object_store(name)
    warehouse = f"{store.root}/{uuid.uuid4().hex}"
    made = _catalog(store.properties, warehouse)
    made.create_namespace(("ns",))
    make_table(made, properties={"commit.retry.num-retries": "40"})

    def work(writer: int) -> None:
        catalog = _catalog(store.properties, warehouse)
        for number in range(3):
            append_file(catalog, f"{writer}-{number}")

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(work, writer) for writer in range(4)]:
            done.result()
    table = made.load_table(IDENTIFIER)
    assert len(live_paths(table)) == len(table.metadata.snapshots) == 12
    assert table.metadata_location == f"{warehouse}/ns/t/metadata/v13.metadata.json"


@pytest.mark.parametrize("fault", [LostAnswer(), ChangedAnswer.of(502)], ids=["lost", "502"])
def test_a_commit_whose_answer_is_lost_is_one_commit(warehouse: tuple[Store, str], fault: Any) -> None:
    store, root = warehouse
    with FaultProxy((LOOPBACK, store.port)) as proxy:
        catalog = _catalog({**store.behind(proxy.endpoint).properties, "s3.retry.min-wait-ms": "1"}, root)
        catalog.create_namespace(("ns",))
        make_table(catalog)
        proxy.spoil(fault, method="PUT", path=".metadata.json")
        append_file(catalog, "a")
        assert any(request.status in (None, 502) for request in proxy.requests)
    assert len(_catalog(store.properties, root).load_table(IDENTIFIER).metadata.snapshots) == 1


def _heedless(request: Request) -> Request:
    return replace(request, headers={n: v for n, v in request.headers.items() if n.lower() != "if-none-match"})


def test_a_store_that_passes_over_conditions_is_refused_at_the_first_commit(object_store: Callable[[str], Store]) -> None:
    store = object_store("moto")
    root = f"{store.root}/{uuid.uuid4().hex}"
    whole = _catalog(store.properties, root)
    whole.create_namespace(("ns",))
    make_table(whole)
    with FaultProxy((LOOPBACK, store.port), ask_as=_heedless) as proxy:
        catalog = _catalog(store.behind(proxy.endpoint).properties, root)
        with pytest.raises(UnsupportedError, match="overwrites an object that must not exist"):
            append_file(catalog, "a")
        with pytest.raises(UnsupportedError, match="overwrites an object that must not exist"):
            make_table(catalog, identifier=("ns", "u"))
    assert whole.load_table(IDENTIFIER).metadata.snapshots == ()
    with pytest.raises(NoSuchTableError):
        whole.load_table(("ns", "u"))
    assert not [info for info in whole.io.list_prefix(root) if "exclusive-creation" in info.location]


def test_a_store_that_has_no_conditions_is_refused_as_well(warehouse: tuple[Store, str]) -> None:
    store, root = warehouse
    with FaultProxy((LOOPBACK, store.port)) as proxy:
        catalog = _catalog({**store.behind(proxy.endpoint).properties, "s3.retry.num-retries": "0"}, root)
        catalog.create_namespace(("ns",))
        refusal = b"<Error><Code>NotImplemented</Code><Message>A header you provided implies functionality</Message></Error>"
        proxy.spoil(Answer(501, refusal), when=lambda request: "If-None-Match" in {n.title() for n in request.headers}, times=None)
        with pytest.raises(UnsupportedError, match="the store does not support the request"):
            make_table(catalog)


def test_namespaces_are_listed_without_what_is_in_them(warehouse: tuple[Store, str]) -> None:
    store, root = warehouse
    with FaultProxy((LOOPBACK, store.port)) as proxy:
        catalog = _catalog(store.behind(proxy.endpoint).properties, root)
        for namespace in (("ns",), ("ns", "deep"), ("empty",)):
            catalog.create_namespace(namespace)
        make_table(catalog)
        proxy.forget()
        assert catalog.list_namespaces() == [("empty",), ("ns",)]
        assert all("delimiter=" in request.path for request in proxy.requests if "list-type" in request.path)
        assert catalog.list_namespaces(("ns",)) == [("ns", "deep")]
        assert catalog.list_tables(("ns",)) == [IDENTIFIER]
        catalog.drop_namespace(("empty",))
        assert catalog.list_namespaces() == [("ns",)]
        catalog.drop_table(IDENTIFIER, purge=True)
        assert (catalog.list_tables(("ns",)), catalog.list_namespaces()) == ([], [("ns",)])
