"""Generated WHERE conditions with Spark's answers for every row of one table.

``ICEBERG_OPS_STATEMENTS`` sets the number (400), ``ICEBERG_OPS_SEED`` the seed.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.predicates import Expression, is_exact
from iceberg_ops.expressions.where import parse_where
from tests.expressions.generated_where import Conditions, Drawn
from tests.expressions.where_rows import SCHEMA, Row, rows
from tests.spark.spark_truths import Truths, frame, truths

STATEMENTS, SEED = int(os.environ.get("ICEBERG_OPS_STATEMENTS", "400")), int(os.environ.get("ICEBERG_OPS_SEED", "0"))

FORMS = {True: "{}", False: "NOT ({})", None: "({}) IS NULL"}
"""A condition, its negation and the test that it is unknown, by the answer that makes each of them true."""
REFUSED = re.compile(
    "has a time zone, which a timestamp without zone does not"  # Spark leaves the zone out
    "|need more than 38 digits"  # Spark rounds, by rules that depend on how a number is written
    "|is beyond every"  # Spark holds it TRUE or FALSE for NULL, too
    "|is not text: (?:not-)?like"  # of a binary column
    "|needs an offset, not"  # years that Python's time zones do not have
    "|it is outside float"  # CAST(1e300 AS FLOAT), which is infinite in Spark, where 1e300F is an error
    "|is not a time zone"  # Java's short names: PST
    "|the escape character .* must stand before"  # a malformed LIKE pattern: Spark refuses it where a row comes to it
)
"""Why we refuse what Spark answers."""
ODD = ("malformed text", "foreign", "rounded sign")
"""Forms of literals that are wrong, or may be: Spark says so, or does not where no row needs the literal."""


@dataclass(frozen=True)
class Case:
    """A condition, what it is to us (an error's text where we refuse it), and what Spark answers for each row."""

    drawn: Drawn
    ours: Expression | str
    spark: Truths | str

    @property
    def text(self) -> str:
        return self.drawn.ours

    @property
    def is_odd(self) -> bool:
        return any(odd in tag for odd in ODD for tag in self.drawn.tags)

    @cached_property
    def outcome(self) -> str:
        if isinstance(self.ours, str):
            return "both refuse" if isinstance(self.spark, str) else "we refuse"
        if not all(is_exact(parse_where(form.format(self.text))) for form in FORMS.values()):  # NULL AND x is false without x
            return "left to Spark"
        return "Spark refuses" if isinstance(self.spark, str) else "answered"


@dataclass(frozen=True)
class Answered:
    """A condition that we and Spark answer: ``truths`` are Spark's, row by row."""

    text: str
    where: Expression
    truths: Truths

    @property
    def matching(self) -> set[int]:
        """Ids of the rows that it keeps."""
        return {i for i, answer in enumerate(self.truths) if answer is True}


@dataclass(frozen=True)
class World:
    """The rows, whose ids are their places, and conditions with Spark's answers."""

    rows: list[Row]
    cases: list[Case]

    @property
    def answered(self) -> list[Answered]:
        return [
            Answered(case.text, case.ours, case.spark)
            for case in self.cases
            if case.outcome == "answered" and isinstance(case.ours, Expression) and not isinstance(case.spark, str)
        ]


def draw_world(session: SparkSession) -> World:
    """The rows and conditions of ``SEED``."""
    return some_of_world(session, SEED, range(STATEMENTS))


def some_of_world(session: SparkSession, seed: int, places: Sequence[int]) -> World:
    """The rows of a seed, and those of its conditions."""
    rng = random.Random(f"where {seed}")
    found = rows(rng)
    conditions = Conditions(rng)
    all_ = [conditions.draw() for _ in range(max(places) + 1)]
    drawn = [all_[place] for place in places]
    answers = asked(session, found, [case.spark for case in drawn])
    return World(found, [Case(d, _parsed(d.ours), answer) for d, answer in zip(drawn, answers, strict=True)])


def asked(session: SparkSession, found: list[Row], texts: list[str]) -> list[Truths | str]:
    """Spark's answers, columns of type TIME included, which it has but does not offer by default."""
    with _set(session, "spark.sql.timeType.enabled", "true"):
        return truths(frame(session, found), texts)


@contextmanager
def _set(session: SparkSession, key: str, value: str) -> Iterator[None]:
    session.conf.set(key, value)
    try:
        yield
    finally:
        session.conf.unset(key)


def _parsed(text: str) -> Expression | str:
    """The condition, or why one of its forms is refused: where no row needs a malformed literal, as in ``i NOT IN ('x', NULL)``,
    some forms of the condition do not read it, and neither engine promises to refuse it."""
    try:
        for form in FORMS.values():
            bind(SCHEMA, parse_where(form.format(text)))
        return parse_where(text)
    except WhereError as e:
        return str(e)


def by_column(row: Row) -> dict[str, Any]:
    """A row's values by dotted column name, those of a struct that is NULL included."""
    named = dict(zip([f.name for f in SCHEMA.fields], row, strict=True))
    inner = named.pop("inner") or (None, None, None)
    return named | dict(zip(("inner.x", "inner.y z", "inner.d"), inner, strict=True))
