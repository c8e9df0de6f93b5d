"""A small HDFS for tests: Hadoop's own MiniDFSCluster in one JVM, on loopback. ``Hdfs`` has one name node and two data nodes,
``HdfsPair`` two name nodes, of which one is active."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.servers.process import LOOPBACK, Server, free_port, listens, missing, start
from tests.servers.stores import Store

JARS = Path(__file__).parents[2] / "build" / "jars" / "hdfs"
_MAIN = Path(__file__).parent / "java" / "Hdfs.java"
_OPTIONS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class Hdfs:
    """One HDFS. It keeps its port, and the names of its files, when it is started again after a ``kill``. Stop it with ``close``.
    Skips the test, or fails it where oracles are required, without the jars."""

    def __init__(self, folder: Path) -> None:
        if not sorted(JARS.glob("hadoop-client-minicluster-*.jar")):
            missing("Hadoop's small HDFS", "make jars")
        self._folder, self._starts = folder, 0
        self.port, self._http_port = free_port(), free_port()
        self._server: Server
        self.start()

    @property
    def address(self) -> tuple[str, int]:
        return LOOPBACK, self.port

    @property
    def uri(self) -> str:
        return f"hdfs://{LOOPBACK}:{self.port}"

    def start(self) -> None:
        """Raises ServerError."""
        ready = self._folder / f"ready-{self._starts}"
        format_it = [] if self._starts else ["format"]
        self._starts += 1
        command = ["java", *_OPTIONS, "-cp", f"{JARS}/*", _MAIN, self._folder / "dfs", str(self.port), str(self._http_port), ready]
        self._server = start(
            "HDFS", [*command, *format_it], log=self._folder / "log", ready=ready.exists, folder=self._folder, patience_s=120
        )

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._server.kill()

    def signal(self, number: int) -> None:
        """SIGSTOP: it gives no answer."""
        self._server.process.send_signal(number)

    def close(self) -> None:
        self._server.kill()


class HdfsPair:
    """Two name nodes of the service ``lake``. Stop it with ``close``. Skips the test, or fails it where oracles are required,
    without the jars."""

    uri = "hdfs://lake"

    def __init__(self, folder: Path) -> None:
        if not sorted(JARS.glob("hadoop-client-minicluster-*.jar")):
            missing("Hadoop's small HDFS", "make jars")
        self._ports = [free_port() for _ in range(5)]
        program = _MAIN.with_name("HdfsPair.java")
        command = ["java", *_OPTIONS, "-cp", f"{JARS}/*", program, folder / "dfs", *map(str, self._ports)]
        control = self._ports[-1]
        self._server = start("HDFS", command, log=folder / "log", ready=lambda: listens(control), folder=folder, patience_s=180)

    @property
    def properties(self) -> Mapping[str, str]:
        """Hadoop's settings, as properties of a FileIO or a catalog."""
        names = {f"nn{n}": f"{LOOPBACK}:{port}" for n, port in enumerate(self._ports[:2], 1)}
        return {
            "hadoop.dfs.nameservices": "lake",
            "hadoop.dfs.ha.namenodes.lake": ",".join(names),
            **{f"hadoop.dfs.namenode.rpc-address.lake.{name}": address for name, address in names.items()},
            "hadoop.dfs.client.failover.proxy.provider.lake": (
                "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
            ),
        }

    def order(self, *words: object) -> None:
        """``active``, ``standby``, ``stop``, ``start``, ``safe`` and ``unsafe`` with the number of a name node (0 or 1); ``quota``
        with a folder, a number of names and of bytes, too."""
        with socket.create_connection((LOOPBACK, self._ports[-1]), timeout=120) as control:
            control.sendall(" ".join(map(str, words)).encode() + b"\n")
            answer = control.makefile().readline().strip()
        assert answer == "done", f"{words}: {answer}"

    def close(self) -> None:
        self._server.kill()


@contextmanager
def hdfs(folder: Path) -> Iterator[Store]:
    """As a store among those of ``tests.servers.stores``."""
    server = Hdfs(folder)
    try:
        yield Store("hdfs", server.port, server.uri, {})
    finally:
        server.close()
