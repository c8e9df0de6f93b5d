"""A literal that lane local stores in a column is the value that a Spark job stores; a literal that one refuses, the other does not
store (except for a NULL of another type, which is NULL here).

Literals of every form, into columns of every type: ``ICEBERG_OPS_STATEMENTS`` sets the number (400). Literals that lane local
leaves to Spark by name ("run it with --lane spark") are not a difference.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from iceberg_ops.data.arrow.arrow_schema import arrow_type
from iceberg_ops.data.arrow.arrow_values import values_of
from iceberg_ops.errors import DataError, SchemaError, UnsupportedError, WhereError
from iceberg_ops.expressions.predicates import Literal
from iceberg_ops.expressions.store_assignment import stored_value
from iceberg_ops.expressions.where_literals import Null
from iceberg_ops.expressions.where_pieces import parse_value
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import UUID, FixedType, NestedField
from spark_jobs.jobs.assignment import assigned_column
from spark_jobs.jobs.conditions import expression
from spark_jobs.runners.spark_schema import spark_schema
from tests.expressions.generated_literals import Literals, kind_of
from tests.expressions.where_rows import TYPES
from tests.spark.conftest import Place
from tests.spark.spark_truths import errors_unlogged, values
from tests.spark.where_world import REFUSED as ON_PURPOSE
from tests.spark.where_world import SEED, STATEMENTS

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

COLUMNS = [name for name in TYPES if name not in ("t", "ns", "tzns") and not name.startswith("inner")]
"""Spark jobs take no times and no nanoseconds."""
LEFT_TO_SPARK, REFUSED = "left to Spark", "refused"


@dataclass(frozen=True)
class Assigned:
    """A literal for a column; ``ours``: the value that lane local stores, or why it stores none."""

    column: str
    text: str
    form: str
    ours: Any

    @property
    def field(self) -> NestedField:
        return NestedField(1, "c", TYPES[self.column])


def ours(field: NestedField, text: str) -> Any:
    try:
        value = parse_value(text)
        if isinstance(value, Null):
            return None
        return stored_value("c", field.type, value) if isinstance(value, Literal) else LEFT_TO_SPARK
    except UnsupportedError:
        return LEFT_TO_SPARK
    except WhereError as e:
        return LEFT_TO_SPARK if ON_PURPOSE.search(str(e)) else REFUSED
    except (SchemaError, DataError):
        return REFUSED


def drawn() -> list[Assigned]:
    rng = random.Random(f"set {SEED}")
    literals = Literals(rng)
    found = []
    for _ in range(STATEMENTS):
        column = rng.choice(COLUMNS)
        like = column if rng.random() < 0.6 else rng.choice(COLUMNS)
        written = literals.draw(like)
        if written.form not in ("malformed text", "typed NULL"):
            field = NestedField(1, "c", TYPES[column])
            found.append(Assigned(column, written.ours, written.form, ours(field, written.ours)))
    return found


def sparks(row: DataFrame, cases: list[Assigned]) -> list[Any]:
    """The canonical values that a Spark job stores, or ``REFUSED``."""
    asked: list[tuple[int, Column, Column]] = []
    found: list[Any] = [REFUSED] * len(cases)
    for n, case in enumerate(cases):
        try:
            value = expression(row, case.text, "SET c", None)  # type: ignore[arg-type]
            given = row.select(value).schema[0].dataType
            fitted = assigned_column(case.field, value, given, spark_schema(Schema.of(case.field))[0].dataType)
        except (WhereError, SchemaError):
            continue
        asked.append((n, fitted.value, F.lit(None).cast("string") if fitted.wrong is None else fitted.wrong))
    answers = values(row, [F.struct(value.alias("value"), wrong.alias("wrong")) for _, value, wrong in asked])
    for (n, _, _), answer in zip(asked, answers, strict=True):
        if not isinstance(answer, str) and not answer.combine_chunks().field("wrong")[0].is_valid:
            found[n] = canonical(cases[n].field, answer.combine_chunks().field("value"))
    return found


def canonical(field: NestedField, array: pa.Array) -> Any:
    if field.type == UUID:
        text = array[0].as_py()
        return None if text is None else uuid.UUID(text)
    wanted = pa.binary() if isinstance(field.type, FixedType) else arrow_type(field.type)
    return values_of(field.type, array if array.type == wanted else array.cast(wanted))[0]


def test_a_literal_is_stored_as_spark_stores_it(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    cases = drawn()
    with errors_unlogged():
        answers = sparks(place.session.range(1), cases)
    outcomes = Counter(case.ours if case.ours in (LEFT_TO_SPARK, REFUSED) else "stored" for case in cases)
    with capsys.disabled():
        kinds = Counter(f"into {kind_of(case.field.type)}" for case in cases) + Counter(f"form {case.form}" for case in cases)
        print(f"\n{len(cases)} literals: {dict(outcomes)}")
        print(", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())))
    wrong = [
        (str(case.field.type), case.text, case.ours, answer)
        for case, answer in zip(cases, answers, strict=True)
        if case.ours != LEFT_TO_SPARK and (case.ours, answer) != (None, REFUSED) and repr(case.ours) != repr(answer)
    ]
    assert not wrong, "\n".join(map(str, wrong))
    assert outcomes["stored"] > len(cases) / 4
