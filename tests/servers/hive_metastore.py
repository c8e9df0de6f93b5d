"""A Hive Metastore for tests: the 2.3.10 in PySpark's own jars, on a Derby database or on PostgreSQL, on loopback."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyspark
from sqlalchemy import create_engine

from tests.java_options import SHORT_LIVED
from tests.servers.postgresql import PostgreSQL
from tests.servers.process import Server, free_port, listens, missing, start

_SOURCE = Path(__file__).with_name("java") / "HiveMetastore.java"
_DRIVERS = Path(__file__).parents[2] / "build" / "ivy" / "jars"
_LOCK_TABLES = (
    "TXNS (TXN_ID bigint, TXN_STATE char(1), TXN_STARTED bigint, TXN_LAST_HEARTBEAT bigint, TXN_USER text, TXN_HOST text)",
    "TXN_COMPONENTS (TC_TXNID bigint, TC_DATABASE text, TC_TABLE text, TC_PARTITION text, TC_OPERATION_TYPE char(1))",
    "COMPLETED_TXN_COMPONENTS (CTC_TXNID bigint, CTC_DATABASE text, CTC_TABLE text, CTC_PARTITION text)",
    "NEXT_TXN_ID AS SELECT 1::bigint AS NTXN_NEXT",
    "HIVE_LOCKS (HL_LOCK_EXT_ID bigint, HL_LOCK_INT_ID bigint, HL_TXNID bigint, HL_DB text, HL_TABLE text, HL_PARTITION text, "
    "HL_LOCK_STATE char(1), HL_LOCK_TYPE char(1), HL_LAST_HEARTBEAT bigint, HL_ACQUIRED_AT bigint, HL_USER text, HL_HOST text, "
    "HL_HEARTBEAT_COUNT integer, HL_AGENT_INFO text, HL_BLOCKEDBY_EXT_ID bigint, HL_BLOCKEDBY_INT_ID bigint)",
    "NEXT_LOCK_ID AS SELECT 1::bigint AS NL_NEXT",
    "AUX_TABLE (MT_KEY1 text, MT_KEY2 bigint, MT_COMMENT text, PRIMARY KEY (MT_KEY1, MT_KEY2))",
)
"""What locks need on PostgreSQL. The metastore makes all other tables itself; these it makes for Derby only."""


class HiveMetastore:
    """One metastore; on ``database`` (None: Derby). Stop it with ``close``. Skips the test, or fails it where oracles are required,
    without PostgreSQL's driver for Java."""

    def __init__(self, folder: Path, database: PostgreSQL | None = None) -> None:
        self._folder = folder
        jars = Path(pyspark.__file__).parent / "jars"
        self._classpath = f"{folder}/classes:{jars}/*"
        compiler = ["javac", *(f"-J{option}" for option in SHORT_LIVED.split())]
        subprocess.run([*compiler, "-cp", f"{jars}/*", "-d", f"{folder}/classes", str(_SOURCE)], check=True, capture_output=True)
        self.port = free_port()
        self.warehouse = f"file:{folder}/warehouse"
        self._settings = {
            **(self._on_derby() if database is None else self._on_postgresql(database)),
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "datanucleus.connectionPoolingType": "HikariCP",
            "hive.metastore.warehouse.dir": self.warehouse,
        }
        self._server: Server
        self.start("init" if database is None else "noinit")

    def _on_derby(self) -> dict[str, str]:
        return {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={self._folder}/derby;create=true",
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        }

    def _on_postgresql(self, server: PostgreSQL) -> dict[str, str]:
        if not (found := sorted(_DRIVERS.glob("org.postgresql_postgresql-*.jar"))):
            missing("PostgreSQL's driver for Java", "make jars")
        self._classpath += "".join(f":{jar}" for jar in found)
        uri = server.database()
        engine = create_engine(uri)
        with engine.begin() as connection:
            for table in _LOCK_TABLES:
                connection.exec_driver_sql(f"CREATE TABLE {table}")
        engine.dispose()
        return {
            "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://{uri.rpartition('@')[2]}",
            "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
            "javax.jdo.option.ConnectionUserName": "postgres",
            "javax.jdo.option.ConnectionPassword": "none",
        }

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
