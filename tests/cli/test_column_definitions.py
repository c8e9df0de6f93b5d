"""Columns, types, terms and sort keys are read in Spark's syntax."""

from __future__ import annotations

import time

import pytest

from iceberg_ops.cli.column_definitions import ColumnDefinition, parse_columns, parse_sort_keys, parse_terms
from iceberg_ops.errors import OptionError
from iceberg_ops.spec import types
from iceberg_ops.spec.sorting import NullOrder, SortDirection
from iceberg_ops.spec.types import DecimalType, FixedType

TYPES = [
    ("bigint", "long"), ("LONG", "long"), ("smallint", "int"), ("timestamp", "timestamptz"), ("timestamp_ntz", "timestamp"),
    ("decimal", "decimal(10, 0)"), ("decimal(12,3)", "decimal(12, 3)"), ("varchar(10)", "string"), ("fixed[4]", "fixed[4]"),
    ("fixed(4)", "fixed[4]"), ("array<string>", "list<string>"), ("map<string, array<int>>", "map<string, list<int>>"),
    ("timestamp_ns", "timestamp_ns"), ("uuid", "uuid"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TYPES)
def test_a_type_is_read(text: str, expected: str) -> None:
    assert str(parse_columns(f"c {text}")[0].type) == expected


def test_a_definition_has_nullability_default_and_comment_in_any_order() -> None:
    wanted = ColumnDefinition("a b", DecimalType(precision=4, scale=2), True, "CAST('1.50' AS decimal(4, 2))", "it's")
    assert parse_columns("`a b` decimal(4, 2) NOT NULL DEFAULT CAST('1.50' AS decimal(4, 2)) COMMENT 'it''s'") == [wanted]
    assert parse_columns("`a b` decimal(4, 2) COMMENT 'it\\'s' DEFAULT CAST('1.50' AS decimal(4, 2)) NOT NULL") == [wanted]


def test_structs_nest_and_give_every_field_its_own_id() -> None:
    found = parse_columns("s struct<a: int NOT NULL COMMENT 'n', b struct<c: fixed[2]>, m: map<string, struct<d: date>>>")[0].type
    assert isinstance(found, types.StructType)
    a, b, m = found.fields
    assert (a.required, a.doc, b.optional) == (True, "n", True)
    assert isinstance(b.type, types.StructType)
    assert b.type.fields[0].type == FixedType(length=2)
    ids = (
        [f.field_id for f in (a, b, m)]
        + [f.field_id for f in types.child_fields(b.type)]
        + [f.field_id for f in types.child_fields(m.type)]
    )
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("region", ("identity", "region", "region")),
        ("bucket(16, id)", ("bucket[16]", "id", "id_bucket")),
        ("truncate(4, s.name) AS t", ("truncate[4]", "s.name", "t")),
        ("days(ts)", ("day", "ts", "ts_day")),
        ("date_hour(ts)", ("hour", "ts", "ts_hour")),
        ("identity(x)", ("identity", "x", "x")),
    ],
)
def test_a_partition_term_is_read(text: str, expected: tuple[str, str, str]) -> None:
    (found,) = parse_terms(text)
    assert (str(found.transform), found.source, found.field_name) == expected


def test_sort_keys_put_nulls_where_spark_does_unless_told() -> None:
    found = parse_sort_keys("a, b DESC, c ASC NULLS LAST, bucket(4, d) DESC NULLS FIRST")
    asc, desc, first, last = SortDirection.ASC, SortDirection.DESC, NullOrder.NULLS_FIRST, NullOrder.NULLS_LAST
    assert [(k.term.source, k.direction, k.null_order) for k in found] == [
        ("a", asc, first),
        ("b", desc, last),
        ("c", asc, last),
        ("d", desc, first),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a strng", "unknown type 'strng'"),
        ("a", "expected a name at the end"),
        ("a int b", "expected nothing more at 'b'"),
        ("a array<int", "expected > at the end"),
        ("a decimal(x)", r"expected a whole number at 'x\)'"),
        ("a int DEFAULT", "expected a value at the end"),
        ("a int $", "nothing readable at '[$]'"),
        ("s struct<a: int DEFAULT 1>", "a default is set on a column of its own"),
    ],
)
def test_what_can_not_be_read_is_named(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_columns(text)


@pytest.mark.parametrize(("text", "message"), [("weeks(ts)", "unknown transform 'weeks'"), ("bucket(0, a)", "a number above 0")])
def test_unknown_transforms_are_refused(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_terms(text)


@pytest.mark.parametrize("form", ["{}", "s struct<{}>"])
def test_thousands_of_columns_are_read_in_time_in_proportion(form: str) -> None:
    """How deep a type is nested was counted from the beginning of the text for each column."""
    many = form.format(", ".join(f"c{n} int" for n in range(10_000)))
    begun = time.process_time()
    assert str(parse_columns(many)).count("int") >= 10_000
    assert time.process_time() - begun < 6
