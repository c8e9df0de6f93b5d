"""The functions that count as repeatable, checked with the examples of Spark's own documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spark_jobs.jobs.repeatable import is_known
from spark_jobs.jobs.repeatable_functions import BUILT_IN, KNOWN

pytestmark = pytest.mark.spark

NEVER = {
    "aes_encrypt", "rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id",
    "spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length", "reflect", "java_method",
    "try_reflect",
}  # fmt: skip
_STATEMENT = re.compile(r"^\s*> (SELECT [^;]*);", re.MULTILINE)
_NUMBER = re.compile(r"#\d+L?")
"""Of a column; each plan has others."""


def optimized(session: SparkSession, query: str) -> str:
    return str(session.sql(query)._jdf.queryExecution().optimizedPlan().toString())


def test_every_name_of_the_list_is_a_class_of_spark(session: SparkSession) -> None:
    jvm: Any = session._jvm

    def is_there(name: str) -> bool:
        try:
            jvm.java.lang.Class.forName(f"{BUILT_IN}{name}")
        except Py4JJavaError:
            return False
        return True

    assert sorted(name for name in KNOWN if not is_there(name)) == []


def functions(session: SparkSession) -> Iterator[tuple[str, list[str]]]:
    """Every built-in function with the queries that Spark shows of it."""
    registry = session._jsparkSession.sessionState().functionRegistry()
    names = registry.listFunction()
    for name in (names.apply(i) for i in range(names.size())):
        yield str(name.funcName()), _STATEMENT.findall(str(registry.lookupFunction(name).get().getExamples()))


def test_a_function_of_the_list_gives_the_same_each_time(session: SparkSession) -> None:
    """Spark's optimizer computes what is constant, with no job."""
    known, differ = 0, []
    for name, queries in functions(session):
        for query in queries[:2]:
            try:
                rows = session.sql(query)
                kind = str(rows._jdf.queryExecution().analyzed().nodeName())
                if kind != "Project" or not is_known(rows):
                    continue
                if name in NEVER:
                    differ.append(name)
                if "current" in query or "now()" in query or "localtimestamp" in query:
                    continue  # Spark puts one value of them into each plan
                found = [_NUMBER.sub("", optimized(session, query)) for _ in range(2)]
            except Exception:  # noqa: BLE001 - an example that shows an error
                continue
            known += 1
            differ += [] if found[0] == found[1] else [name]
    assert differ == []
    assert known > 200
    draws = "SELECT hex(aes_encrypt('Spark', '0000111122223333'))"
    assert _NUMBER.sub("", optimized(session, draws)) != _NUMBER.sub("", optimized(session, draws))
