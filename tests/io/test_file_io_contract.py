"""The contract of every FileIO, run against each implementation."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.mapped import MappedFileIO
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.io.resolving import ResolvingFileIO
from tests.servers.stores import STORES, Store

Storage = tuple[FileIO, str]
HERE = ("local", "local with scheme", "memory", "mapped", "resolving")


@pytest.fixture(params=[*HERE, *STORES, "hdfs"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, object_store: Callable[[str], Store]) -> Storage:
    """A FileIO and a prefix to write below, which is the test's own."""
    if request.param not in HERE:
        store = object_store(request.param)
        return load_file_io(store.properties), f"{store.root}/{uuid.uuid4().hex}"
    made: dict[str, Callable[[], Storage]] = {
        "local": lambda: (LocalFileIO(), f"{tmp_path}"),
        "local with scheme": lambda: (LocalFileIO(), f"file://{tmp_path}"),
        "memory": lambda: (MemoryFileIO(str(tmp_path)), "memory://bucket"),
        "resolving": lambda: (ResolvingFileIO(), f"file:{tmp_path}"),
        "mapped": lambda: (MappedFileIO(LocalFileIO(), [("s3://bucket/wh", str(tmp_path))]), "s3://bucket/wh"),
    }
    return made[request.param]()


def test_a_written_file_is_read_back(storage: Storage) -> None:
    io, prefix = storage
    io.write(f"{prefix}/a/b", b"12345")
    assert io.read(f"{prefix}/a/b") == b"12345"
    assert io.exists(f"{prefix}/a/b")
    assert io.length(f"{prefix}/a/b") == 5
    with io.open_input(f"{prefix}/a/b") as stream:
        stream.seek(2)
        assert stream.read() == b"345"


def test_creation_is_exclusive_unless_told_otherwise(storage: Storage) -> None:
    io, prefix = storage
    io.write(f"{prefix}/a", b"1")
    with pytest.raises(FileExistsError, match="a"):
        io.write(f"{prefix}/a", b"2")
    assert io.read(f"{prefix}/a") == b"1"
    io.write(f"{prefix}/a", b"3", overwrite=True)
    assert io.read(f"{prefix}/a") == b"3"
    with pytest.raises(FileExistsError):
        io.open_output(f"{prefix}/a").close()
    assert io.read(f"{prefix}/a") == b"3"


def test_of_many_creators_of_one_file_one_wins(storage: Storage) -> None:
    io, prefix = storage
    won: list[int] = []

    def create(n: int) -> None:
        try:
            io.write(f"{prefix}/v1", str(n).encode() * 1000)
        except FileExistsError:
            return
        won.append(n)

    threads = [threading.Thread(target=create, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert io.read(f"{prefix}/v1") == str(won[0]).encode() * 1000


def test_an_output_is_a_file_only_once_closed(storage: Storage) -> None:
    io, prefix = storage
    output = io.open_output(f"{prefix}/deep/er/a")
    output.write(b"half")
    assert not io.exists(f"{prefix}/deep/er/a")
    output.write(b" whole")
    output.close()
    output.close()
    assert io.read(f"{prefix}/deep/er/a") == b"half whole"


def test_a_failed_or_forgotten_output_leaves_nothing(storage: Storage) -> None:
    io, prefix = storage
    with pytest.raises(TypeError), io.open_output(f"{prefix}/a") as output:
        output.write("half")  # type: ignore[arg-type]
    forgotten = io.open_output(f"{prefix}/b")
    forgotten.write(b"half")
    del forgotten
    assert list(io.list_prefix(prefix)) == []


def test_missing_files_raise_or_are_no_matter(storage: Storage) -> None:
    io, prefix = storage
    for call in (io.read, io.open_input, io.length):
        with pytest.raises(FileNotFoundError, match="nothing"):
            call(f"{prefix}/nothing")
    assert not io.exists(f"{prefix}/nothing")
    io.delete(f"{prefix}/nothing")
    assert io.delete_many([f"{prefix}/nothing"]) == []
    assert list(io.list_prefix(f"{prefix}/nothing")) == []


def test_a_listing_takes_the_prefix_as_a_folder(storage: Storage) -> None:
    io, prefix = storage
    for name in ("t/a", "t/b/c", "t_backup/d"):
        io.write(f"{prefix}/{name}", b"xy")
    for asked in (f"{prefix}/t", f"{prefix}/t/"):
        found = sorted(io.list_prefix(asked), key=lambda f: f.location)
        assert [f.location for f in found] == [f"{prefix}/t/a", f"{prefix}/t/b/c"]
        assert {f.size for f in found} == {2}
        assert all(f.modified_ms and f.modified_ms > 1_500_000_000_000 for f in found)


def test_files_are_deleted_in_bulk(storage: Storage) -> None:
    io, prefix = storage
    locations = [f"{prefix}/{n}" for n in range(40)]
    for location in locations:
        io.write(location, b"")
    assert io.delete_many(locations[1:]) == []
    assert [f.location for f in io.list_prefix(prefix)] == locations[:1]


def test_its_properties_load_to_an_equal_one(storage: Storage) -> None:
    io, prefix = storage
    io.write(f"{prefix}/a", b"1")
    assert load_file_io(io.properties).read(f"{prefix}/a") == b"1"
    assert isinstance(io, FileIO)
