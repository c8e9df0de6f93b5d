"""Generated WHERE conditions keep the rows that Spark keeps, in every lane: on rows, in scans of tables of every layout, written
out and read back, and through the Spark jobs themselves. ``test_where_pruning_like_spark`` tests pruning with them."""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from iceberg_ops.actions.local.delete_rows import whole_files_match
from iceberg_ops.data.columns.row_filter import rows_where
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.evaluators import row_filter
from iceberg_ops.expressions.json import expression_from_json, expression_to_json
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.scan.planning import Scan, plan
from spark_jobs.jobs.conditions import condition
from spark_jobs.jobs.table_rows import table_rows
from tests.builders import make_catalog
from tests.data.where_tables import Maker, RowTable, random_spec
from tests.expressions.sql_text import to_sql
from tests.expressions.where_rows import SCHEMA, TYPES, batch_of
from tests.spark.conftest import Place
from tests.spark.where_world import FORMS, REFUSED, SEED, World, asked

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]
TOGETHER = 150
"""Conditions put to Spark's readers in one query; a normal run asks them one."""


def test_what_was_drawn(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Every type of column is there, and most conditions are answered."""
    tags = Counter(tag for case in world.cases for tag in case.drawn.tags)
    outcomes = Counter(case.outcome for case in world.cases)
    with capsys.disabled():
        print(f"\n{len(world.cases)} conditions: {dict(outcomes)}")
        print(", ".join(f"{tag} {count}" for tag, count in sorted(tags.items())))
    assert {f"type {getattr(type_, 'name', '')}" for type_ in TYPES.values()} <= set(tags)
    assert outcomes["answered"] >= 0.75 * len(world.cases)


def test_we_refuse_what_spark_refuses_and_little_else(world: World) -> None:
    for case in world.cases:
        if case.outcome == "we refuse":
            # Spark does not look at a text that is not a number where a constant beside it decides.
            folded = "is not a whole number" in str(case.ours) and case.drawn.tags & {"AND", "OR"}
            assert case.is_odd or folded or REFUSED.search(str(case.ours)), (case.text, case.ours)
        elif case.outcome == "Spark refuses":
            assert case.is_odd, (case.text, case.spark)


def test_rows_are_kept_as_spark_keeps_them(world: World) -> None:
    check_rows(world)


def check_rows(world: World) -> None:
    """One by one, and by Arrow on plain and on dictionary-encoded text: the condition, its negation, and that it is unknown."""
    batch = batch_of(world.rows)
    columns = [c.dictionary_encode() if f.name in ("s", "bin") else c for f, c in zip(SCHEMA.fields, batch.columns, strict=True)]
    encoded = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    for case in world.answered:
        for wanted, form in FORMS.items():
            bound = bind(SCHEMA, parse_where(form.format(case.text)))
            keeps = row_filter(bound)
            expected = [answer is wanted for answer in case.truths]
            assert [keeps(row) for row in world.rows] == expected, (form, case.text)
            assert rows_where(bound, batch, SCHEMA).tolist() == expected, (form, case.text)
            assert rows_where(bound, encoded, SCHEMA).tolist() == expected, (form, case.text)


def test_a_condition_written_out_means_the_same(world: World) -> None:
    """As SQL text and as JSON, before and after it is bound."""
    for case in world.answered:
        bound = bind(SCHEMA, case.where)
        copies = [parse_where(to_sql(case.where)), parse_where(to_sql(bound))]
        copies += [expression_from_json(json.loads(json.dumps(expression_to_json(e)))) for e in (case.where, bound)]
        for copy in copies:
            keeps = row_filter(bind(SCHEMA, copy))
            assert {i for i, row in enumerate(world.rows) if keeps(row)} == case.matching, (case.text, to_sql(copy))


def test_text_that_we_write_means_the_same_to_spark(world: World, session: SparkSession) -> None:
    """Where it has no uuid, nanoseconds or transforms of Iceberg's, which Spark does not know."""
    unknown = re.compile(r"system\.|AS UUID|\b(ns|tzns)\b", re.IGNORECASE)
    cases = [(case, text) for case in world.answered if not unknown.search(text := to_sql(case.where))]
    for (case, text), answer in zip(cases, asked(session, world.rows, [text for _, text in cases]), strict=True):
        assert not isinstance(answer, str), (case.text, text, answer)
        assert {i for i, truth in enumerate(answer) if truth is True} == case.matching, (case.text, text)


@pytest.fixture(scope="module")
def tables(world: World) -> list[RowTable]:
    rng = random.Random(f"tables {SEED}")
    maker = Maker(make_catalog(), "ns", world.rows)
    kinds = [
        maker.make("one file"),
        maker.make("small row groups", write_parquet_row__group__size__bytes="1000"),
        maker.make("a file for few rows", files=24),
        maker.make("bounds of three characters", files=24, write_metadata_metrics_default="truncate(3)"),
        maker.make("whole bounds", files=12, write_metadata_metrics_default="full"),
        maker.make("counts only", files=12, write_metadata_metrics_default="counts"),
        maker.make("Avro", files=3, write_format_default="avro"),
        maker.make("deletion vectors", files=12, deletes="vector"),
        maker.make("equality deletes", files=12, deletes="equality"),
        maker.make("position deletes", version=2, files=12, deletes="position"),
        maker.make("position deletes in Avro", version=2, files=2, deletes="position", write_format_default="avro"),
    ]
    # The longest decimals truncated may have a digit more than their column, which no file can be partitioned by.
    return kinds + [maker.make("partitioned", spec=lambda schema: random_spec(rng, schema, decimals=False)) for _ in range(9)]


def test_a_scan_gives_the_rows_that_spark_keeps(world: World, tables: list[RowTable]) -> None:
    """From two tables of different makes each; files that match whole, which a delete drops unread, hold no other row."""
    rng = random.Random(f"scans {SEED}")
    for case in world.answered:
        for table in rng.sample(tables, 2):
            if not set(re.findall(r"\b(?:ns|tzns)\b", case.text.lower())) <= table.columns:
                continue
            shown = (table.make, [str(f) for f in table.table.metadata.spec.fields], case.text)
            assert table.ids(case.where) == sorted(case.matching & table.live), shown
            planned = plan(table.table, Scan(where=case.where))
            if whole_files_match(planned):
                assert sum(task.record_count for task in planned.tasks if not task.deletes) <= len(case.matching), shown


@pytest.mark.parametrize("deletes", ["", "position"], ids=["Spark's reader", "Arrow's reader"])
def test_a_job_keeps_the_rows_that_spark_keeps(place: Place, world: World, deletes: str) -> None:
    """Conditions as the Spark jobs put them to Spark, on rows of either reader. Spark jobs take no times and no nanoseconds."""
    without = ["t", *([] if deletes else ["u", "fix"])]
    made = Maker(place.catalog, "db", world.rows).make("for Spark", version=2, without=without, files=3, deletes=deletes)
    frame = table_rows(place.session, made.table, Scan())
    absent = re.compile(rf"\b({'|'.join({'t', 'time', 'ns', 'tzns', *without})})\b", re.IGNORECASE)
    cases = [case for case in world.answered if not absent.search(case.text)]
    cases = cases if "ICEBERG_OPS_STATEMENTS" in os.environ else cases[:TOGETHER]
    for some in (cases[n : n + TOGETHER] for n in range(0, len(cases), TOGETHER)):
        columns = [condition(frame, case.text, "WHERE").alias(f"c{n}") for n, case in enumerate(some)]
        answers = frame.select("id", *columns).toArrow()
        ids = answers.column(0).to_pylist()
        assert sorted(ids) == sorted(made.live)
        for n, case in enumerate(some):
            found = {i for i, answer in zip(ids, answers.column(n + 1).to_pylist(), strict=True) if answer is True}
            assert found == case.matching & made.live, case.text
