"""IN lists of thousands of literals: binding processes each literal a fixed number of times."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.predicates import BoundPredicate, Literal, Op, in_, not_in
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    DecimalType,
    IcebergType,
    NestedField,
    PrimitiveType,
)

COUNT = 20_000
MOST_SECONDS = 20.0
"""A hundred times what it takes. With one look at every literal for each literal it would be 400 million looks."""
DECIMAL = DecimalType(precision=18, scale=2)
LISTS: dict[str, tuple[IcebergType, PrimitiveType, Callable[[int], Any]]] = {
    "int": (INT, INT, int),
    "long in int": (INT, LONG, int),
    "long": (LONG, LONG, int),
    "whole numbers in decimal": (DECIMAL, INT, int),
    "text in long": (LONG, STRING, str),
    "double": (DOUBLE, DOUBLE, float),
    "double in float": (FLOAT, DOUBLE, float),
    "string": (STRING, STRING, str),
    "date": (DATE, DATE, int),
    "date in timestamp": (TIMESTAMP, DATE, int),
    "binary": (BINARY, BINARY, lambda n: n.to_bytes(4, "big")),
}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("make", [in_, not_in])
def test_a_list_of_thousands_of_literals_is_bound_in_seconds(name: str, make: Callable[..., Any]) -> None:
    column, type_, value = LISTS[name]
    where = make("c", [Literal(value(n), type_) for n in range(COUNT)])
    start = time.process_time()
    bound = bind(Schema.of(NestedField(1, "c", column)), where)
    assert time.process_time() - start < MOST_SECONDS
    assert isinstance(bound, BoundPredicate)
    assert bound.op is (Op.IN if make is in_ else Op.NOT_IN)
    assert len(bound.literals) == COUNT
