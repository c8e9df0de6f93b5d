"""Sort orders as procedure text: valid and refused forms, and the id that files record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iceberg_ops.config.options import rewrite_data_files_options
from iceberg_ops.data.sorting.zorder import bits_per_column
from iceberg_ops.errors import OptionError
from iceberg_ops.planning.sort_orders import parse_sort_order, rewrite_order
from iceberg_ops.spec.types import INT, STRING, VARIANT, GeometryType, NestedField, StructType, list_of
from tests.planning.planning_cases import BY_ID, metadata


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id", [(1, "identity", "asc", "nulls-first")]),
        ("ID desc", [(1, "identity", "desc", "nulls-last")]),
        ("id DESC NULLS FIRST, `data`", [(1, "identity", "desc", "nulls-first"), (2, "identity", "asc", "nulls-first")]),
        ("bucket(16, id)", [(1, "bucket[16]", "asc", "nulls-first")]),
        ("id, truncate(data, 4) nulls last", [(1, "identity", "asc", "nulls-first"), (2, "truncate[4]", "asc", "nulls-last")]),
    ],
)  # fmt: skip
def test_an_order_is_columns_or_transforms_with_direction_and_nulls(text: str, expected: list[tuple[int, str, str, str]]) -> None:
    found = parse_sort_order(text, metadata())
    assert [(f.source_id, str(f.transform), f.direction.value, f.null_order.value) for f in found.fields] == expected


@pytest.mark.parametrize("text", ["", "id,", "id upwards", "nope", "hours(id, 3)", "void(id)", "bucket(id)"])
def test_what_is_no_order_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="sort-order"):
        parse_sort_order(text, metadata())


@pytest.mark.parametrize("text", ["{}", "id, {} desc", "zorder(id, {})", "hilbert({}, id)", "bucket(4, {})"])
@pytest.mark.parametrize("column", ["v", "g", "l.element", "s"])
def test_columns_that_rows_cannot_be_ordered_by_are_refused_before_a_row_is_read(text: str, column: str) -> None:
    more = (
        NestedField(20, "v", VARIANT),
        NestedField(21, "g", GeometryType()),
        NestedField(22, "l", list_of(23, INT)),
        NestedField(24, "s", StructType((NestedField(25, "x", INT),))),
    )
    known = metadata()
    schema = replace(known.schema, struct=StructType((*known.schema.fields, *more)))
    options = rewrite_data_files_options({"strategy": "sort", "sort-order": text.format(column)}, {})
    with pytest.raises(OptionError, match="sort-order: "):
        rewrite_order(options, replace(known, schemas=(schema,)))


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("`a``b`", [20]),
        ("`a``b` DESC, id", [20, 1]),
        ("`x,y)`, `a.b` NULLS LAST", [21, 22]),
        ("bucket(4, `x,y)`), truncate(`a``b`, 2)", [21, 20]),
        ("`s`.`t u`, s.`t u`", [24, 24]),
        ("zorder(`x,y)`, `a``b`, id)", [21, 20, 1]),
    ],
)
def test_any_name_may_stand_in_back_quotes(text: str, ids: list[int]) -> None:
    more = (
        *(NestedField(20 + i, name, STRING) for i, name in enumerate(("a`b", "x,y)", "a.b"))),
        NestedField(23, "s", StructType((NestedField(24, "t u", INT),))),
    )
    known = metadata()
    known = replace(known, schemas=(replace(known.schema, struct=StructType((*known.schema.fields, *more))),))
    found = rewrite_order(rewrite_data_files_options({"sort-order": text}, {}), known)
    named = [known.schema.find(name) for name in found.zorder_columns]
    assert ids == ([f.source_id for f in found.sort_order.fields] if found.sort_order else [f.field_id for f in named if f])


@pytest.mark.parametrize("text", ["`a``b" * 2000, "bucket(4, " + "`a``b" * 2000, "`id", "id`", "``", "`id``"])
def test_back_quotes_that_do_not_pair_up_are_refused_at_once(text: str) -> None:
    with pytest.raises(OptionError, match="sort-order"):
        parse_sort_order(text, metadata())


def test_an_order_equal_to_the_tables_is_recorded_under_its_id_and_others_are_not() -> None:
    def order(text: str | None) -> tuple[str, int]:
        options = {"strategy": "sort"} | ({} if text is None else {"sort-order": text})
        found = rewrite_order(rewrite_data_files_options(options, {}), metadata())
        return found.strategy, found.sort_order_id

    assert order(None) == ("sort", BY_ID.order_id)
    assert order("id") == ("sort", BY_ID.order_id)
    assert order("id desc") == ("sort", 0)
    assert order("zorder(id, data)") == ("zorder", 0)
    assert order("HILBERT(id, data)") == ("hilbert", 0)


def test_z_order_leaves_identity_partition_columns_out() -> None:
    options = rewrite_data_files_options({"sort-order": "zorder(region, id)"}, {})
    assert rewrite_order(options, metadata()).zorder_columns == ("id",)
    with pytest.raises(OptionError, match="nothing to order by"):
        rewrite_order(rewrite_data_files_options({"sort-order": "zorder(region)"}, {}), metadata())


@pytest.mark.parametrize("curve", ["zorder", "hilbert"])
def test_a_curve_has_at_most_as_many_columns_as_its_key_has_bits(curve: str) -> None:
    """With 65 columns each had zero bits: all keys were equal, and the rewrite reported a sort that it did not make."""
    known = metadata()
    fields = tuple(NestedField(20 + n, f"c{n}", INT) for n in range(65))
    known = replace(known, schemas=(replace(known.schema, struct=StructType((*known.schema.fields, *fields))),))

    def ordered(columns: int, more: str = "") -> tuple[str, ...]:
        text = f"{curve}({', '.join(f.name for f in fields[:columns])}{more})"
        return rewrite_order(rewrite_data_files_options({"sort-order": text}, {}), known).zorder_columns

    assert len(ordered(64, more=", c0, region")) == 64
    assert bits_per_column(64) == 1
    with pytest.raises(OptionError, match=f"sort-order {curve}: 65 columns, must be at most 64"):
        ordered(65)
