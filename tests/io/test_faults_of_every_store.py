"""Each kind of store, on a network that loses answers and cuts them short, and with objects that mark folders."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from iceberg_ops.errors import CatalogUnavailableError
from iceberg_ops.io.file_io import FileIO, names_in
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.stores import listings
from tests.io.test_store_faults import CALLS, World
from tests.servers.process import LOOPBACK
from tests.servers.proxy import Answer, ChangedAnswer, CutAnswer, Fault, FaultProxy, LostAnswer, LostRequest, Reply, Request
from tests.servers.stores import STORES, Store

QUICK = {"retry.num-retries": "3", "retry.min-wait-ms": "1", "retry.max-wait-ms": "2"}
LISTINGS: dict[str, Callable[[Any, str], object]] = {
    "list_prefix": lambda io, prefix: [info.location for info in io.list_prefix(prefix)],
    "list_folder": lambda io, prefix: [info.location for info in io.list_folder(prefix)[1]],
}
MARK = "mark-of-a-folder"


def quick(store: Store) -> FileIO:
    """With short waits between tries."""
    return load_file_io({**store.properties, **{f"{kind}.{k}": v for kind in ("s3", "gcs", "adls") for k, v in QUICK.items()}})


@pytest.fixture(params=list(STORES))
def world(request: pytest.FixtureRequest, object_store: Callable[[str], Store]) -> Iterator[World]:
    store = object_store(request.param)
    with FaultProxy((LOOPBACK, store.port)) as proxy:
        yield World(quick(store.behind(proxy.endpoint)), load_file_io(store.properties), proxy, f"{store.root}/{uuid.uuid4().hex}")


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    "fault", [Answer(503), LostRequest(), LostAnswer(), Answer(500), Answer(429), ChangedAnswer.of(502)],
    ids=["503", "never came", "lost", "500", "429", "502"],
)  # fmt: skip
def test_what_passes_is_tried_again(world: World, call: Callable[[FileIO, str], object], fault: Fault) -> None:
    world.other.write(f"{world.prefix}/there", b"there")
    world.proxy.spoil(fault, times=2)
    call(world.io, world.prefix)


@pytest.mark.parametrize(
    "fault", [LostAnswer(), LostRequest(), CutAnswer(3), Answer(503)], ids=["lost", "never came", "cut", "503"]
)
def test_a_bulk_delete_is_repeated(world: World, fault: Fault) -> None:
    locations = [f"{world.prefix}/f{number}" for number in range(5)]
    for location in locations:
        world.other.write(location, b"x")
    world.proxy.spoil(fault, times=2)
    assert world.io.delete_many(locations) == []
    assert list(world.other.list_prefix(world.prefix)) == []


def test_of_files_that_could_not_be_deleted_each_is_named(world: World) -> None:
    """The answer to a bulk request says so of one of them, and so does that to a request for it alone."""
    locations = [f"{world.prefix}/f{number:02}" for number in range(20)]
    for location in locations:
        world.other.write(location, b"x")
    kept = locations[0]
    key = kept.removeprefix(world.prefix.rpartition("/")[0] + "/").encode()
    denied = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"

    def partly(reply: Reply) -> Reply:
        if b"multipart" in dict(reply.headers).get("content-type", dict(reply.headers).get("Content-Type", "")).encode():
            return replace(reply, body=reply.body.replace(b"202 Accepted", b"403 Forbidden", 1))
        error = denied.replace(b"<Error>", b"<Error><Key>%s</Key>" % key)
        return Reply(200, (), b"<DeleteResult>%s</DeleteResult>" % error)

    world.proxy.spoil(ChangedAnswer(partly), method="POST")
    world.proxy.spoil(Answer(403, denied), when=lambda request: request.path.endswith("f00") or key in request.body, times=None)
    failures = world.io.delete_many([*locations, f"{world.prefix}/gone"])
    assert [failure.location for failure in failures] == [kept]
    assert "refuses access" in failures[0].reason
    assert {info.location for info in world.other.list_prefix(world.prefix)} <= {kept}


@pytest.mark.parametrize("listing", LISTINGS.values(), ids=LISTINGS)
def test_a_listing_that_is_cut_is_asked_for_again(world: World, listing: Callable[[Any, str], object]) -> None:
    locations = [f"{world.prefix}/f{number}" for number in range(5)]
    for location in locations:
        world.other.write(location, b"x")
    world.proxy.spoil(CutAnswer(60), method="GET", times=2)
    assert listing(world.io, world.prefix) == locations
    world.proxy.spoil(CutAnswer(60), method="GET", times=None)
    with pytest.raises(CatalogUnavailableError, match=f"{world.prefix}: the store's answer ends in the middle"):
        listing(world.io, world.prefix)


@pytest.mark.parametrize("name", ["moto", "gcs"])
def test_a_long_listing_goes_on_after_the_page_before_the_cut_one(
    name: str, object_store: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of two keys, which these stores give without a look at the signature."""

    def in_small_pages(request: Request) -> Request:
        return replace(request, path=f"{request.path}&max-keys=2") if "list-type" in request.path else request

    monkeypatch.setattr(listings, "_PAGE", 2)
    store = object_store(name)
    with FaultProxy((LOOPBACK, store.port), ask_as=in_small_pages) as proxy:
        io, prefix = quick(store.behind(proxy.endpoint)), f"{store.root}/{uuid.uuid4().hex}"
        locations = sorted(f"{prefix}/{key}" for key in ("a", "b c", "d+e", "f%20g", "h/i", "h-", "é", "😀"))
        for location in locations:
            io.write(location, b"x")
        proxy.spoil(CutAnswer(60), method="GET", path="list-type", after=2, times=2)
        assert [info.location for info in io.list_prefix(prefix)] == locations
        assert [request.path for request in proxy.requests if "start-after" in request.path]


@pytest.mark.parametrize("name", ["read", "open_input"])
def test_an_answer_that_ends_early_is_never_a_short_file(world: World, name: str) -> None:
    content = os.urandom(3 << 20)
    world.other.write(f"{world.prefix}/there", content)
    world.proxy.spoil(CutAnswer(100_000), method="GET", times=2)
    assert CALLS[name](world.io, world.prefix) == content


@pytest.mark.parametrize("store_name", STORES)
def test_objects_that_mark_folders_are_no_files(store_name: str, object_store: Callable[[str], Store]) -> None:
    """Consoles of stores, Hadoop and Spark make them, also for the folder that is listed."""

    def marking(reply: Reply) -> Reply:
        return replace(reply, body=reply.body.replace(f"/{MARK}<".encode(), b"/<"))

    store = object_store(store_name)
    prefix = f"{store.root}/{uuid.uuid4().hex}"
    with FaultProxy((LOOPBACK, store.port), answer_as=marking) as proxy:
        io: Any = load_file_io(store.behind(proxy.endpoint).properties)
        for name in (MARK, f"t/{MARK}", f"t/metadata/{MARK}", f"t/empty/{MARK}"):
            io.write(f"{prefix}/{name}", b"")
        io.write(f"{prefix}/t/metadata/v1", b"1")
        io.write(f"{prefix}/t/nothing", b"")
        for folder in (prefix, f"{prefix}/t"):
            assert sorted(info.location for info in io.list_prefix(folder)) == [f"{prefix}/t/metadata/v1", f"{prefix}/t/nothing"]
        assert names_in(io, prefix) == ["t"]
        assert sorted(names_in(io, f"{prefix}/t")) == ["empty", "metadata", "nothing"]
        assert names_in(io, f"{prefix}/t/metadata") == ["v1"]
        assert io.list_folder(f"{prefix}/t/empty") == ([], [])
