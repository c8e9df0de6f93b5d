"""The Spark session of every job, and the checks of the machine.

A job runs in a copy of the given session (``job_session``): the copy has the views, functions and current database of the
original, and its own settings. So no other query of the program sees what a job sets or creates, and the program's settings
for its own queries do not change the meaning of a job's conditions and sources.

Executors get values (JSON, properties), never live objects, and the Python given to ``spark-submit`` (``spark.pyspark.python``,
else ``PYSPARK_PYTHON``), else that of the driver: Spark would otherwise use the first ``python3`` on the path.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from pyspark import RDD
from pyspark.sql import SparkSession

from iceberg_ops.data.arrow.arrow_allocator import ALLOCATOR, wanted_allocator

DEFAULT_MASTER = "local[2]"

_MEANING = {
    # Instants are UTC everywhere; a session zone would shift the values of DATE and TIMESTAMP literals.
    "spark.sql.session.timeZone": "UTC",
    # A lossy cast must fail the job, not write NULL.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    # Our tables' columns are found by field id, never by name.
    "spark.sql.parquet.fieldId.read.enabled": "true",
    # Arrow excludes NaN from a file's statistics, Spark treats NaN as the greatest value: skipping row groups could lose rows.
    "spark.sql.parquet.filterPushdown": "false",
    # The planner reads the same text, and does not support ${variables}.
    "spark.sql.variable.substitute": "false",
    # These evaluate a side of a join once more, in advance; a LIMIT gives other rows then.
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Arrow batches between JVM and Python: large enough to amortise the crossing, small enough for 1 GiB executors.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
_CONFIGURATION = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
_KEPT = tuple(
    f"spark.sql.{name}"
    for name in (
        # Locations: catalogs, metastore, packages.
        "artifact.", "catalog.", "catalogImplementation", "connect.", "defaultCatalog", "extensions", "globalTempDatabase", "hive.",
        "warehouse.dir",
        # How user functions run, and what is shown and logged.
        "debug", "event.", "execution.pyspark.", "execution.python", "planChange", "pyspark.", "queryExecutionListeners",
        "redaction.", "ui.",
        # Speed and memory.
        "adaptive.", "autoBroadcastJoinThreshold", "broadcast", "cache.", "cartesianProductExec.", "cbo.", "classic.", "codegen.",
        "columnVector.", "defaultCacheStorageLevel", "defaultSizeInBytes", "exchange.reuse", "execution.broadcastHashJoin",
        "execution.rangeExchange", "execution.replaceHashWithSortAgg", "execution.topK", "execution.useObjectHashAggregateExec",
        "files.max", "files.minPartition", "files.openCost", "filesourceTableRelationCacheSize", "inMemoryColumnarStorage.",
        "join.", "leafNodeDefaultParallelism", "limit.", "maxBroadcastTableSize", "maxSinglePartitionBytes",
        "metadataCacheTTLSeconds", "objectHashAggregate.", "optimizer.", "orc.columnar", "parquet.columnar", "planner.",
        "requireAllClusterKeys", "resultQueryStage.", "session.localRelation", "sessionWindow.", "shuffle", "sort.",
        "sortMergeJoin", "sources.bucketing.", "sources.fileCompressionFactor", "sources.ignoreDataLocality",
        "sources.parallelPartitionDiscovery.", "sources.useListFilesFileSystemList", "statistics.", "streaming.",
        "subexpressionElimination.", "subquery.", "windowExec.",
    )
)  # fmt: skip
"""Settings of the original that a job's session keeps: they affect where, how fast and how visibly it works. Every other setting
of Spark SQL is reset to Spark's default, because it could change the meaning of text and the rows of a source."""
_BETWEEN = "\x00"
_LOCK = threading.Lock()
_OF_JOBS: WeakSet[SparkSession] = WeakSet()
"""Sessions of jobs, in any thread: none of them counts as the session that was active before a job began."""


def spark_session(app_name: str, overrides: Mapping[str, str] | None = None) -> SparkSession:
    """The session of this process; created here unless one is running, whose settings are not changed.

    Settings of ``spark-submit`` (master, memory, UI) override the defaults here, except for the meaning of rows (time zone, ANSI),
    which is always set, and for Arrow's allocator in tasks, for which the driver's environment decides. ``overrides`` override
    everything.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    os.environ["PYSPARK_PYTHON"] = executors_python(os.environ)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName(app_name)
    if not submitted:
        builder = builder.master(os.environ.get("ICEBERG_OPS_SPARK_MASTER", DEFAULT_MASTER))
    defaults = _MEANING if submitted else _MEANING | _CONFIGURATION
    for key, value in ({} if SparkSession.getActiveSession() else defaults).items():
        builder = builder.config(key, value)
    if (allocator := os.environ.get(ALLOCATOR, wanted_allocator())) is not None:
        builder = builder.config(f"spark.executorEnv.{ALLOCATOR}", allocator)
    for key, value in (overrides or {}).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(os.environ.get("ICEBERG_OPS_SPARK_LOG_LEVEL", "WARN"))
    return session


def executors_python(environment: Mapping[str, str]) -> str:
    """The path of the executors' interpreter: the one given to ``spark-submit`` (its setting ``spark.pyspark.python`` arrives as
    ``PYSPARK_PYTHON``), else the driver's. On a cluster, the machines may have Python elsewhere, or get it with the application."""
    python = environment.get("PYSPARK_PYTHON") if "PYSPARK_GATEWAY_PORT" in environment else None
    return python or sys.executable


@contextmanager
def job_session(session: SparkSession) -> Iterator[SparkSession]:
    """A session for one job, active in this thread while it runs. The job's views and settings end with it.

    Views, functions, settings and the current database are copied from ``session``; variables (DECLARE) are not, nor functions
    with the name of a built-in one.
    """
    jvm: Any = session._jvm
    active = jvm.org.apache.spark.sql.classic.SparkSession
    before, before_here = active.getActiveSession(), SparkSession._activeSession
    job_spark = _copy(session)
    _OF_JOBS.add(job_spark)
    _set_meaning(job_spark)
    _restore_built_in_functions(job_spark)
    active.setActiveSession(job_spark._jsparkSession)
    try:
        yield job_spark
    finally:
        if before.isDefined():
            active.setActiveSession(before.get())
        else:
            active.clearActiveSession()
        if SparkSession._activeSession is job_spark:  # PySpark has one for all threads, and sets it with each new DataFrame
            SparkSession._activeSession = session if before_here in _OF_JOBS else before_here


def _copy(session: SparkSession) -> SparkSession:
    with _LOCK:
        # PySpark uses the newest session for RDD.toDF.
        to_frame = RDD.toDF
        try:
            copied_session = SparkSession(session.sparkContext, session._jsparkSession.cloneSession())
        finally:
            RDD.toDF = to_frame  # type: ignore[method-assign]
    of, to = session.catalog, copied_session.catalog
    if of.currentCatalog() != to.currentCatalog():
        to.setCurrentCatalog(of.currentCatalog())
    if of.currentDatabase() != to.currentDatabase():
        to.setCurrentDatabase(of.currentDatabase())
    return copied_session


def _set_meaning(session: SparkSession) -> None:
    conf = session.conf
    for key in _names_of_settings(session):
        if key.startswith("spark.sql.") and not key.startswith(_KEPT) and conf.isModifiable(key):
            conf.unset(key)
    for key, value in _MEANING.items():
        conf.set(key, value)


def _names_of_settings(session: SparkSession) -> list[str]:
    """In one call of the JVM; PySpark's ``getAll`` calls it for each name and value, two hundred times per job."""
    jvm: Any = session._jsparkSession
    names: str = jvm.conf().getAll().keySet().mkString(_BETWEEN)
    return names.split(_BETWEEN)


def _restore_built_in_functions(session: SparkSession) -> None:
    """A user function may have the name of a built-in one (``coalesce``), and Spark would call it in a job's own expressions. So
    may a table function (``range``) in the job's queries."""
    analysis: Any = session._jvm.org.apache.spark.sql.catalyst.analysis  # type: ignore[union-attr]
    state = session._jsparkSession.sessionState()
    _restore(getattr(analysis, "FunctionRegistry$").__getattr__("MODULE$").builtin(), state.functionRegistry())
    _restore(getattr(analysis, "TableFunctionRegistry$").__getattr__("MODULE$").builtin(), state.tableFunctionRegistry())


def _restore(built_in: Any, registry: Any) -> None:
    changed = registry.functionBuilders().toSet().diff(built_in.functionBuilders().toSet()).iterator()
    while changed.hasNext():
        name = changed.next()._1()
        if built_in.functionExists(name):
            registry.registerFunction(name, built_in.lookupFunction(name).get(), built_in.lookupFunctionBuilder(name).get())


def task_slots(session: SparkSession) -> int:
    """How many tasks run at once."""
    return max(1, session.sparkContext.defaultParallelism)
