"""No change of a schema leaves two columns that one name could mean."""

from __future__ import annotations

import pytest

from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.types import INT, NestedField, StructType
from iceberg_ops.spec.validity import check_schema
from tests.spec.test_schema_evolution import TABLE


@pytest.mark.parametrize(("name", "new"), [("id", "DAY"), ("point.x", "Y"), ("points.element.x", "X"), ("id", "Id")])
def test_no_rename_leaves_names_that_differ_only_in_case(name: str, new: str) -> None:
    """No statement could name either of the two columns."""
    evolution = SchemaEvolution(TABLE, 16, case_sensitive=False).rename_column(name, new)
    if new in ("DAY", "Y"):
        with pytest.raises(SchemaError, match=f"{new}.* differ only in case"):
            evolution.apply()
    else:
        assert evolution.apply().find(name.rpartition(".")[0] + "." * ("." in name) + new) is not None
    assert SchemaEvolution(TABLE, 16).rename_column(name, new).apply().find(name) is None


def test_names_that_differ_only_in_case_already_keep_a_schema_from_no_other_change() -> None:
    """Another engine made them."""
    twins = Schema.of(NestedField(1, "a", INT), NestedField(2, "A", INT), NestedField(3, "b", INT))
    evolution = SchemaEvolution(twins, 3, case_sensitive=False)
    assert [f.name for f in evolution.rename_column("b", "c").apply().fields] == ["a", "A", "c"]


def test_a_dot_in_a_name_makes_no_second_column_of_a_full_name() -> None:
    """``a.b = 1`` would mean either of them."""
    dotted, holder = NestedField(1, "a.b", INT), NestedField(2, "a", StructType((NestedField(3, "b", INT),)))
    for fields in ((dotted, holder), (holder, dotted)):
        with pytest.raises(SchemaError, match=r"two columns are called 'a\.b'"):
            check_schema(Schema.of(*fields), 2)
    check_schema(Schema.of(dotted, NestedField(2, "a", StructType((NestedField(3, "c", INT),)))), 2)
