"""Converts a file's column to the type of the read schema (spec: "Schema Evolution", type promotion).

Only forms that the spec allows in a file for a field are converted: promotions, the physical forms of a type, and containers
(dictionary, large). Anything else is a CorruptTableError that names the column, never a parsed string or a truncated number. Values
out of the target's range fail (for example a date outside timestamp_ns).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_ops.errors import CorruptTableError

_FAMILIES = (
    ("integer", pa.types.is_integer),
    ("floating", pa.types.is_floating),
    ("decimal", pa.types.is_decimal),
    ("date", pa.types.is_date),
    ("time", pa.types.is_time),
    ("timestamp", pa.types.is_timestamp),
    ("string", lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t)),
    ("binary", lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t)),
    ("fixed", pa.types.is_fixed_size_binary),
    ("boolean", pa.types.is_boolean),
    ("null", pa.types.is_null),
)
_READABLE = frozenset(
    {
        ("integer", "date"), ("integer", "time"), ("integer", "timestamp"), ("integer", "decimal"), ("date", "timestamp"),
        ("binary", "string"), ("string", "binary"), ("binary", "fixed"), ("fixed", "binary"), ("fixed", "decimal"),
        ("binary", "decimal"),
    }
)  # fmt: skip
"""(in the file, in the read schema) across families: physical forms without annotation, and the date promotions of v3."""


def family(type_: pa.DataType) -> str:
    """One word for types whose values can be converted to each other."""
    return next((name for name, test in _FAMILIES if test(type_)), str(type_))


def promote(array: pa.Array, target: pa.DataType, name: str) -> pa.Array:
    """``array`` as ``target``; ``name`` is the column in error messages. Dictionaries with values of the target's type stay
    dictionaries only if ``target`` is one. Raises CorruptTableError."""
    source = array.type
    if source.equals(target):
        return array
    if isinstance(source, pa.BaseExtensionType):
        return promote(array.storage, target, name)
    if isinstance(source, pa.DictionaryType):
        return promote(array.dictionary_decode(), target, name)
    have, want = family(source), family(target)
    if want == "null":
        return pa.nulls(len(array))
    if have == "null":
        return pa.nulls(len(array), target)
    if have != want and (have, want) not in _READABLE:
        raise CorruptTableError(f"column {name}: the file stores {source}, which cannot be read as {target}")
    try:
        return _convert(array, target, have, want)
    except pa.ArrowInvalid as e:
        raise CorruptTableError(f"column {name}: a value stored as {source} is outside {target}: {e}") from None


def _convert(array: pa.Array, target: pa.DataType, have: str, want: str) -> pa.Array:
    if have == want == "timestamp":
        return _timestamp(array, target)
    if have == "integer" and want == "decimal":
        return _unscaled(array, target)
    if want == "decimal" and have in ("fixed", "binary"):
        return _decimals(array, target)
    if have == want == "decimal" and (array.type.scale != target.scale or array.type.precision > target.precision):
        return pc.cast(array, pa.decimal256(76, target.scale)).cast(target)
    if have == "integer" and want == "date":
        return array.cast(pa.int32()).cast(target)
    if have == "integer" and want in ("time", "timestamp"):
        return array.cast(pa.int64()).cast(target)
    if have == "fixed" and want == "binary":
        return array.cast(pa.binary()).cast(target)
    return array.cast(target)


def _timestamp(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Finer units are floored to coarser ones (ORC stores nanoseconds); naive values are UTC (INT96, ORC)."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    have, want = per_second[array.type.unit], per_second[target.unit]
    if have <= want:
        return array.cast(pa.timestamp(target.unit, array.type.tz)).view(pa.int64()).view(target)
    step = have // want
    values = array.view(pa.int64())
    quotient = pc.divide(values, step)
    floored = pc.subtract(quotient, pc.cast(pc.less(values, pc.multiply(quotient, step)), pa.int64()))
    return floored.view(target)


def _unscaled(array: pa.Array, target: pa.DataType) -> pa.Array:
    return (
        pa.array([None if v is None else v.as_py() for v in array.cast(pa.decimal128(19, 0))], pa.decimal128(19, 0))
        .view(pa.decimal128(19, target.scale))
        .cast(target)
    )


def _decimals(array: pa.Array, target: pa.DataType) -> pa.Array:
    wide = [
        None if v is None else int.from_bytes(v, "big", signed=True).to_bytes(16, "little", signed=True) for v in array.to_pylist()
    ]
    return pa.array(wide, pa.binary(16)).view(target)
