"""Settings of the whole suite.

Property tests draw the same examples in every run, so a failure is repeatable. To look for new failures:
``HYPOTHESIS_PROFILE=explore`` (fresh examples, five times as many unless a test sets its own number).
"""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.generated.drawing import DRAWN, report
from tests.java_options import JAVA_OPTIONS, java_options
from tests.servers.hdfs import hdfs
from tests.servers.stores import STORES, Store
from tests.two_processes import Shares, longest_first

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers.hive_metastore import HiveMetastore, LaterHiveMetastore
    from tests.servers.nessie.server import NessieServer
    from tests.servers.postgresql import PostgreSQL
    from tests.servers.rest.reference import ReferenceServer

settings.register_profile("same", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", max_examples=500, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


os.environ.setdefault(JAVA_OPTIONS, java_options())
MEMORY, ROOM = Path("/dev/shm"), 4 << 30
"""Folders of tests lie in memory where the system offers that: each SQLite catalog waits for the disk dozens of times."""


def _is_roomy(folder: Path) -> bool:
    """Enough for a run of the suite; and programs may be started there."""
    if not os.access(folder, os.W_OK):
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC


if _is_roomy(MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


def pytest_configure() -> None:
    """Programs that tests start and then interrupt inherit what this process ignores, and what nohup or ``&`` starts ignores
    some."""
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
        (signal.SIGQUIT, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The tests themselves, and all modules, stay until the end: it takes long to look for garbage among them."""
    gc.disable()
    found = yield
    gc.freeze()
    gc.enable()
    return found


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist hands what it drew to the process that started it."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["drawn"] = {kind: dict(found) for kind, found in DRAWN.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    for kind, found in getattr(node, "workeroutput", {}).get("drawn", {}).items():
        DRAWN.setdefault(kind, Counter()).update(found)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What generated cases held (``tests.generated``)."""
    if DRAWN:
        terminalreporter.section("drawn")
        for line in report(DRAWN):
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgreSQL]:
    """The PostgreSQL server of this process, with a database for each caller."""
    from tests.servers.postgresql import PostgreSQL

    server = PostgreSQL()
    yield server
    server.close()


@pytest.fixture(scope="session")
def glue_endpoint(object_store: Callable[[str], Store]) -> Iterator[str]:
    """Where this process has an AWS Glue. Its databases are shared by all tests."""
    from tests.servers.glue import checked_glue

    with checked_glue(object_store("moto").port) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def hive_metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    """The Hive Metastore of this process. Its databases are shared by all tests."""
    from tests.servers.hive_metastore import HiveMetastore

    server = HiveMetastore(tmp_path_factory.mktemp("hive"))
    yield server
    server.close()


@pytest.fixture(scope="session")
def hive_on_postgresql(tmp_path_factory: pytest.TempPathFactory, postgresql_server: PostgreSQL) -> Iterator[HiveMetastore]:
    """The same on PostgreSQL."""
    from tests.servers.hive_metastore import HiveMetastore

    server = HiveMetastore(tmp_path_factory.mktemp("hive-on-postgresql"), postgresql_server)
    yield server
    server.close()


@pytest.fixture(scope="session")
def later_hive(
    tmp_path_factory: pytest.TempPathFactory, postgresql_server: PostgreSQL
) -> Iterator[Callable[[str], LaterHiveMetastore]]:
    """Version 3.1.3 or 4.0.1 -> that metastore, started for the first test that needs it."""
    from tests.servers.hive_metastore import LaterHiveMetastore

    running = dict[str, LaterHiveMetastore]()

    def metastore(version: str) -> LaterHiveMetastore:
        if version not in running:
            running[version] = LaterHiveMetastore(tmp_path_factory.mktemp("later-hive"), postgresql_server, version)
        return running[version]

    yield metastore
    for server in running.values():
        server.close()


@pytest.fixture(scope="session")
def nessie_server(tmp_path_factory: pytest.TempPathFactory, object_store: Callable[[str], Store]) -> Iterator[NessieServer]:
    """The Nessie of this process, in memory; each test uses its own branch (``new_branch``). Its Iceberg REST endpoint has a
    warehouse on versitygw."""
    from tests.servers.nessie.server import NessieServer

    server = NessieServer(tmp_path_factory.mktemp("nessie"), s3=object_store("versitygw"))
    yield server
    server.close()


@pytest.fixture(scope="session")
def session() -> Iterator[SparkSession]:
    """The one Spark of this process: a second ``stop`` would end it under the tests of another folder."""
    from spark_jobs.session import spark_session
    from tests.spark import preloaded_daemon
    from tests.spark.remembered_names import remember_names

    remember_names()
    os.environ.setdefault("ICEBERG_OPS_SPARK_LOG_LEVEL", "ERROR")
    made = spark_session(
        "tests",
        {
            "spark.sql.shuffle.partitions": "4",
            "spark.driver.memory": "2g",
            "spark.driver.bindAddress": "127.0.0.1",
            # Thousands of statements run in this one session: the plans of the last ones are enough.
            "spark.sql.ui.retainedExecutions": "20",
            # PySpark tells the JVM of the line of code that makes a column, for each of them; ``call_sites`` has it.
            "spark.python.sql.dataFrameDebugging.enabled": "false",
            # Code that Spark writes and compiles for a query pays from a few thousand rows on; ``compiled`` has it.
            **INTERPRETED,
            # Python tasks begin with all modules loaded: a worker ends with each error of a task, and there are hundreds.
            "spark.python.daemon.module": preloaded_daemon.__name__,
            "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[1]),
        },
    )
    yield made
    made.stop()


@pytest.fixture(scope="session")
def rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceServer]:
    """Iceberg's own REST adapter, the one of this process; each test uses its own catalog (``new_name``)."""
    from tests.servers.rest.reference import ReferenceServer

    server = ReferenceServer(tmp_path_factory.mktemp("rest"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def compiled(session: SparkSession) -> Iterator[None]:
    """Queries of this module are compiled, as Spark does by default."""
    for name, value in COMPILED.items():
        session.conf.set(name, value)
    yield
    for name, value in INTERPRETED.items():
        session.conf.set(name, value)


@pytest.fixture(scope="module")
def call_sites(session: SparkSession) -> Iterator[None]:
    """In this module errors of columns name the line of code that made them, as they do by default."""
    from pyspark.errors import utils

    before, utils._enable_debugging_cache = utils._enable_debugging_cache, True
    yield
    utils._enable_debugging_cache = before


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Store]]:
    """Name of a store (``tests.servers.stores``, or ``hdfs``) -> the store, started for the first test that needs it."""
    running, makers = dict[str, Store](), {**STORES, "hdfs": hdfs}
    with ExitStack() as until_the_end:

        def store(name: str) -> Store:
            if name not in running:
                running[name] = until_the_end.enter_context(makers[name](tmp_path_factory.mktemp(name)))
            return running[name]

        yield store


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return Shares(config, log) if config.getvalue("dist") == "loadfile" else None
