"""Z-order and Hilbert keys of every type: equal values have equal keys, greater values have equal or greater keys, nulls come
first."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from iceberg_ops.data.sorting.zorder import zorder_cuts, zorder_keys
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    DecimalType,
    FixedType,
    IcebergType,
    NestedField,
    StructType,
)
from tests.data.files import batch_of

WHOLE = [-(2**31), -1, 0, 7, 2**31 - 1]
ASCENDING: list[tuple[IcebergType, list[Any]]] = [
    (BOOLEAN, [False, True]),
    (UNKNOWN, []),
    *((type_, WHOLE) for type_ in (INT, LONG, DATE, TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS)),
    (TIME, [0, 1, 86_399_999_999]),
    *((type_, [float("-inf"), -1.5, -0.0, 0.0, 2.5, float("inf"), float("nan")]) for type_ in (FLOAT, DOUBLE)),
    *(
        (
            DecimalType(precision=p, scale=2),
            [Decimal("-99.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("1.10"), Decimal("99.99")],
        )
        for p in (4, 9, 18, 19, 28, 38)
    ),
    (STRING, ["", "a", "aa", "é"]),
    (BINARY, [b"", b"\x00", b"a", b"\xff"]),
    (FixedType(length=2), [b"\x00\x00", b"\x00\x01", b"\xff\xff"]),
    (UUID, [uuid.UUID(int=0), uuid.UUID(int=5), uuid.UUID(int=2**128 - 1)]),
]


@pytest.mark.parametrize("curve", ["zorder", "hilbert"])
@pytest.mark.parametrize(("type_", "ascending"), ASCENDING, ids=[str(t) for t, _ in ASCENDING])
def test_keys_of_one_column_are_in_the_order_of_its_values_nulls_first(
    type_: IcebergType, ascending: list[Any], curve: str
) -> None:
    values = [None, *ascending, *ascending[::-1], None]
    schema = Schema.of(NestedField(1, "c", type_), NestedField(2, "s", StructType((NestedField(3, "c", type_),))))
    batch = batch_of(schema, [(v, None if v is None else (v,)) for v in values])
    for field_id in (1, 3):
        for rows in (batch, batch.slice(0, 1), batch.slice(0, 0)):
            cuts = zorder_cuts(schema, [field_id], pa.Table.from_batches([rows]))
            ((keys, _),) = zorder_keys(schema, [field_id], cuts, curve)(batch)
            found = np.asarray(keys)[: len(ascending) + 1]
            assert (np.diff(found.astype(object)) >= 0).all()
            if len(rows) > 1:
                assert len(set(found[1:])) == len(ascending), "distinct values that are all in the sample have distinct keys"
                assert np.array_equal(np.asarray(keys), np.asarray(keys)[::-1])


@pytest.mark.parametrize("curve", ["zorder", "hilbert"])
@pytest.mark.parametrize(("type_", "ascending"), ASCENDING, ids=[str(t) for t, _ in ASCENDING])
def test_every_type_is_ordered_together_with_another_column(type_: IcebergType, ascending: list[Any], curve: str) -> None:
    schema = Schema.of(NestedField(1, "c", type_), NestedField(2, "n", INT))
    batch = batch_of(schema, [(v, n) for v in [None, *ascending] for n in (1, 2, 3)])
    dictionary = batch.set_column(0, "c", batch.column(0).dictionary_encode()) if type_ == STRING else batch
    cuts = zorder_cuts(schema, [1, 2], pa.Table.from_batches([batch]))
    ((keys, _),) = zorder_keys(schema, [1, 2], cuts, curve)(dictionary)
    assert len(set(np.asarray(keys))) == batch.num_rows
