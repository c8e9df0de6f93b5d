"""What Spark says of many conditions on few rows: each is one column of one query, so that thousands take seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

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
    with _errors_unlogged():
        parts = (texts[n : n + TOGETHER] for n in range(0, len(texts), TOGETHER))
        return [answer for part in parts for answer in _asked(rows, part)]


def _asked(rows: DataFrame, texts: Sequence[str]) -> list[Truths | str]:
    """One query; where one of the texts fails, one without those that fail alone."""
    try:
        return _answers(rows, texts)
    except PySparkException as e:
        failures = [_failure(rows, text) for text in texts]
        if all(why is None for why in failures):
            raise AssertionError(f"Spark answers each of these alone, but not together: {texts}") from e
    answers = iter(_answers(rows, [text for text, why in zip(texts, failures, strict=True) if why is None]))
    return [next(answers) if why is None else why for why in failures]


def _answers(rows: DataFrame, texts: Sequence[str]) -> list[Truths | str]:
    found = rows.selectExpr("id", *[f"({text}) AS c{n}" for n, text in enumerate(texts)]).toArrow().sort_by("id")
    return [found.column(n + 1).to_pylist() for n in range(len(texts))]


def _failure(rows: DataFrame, text: str) -> str | None:
    """Why Spark can not answer a condition; it evaluates local rows while it optimises."""
    try:
        rows.selectExpr(f"({text})")._jdf.queryExecution().optimizedPlan()
    except PySparkException as e:
        return str(e).strip().split("\n")[0] or type(e).__name__
    return None


@contextmanager
def _errors_unlogged() -> Iterator[None]:
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before = logger.level
    logger.setLevel(OFF)
    try:
        yield
    finally:
        logger.setLevel(before)
