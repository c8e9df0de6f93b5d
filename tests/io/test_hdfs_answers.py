"""What the client of HDFS says, and what it must be taken for: with a client that is made up, so no server is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from iceberg_ops.errors import CatalogUnavailableError, TerminalError
from iceberg_ops.io.file_io import names_in
from iceberg_ops.io.hadoop_settings import HadoopSettings
from iceberg_ops.io.hdfs.cluster import Cluster, hdfs_error
from iceberg_ops.io.hdfs.hdfs_file_io import HdfsFileIO
from tests.io.test_hdfs import as_user

ROOT = "hdfs://nn:8020"


def refusal(name: str, message: str = "no") -> RuntimeError:
    """As hdfs-native tells an exception of a name node."""
    return RuntimeError(f'RPCError("{name}", "{message}\\n\\tat org.apache.hadoop")')


STANDBY = refusal("org.apache.hadoop.ipc.StandbyException")
STARTING = refusal("org.apache.hadoop.ipc.RetriableException")
LOST = OSError("RPC listener disconnected")


@dataclass
class Status:
    path: str
    isdir: bool = False
    length: int = 1
    modification_time: int = 0


class Listing:
    """As the client's: a page is asked for when its first name is, and an error is the end."""

    def __init__(self, paths: list[str], failing_at: int | None, error: Exception) -> None:
        self._names: Iterator[tuple[int, str]] = iter(enumerate(paths))
        self._failing_at, self._error = failing_at, error

    def __iter__(self) -> Iterator[Status]:
        return self

    def __next__(self) -> Status:
        at, path = next(self._names)
        if at == self._failing_at:
            self._names = iter(())
            raise self._error
        return Status(path)


class Client:
    def __init__(self, paths: list[str], failing_at: list[int | None], error: Exception) -> None:
        self._paths, self._failing_at, self._error = paths, failing_at, error
        self.listings = 0

    def list_status(self, _: str) -> Listing:
        self.listings += 1
        return Listing(self._paths, self._failing_at.pop(0) if self._failing_at else None, self._error)


def over(client: Any, monkeypatch: pytest.MonkeyPatch) -> HdfsFileIO:
    monkeypatch.setattr("iceberg_ops.io.hdfs.cluster._TRIED_FOR_S", 0.5)
    io = HdfsFileIO()
    io._clusters[ROOT] = cluster = Cluster(ROOT, io._settings, {})
    cluster._client = client
    return io


@pytest.mark.parametrize("error", [STANDBY, STARTING, LOST], ids=["standby", "starting", "lost"])
@pytest.mark.parametrize("failing_at", [0, 700, 1000, 1400, 2000], ids=str)
@pytest.mark.parametrize("names", [2100, 2001])
def test_a_listing_that_is_broken_off_is_begun_anew_and_whole(
    monkeypatch: pytest.MonkeyPatch, error: Exception, failing_at: int, names: int
) -> None:
    """A name node fails over in the middle of a long listing. Half of one would hide a table's newest version, or files from an
    import."""
    paths = [f"/f/{n:05d}" for n in range(names)]
    client = Client(paths, [failing_at], error)
    assert names_in(over(client, monkeypatch), f"{ROOT}/f") == [path[3:] for path in paths]
    assert client.listings == 2


@pytest.mark.parametrize("names", [999, 1000, 1001, 2000])
def test_a_listing_ends_where_it_ends(monkeypatch: pytest.MonkeyPatch, names: int) -> None:
    client = Client([f"/f/{n:05d}" for n in range(names)], [], LOST)
    assert len(names_in(over(client, monkeypatch), f"{ROOT}/f")) == names
    assert client.listings == 1


def test_a_listing_that_never_comes_to_its_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client([f"/f/{n:05d}" for n in range(1500)], [1200] * 99, STANDBY)
    with pytest.raises(CatalogUnavailableError, match="refuses for now"):
        names_in(over(client, monkeypatch), f"{ROOT}/f")


def test_a_path_through_a_file_is_a_missing_file_and_no_missing_right() -> None:
    access = "org.apache.hadoop.security.AccessControlException"
    assert isinstance(hdfs_error(refusal(access, "/wh/ns/file (is not a directory)"), "l"), FileNotFoundError)
    denied = 'Permission denied: user=me, access=READ, inode=\\"/wh/a (is not a directory)\\":you:us:-rw-------'
    assert isinstance(hdfs_error(refusal(access, denied), "l"), TerminalError)


def test_name_nodes_may_be_listed_with_blanks() -> None:
    given = {
        "hadoop.dfs.ha.namenodes.lake": " nn1 ,\n nn2,",
        "hadoop.dfs.namenode.rpc-address.lake.nn1": "one:8020",
        "hadoop.dfs.namenode.rpc-address.lake.nn2": "two",
    }
    settings = HadoopSettings.of(given)
    assert settings.of_client()["dfs.ha.namenodes.lake"] == "nn1,nn2"
    assert settings.authority("hdfs", "two") == settings.authority("hdfs", "ONE:8020") == "lake"


def test_a_process_that_forgot_an_output_ends() -> None:
    """What is collected while Python ends may not wait for a thread, which does not start any more."""
    program = """
        import os
        from iceberg_ops.io.hadoop_settings import HadoopSettings
        from iceberg_ops.io.hdfs.cluster import Cluster
        class Late:
            def __del__(self):
                try:
                    self.cluster.ask(lambda _: 1, "hdfs://nn/f")
                except Exception as e:
                    os.write(1, type(e).__name__.encode())
        late = Late()
        late.me, late.cluster = late, Cluster("hdfs://nn:8020", HadoopSettings.of({}), {})
        late.cluster._client = object()
    """
    assert as_user("root", program) == "TerminalError"
