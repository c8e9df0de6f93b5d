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
    """One query; where it fails, one without the texts that Spark does not even analyse, and then in parts."""
    try:
        return _answers(rows, texts)
    except PySparkException as e:
        if len(texts) == 1:
            return [_shown(e)]
    refused = [_refusal(rows, text) for text in texts]
    sound = [text for text, why in zip(texts, refused, strict=True) if why is None]
    part = len(sound) if len(sound) < len(texts) else max(1, len(sound) // 8)
    found = (answer for n in range(0, len(sound), part or 1) for answer in _asked(rows, sound[n : n + part]))
    return [next(found) if why is None else why for why in refused]


def _answers(rows: DataFrame, texts: Sequence[str]) -> list[Truths | str]:
    found = rows.selectExpr("id", *[f"({text}) AS c{n}" for n, text in enumerate(texts)]).toArrow().sort_by("id")
    return [found.column(n + 1).to_pylist() for n in range(len(texts))]


def _refusal(rows: DataFrame, text: str) -> str | None:
    """Why Spark refuses to parse or to analyse a condition."""
    try:
        rows.selectExpr(f"({text})")
    except PySparkException as e:
        return _shown(e)
    return None


def _shown(error: PySparkException) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__


@contextmanager
def _errors_unlogged() -> Iterator[None]:
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before = logger.level
    logger.setLevel(OFF)
    try:
        yield
    finally:
        logger.setLevel(before)
