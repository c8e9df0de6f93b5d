"""A Hive Metastore for tests, on loopback: the 2.3.10 in PySpark's own jars, on a Derby database or on PostgreSQL; or Hive's own
3.1.3 or 4.0.1, on PostgreSQL, in the tables that Hive's script makes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyspark
from sqlalchemy import create_engine

from tests.java_options import SHORT_LIVED
from tests.servers.postgresql import PostgreSQL
from tests.servers.process import Server, free_port, listens, missing, start

_SOURCES = Path(__file__).with_name("java")
_BUILD = Path(__file__).parents[2] / "build"
_DRIVERS = _BUILD / "ivy" / "jars"
_HIVE, _HADOOP = _BUILD / "jars" / "hive", _BUILD / "jars" / "hdfs"
LATER = {"3.1.3": "3.1.0", "4.0.1": "4.0.0"}
"""Version of Hive -> version of its tables."""
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

_REMOVES_LOCKS_OFTEN = {
    "hive.support.concurrency": "true",
    "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
    "hive.timedout.txn.reaper.start": "1s",
    "hive.timedout.txn.reaper.interval": "1s",
}


class HiveMetastore:
    """One metastore; on ``database`` (None: Derby). It removes locks that get no heartbeat for ``lock_s`` seconds (None: for five
    minutes). Stop it with ``close``. Skips the test, or fails it where oracles are required, without PostgreSQL's driver for
    Java."""

    def __init__(self, folder: Path, database: PostgreSQL | None = None, *, lock_s: int | None = None) -> None:
        jars = Path(pyspark.__file__).parent / "jars"
        self._compile(folder, "HiveMetastore", f"{jars}/*")
        self.warehouse = f"file:{folder}/warehouse"
        self._settings = {
            **(self._on_derby() if database is None else self._on_postgresql(database)),
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "datanucleus.connectionPoolingType": "HikariCP",
            "hive.metastore.warehouse.dir": self.warehouse,
            **({} if lock_s is None else {"hive.txn.timeout": f"{lock_s}s", **_REMOVES_LOCKS_OFTEN}),
        }
        self._server: Server
        self.start("init" if database is None else "noinit")

    def _compile(self, folder: Path, program: str, classpath: str) -> None:
        self._folder, self._program, self._classpath = folder, program, f"{folder}/classes:{classpath}"
        compiler = ["javac", *(f"-J{option}" for option in SHORT_LIVED.split()), "-cp", classpath, "-d", f"{folder}/classes"]
        subprocess.run([*compiler, str(_SOURCES / f"{program}.java")], check=True, capture_output=True)
        self.port = free_port()

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
            connection.exec_driver_sql(self._tables())
        engine.dispose()
        return {
            "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://{uri.rpartition('@')[2]}",
            "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
            "javax.jdo.option.ConnectionUserName": "postgres",
            "javax.jdo.option.ConnectionPassword": "none",
        }

    def _tables(self) -> str:
        """What PostgreSQL runs before the first start."""
        return "".join(f"CREATE TABLE {table};" for table in _LOCK_TABLES)

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    def start(self, init: str = "noinit") -> None:
        """Start it again after a ``kill``: it keeps its port and what it knows. Raises ServerError."""
        settings = [f"{key}={value}" for key, value in self._settings.items()]
        options = ["-Xmx512m", f"-Dderby.stream.error.file={self._folder}/derby.log"]
        command = ["java", *options, "-cp", self._classpath, self._program, str(self.port), init, *settings]
        log = self._folder / "log"
        self._server = start(
            "Hive Metastore", command, log=log, ready=lambda: listens(self.port), folder=self._folder, patience_s=120
        )

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._server.kill()

    def close(self) -> None:
        self._server.stop()


class LaterHiveMetastore(HiveMetastore):
    """Version 3.1.3 or 4.0.1. Skips the test, or fails it where oracles are required, without the jars."""

    def __init__(self, folder: Path, database: PostgreSQL, version: str) -> None:
        self._home = _HIVE / f"apache-hive-metastore-{version}-bin"
        self._schema = self._home / "scripts/metastore/upgrade/postgres" / f"hive-schema-{LATER[version]}.postgres.sql"
        if not self._schema.exists() or not sorted(_HADOOP.glob("hadoop-client-minicluster-*.jar")):
            missing(f"Hive's metastore {version}", "make jars")
        self._jars = f"{self._home}/lib/*:{_HIVE}/*:{_HADOOP}/*"
        self._compile(folder, "LaterHiveMetastore", self._jars)
        self.warehouse = f"file:{folder}/warehouse"
        self._settings = {
            **self._on_postgresql(database),
            "hive.metastore.warehouse.dir": self.warehouse,
            "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
            "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
        }
        self.start()

    def _tables(self) -> str:
        return self._schema.read_text()

    def java_appends(self, times: int) -> subprocess.Popen[str]:
        """A process of Iceberg Java that appends to table ns.t, with the client of this version of Hive."""
        if not (iceberg := sorted(_DRIVERS.glob("*iceberg-spark-runtime-*.jar"))):
            missing("Iceberg Java", "make jars")
        spark = Path(pyspark.__file__).parent / "jars"
        names = ("hive-common", "hive-shims-common", "hive-shims-0.23")  # Java's HiveCatalog needs the settings' class of Hive 2.
        hive_conf = ":".join(str(jar) for name in names for jar in spark.glob(f"{name}-2*.jar"))
        classpath = f"{iceberg[0]}:{self._jars}:{hive_conf}"
        command = ["java", "-Xmx512m", "-cp", classpath, str(_SOURCES / "HiveAppends.java"), self.uri, str(times)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def close(self) -> None:
        """It does not end when it is asked to."""
        self._server.kill()
