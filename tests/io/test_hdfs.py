"""What HDFS is asked beyond the contract of every FileIO: names, races, long listings, large files, rights, processes, faults.

``make torture`` takes the whole size, as for object stores."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import hdfs_native
import pytest

from iceberg_ops.errors import (
    CatalogUnavailableError,
    TerminalError,
    UnsupportedError,
)
from iceberg_ops.io.file_io import FileIO, discard_output, names_in
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.local import remove_empty_folders
from tests.io.test_object_stores import FULL, MIB, ODD, ROUNDS
from tests.servers.stores import Store

KEYS = 5_000 if FULL else 1_100
"""A page of the name node has 1,000."""

Storage = tuple[FileIO, str]


@pytest.fixture(scope="module")
def store(object_store: Callable[[str], Store]) -> Store:
    return object_store("hdfs")


@pytest.fixture
def storage(store: Store) -> Storage:
    return load_file_io(store.properties), f"{store.root}/{uuid.uuid4().hex}"


def _path(location: str) -> str:
    return "/" + location.split("/", 3)[3]


# names


@pytest.mark.parametrize("key", [key for key in ODD.values() if ":" not in key], ids=[n for n in ODD if n != "colon"])
def test_a_name_is_taken_as_it_is_written(storage: Storage, key: str) -> None:
    io, prefix = storage
    location = f"{prefix}/{key}"
    io.write(location, b"1")
    with pytest.raises(FileExistsError):
        io.write(location, b"2")
    assert io.read(location) == b"1"
    assert (io.exists(location), io.length(location)) == (True, 1)
    assert [info.location for info in io.list_prefix(prefix)] == [location]
    assert io.delete_many([location]) == []
    assert not io.exists(location)


def test_a_path_is_resolved_as_java_does_it(storage: Storage) -> None:
    io, prefix = storage
    io.write(f"{prefix}/a/b", b"1")
    for spelled in ("a//b", "a/./b", "x/../a/b", "a/b/"):
        assert io.read(f"{prefix}/{spelled}") == b"1"
        with pytest.raises(FileExistsError):
            io.write(f"{prefix}/{spelled}", b"2")


@pytest.mark.parametrize("key", ["12:30", "a:b/c", "nul\0x", "half \ud83d"])
def test_a_name_that_hdfs_does_not_have_is_refused(storage: Storage, key: str) -> None:
    io, prefix = storage
    calls: list[Callable[[str], Any]] = [io.read, io.open_input, io.open_output, io.exists, io.length, io.delete]
    for call in (*calls, lambda location: io.write(location, b"")):
        with pytest.raises(UnsupportedError, match=r"not supported: location .* in HDFS, because"):
            call(f"{prefix}/{key}")
    (failure,) = io.delete_many([f"{prefix}/{key}"])
    assert failure.reason.startswith("not supported: location")


def test_second_names_of_all_files_are_refused(store: Store) -> None:
    """Below ``/.reserved/raw`` is every file once more, and no identity would show it."""
    io = load_file_io(store.properties)
    for path in ("/.reserved/raw/a", "/.reserved/.inodes/16386", "//x/../.reserved/raw/a"):
        with pytest.raises(UnsupportedError, match="files that have another name"):
            io.exists(f"{store.root}{path}")


def test_a_name_that_is_too_long_is_an_error_of_the_system(storage: Storage) -> None:
    io, prefix = storage
    assert not io.exists(f"{prefix}/{'x' * 300}")
    with pytest.raises(OSError, match="too long"):
        io.write(f"{prefix}/{'x' * 300}", b"")
    io.write(f"{prefix}/{'x' * 255}", b"")


def test_without_authority_the_default_file_system_is_meant(store: Store) -> None:
    path = f"/{uuid.uuid4().hex}/f"
    io = load_file_io({**store.properties, "hadoop.fs.defaultFS": store.root})
    io.write(f"hdfs:{path}", b"1")
    assert io.read(f"{store.root}{path}") == io.read(f"hdfs://{path}") == b"1"
    only = load_file_io({**io.properties, "io-impl": "hdfs"})
    assert only.read(path) == b"1"
    with pytest.raises(UnsupportedError, match=r"fs\.defaultFS names none"):
        load_file_io(store.properties).read(f"hdfs:{path}")


# files


def test_an_empty_file_is_a_file(storage: Storage) -> None:
    io, prefix = storage
    io.write(f"{prefix}/a", b"")
    io.open_output(f"{prefix}/b").close()
    for location in (f"{prefix}/a", f"{prefix}/b"):
        assert io.read(location) == io.open_input(location).read() == b""
        assert (io.exists(location), io.length(location)) == (True, 0)


def test_a_folder_is_no_file(storage: Storage) -> None:
    io, prefix = storage
    io.write(f"{prefix}/a/b", b"1")
    assert not io.exists(f"{prefix}/a")
    for call in (io.read, io.length, io.open_input):
        with pytest.raises(FileNotFoundError):
            call(f"{prefix}/a")
    with pytest.raises(FileExistsError):
        io.write(f"{prefix}/a", b"")
    with pytest.raises(NotADirectoryError):
        io.write(f"{prefix}/a/b/c", b"")
    assert (names_in(io, f"{prefix}/a/b"), list(io.list_prefix(f"{prefix}/a/b"))) == ([], [])
    (failure,) = io.delete_many([f"{prefix}/a"])
    assert "is a folder" in failure.reason
    assert io.read(f"{prefix}/a/b") == b"1"


def test_of_sixteen_writers_one_creates_the_file(storage: Storage) -> None:
    io, prefix = storage
    for number in range(ROUNDS):
        location, won, start = f"{prefix}/v{number}", list[int](), threading.Barrier(16)

        def create(n: int, location: str = location, won: list[int] = won, start: threading.Barrier = start) -> None:
            start.wait()
            try:
                io.write(location, b"same" if n % 2 else b"%d" % n)
            except FileExistsError:
                return
            won.append(n)

        with ThreadPoolExecutor(16) as threads:
            for done in [threads.submit(create, n) for n in range(16)]:
                done.result()
        assert len(won) == 1
        assert io.read(location) == (b"same" if won[0] % 2 else b"%d" % won[0])
    assert sorted(names_in(io, prefix)) == sorted(f"v{number}" for number in range(ROUNDS))


def test_a_listing_has_every_page(storage: Storage) -> None:
    io, prefix = storage
    client = hdfs_native.Client(prefix.rpartition("/")[0])
    names = [f"k{number:05d}" for number in range(KEYS)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: client.create(f"{_path(prefix)}/{name}").close(), names))
    assert sorted(info.location for info in io.list_prefix(prefix)) == [f"{prefix}/{name}" for name in names]
    assert sorted(names_in(io, prefix)) == names
    assert io.delete_many([f"{prefix}/{name}" for name in names]) == []
    assert list(io.list_prefix(prefix)) == []


def test_a_large_file_is_sent_in_parts_and_read_in_any_order(storage: Storage) -> None:
    io, prefix = storage
    content = os.urandom(MIB) * 18 + b"end"
    with io.open_output(f"{prefix}/large") as output:
        for start in range(0, len(content), 700_000):
            output.write(content[start : start + 700_000])
        assert output.tell() == len(content)
        assert not io.exists(f"{prefix}/large")
    assert io.read(f"{prefix}/large") == content
    with io.open_input(f"{prefix}/large") as stream:
        for start, length in ((0, 10), (10, 5), (6 * MIB, 3 * MIB), (len(content) - 3, 10), (5, 0), (len(content), 1)):
            stream.seek(start)
            assert stream.read(length) == content[start : start + length]
        stream.seek(0)
        assert b"".join(iter(lambda: stream.read(777_777), b"")) == content
    discarded = io.open_output(f"{prefix}/other")
    discarded.write(content)
    discard_output(discarded)
    assert names_in(io, prefix) == ["large"]


def test_a_file_that_is_written_again_is_not_mixed(storage: Storage) -> None:
    """Its old blocks may be gone at once, or still be readable."""
    io, prefix = storage
    io.write(f"{prefix}/f", b"a" * 2 * MIB)
    with io.open_input(f"{prefix}/f") as stream:
        io.write(f"{prefix}/f", b"b" * 2 * MIB, overwrite=True)
        try:
            found = stream.read(MIB)
        except TerminalError as e:
            assert "written again" in str(e)  # noqa: PT017 - either is right
        else:
            assert found == b"a" * MIB


# folders


def test_empty_folders_are_made_and_removed_but_no_other(storage: Storage) -> None:
    io, prefix = storage
    assert io.make_folder(f"{prefix}/a/b/c")  # type: ignore[attr-defined]
    io.write(f"{prefix}/d/e/f", b"")
    assert io.list_folder(f"{prefix}/a")[0] == [f"{prefix}/a/b"]  # type: ignore[attr-defined]
    remove_empty_folders(io, prefix)
    assert sorted(names_in(io, prefix)) == ["d"]
    assert io.exists(f"{prefix}/d/e/f")


# rights


def as_user(name: str, program: str, *arguments: str, **settings: str) -> str:
    """What a program prints in a process of another user (HDFS believes the name, without Kerberos)."""
    start = "import sys\nfrom iceberg_ops.io.load import load_file_io\n"
    environment = {**os.environ, "HADOOP_USER_NAME": name, **settings}
    command = [sys.executable, "-c", start + textwrap.dedent(program), *arguments]
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=60)
    return run.stdout.strip()


def test_missing_rights_are_named_and_no_missing_file(storage: Storage) -> None:
    io, prefix = storage
    io.write(f"{prefix}/secret/f", b"1")
    client = hdfs_native.Client(prefix.rpartition("/")[0])
    client.set_permission(f"{_path(prefix)}/secret", 0o700)
    told = as_user(
        "nobody-here",
        """
        io, place = load_file_io(), sys.argv[1]
        calls = [io.read, io.exists, io.delete, lambda at: io.write(at + "2", b""), lambda at: list(io.list_prefix(at[:-2]))]
        for call in calls:
            try:
                print("no error", call(place))
            except Exception as e:
                print(type(e).__name__, "refuses access" in str(e))
        print(io.delete_many([place])[0].reason)
        """,
        f"{prefix}/secret/f",
    ).splitlines()
    assert told[:5] == ["TerminalError True"] * 5
    assert "HDFS refuses access (Permission denied: user=nobody-here" in told[5]


@pytest.mark.parametrize("user", ["nobody-here", "root"])
def test_below_a_file_is_no_file_whoever_asks(storage: Storage, user: str) -> None:
    """The name node says it to each of them in another way."""
    io, prefix = storage
    io.write(f"{prefix}/ns/file", b"1")
    hdfs_native.Client(prefix.rpartition("/")[0]).set_permission(f"{_path(prefix)}/ns", 0o777)
    told = as_user(
        user,
        """
        io, place = load_file_io(), sys.argv[1]
        for call in (io.read, io.length, io.open_input, lambda at: io.write(at, b""), lambda at: io.make_folder(at)):
            try:
                print("no error", call(place))
            except Exception as e:
                print(type(e).__name__)
        print(io.exists(place), io.delete(place), io.delete_many([place]), list(io.list_prefix(place)), io.list_names(place))
        """,
        f"{prefix}/ns/file/metadata/v1",
    )
    assert told.splitlines() == [*["FileNotFoundError"] * 3, *["NotADirectoryError"] * 2, "False None [] [] []"]
    assert io.read(f"{prefix}/ns/file") == b"1"


def test_new_files_have_the_rights_that_hadoop_gives_them(storage: Storage) -> None:
    io, prefix = storage
    client = hdfs_native.Client(prefix.rpartition("/")[0])
    load_file_io({**io.properties, "hadoop.fs.permissions.umask-mode": "077"}).write(f"{prefix}/private/f", b"")
    io.write(f"{prefix}/public/f", b"")
    rights = [client.get_file_info(f"{_path(prefix)}/{name}/f").permission for name in ("private", "public")]
    assert rights == [0o600, 0o644]
    with pytest.raises(UnsupportedError, match="is not three octal digits"):
        load_file_io({"hadoop.fs.permissions.umask-mode": "u=rwx"}).read(f"{prefix}/a")


# processes


def test_a_process_that_is_told_the_properties_reaches_the_same_files(storage: Storage) -> None:
    io, prefix = storage
    io.write(f"{prefix}/f", b"1")
    program = "print(load_file_io(eval(sys.argv[2])).read(sys.argv[1]))"
    assert as_user("root", program, f"{prefix}/f", repr(dict(io.properties))) == "b'1'"


def test_after_a_fork_the_client_refuses_and_does_not_hang(storage: Storage) -> None:
    io, prefix = storage
    io.write(f"{prefix}/f", b"1")
    told = as_user(
        "root",
        """
        import os
        io = load_file_io()
        stream, output = io.open_input(sys.argv[1]), io.open_output(sys.argv[1] + "2")
        if os.fork() == 0:
            for call in (lambda: io.exists(sys.argv[1]), lambda: stream._range(0, 1), output.close):
                try:
                    print("no error", call())
                except Exception as e:
                    print(type(e).__name__, "forked from one that has used them" in str(e), flush=True)
            os._exit(0)
        os.wait()
        output.discard()
        """,
        f"{prefix}/f",
    )
    assert told.splitlines() == ["UnsupportedError True"] * 3
    assert names_in(io, prefix) == ["f"]


# faults


class Spoiled:
    """The client with calls that go wrong: ``before`` it is asked, or ``after`` it has done what was asked."""

    def __init__(self, client: Any, method: str, error: Exception, *, done: bool, times: int = 1) -> None:
        self._client, self._method, self._error, self._done, self._times = client, method, error, done, times
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._client, name)
        if name != self._method:
            return real

        def call(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            if self.calls > self._times:
                return real(*arguments, **named)
            if self._done:
                real(*arguments, **named)
            raise self._error

        return call


def _spoil(io: Any, prefix: str, method: str, error: Exception, *, done: bool, times: int = 1) -> Spoiled:
    io.exists(prefix)
    (cluster,) = io._stores["hdfs"]._clusters.values()
    cluster._client = spoiled = Spoiled(cluster._client, method, error, done=done, times=times)
    return spoiled


LOST = OSError("RPC listener disconnected")
SAFE = RuntimeError(
    'RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Cannot rename. Name node is in safe mode.\\n\\tat x")'
)


@pytest.mark.parametrize("method", ["create", "rename", "get_file_info", "read", "delete", "list_status"])
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("overwrite", [False, True], ids=["new", "again"])
def test_one_lost_answer_changes_nothing(storage: Storage, method: str, done: bool, overwrite: bool) -> None:
    io, prefix = storage
    if overwrite:
        io.write(f"{prefix}/f", b"old")
    spoiled = _spoil(io, prefix, method, LOST, done=done)
    io.write(f"{prefix}/f", b"new", overwrite=overwrite)
    assert io.read(f"{prefix}/f") == b"new"
    assert {info.location for info in io.list_prefix(prefix)} >= {f"{prefix}/f"}
    if method == "delete" and not done and not spoiled.calls:
        with pytest.raises(CatalogUnavailableError):  # by then the name may be another's
            io.delete(f"{prefix}/f")
    io.delete(f"{prefix}/f")
    assert spoiled.calls > 0
    assert not io.exists(f"{prefix}/f")
    left = [name for name in names_in(io, prefix) if not name.startswith(".iceberg-ops-")]
    assert left == []


def test_a_rename_without_answer_is_not_taken_for_that_of_another(storage: Storage) -> None:
    """Another writer has the name, with equal bytes: this one has not won."""
    io, prefix = storage
    spoiled = _spoil(io, prefix, "rename", LOST, done=False)
    real = spoiled._client.rename

    def another_first(source: str, target: str, overwrite: bool = False) -> None:
        if spoiled.calls == 2:
            load_file_io().write(f"{prefix}/v1", b"same")
        real(source, target, overwrite)

    spoiled._client = type(
        "Client", (), {"__getattr__": lambda _, name: another_first if name == "rename" else getattr(inner, name)}
    )()
    inner = hdfs_native.Client(prefix.rpartition("/")[0])
    with pytest.raises(FileExistsError):
        io.write(f"{prefix}/v1", b"same")
    assert names_in(io, prefix) == ["v1"]


def test_a_name_node_that_refuses_for_now_is_asked_again(storage: Storage) -> None:
    io, prefix = storage
    for method in ("create", "rename"):
        spoiled = _spoil(io, prefix, method, SAFE, done=False, times=3)
        io.write(f"{prefix}/{method}", b"1")
        assert spoiled.calls == 4


def test_what_stays_without_answer_is_unavailable_and_leaves_no_file(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    io, prefix = storage
    io.write(f"{prefix}/f", b"1")
    monkeypatch.setattr("iceberg_ops.io.hdfs.cluster._TRIED_FOR_S", 0.2)
    for method in ("rename", "create"):
        _spoil(io, prefix, method, LOST, done=False, times=99)
        with pytest.raises(CatalogUnavailableError):
            io.write(f"{prefix}/g", b"1")
        _spoil(io, prefix, "nothing", LOST, done=False)
        assert names_in(io, prefix) == ["f"]


def test_bytes_that_are_missing_are_an_error(storage: Storage) -> None:
    io, prefix = storage
    io.write(f"{prefix}/f", b"12345")
    with io.open_input(f"{prefix}/f") as stream:
        reader = stream._reader  # type: ignore[attr-defined]
        stream._reader = type("Reader", (), {"read_range": lambda _, start, length: reader.read_range(start, length)[:-1]})()  # type: ignore[attr-defined]
        with pytest.raises(CatalogUnavailableError, match="HDFS gave 4 bytes instead of 5"):
            stream._range(0, 5)  # type: ignore[attr-defined]


def test_failures_of_some_files_are_told_one_by_one(storage: Storage) -> None:
    io, prefix = storage
    locations = [f"{prefix}/{n}" for n in range(10)]
    for location in locations:
        io.write(location, b"")
    io.write(f"{prefix}/full/f", b"")
    failures = io.delete_many([*locations, f"{prefix}/full", f"{prefix}/a:b", f"{prefix}/gone"])
    assert [failure.location for failure in failures] == [f"{prefix}/full", f"{prefix}/a:b"]
    assert [info.location for info in io.list_prefix(prefix)] == [f"{prefix}/full/f"]
