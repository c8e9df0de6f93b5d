"""The reference server of the Iceberg REST protocol: one JVM, and in it as many catalogs as tests ask for, each by its name."""

from __future__ import annotations

import itertools
from pathlib import Path

from tests.servers.process import LOOPBACK, Server, free_port, listens, missing, start

JARS = Path(__file__).parents[3] / "build" / "jars" / "rest"
_MAIN = Path(__file__).parent / "RestMain.java"
_NAMES = itertools.count()


class ReferenceServer:
    """``folder`` has the database (``NAME.db``) and the warehouse (``NAME``) of each catalog, which outlive a ``kill``. Stop it
    with ``close``. Skips the test, or fails it where oracles are required, without the jars."""

    def __init__(self, folder: Path) -> None:
        if not sorted(JARS.glob("iceberg-core-tests-*.jar")):
            missing("Iceberg's REST adapter", "make jars")
        self.folder, self.port = folder, free_port()
        self._server: Server
        self.start()

    @property
    def address(self) -> tuple[str, int]:
        return LOOPBACK, self.port

    def uri(self, name: str, port: int | None = None) -> str:
        """Where the catalog of that name is, by way of a proxy's ``port``."""
        return f"http://{LOOPBACK}:{port or self.port}/{name}"

    def new_name(self) -> str:
        """An unused name for a catalog."""
        return f"c{next(_NAMES)}"

    def start(self) -> None:
        """Start it again after a ``kill``: it keeps its port. Raises ServerError."""
        options = ["-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command: list[str | Path] = ["java", *options, "-cp", f"{JARS}/*", _MAIN, str(self.port), self.folder]
        self._server = start(
            "REST reference server", command, log=self.folder / "server.log", ready=lambda: listens(self.port), patience_s=120
        )

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._server.kill()

    def close(self) -> None:
        self._server.stop()
