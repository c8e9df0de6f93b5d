"""The reference server of the Iceberg REST protocol: one JVM, and in it as many catalogs as tests ask for, each by its name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.process import LOOPBACK, Server, free_port, listens, missing, started

JARS = Path(__file__).parents[3] / "build" / "jars" / "rest"
_MAIN = Path(__file__).parent / "RestMain.java"
_NAMES = itertools.count()


@dataclass(frozen=True, slots=True)
class ReferenceServer:
    """``folder`` has the database (``NAME.db``) and the warehouse (``NAME``) of each catalog."""

    server: Server
    port: int
    folder: Path

    @property
    def address(self) -> tuple[str, int]:
        return LOOPBACK, self.port

    def uri(self, name: str, port: int | None = None) -> str:
        """Where the catalog of that name is, by way of a proxy's ``port``."""
        return f"http://{LOOPBACK}:{port or self.port}/{name}"

    def new_name(self) -> str:
        """A name for a catalog that nobody has used."""
        return f"c{next(_NAMES)}"


@contextmanager
def reference_server(folder: Path) -> Iterator[ReferenceServer]:
    """Skips the test, or fails it where oracles are required, without the jars."""
    if not sorted(JARS.glob("iceberg-core-tests-*.jar")):
        missing("Iceberg's REST adapter", "make jars")
    port = free_port()
    java = ["java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{JARS}/*", _MAIN, str(port), folder]
    with started("REST reference server", java, log=folder / "server.log", ready=lambda: listens(port)) as server:
        yield ReferenceServer(server, port, folder)
