"""Generated SQL expressions (functions, arithmetic, CASE, CAST) have Spark's types, values and errors, row by row; and conditions
built from them keep the rows that Spark keeps. Expressions that only Spark evaluates are refused by name and not compared.

``ICEBERG_OPS_STATEMENTS`` sets the number of each (400), ``ICEBERG_OPS_SEED`` the seed.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from iceberg_ops.data.arrow.arrow_schema import arrow_type
from iceberg_ops.data.arrow.arrow_values import values_of
from iceberg_ops.data.columns.computed import computed
from iceberg_ops.data.columns.row_filter import rows_where
from iceberg_ops.data.columns.sort_keys import extract_column
from iceberg_ops.errors import NeedsSparkError, WhereError
from iceberg_ops.expressions.binding import bind, reference
from iceberg_ops.expressions.evaluators import row_filter
from iceberg_ops.expressions.literal_text import NotFolded
from iceberg_ops.expressions.ordering import order_key
from iceberg_ops.expressions.predicates import BoundReference, Expression, is_exact
from iceberg_ops.expressions.scalars.binding import bind_scalar
from iceberg_ops.expressions.scalars.evaluation import compiled
from iceberg_ops.expressions.scalars.terms import Bound, NotEvaluated, references
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.expressions.where_parser import parse_condition
from iceberg_ops.expressions.where_scalars import convert_scalar
from iceberg_ops.spec.types import UNKNOWN, DecimalType, PrimitiveType
from tests.expressions.generated_terms import TYPES, Terms
from tests.expressions.where_rows import SCHEMA, Row, batch_of, for_spark, rows
from tests.spark.spark_truths import values
from tests.spark.where_world import FORMS, SEED, STATEMENTS

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

ERROR, UNSURE = "error", "unsure"
"""What a row has instead of a value: Spark must raise, or we leave it to Spark."""
SPARK_NAMES = {"long": "bigint", "timestamptz": "timestamp", "timestamp": "timestamp_ntz", "unknown": "void"}


@dataclass
class Drawn:
    """An expression and what it is here for each row."""

    text: str
    of_rows: list[Any] = field(default_factory=list)
    type: PrimitiveType | None = None
    refused: str | None = None

    def places(self, outcome: str) -> list[int]:
        return [n for n, found in enumerate(self.of_rows) if isinstance(found, str) and found is outcome]

    @property
    def answered(self) -> list[int]:
        return [n for n, found in enumerate(self.of_rows) if found is not ERROR and found is not UNSURE]


@pytest.fixture(scope="module")
def found() -> list[Row]:
    return rows(random.Random(f"terms {SEED}"))


def as_frame(session: SparkSession, found: list[Row]) -> DataFrame:
    """Without times, which Spark does not offer by default."""
    given = session.createDataFrame(for_spark(found)).drop("t")
    return given.withColumn("ntz", given["ntz"].cast("timestamp_ntz"))


def value_in(bound_reference: BoundReference) -> Any:
    def read(row: Any) -> Any:
        for at in bound_reference.path:
            row = None if row is None else row[at]
        return row

    return read


def term_of(text: str) -> Bound:
    return bind_scalar(convert_scalar(parse_condition(text)), lambda name: reference(SCHEMA, name))


def outcome(evaluate: Any, row: Row) -> Any:
    try:
        return evaluate(row)
    except NotFolded:
        return UNSURE
    except NeedsSparkError:
        return UNSURE
    except (ValueError, ArithmeticError):
        return ERROR


def drawn_terms(found: list[Row]) -> list[Drawn]:
    terms, cases = Terms(random.Random(f"terms {SEED}")), []
    for n in range(STATEMENTS):
        case = Drawn(terms.draw(TYPES[n % (len(TYPES) - 1)]))
        cases.append(case)
        try:
            bound = term_of(case.text)
        except (NotEvaluated, WhereError) as e:
            case.refused = str(e)
            continue
        assert isinstance(bound.type, PrimitiveType)
        case.type, evaluate = bound.type, compiled(bound, value_in)
        case.of_rows = [outcome(evaluate, row) for row in found]
    return cases


def of_some(text: str, places: list[int]) -> str:
    """``text`` for the rows of these ids, and not looked at for others."""
    return f"CASE WHEN id IN ({', '.join(map(str, places))}) THEN ({text}) END"


def spark_type(type_: PrimitiveType) -> str:
    return (
        f"decimal({type_.precision},{type_.scale})" if isinstance(type_, DecimalType) else SPARK_NAMES.get(type_.name, type_.name)
    )


def exactly(value: Any) -> Any:
    """A value as it is stored, the sign of a zero included."""
    return (order_key(value), str(value)) if isinstance(value, float) else value


def check_errors(given: DataFrame, cases: list[Drawn], rng: random.Random) -> Counter[str]:
    """Where we raise for a row, Spark does. How often it does not: it may leave out a part that cannot change the result."""
    asked = [(case, place) for case in cases if case.answered and (wrong := case.places(ERROR)) for place in [rng.choice(wrong)]]
    answers = values(given, [of_some(case.text, [place]) for case, place in asked])
    missed = [(case.text, place) for (case, place), answer in zip(asked, answers, strict=True) if not isinstance(answer, str)]
    return Counter({"errors of both": len(asked) - len(missed), "errors of ours alone": len(missed)})


def test_terms_have_the_values_types_and_errors_of_spark(
    session: SparkSession, found: list[Row], capsys: pytest.CaptureFixture[str]
) -> None:
    cases, given = drawn_terms(found), as_frame(session, found)
    asked = [case for case in cases if case.refused is None and case.answered]
    answers = values(given, [of_some(case.text, case.answered) for case in asked])
    wrong: list[Any] = []
    for case, answer in zip(asked, answers, strict=True):
        if isinstance(answer, str):
            wrong.append((case.text, "Spark refuses", answer))
            continue
        assert case.type is not None
        theirs = given.selectExpr(f"({case.text}) AS c").schema[0].dataType.simpleString()
        if theirs != spark_type(case.type):
            wrong.append((case.text, "type", spark_type(case.type), theirs))
        elif case.type != UNKNOWN:
            gotten = values_of(case.type, answer.cast(arrow_type(case.type)))
            wrong += [
                (case.text, found[n], case.of_rows[n], gotten[n])
                for n in case.answered
                if exactly(case.of_rows[n]) != exactly(gotten[n])
            ][:1]
    counts = check_errors(given, [case for case in cases if case.refused is None], random.Random(SEED))
    shown(capsys, cases, counts)
    assert not wrong, f"{len(wrong)} of {len(asked)}:\n" + "\n".join(map(str, wrong[:40]))
    assert counts["errors of ours alone"] <= 0.1 * len(cases)
    assert len(asked) >= 0.5 * len(cases)


def shown(capsys: pytest.CaptureFixture[str], cases: list[Drawn], counts: Counter[str]) -> None:
    reasons = Counter(case.refused.split(" of ")[0] for case in cases if case.refused is not None)
    answered = sum(case.refused is None for case in cases)
    with capsys.disabled():
        print(f"\n{len(cases)} terms, {answered} evaluated, {sum(len(case.answered) for case in cases)} values; {dict(counts)}")
        print("left to Spark: " + ", ".join(f"{what} {count}" for what, count in reasons.most_common(12)))


def test_arrow_computes_what_rows_do(found: list[Row]) -> None:
    for case in drawn_terms(found):
        if case.refused is not None or not case.answered:
            continue
        bound, places = term_of(case.text), case.answered
        batch = batch_of([found[n] for n in places])
        columns = {r.field_id: extract_column(batch, SCHEMA, r.field_id)[0] for r in references(bound)}
        array = computed(bound, columns, len(places), case.text)
        assert case.type is not None
        expected = [order_key(case.of_rows[n]) for n in places]
        gotten = array.to_pylist() if case.type == UNKNOWN else values_of(case.type, array)
        assert list(map(order_key, gotten)) == expected, case.text


def test_conditions_of_terms_keep_the_rows_that_spark_keeps(
    session: SparkSession, found: list[Row], capsys: pytest.CaptureFixture[str]
) -> None:
    """A condition, its negation and that it is unknown: on rows, by Arrow, and by Spark."""
    terms, given = Terms(random.Random(f"conditions of terms {SEED}")), as_frame(session, found)
    texts = [terms.draw("boolean") for _ in range(STATEMENTS)]
    asked = [(text, forms, truths) for text in texts if (forms := forms_of(text)) for truths in [truths_of(forms, found)]]
    known = [(text, forms, truths) for text, forms, truths in asked if any(t is not ERROR for t in truths)]
    answers = values(given, [of_some(text, [n for n, t in enumerate(truths) if t is not ERROR]) for text, _, truths in known])
    wrong: list[Any] = []
    for (text, forms, truths), answer in zip(known, answers, strict=True):
        if isinstance(answer, str):
            wrong.append((text, answer))
            continue
        theirs = answer.to_pylist()
        places = [n for n, t in enumerate(truths) if t is not ERROR]
        wrong += [(text, found[n], truths[n], theirs[n]) for n in places if truths[n] is not theirs[n]][:1]
        batch = batch_of([found[n] for n in places])
        for wanted, bound in forms.items():
            kept = rows_where(bound, batch, SCHEMA)
            assert kept.tolist() == [truths[n] is wanted for n in places], (wanted, text)
            assert isinstance(kept, np.ndarray)
    with capsys.disabled():
        print(f"\n{len(texts)} conditions, {len(asked)} evaluated, {sum(t is not ERROR for _, _, ts in asked for t in ts)} rows")
    assert not wrong, f"{len(wrong)} of {len(known)}:\n" + "\n".join(map(str, wrong[:40]))
    assert len(known) >= 0.5 * len(texts)


def forms_of(text: str) -> dict[Any, Expression]:
    """The condition in its three forms; none where only Spark evaluates it."""
    try:
        found = {wanted: bind(SCHEMA, parse_where(form.format(text))) for wanted, form in FORMS.items()}
    except WhereError:
        return {}
    return found if all(map(is_exact, found.values())) else {}


def truths_of(forms: dict[Any, Expression], found: list[Row]) -> list[Any]:
    """True, False or None for each row; ``ERROR`` where one of the forms has no answer."""
    tests = {wanted: row_filter(bound) for wanted, bound in forms.items()}
    answers = []
    for row in found:
        kept = {wanted: outcome(keeps, row) for wanted, keeps in tests.items()}
        if any(isinstance(answer, str) for answer in kept.values()):
            answers.append(ERROR)
        else:
            (truth,) = (wanted for wanted, answer in kept.items() if answer)
            answers.append(truth)
    return answers
