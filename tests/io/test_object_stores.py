"""What object stores are asked beyond the contract of every FileIO: odd keys, races, long listings, large files, few requests.

Four rounds of 16 writers and a few hundred keys here; by ``make torture`` 40 rounds and 5,100 keys.
"""

from __future__ import annotations

import math
import os
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from iceberg_ops.errors import UnsupportedError
from iceberg_ops.io.file_io import FileIO, discard_output, names_in
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.memory import MemoryFileIO
from tests.servers.process import LOOPBACK
from tests.servers.proxy import FaultProxy
from tests.servers.stores import PAGES, STORES, Store

FULL = "ICEBERG_OPS_TORTURE" in os.environ
ROUNDS = 40 if FULL else 4
KEYS = dict.fromkeys(STORES, 5_100) if FULL else {"versitygw": 1_100, "moto": 250, "gcs": 250, "azurite": 300}
"""Keys of a long listing: more than a page (which on Azure has 5,000), and than one request deletes (1,000 on S3, 256 on Azure)."""
MIB = 1 << 20

Storage = tuple[FileIO, str]

ODD = {
    "space": "a b/c d",
    "percent": "day=1%3A30/100%",
    "plus": "a+b",
    "hash": "a#b",
    "question mark": "a?b=c&d",
    "quotes": "'a' \"b\"",
    "angle brackets": "<a>&amp;",
    "umlauts": "ärger/ß",
    "emoji": "😀/🧊.parquet",
    "backslash": "a\\b",
    "wild cards": "*/[a]/{b}",
    "colon": "12:30:00",
    "tilde and dots": "~a/..b/c../...",
    "long": "/".join(["x" * 200] * 4),
}


@pytest.fixture(params=list(STORES))
def storage(request: pytest.FixtureRequest, object_store: Callable[[str], Store]) -> Storage:
    """A FileIO and a prefix to write below, which is the test's own."""
    store = object_store(request.param)
    return load_file_io(store.properties), f"{store.root}/{uuid.uuid4().hex}"


@pytest.mark.parametrize("key", ODD.values(), ids=ODD)
def test_a_key_is_taken_as_it_is_written(storage: Storage, key: str) -> None:
    io, prefix = storage
    location = f"{prefix}/{key}"
    if "\\" in key and prefix.startswith("abfss"):
        with pytest.raises(UnsupportedError, match="a backslash, which Azure takes for a slash"):
            io.write(location, b"1")
        return
    io.write(location, b"1")
    with pytest.raises(FileExistsError):
        io.write(location, b"2")
    assert io.read(location) == b"1"
    assert (io.exists(location), io.length(location)) == (True, 1)
    assert [info.location for info in io.list_prefix(prefix)] == [location]
    assert io.delete_many([location]) == []
    assert not io.exists(location)


@pytest.mark.parametrize("key", ["a//b", "/a", "a/./b", "a/../b", "a/", "new\nline", "bell\a", "half \ud800", "\uffff"])
def test_a_key_that_the_client_takes_for_another_one_is_refused(storage: Storage, key: str) -> None:
    io, prefix = storage
    calls: list[Callable[[str], Any]] = [io.read, io.open_input, io.open_output, io.exists, io.length, io.delete]
    for call in (*calls, lambda location: io.write(location, b"")):
        with pytest.raises(UnsupportedError, match=r"not supported: location .*, because its key has"):
            call(f"{prefix}/{key}")
    (failure,) = io.delete_many([f"{prefix}/{key}"])
    assert failure.reason.startswith("not supported: location")


def test_a_bucket_is_no_file(storage: Storage) -> None:
    io, prefix = storage
    with pytest.raises(UnsupportedError, match="it names a whole bucket"):
        io.read(prefix.rpartition("/")[0])


def test_an_empty_file_is_a_file(storage: Storage) -> None:
    io, prefix = storage
    io.write(f"{prefix}/a", b"")
    io.open_output(f"{prefix}/b").close()
    for location in (f"{prefix}/a", f"{prefix}/b"):
        assert io.read(location) == io.open_input(location).read() == b""
        assert (io.exists(location), io.length(location)) == (True, 0)
    assert sorted(info.location for info in io.list_prefix(prefix)) == [f"{prefix}/a", f"{prefix}/b"]


@pytest.fixture(params=["local", "memory", *STORES])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """As ``storage``; also this machine's files, and those in memory."""
    if request.param == "local":
        return LocalFileIO(), str(tmp_path)
    if request.param == "memory":
        return MemoryFileIO(str(tmp_path)), "memory://bucket"
    store = request.getfixturevalue("object_store")(request.param)
    return load_file_io(store.properties), f"{store.root}/{uuid.uuid4().hex}"


def test_of_sixteen_writers_one_creates_the_file(place: Storage) -> None:
    io, prefix = place
    for number in range(ROUNDS):
        location, won, start = f"{prefix}/v{number}", list[int](), threading.Barrier(16)

        def create(n: int, location: str = location, won: list[int] = won, start: threading.Barrier = start) -> None:
            start.wait()
            try:
                io.write(location, b"%d" % n)
            except FileExistsError:
                return
            won.append(n)

        with ThreadPoolExecutor(16) as threads:
            for done in [threads.submit(create, n) for n in range(16)]:
                done.result()
        assert len(won) == 1
        assert io.read(location) == b"%d" % won[0]


def test_writers_of_equal_bytes_do_not_take_each_others_file_for_their_own(storage: Storage) -> None:
    io, prefix = storage
    won: list[int] = []

    def create(n: int) -> None:
        try:
            io.write(f"{prefix}/v", b"same")
        except FileExistsError:
            return
        won.append(n)

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(create, n) for n in range(8)]:
            done.result()
    assert len(won) == 1


@pytest.mark.parametrize("name", STORES)
def test_a_listing_has_every_page(name: str, object_store: Callable[[str], Store]) -> None:
    store = object_store(name)
    io, prefix = load_file_io(store.properties), f"{store.root}/{uuid.uuid4().hex}"
    locations = [f"{prefix}/k{number:05d}" for number in range(KEYS[name])]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda location: io.write(location, b"x", overwrite=True), locations))
    with FaultProxy((LOOPBACK, store.port)) as proxy:
        listed = load_file_io(store.behind(proxy.endpoint).properties)
        assert sorted(info.location for info in listed.list_prefix(prefix)) == locations
        assert [request.method for request in proxy.requests] == ["GET"] * math.ceil(KEYS[name] / PAGES[name])
    assert sorted(names_in(io, prefix)) == [location.rpartition("/")[2] for location in locations]
    assert io.delete_many(locations) == []
    assert list(io.list_prefix(prefix)) == []


def test_folders_are_listed_one_level_at_a_time(storage: Storage) -> None:
    io, prefix = storage
    for name in ("a", "b/c", "b/d/e", "f/g"):
        io.write(f"{prefix}/{name}", b"x")
    folders, files = load_file_io(io.properties).list_folder(prefix)  # type: ignore[attr-defined]
    assert sorted(folders) == [f"{prefix}/b", f"{prefix}/f"]
    assert [(info.location, info.size) for info in files] == [(f"{prefix}/a", 1)]
    assert sorted(names_in(io, f"{prefix}/b")) == ["c", "d"]
    assert names_in(io, f"{prefix}/nothing") == []


def test_a_large_file_is_uploaded_in_parts_and_read_in_any_order(storage: Storage) -> None:
    io, prefix = storage
    io = load_file_io({**io.properties, "s3.multipart.part-size-bytes": str(5 * MIB)})
    content = os.urandom(MIB) * 12 + b"end"
    with io.open_output(f"{prefix}/large") as output:
        for start in range(0, len(content), 700_000):
            output.write(content[start : start + 700_000])
        assert output.tell() == len(content)
        assert not io.exists(f"{prefix}/large")
    assert io.read(f"{prefix}/large") == content
    with io.open_input(f"{prefix}/large") as stream:
        for start, length in (
            (0, 10),
            (10, 5),
            (6 * MIB, 3 * MIB),
            (len(content) - 3, 10),
            (MIB - 1, 2),
            (5, 0),
            (len(content), 1),
        ):
            stream.seek(start)
            assert stream.read(length) == content[start : start + length]
            assert stream.tell() == min(start + length, len(content))
        stream.seek(-3, os.SEEK_END)
        assert stream.read() == b"end"
        stream.seek(0)
        assert b"".join(iter(lambda: stream.read(777_777), b"")) == content
    with pytest.raises(FileExistsError), io.open_output(f"{prefix}/large") as output:
        output.write(content)
    assert io.length(f"{prefix}/large") == len(content)


def test_lines_are_read_without_a_request_for_each_byte(storage: Storage) -> None:
    io, prefix = storage
    lines = [b"line %d\n" % n for n in range(50_000)]
    io.write(f"{prefix}/text", b"".join(lines))
    with io.open_input(f"{prefix}/text") as stream:
        assert list(stream) == lines


def test_files_of_several_stores_are_deleted_by_one_call(object_store: Callable[[str], Store], tmp_path: Any) -> None:
    stores = [object_store(name) for name in STORES if name != "moto"]  # two that speak S3 need two sets of properties
    io = load_file_io({k: v for store in stores for k, v in store.properties.items()})
    locations = [f"{store.root}/{uuid.uuid4().hex}/f" for store in stores]
    locations.append(f"{tmp_path}/f")
    for location in locations:
        io.write(location, b"")
    failures = io.delete_many([*locations, "webhdfs://host/f"])
    assert [failure.location for failure in failures] == ["webhdfs://host/f"]
    assert not any(io.exists(location) for location in locations)


def test_a_failure_is_told_of_every_spelling_of_a_file(object_store: Callable[[str], Store]) -> None:
    store = object_store("versitygw")
    io = load_file_io({**store.properties, "s3.secret-access-key": "wrong"})
    locations = [f"{scheme}://{store.root[5:]}/f" for scheme in ("s3", "s3a")]
    assert [failure.location for failure in io.delete_many(locations)] == locations


# requests


@pytest.fixture
def watched(object_store: Callable[[str], Store]) -> Any:
    """An S3 store behind a proxy that records what it is asked."""
    store = object_store("versitygw")
    with FaultProxy((LOOPBACK, store.port)) as proxy:
        yield load_file_io(store.behind(proxy.endpoint).properties), f"{store.root}/{uuid.uuid4().hex}", proxy


def _asked(proxy: FaultProxy, act: Callable[[], Any]) -> list[str]:
    proxy.forget()
    act()
    return [request.method for request in proxy.requests]


def _written(output: BinaryIO) -> None:
    with output:
        output.write(b"x")


def test_a_small_file_costs_one_request(watched: tuple[FileIO, str, FaultProxy]) -> None:
    io, prefix, proxy = watched
    assert _asked(proxy, lambda: io.write(f"{prefix}/a", b"x" * 1000)) == ["PUT"]
    assert _asked(proxy, lambda: io.read(f"{prefix}/a")) == ["GET"]
    assert _asked(proxy, lambda: io.open_input(f"{prefix}/a").read()) == ["GET"]
    assert _asked(proxy, lambda: _written(io.open_output(f"{prefix}/b"))) == ["PUT"]
    assert _asked(proxy, lambda: io.exists(f"{prefix}/a")) == ["HEAD"]
    assert _asked(proxy, lambda: list(io.list_prefix(prefix))) == ["GET"]
    assert _asked(proxy, lambda: io.delete_many([f"{prefix}/{n}" for n in range(1000)])) == ["POST"]


def test_a_parquet_file_is_read_by_footer_and_column_chunks(watched: tuple[FileIO, str, FaultProxy]) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from iceberg_ops.data.arrow.arrow_sources import arrow_source

    io, prefix, proxy = watched
    rows = pa.table({name: np.random.default_rng(1).random(200_000) for name in "abcde"})
    with io.open_output(f"{prefix}/rows.parquet") as output:
        pq.write_table(rows, output, row_group_size=100_000)

    def read() -> None:
        with arrow_source(io, f"{prefix}/rows.parquet") as source:
            assert pq.ParquetFile(source, pre_buffer=True).read(["b"]).equals(rows.select(["b"]))

    assert _asked(proxy, read) == ["GET"] * 3


def test_an_upload_that_is_discarded_leaves_no_parts(watched: tuple[FileIO, str, FaultProxy]) -> None:
    io, prefix, proxy = watched
    io = load_file_io({**io.properties, "s3.multipart.part-size-bytes": str(5 * MIB)})
    output = io.open_output(f"{prefix}/large")
    output.write(os.urandom(6 * MIB))
    output.write(os.urandom(6 * MIB))
    discard_output(output)
    ends = [request for request in proxy.requests if "uploadId" in request.path and request.method == "DELETE"]
    assert [request.status for request in ends] == [204]
    assert not io.exists(f"{prefix}/large")
