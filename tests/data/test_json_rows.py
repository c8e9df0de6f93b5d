"""Rows as JSON lines keep every value exactly: JSON-20, JSON-21."""

from __future__ import annotations

import json
import random

from iceberg_ops.data.reading.json_rows import json_lines
from iceberg_ops.serde.json.single_value_json import from_json_value
from iceberg_ops.spec.types import DecimalType, StructType
from tests.expressions.where_rows import SCHEMA, batch_of, rows


def test_every_value_at_the_edges_comes_back() -> None:
    found = rows(random.Random(3))
    lines = json_lines(batch_of(found), SCHEMA).decode("utf-8").split("\n")
    assert lines.pop() == ""
    for line, row in zip(lines, found, strict=True):
        shown = json.loads(line)
        for f, value in zip(SCHEMA.fields, row, strict=True):
            if isinstance(f.type, StructType):
                value = None if value is None else {p.name: v for p, v in zip(f.type.fields, value, strict=True)}
                back = shown[f.name] and {p.name: from_json_value(p.type, shown[f.name][p.name]) for p in f.type.fields}
            else:
                back = from_json_value(f.type, shown[f.name])
            assert repr(back) == repr(value), f.name
            assert not isinstance(f.type, DecimalType) or "E" not in str(shown[f.name]), shown[f.name]
