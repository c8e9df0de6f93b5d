"""CAST and TRY_CAST of texts to numbers, dates and booleans have Spark's values and errors, for columns and for literals.

``ICEBERG_OPS_STATEMENTS`` sets the number (400; ten times as many texts in columns), ``ICEBERG_OPS_SEED`` the seed.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from iceberg_ops.data.arrow.arrow_schema import arrow_type
from iceberg_ops.data.arrow.arrow_values import values_of
from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.comparisons import at_microseconds
from iceberg_ops.expressions.literal_text import NotFolded
from iceberg_ops.expressions.ordering import order_key
from iceberg_ops.expressions.predicates import Literal
from iceberg_ops.expressions.scalars.casts import caster
from iceberg_ops.expressions.where_literals import Null, constant
from iceberg_ops.expressions.where_parser import parse_condition
from iceberg_ops.spec.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    DecimalType,
    PrimitiveType,
)
from tests.expressions.generated_literals import sql_text
from tests.expressions.generated_texts import TextForms
from tests.spark.spark_truths import values
from tests.spark.where_world import SEED, STATEMENTS

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

OF_COLUMNS: dict[str, PrimitiveType] = {
    "BOOLEAN": BOOLEAN,
    "INT": INT,
    "BIGINT": LONG,
    "DOUBLE": DOUBLE,
    "DATE": DATE,
    "DECIMAL(9, 2)": DecimalType(9, 2),
    "DECIMAL(38, 0)": DecimalType(38, 0),
    "DECIMAL(38, 10)": DecimalType(38, 10),
    "DECIMAL(38, 37)": DecimalType(38, 37),
    "DECIMAL(1, 1)": DecimalType(1, 1),
}
OF_LITERALS = OF_COLUMNS | {"FLOAT": FLOAT, "TIMESTAMP": TIMESTAMPTZ, "TIMESTAMP_NTZ": TIMESTAMP}
ERROR, UNSURE = "error", "unsure"
MOST_ERRORS = 5
"""Texts of each type of which Spark is asked whether it refuses them, one by one."""
REFUSED = re.compile(
    "has a time zone, which a timestamp without zone does not"  # Spark leaves the zone out
    "|means another day tomorrow"
    "|is not a (date|timestamp)"  # 'epoch UTC', '12:30' of today
    "|needs an offset, not"  # years that Python's time zones do not have
    "|is not a time zone"  # Java's short names: PST
)
"""Why we refuse what Spark answers."""


def of_column(text: str, type_: PrimitiveType, *, safe: bool) -> Any:
    try:
        return caster(STRING, type_, safe=safe, of_column=True)(text)
    except NotFolded:
        return UNSURE
    except (ValueError, ArithmeticError):
        return ERROR


def exactly(value: Any) -> Any:
    """A value as it is stored, the sign of a zero included."""
    return (order_key(value), str(value)) if isinstance(value, float) else value


@pytest.fixture(scope="module")
def texts() -> list[tuple[str, str]]:
    forms = TextForms(random.Random(f"texts {SEED}"))
    return [forms.draw() for _ in range(10 * STATEMENTS)]


@pytest.mark.parametrize("name", OF_COLUMNS)
def test_a_column_of_texts_is_cast_as_spark_casts_it(
    session: SparkSession, texts: list[tuple[str, str]], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    type_, rng = OF_COLUMNS[name], random.Random(SEED)
    ours = [of_column(text, type_, safe=False) for text, _ in texts]
    tried = [of_column(text, type_, safe=True) for text, _ in texts]
    answered = [n for n, value in enumerate(ours) if value is not ERROR and value is not UNSURE]
    refused = [n for n, value in enumerate(ours) if value is ERROR]
    given = session.createDataFrame(pa.table({"id": range(len(texts)), "s": [text for text, _ in texts]}))
    safe = answers(given.selectExpr("id", f"try_cast(s AS {name}) AS c").toArrow(), type_)
    wrong = [(texts[n], tried[n], safe[n]) for n in safe if tried[n] is not UNSURE and exactly(tried[n]) != exactly(safe[n])]
    some = given.where(f"id IN ({', '.join(str(n) for n in answered if safe[n] is not None)})")
    strict = answers(some.selectExpr("id", f"CAST(s AS {name}) AS c").toArrow(), type_)
    wrong += [(texts[n], ours[n], strict.get(n)) for n in answered if exactly(ours[n]) != exactly(strict.get(n))]
    alone = rng.sample(refused, min(MOST_ERRORS, len(refused)))
    asked = values(given.where("id = 0"), [f"CAST({sql_text(rng, texts[n][0])} || left(s, 0) AS {name})" for n in alone])
    wrong += [(texts[n], ERROR, a.to_pylist()) for n, a in zip(alone, asked, strict=True) if not isinstance(a, str)]
    with capsys.disabled():
        kinds = Counter(form.rpartition("padded ")[2].rpartition("changed ")[2] for n in answered for form in [texts[n][1]])
        print(f"\n{name}: {len(texts)} texts, {len(answered)} read, {len(refused)} refused; {dict(kinds)}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(ascii(case)[:500] for case in wrong[:40])
    assert len(answered) > len(texts) / 100
    assert len(answered) + len(refused) > 0.97 * len(texts)


def answers(found: pa.Table, type_: PrimitiveType) -> dict[int, Any]:
    return dict(zip(found["id"].to_pylist(), values_of(type_, found["c"].cast(arrow_type(type_))), strict=True))


def folded(sql: str) -> tuple[Any, str]:
    """The value that we fold the cast of a literal to, and why there is none."""
    try:
        found = constant(parse_condition(sql))
    except WhereError as e:
        return ERROR, str(e)
    if isinstance(found, Null):
        return None, ""
    return (at_microseconds(found).value, "") if isinstance(found, Literal) else (UNSURE, "")


def test_a_literal_text_is_cast_as_spark_casts_it(session: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(f"cast literals {SEED}")
    forms, cases = TextForms(rng), []
    for _ in range(2 * STATEMENTS):
        name, (text, form) = rng.choice(list(OF_LITERALS)), forms.draw()
        sql = f"{rng.choice(('CAST', 'CAST', 'TRY_CAST'))}({sql_text(rng, text)} AS {name})"
        cases.append((name, sql, form, *folded(sql)))
    found = values(session.range(1), [sql for _, sql, _, _, _ in cases])
    wrong, counts = [], Counter[str]()
    for (name, sql, form, ours, why), answer in zip(cases, found, strict=True):
        type_ = OF_LITERALS[name]
        theirs = ERROR if isinstance(answer, str) else values_of(type_, answer.cast(arrow_type(type_)))[0]
        counts["left to Spark" if ours is UNSURE else "refused" if ours is ERROR else "folded"] += 1
        if ours is not UNSURE and exactly(ours) != exactly(theirs) and not (ours is ERROR and REFUSED.search(why)):
            wrong.append((sql, form, ours, theirs, why))
    with capsys.disabled():
        print(f"\n{len(cases)} casts of literals: {dict(counts)}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(ascii(case)[:500] for case in wrong[:40])
    assert counts["folded"] > len(cases) / 6
