"""A Hive Metastore for tests: the 2.3.10 in PySpark's own jars, on a Derby database, on loopback."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyspark

from tests.java_options import SHORT_LIVED
from tests.servers.process import Server, free_port, listens, start

_SOURCE = Path(__file__).with_name("java") / "HiveMetastore.java"


class HiveMetastore:
    """One metastore. Stop it with ``close``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        jars = Path(pyspark.__file__).parent / "jars"
        self._classpath = f"{folder}/classes:{jars}/*"
        compiler = ["javac", *(f"-J{option}" for option in SHORT_LIVED.split())]
        subprocess.run([*compiler, "-cp", f"{jars}/*", "-d", f"{folder}/classes", str(_SOURCE)], check=True, capture_output=True)
        self.port = free_port()
        self.warehouse = f"file:{folder}/warehouse"
        self._settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/derby;create=true",
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "datanucleus.connectionPoolingType": "HikariCP",
            "hive.metastore.warehouse.dir": self.warehouse,
        }
        self._server: Server
        self.start("init")

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    def start(self, init: str = "noinit") -> None:
        """Start it again after a ``kill``: it keeps its port and what it knows. Raises ServerError."""
        settings = [f"{key}={value}" for key, value in self._settings.items()]
        options = ["-Xmx512m", f"-Dderby.stream.error.file={self._folder}/derby.log"]
        command = ["java", *options, "-cp", self._classpath, "HiveMetastore", str(self.port), init, *settings]
        log = self._folder / "log"
        self._server = start(
            "Hive Metastore", command, log=log, ready=lambda: listens(self.port), folder=self._folder, patience_s=120
        )

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._server.kill()

    def close(self) -> None:
        self._server.stop()
