"""A program whose JVM leaves an archive of the classes that Spark loads, for the JVMs that tests start (class data sharing):
``python -m tests.spark.archived_classes ARCHIVE``. With it a JVM starts in half the CPU time.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs.session import spark_session
from tests.java_options import JAVA_OPTIONS, SHORT_LIVED


def work(session: SparkSession, folder: Path) -> None:
    """A bit of all that jobs do."""
    rows = session.range(100).select("id", (F.col("id") % 3).alias("k"), F.col("id").cast("string").alias("text"))
    for kind in ("parquet", "csv", "json"):
        rows.write.format(kind).save(str(folder / kind))
        session.read.schema("id long, k long, text string").format(kind).load(str(folder / kind)).collect()
    read = session.read.parquet(str(folder / "parquet"))
    read.mapInArrow(lambda batches: batches, read.schema).orderBy("text").collect()
    read.createOrReplaceTempView("read")
    session.sql("SELECT k, count(*), max(text) FROM read WHERE id IN (SELECT k FROM read) GROUP BY k ORDER BY 1").collect()
    read.join(rows.select("id"), ["id"], "full_outer").filter("upper(text) LIKE '1%'").dropDuplicates(["id"]).toArrow()


def main(archive: Path) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    os.environ[JAVA_OPTIONS] = SHORT_LIVED
    os.environ.setdefault("ICEBERG_OPS_SPARK_LOG_LEVEL", "ERROR")
    options = f'-Xlog:disable "-XX:ArchiveClassesAtExit={archive}"'
    session = spark_session("archive", {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.extraJavaOptions": options})
    gateway: Any = session.sparkContext._gateway
    with tempfile.TemporaryDirectory() as folder:
        work(session, Path(folder))
    session.stop()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
