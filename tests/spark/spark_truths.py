"""Spark's results of many conditions on few rows: each is one column of one query, so that thousands take seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.expressions.where_rows import SCHEMA, Row, for_spark

Truths = list[bool | None]
"""True, False or None (unknown) for each row, by ``id``."""
TOGETHER, OFF = 100, 100


def frame(session: SparkSession, found: list[Row]) -> DataFrame:
    """The rows as Spark holds them. Local rows are evaluated while the query is optimised: no code is compiled for them."""
    cast = {"t": "CAST(t AS TIME(6)) AS t", "ntz": "CAST(ntz AS TIMESTAMP_NTZ) AS ntz"}
    return session.createDataFrame(for_spark(found)).selectExpr(*[cast.get(f.name, f.name) for f in SCHEMA.fields])


def truths(rows: DataFrame, texts: Sequence[str]) -> list[Truths | str]:
    """Spark's answers to each condition, or the text of its error."""
    return [found if isinstance(found, str) else found.to_pylist() for found in values(rows, texts)]


def values(rows: DataFrame, columns: Sequence[str | Column]) -> list[pa.ChunkedArray | str]:
    """What Spark gives for each column (or its SQL text), row by row, or the text of its error."""
    with errors_unlogged():
        parts = (columns[n : n + TOGETHER] for n in range(0, len(columns), TOGETHER))
        return [found for part in parts for found in _asked(rows, part)]


def _asked(rows: DataFrame, columns: Sequence[str | Column]) -> list[pa.ChunkedArray | str]:
    """One query; where one of the columns fails, one without those that fail alone."""
    try:
        return _answers(rows, columns)
    except PySparkException as e:
        failures = [_failure(rows, column) for column in columns]
        if all(why is None for why in failures):
            raise AssertionError(f"Spark answers each of these alone, but not together: {columns}") from e
    answers = iter(_answers(rows, [column for column, why in zip(columns, failures, strict=True) if why is None]))
    return [next(answers) if why is None else why for why in failures]


def _answers(rows: DataFrame, columns: Sequence[str | Column]) -> list[pa.ChunkedArray | str]:
    found = rows.select("id", *[_column(column).alias(f"c{n}") for n, column in enumerate(columns)]).toArrow().sort_by("id")
    return [found.column(n + 1) for n in range(len(columns))]


def _column(column: str | Column) -> Column:
    return F.expr(f"({column})") if isinstance(column, str) else column


def _failure(rows: DataFrame, column: str | Column) -> str | None:
    """Why Spark cannot give a column; it evaluates local rows while it optimises."""
    try:
        rows.select(_column(column))._jdf.queryExecution().optimizedPlan()
    except PySparkException as e:
        return str(e).strip().split("\n")[0] or type(e).__name__
    return None


@contextmanager
def errors_unlogged() -> Iterator[None]:
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before = logger.level
    logger.setLevel(OFF)
    try:
        yield
    finally:
        logger.setLevel(before)
