"""Partition transforms on whole Arrow columns (spec: "Partition Transforms").

The scalar transforms of ``iceberg_ops.spec.transform_functions`` are the definition; what is vectorised here gives the same values
and falls back to them, once per distinct value, for the rest (bucket of text, decimals).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_ops.data.arrow_schema import arrow_type
from iceberg_ops.data.arrow_values import array_of, values_of
from iceberg_ops.errors import DataError, UnsupportedError
from iceberg_ops.spec.transform_functions import apply
from iceberg_ops.spec.transforms import Transform
from iceberg_ops.spec.types import INT, LONG, STRING, IcebergType


def transformed(transform: Transform, source: IcebergType, array: pa.Array) -> pa.Array:
    """The transform's values for a canonical column of type ``source``. Raises UnsupportedError for an unknown transform."""
    if not transform.is_known:
        raise UnsupportedError(
            f"not supported: values of transform {transform}, because this version of the spec does not define it"
        )
    if isinstance(array, pa.DictionaryArray):
        if transform.is_identity:
            return array
        return transformed(transform, source, array.dictionary).take(array.indices)
    if transform.is_identity:
        return array
    result = arrow_type(transform.result_type(source))
    if transform.is_void:
        return pa.nulls(len(array), result)
    if (fast := _fast(transform, source, array)) is not None:
        return fast
    encoded = distinct(array)
    values = [apply(transform, source, v) for v in values_of(source, encoded.dictionary)]
    try:
        return array_of(transform.result_type(source), values).take(encoded.indices)
    except pa.ArrowInvalid as e:
        raise DataError(f"{transform} of a value lies outside {source}: {e}") from None


def distinct(array: pa.Array) -> pa.DictionaryArray:
    """A column's distinct values and where each stands; as it is where it is encoded already."""
    if isinstance(array, pa.DictionaryArray):
        return array
    return (array.cast(pa.decimal128(38, array.type.scale)) if pa.types.is_decimal(array.type) else array).dictionary_encode()


def _fast(transform: Transform, source: IcebergType, array: pa.Array) -> pa.Array | None:
    width = transform.parameter or 1
    if transform.name == "truncate" and source in (INT, LONG) and width < 1 << 31:
        values = array.cast(pa.int64())
        remainder = pc.subtract(values, pc.multiply(pc.divide(values, width), width))
        shifted = pc.if_else(pc.less(remainder, 0), pc.add(remainder, width), remainder)
        # What lies below the type's least value wraps around, as in Iceberg Java.
        return pc.subtract(values, shifted).cast(array.type, safe=False)
    if transform.name == "truncate" and source == STRING:
        return pc.utf8_slice_codeunits(array, 0, width)
    if transform.name in ("day", "hour") and pa.types.is_timestamp(array.type):
        per_second = {"us": 10**6, "ns": 10**9}[array.type.unit]
        unit = per_second * (86400 if transform.name == "day" else 3600)
        values = array.view(pa.int64())
        quotient = pc.divide(values, unit)
        floored = pc.subtract(quotient, pc.cast(pc.less(values, pc.multiply(quotient, unit)), pa.int64()))
        return floored.cast(pa.int32()).cast(arrow_type(transform.result_type(source)))
    return None
