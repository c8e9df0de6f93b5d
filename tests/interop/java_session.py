"""Spark with Iceberg's own runtime, in a separate process: one JSON command per line on standard input, one answer per line on
standard output.

Its jars and SQL extensions must not reach the Spark session of other tests. A command is ``{"sql": ..., "to": path}``; the answer
is ``{}``, with the statement's rows in an Arrow file at ``to`` where one was given, or ``{"error": text}``. Or it is
``{"generics": "read" | "append" | "delete", "table": ..., "arguments": [...]}`` (see ``java_generics``); a read answers
``{"rows": [...]}``. Or ``{"metadata": [path, ...]}``, metadata files that are loaded, which answers ``{"refused": {path: error}}``.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import java_generics
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark.remembered_names import remember_names


def session(jars: str, folder: str) -> SparkSession:
    catalog = "spark.sql.catalog.lake"
    configuration = {
        "spark.jars": jars,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": f"jdbc:sqlite:file:{folder}/catalog.db",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.warehouse": f"file:{folder}/warehouse",
        f"{catalog}.cache-enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.warehouse.dir": f"{folder}/spark-warehouse",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # As in our own session: tables are small, and each statement is run once.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    builder = SparkSession.builder.appName("iceberg-java").master("local[2]")
    for key, value in configuration.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def run_sql(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    found = spark.sql(command["sql"])
    if command.get("to"):
        rows = found.toArrow()
        with pa.OSFile(command["to"], "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
    return {}


def run_generics(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    jvm = spark._jvm
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, command["table"])
    if command["generics"] == "read":
        return {"rows": java_generics.read(jvm, table)}
    if command["generics"] == "append":
        java_generics.append(jvm, table, *command["arguments"])
    else:
        java_generics.delete(jvm, spark.sparkContext._gateway, table, *command["arguments"])
    return {}


def load_metadata(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    parser: Any = spark._jvm.org.apache.iceberg.TableMetadataParser
    refused = {}
    for location in command["metadata"]:
        with open(location, encoding="utf-8") as file:
            text = file.read()
        try:
            parser.fromJson(location, text)
        except (Py4JJavaError, PySparkException) as e:
            refused[location] = str(e)
    return {"refused": refused}


def answer_to(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    if "metadata" in command:
        return load_metadata(spark, command)
    return run_generics(spark, command) if "generics" in command else run_sql(spark, command)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the JVM prints must not mix with answers
    remember_names()
    spark = session(sys.argv[1], sys.argv[2])
    for line in sys.stdin:
        command = json.loads(line)
        answer = {}
        try:
            answer = answer_to(spark, command)
        except Exception as e:  # noqa: BLE001 -- handed to the test that asked
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), file=answers, flush=True)
    spark.stop()


main()
