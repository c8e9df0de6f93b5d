"""WHERE text: the result of each form, and the one-line errors."""

from __future__ import annotations

import subprocess
import sys

import pytest

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.evaluators import metrics_all_match, metrics_may_match, row_filter
from iceberg_ops.expressions.predicates import (
    ALWAYS_TRUE,
    And,
    Expression,
    Literal,
    MayMatch,
    Op,
    Or,
    Predicate,
    Reference,
    TransformTerm,
    column_names,
    is_exact,
)
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import DAY, YEAR, bucket, truncate
from iceberg_ops.spec.types import INT, LONG, STRING, TIMESTAMP, ListType, NestedField, StructType

SCHEMA = Schema.of(
    NestedField(1, "a", INT),
    NestedField(2, "S", STRING),
    NestedField(3, "ts", TIMESTAMP),
    NestedField(4, "left", LONG),
    NestedField(5, "xs", ListType(NestedField(6, "element", INT))),
    NestedField(7, "o", StructType((NestedField(8, "b c", INT),))),
)
FILE = DataFile(file_path="f", file_format=FileFormat.PARQUET, record_count=1, file_size_in_bytes=1)


def leaf(op: Op, name: str, *values: int) -> Expression:
    return Predicate(op, Reference(name), tuple(Literal(v, INT) for v in values))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 > a", leaf(Op.LT, "a", 5)),
        ("a BETWEEN 1 AND 2", And(leaf(Op.GT_EQ, "a", 1), leaf(Op.LT_EQ, "a", 2))),
        ("NOT (a = 1 OR S IS NULL)", And(leaf(Op.NOT_EQ, "a", 1), leaf(Op.NOT_NULL, "S"))),
        ("NOT a <=> 1", Or(leaf(Op.NOT_EQ, "a", 1), leaf(Op.IS_NULL, "a"))),
        ("a IN (1, 2, NULL)", leaf(Op.IN, "a", 1, 2)),
        ("a NOT IN (1, NULL)", And(leaf(Op.EQ, "a", 1), leaf(Op.NOT_EQ, "a", 1))),
        ("a IN (7)", leaf(Op.EQ, "a", 7)),
        ("S LIKE 'x%'", Predicate(Op.STARTS_WITH, Reference("S"), (Literal("x", STRING),))),
        ("S LIKE 'x'", Predicate(Op.EQ, Reference("S"), (Literal("x", STRING),))),
        ("S LIKE '%x_'", Predicate(Op.LIKE, Reference("S"), (Literal("%x_", STRING),))),
        ("a IS NAN", leaf(Op.IS_NAN, "a")),
        ("a IS NOT NAN", leaf(Op.NOT_NAN, "a")),
        ("system.bucket(16, a) = 3", Predicate(Op.EQ, TransformTerm(bucket(16), Reference("a")), (Literal(3, INT),))),
        ("system.truncate(2, a) IS NULL", Predicate(Op.IS_NULL, TransformTerm(truncate(2), Reference("a")))),
        ("system.days(ts) IS NOT NULL", Predicate(Op.NOT_NULL, TransformTerm(DAY, Reference("ts")))),
        ("year(ts) = 2020", Predicate(Op.EQ, TransformTerm(YEAR, Reference("ts")), (Literal(50, LONG),))),
        ("a = NULL OR a = 1", leaf(Op.EQ, "a", 1)),
        ("1 = 1", ALWAYS_TRUE),
        ("`o`.`b c` = 1", leaf(Op.EQ, "o.b c", 1)),
        ("left = 1", leaf(Op.EQ, "left", 1)),
    ],
)
def test_a_form_of_sql_becomes_this_expression(text: str, expected: Expression) -> None:
    assert parse_where(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "upper(S) = 'X'",
        "a < left",
        "a + 1 = 2",
        "S RLIKE 'x'",
        "S ILIKE 'x'",
        "ts > current_timestamp()",
        "a % 2 = 0",
        "CASE WHEN a = 1 THEN TRUE END",
        "xs[0] = 1",
        "coalesce(a, 1) = 1",
    ],
)
def test_what_is_computed_from_a_row_prunes_nothing_and_proves_nothing(text: str) -> None:
    """SCAN-08: every file that may match is read; a metadata-only delete is never decided by it."""
    for where in (text, f"NOT ({text})", f"({text}) IS NULL"):
        parsed = parse_where(where)
        assert isinstance(parsed, MayMatch)
        assert not is_exact(parsed)
        bound = bind(SCHEMA, parsed)
        assert metrics_may_match(bound, FILE)
        assert not metrics_all_match(bound, FILE)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("S RLIKE 'x'", "S RLIKE 'x'"),
        ("S ILIKE 'x'", "S ILIKE 'x'"),
        ("ts > current_timestamp()", "function current_timestamp"),
        ("xs[0] = 1", "xs[0]"),
        ("soundex(S) = 'S'", "function soundex"),
        ("my_udf(a) = 1", "function my_udf"),
        ("length(a) = 1", "length of int (only string)"),
    ],
)
def test_what_only_spark_evaluates_is_refused_by_name_with_what_is_evaluated(text: str, what: str) -> None:
    for where in (text, f"NOT ({text})", f"({text}) IS NULL"):
        bound = bind(SCHEMA, parse_where(where))
        assert not is_exact(bound)
        with pytest.raises(WhereError, match="not supported") as e:
            row_filter(bound)
        assert f"only Spark evaluates {what}" in str(e.value).replace('"', "")
        assert "without Spark are evaluated comparisons" in str(e.value)
        assert "date_trunc, datediff" in str(e.value)


def test_an_expression_of_many_levels_takes_no_time_and_is_left_to_spark_where_it_is_too_deep() -> None:
    """Copies of the tree share what is noted about functions: each level would otherwise double the one below."""
    nested = "upper(" * 40 + "S" + ")" * 40
    assert is_exact(bind(SCHEMA, parse_where(f"{nested} BETWEEN 'a' AND 'b'")))
    bound = bind(SCHEMA, parse_where(" + ".join(["a"] * 500) + " > 1"))
    with pytest.raises(WhereError, match="only Spark evaluates an expression of so many levels"):
        row_filter(bound)


def test_an_exact_part_beside_an_opaque_one_still_prunes() -> None:
    parsed = parse_where("a = 1 AND upper(S) = 'X'")
    assert column_names(parsed) == {"a", "S"}
    assert isinstance(parsed, And)
    assert parsed.left == leaf(Op.EQ, "a", 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "not complete"),
        ("a = 1; DROP TABLE t", "cannot parse"),
        ("a = 1 GROUP BY a", "cannot parse"),
        ("a = 1 LIMIT 5", "cannot parse"),
        ("", "cannot parse"),
        ("nosuch = 1", "no column named 'nosuch': the columns are a, S, ts, left, xs, o"),
        ("upper(nosuch) = 'x'", "no column named 'nosuch'"),
        ("S = 5", "column 'S' of type string cannot be compared with the int literal '5'"),
        ("a = 'x'", "column 'a' of type int cannot be compared with the string literal 'x': 'x' is not a whole number"),
        ("a = 0x1F", "no column named '0x1F'"),
        ("a = DATE '2020-01-01'", "column 'a' of type int cannot be compared with the date literal"),
        ("a = TRUE", "column 'a' of type int cannot be compared with the boolean literal"),
        ("ts = 'soon'", "column 'ts' of type timestamp cannot be compared with the string literal 'soon'"),
        ("S = DATE '2020-02-30'", "is not a literal"),
        ("a = 40000S", "is not a literal: 40000 is outside smallint"),
        ("isnan(S)", "column 'S' of type string cannot be NaN"),
        ("a LIKE 'x%'", "column 'a' of type int is not text"),
        ("xs = 1", "takes only IS NULL"),
        ("xs.element = 1", "lies inside a list or map"),
        ("o = 1", "takes only IS NULL"),
        ("a IN (SELECT 1)", "a subquery"),
        ("EXISTS (SELECT 1)", "a subquery"),
        ("S LIKE 'a#' ESCAPE '#'", "the escape character '#' must stand before"),
        ("a IN ()", "at least one value"),
        ("5", "is a int literal, not a condition"),
        ("a = DECIMAL '1.5'", "DECIMAL '1.5' is not a literal in Spark SQL: write CAST('1.5' AS DECIMAL)"),
        ("a = INT '5'", "INT '5' is not a literal in Spark SQL"),
        ("a IN (1, numeric '1.5')", "numeric '1.5' is not a literal in Spark SQL"),
        ("a = DECIMAL(10, 2) '1.5'", "'1.5' cannot follow a parenthesis"),
        ("((((((" * 300 + "a = 1" + "))))))" * 300, "nested too deep"),
    ],
)
def test_a_wrong_where_is_one_line_that_names_the_thing(text: str, message: str) -> None:
    with pytest.raises(WhereError) as caught:
        bind(SCHEMA, parse_where(text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_are_matched_without_case_unless_asked_for() -> None:
    assert bind(SCHEMA, parse_where("s = 'x' AND A = 1")) == bind(SCHEMA, parse_where("S = 'x' AND a = 1"))
    with pytest.raises(WhereError, match="no column named 's'"):
        bind(SCHEMA, parse_where("s = 'x'"), case_sensitive=True)


def test_thousands_of_alternatives_are_parsed_bound_and_evaluated() -> None:
    keeps = row_filter(bind(SCHEMA, parse_where(" OR ".join(f"a = {i} AND S = '{i}'" for i in range(3000)))))
    assert keeps((2999, "2999", None, None, None, None))
    assert not keeps((2999, "2998", None, None, None, None))


def test_the_sql_parser_is_loaded_by_nothing_but_the_where_parser() -> None:
    code = (
        "import sys, pkgutil, importlib, iceberg_ops.expressions as p\n"
        "[importlib.import_module(f'{p.__name__}.{m.name}') for m in pkgutil.iter_modules(p.__path__) if 'where' not in m.name]\n"
        "sys.exit('sqlglot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
