"""A struct that is null has no parts, not even required ones."""

from __future__ import annotations

import pytest

from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import BOOLEAN, NestedField, StructType, list_of
from tests.data.files import new_io, read, write, write_context

PART = NestedField(3, "part", StructType((NestedField(4, "flags", list_of(5, BOOLEAN)),)), required=True)
SCHEMA = Schema.of(NestedField(1, "whole", StructType((NestedField(2, "flag", BOOLEAN), PART))))


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_a_null_struct_with_a_required_part_comes_back_null(form: str) -> None:
    io = new_io()
    rows = [(None,), ((True, ([False, None],)),), (None,)]
    files = write(write_context(SCHEMA, properties={"write.format.default": form}), io, rows)
    assert read(files, SCHEMA, io) == rows
