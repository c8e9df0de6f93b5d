"""The error for a missing column: similar names, and never the name itself."""

from __future__ import annotations

import pytest

from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.schema import Schema, no_column
from iceberg_ops.spec.types import LONG, STRING, NestedField, StructType

ADDRESS = StructType((NestedField(3, "street", STRING), NestedField(4, "zip", STRING)))
SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "address", ADDRESS))


@pytest.mark.parametrize("name", ["address.street", "Address.Street"])
def test_a_part_of_a_column_is_told_to_be_one(name: str) -> None:
    with pytest.raises(SchemaError, match=f"^'{name}' is a part of column 'address', and no column of its own: the columns are"):
        SCHEMA.select([name], case_sensitive=False)


def test_where_only_whole_columns_are_asked_for_no_part_is_meant() -> None:
    with pytest.raises(SchemaError, match=r"^no column named 'adress' \(did you mean 'address'\?\): the columns are id, address$"):
        SCHEMA.select(["adress"])


def test_elsewhere_parts_are_near_names_too() -> None:
    assert "did you mean 'address.street'" in no_column(SCHEMA, "address.stret")
    assert "did you mean" not in no_column(SCHEMA, "zzz")
