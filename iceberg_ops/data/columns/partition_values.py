"""Partition transforms on whole Arrow columns (spec: "Partition Transforms").

The scalar transforms of ``iceberg_ops.spec.transform_functions`` are the definition. Vectorised code here gives the same values;
the other transforms (bucket of text, decimals) call the scalar ones, once per distinct value.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_ops.data.arrow.arrow_schema import arrow_type
from iceberg_ops.data.arrow.arrow_values import array_of, values_of
from iceberg_ops.errors import DataError, UnsupportedError
from iceberg_ops.spec.transform_functions import apply
from iceberg_ops.spec.transforms import Transform
from iceberg_ops.spec.types import INT, LONG, STRING, DecimalType, IcebergType

_WIDEST_DECIMAL = 76


def transformed(transform: Transform, source: IcebergType, array: pa.Array) -> pa.Array:
    """The transform's values for a canonical column of type ``source``.

    Raises UnsupportedError for an unknown transform, DataError for a value that does not fit the transform's type.
    """
    partition_values = sortable(transform, source, array)
    result_type = arrow_type(transform.result_type(source))
    values = partition_values.type.value_type if isinstance(partition_values, pa.DictionaryArray) else partition_values.type
    if values == result_type:
        return partition_values
    try:
        return partition_values.cast(result_type)
    except pa.ArrowInvalid as e:
        raise DataError(f"{transform} of a value of type {source} lies outside {transform.result_type(source)}: {e}") from None


def sortable(transform: Transform, source: IcebergType, array: pa.Array) -> pa.Array:
    """The transform's values as keys for ordering rows. Decimals have a type that is wide enough for all of them. Raises
    UnsupportedError for an unknown transform."""
    if not transform.is_known:
        raise UnsupportedError(
            f"not supported: values of transform {transform}, because this version of the spec does not define it"
        )
    if isinstance(array, pa.DictionaryArray):
        if transform.is_identity:
            return array
        return sortable(transform, source, array.dictionary).take(array.indices)
    if transform.is_identity:
        return array
    if transform.is_void:
        return pa.nulls(len(array), arrow_type(transform.result_type(source)))
    if (fast := _fast(transform, source, array)) is not None:
        return fast
    encoded = distinct(array)
    values = [apply(transform, source, v) for v in values_of(source, encoded.dictionary)]
    if isinstance(source, DecimalType) and transform.name == "truncate":
        return pa.array(values, pa.decimal256(_WIDEST_DECIMAL, source.scale)).take(encoded.indices)
    return array_of(transform.result_type(source), values).take(encoded.indices)


def distinct(array: pa.Array) -> pa.DictionaryArray:
    """A column's distinct values and the index of each row's value; unchanged if it is already encoded."""
    if isinstance(array, pa.DictionaryArray):
        return array
    return (array.cast(pa.decimal128(38, array.type.scale)) if pa.types.is_decimal(array.type) else array).dictionary_encode()


def _fast(transform: Transform, source: IcebergType, array: pa.Array) -> pa.Array | None:
    width = transform.parameter or 1
    if transform.name == "truncate" and source in (INT, LONG):
        return _truncated(array, width)
    if transform.name == "truncate" and source == STRING:
        return pc.utf8_slice_codeunits(array, 0, width)
    if transform.name in ("day", "hour") and pa.types.is_timestamp(array.type):
        per_second = {"us": 10**6, "ns": 10**9}[array.type.unit]
        unit = per_second * (86400 if transform.name == "day" else 3600)
        values = array.view(pa.int64())
        quotient = pc.divide(values, unit)
        floored = pc.subtract(quotient, pc.cast(pc.less(values, pc.multiply(quotient, unit)), pa.int64()))
        days_or_hours = floored.cast(pa.int32(), safe=False)  # hours beyond an int wrap around, as in Iceberg Java
        return days_or_hours if transform.name == "hour" else days_or_hours.cast(pa.date32())
    return None


def _truncated(array: pa.Array, width: int) -> pa.Array:
    """``v - (((v % W) + W) % W)`` in the column's own type; every step wraps around as in Iceberg Java."""
    by = pa.scalar(width, array.type)

    def remainder(values: pa.Array) -> pa.Array:
        return pc.subtract(values, pc.multiply(pc.divide(values, by), by))

    return pc.subtract(array, remainder(pc.add(remainder(array), by)))
