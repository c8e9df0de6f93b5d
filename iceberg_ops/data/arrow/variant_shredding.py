"""Reassembles shredded variants (Parquet's "Variant Shredding").

A shredded variant keeps the part that fits a type in ``typed_value`` (a primitive, a list, or a struct of fields, each shredded in
turn) and the rest in ``value``. Work goes column by column: every level becomes one encoded value per row, or none if it is
missing. A missing value that is required (the column itself, an array's element) becomes a variant null.

A structure that the specification calls invalid is a CorruptTableError and never a guess: both parts set without being an object, a
field in both parts of an object, field groups that may be null, types that variants do not have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from iceberg_ops.data.arrow import variant_encoding as encoding
from iceberg_ops.data.arrow.plain_types import is_list
from iceberg_ops.data.arrow.variant_values import names_in, object_fields
from iceberg_ops.errors import CorruptTableError

Encoded = list[bytes | None]
Ids = dict[str, int]


def unshredded(array: pa.Array, name: str) -> tuple[pa.Array, pa.Array]:
    """The metadata and value columns of a shredded variant column. Raises CorruptTableError."""
    metadata = array.field("metadata").cast(pa.binary())
    present = np.asarray(array.is_valid())
    columns = [m if there else None for m, there in zip(metadata.to_pylist(), present, strict=True)]
    try:
        values = _Column(columns).values(array, list(range(len(array))), present)
    except CorruptTableError as e:
        raise CorruptTableError(f"variant column {name}: {e}") from None
    encoded = [None if not there else encoding.NULL if v is None else v for v, there in zip(values, present, strict=True)]
    return metadata, pa.array(encoded, pa.binary())


@lru_cache(maxsize=256)
def _ids(metadata: bytes) -> Ids:
    return {name: i for i, name in enumerate(names_in(metadata))}


class _Column:
    """One variant column during reassembly; ``metadata`` has an entry per row of the column."""

    def __init__(self, metadata: Sequence[bytes | None]) -> None:
        self.metadata = metadata

    def values(self, group: pa.StructArray, rows: Sequence[int], present: Any) -> Encoded:
        """Encoded values of a group of ``value`` and ``typed_value``; None if both are null or the group is not ``present``.
        ``rows`` are the rows of the variant column that the group's entries belong to."""
        names = [group.type.field(i).name for i in range(group.type.num_fields)]
        if not set(names) & {"value", "typed_value"}:
            raise CorruptTableError(f"a shredded group has the fields {', '.join(names)}, but neither value nor typed_value")
        plain: Encoded = [None] * len(group)
        if "value" in names:
            plain = _where(present, group.field("value").cast(pa.binary()).to_pylist())
        if "typed_value" not in names:
            return plain
        typed = group.field("typed_value")
        if isinstance(typed, pa.DictionaryArray):
            typed = typed.dictionary_decode()
        if pa.types.is_struct(typed.type):
            return self._objects(typed, plain, rows, present)
        decoded = _where(present, self._list(typed, rows) if is_list(typed.type) else self._primitives(typed))
        if any(v is not None and f is not None for v, f in zip(plain, decoded, strict=True)):
            raise CorruptTableError("value and typed_value are both set for something that is not an object")
        return [v if f is None else f for v, f in zip(plain, decoded, strict=True)]

    def _objects(self, typed: pa.StructArray, plain: Encoded, rows: Sequence[int], present: Any) -> Encoded:
        there = np.asarray(typed.is_valid()) & present
        names = [typed.type.field(i).name for i in range(typed.type.num_fields)]
        columns = []
        for i, name in enumerate(names):
            child = typed.field(i)
            if not pa.types.is_struct(child.type):
                raise CorruptTableError(f"shredded field {name} is {child.type}, not a group")
            if np.any(~np.asarray(child.is_valid()) & there):
                raise CorruptTableError(f"the group of shredded field {name} is null, but must be required")
            columns.append(self.values(child, rows, there))
        encoded: Encoded = []
        for i, residual in enumerate(plain):
            if not there[i]:
                encoded.append(residual)
                continue
            fields = {n: v for n, c in zip(names, columns, strict=True) if (v := c[i]) is not None}
            encoded.append(self._object(fields, residual, names, self.metadata[rows[i]]))
        return encoded

    def _object(self, fields: dict[str, bytes], residual: bytes | None, shredded: Sequence[str], metadata: bytes | None) -> bytes:
        if metadata is None:
            raise CorruptTableError("its metadata is null")
        ids = _ids(metadata)
        if residual is not None:
            rest = object_fields(residual, list(ids))
            if rest is None:
                raise CorruptTableError("value is not an object, but typed_value has its shredded fields")
            if both := sorted(set(rest) & set(shredded)):
                raise CorruptTableError(f"field {both[0]} is in value and in typed_value")
            fields = {**fields, **rest}
        return encoding.object_(fields, ids)

    def _list(self, typed: pa.ListArray, rows: Sequence[int]) -> Encoded:
        if not pa.types.is_struct(typed.type.value_type):
            raise CorruptTableError(f"elements of a shredded array are {typed.type.value_type}, not groups")
        lengths = typed.value_lengths().to_pylist()
        owners = [row for row, length in zip(rows, lengths, strict=True) for _ in range(length or 0)]
        elements = typed.flatten()
        if elements.null_count:
            raise CorruptTableError("the group of an array's element is null, but must be required")
        flat = [encoding.NULL if v is None else v for v in self.values(elements, owners, np.ones(len(elements), dtype=bool))]
        encoded: Encoded = []
        at = 0
        for length in lengths:
            encoded.append(None if length is None else encoding.array(flat[at : at + length]))
            at += length or 0
        return encoded

    def _primitives(self, typed: pa.Array) -> Encoded:
        encode = _encoder(typed.type)
        if encode is None:
            raise CorruptTableError(f"typed_value is {typed.type}, which no variant value has")
        return encode(typed)


def _where(present: Any, values: Encoded) -> Encoded:
    """Arrow may keep any bytes below a null."""
    return [v if there else None for v, there in zip(values, present, strict=True)]


def _encoder(type_: pa.DataType) -> Callable[[pa.Array], Encoded] | None:
    if (fixed := _FIXED.get(type_)) is not None:
        return lambda array: _of_width(array, *fixed)
    if pa.types.is_boolean(type_):
        return lambda array: [None if v is None else encoding.primitive(1 if v else 2, b"") for v in array.to_pylist()]
    if pa.types.is_timestamp(type_) and type_.unit in ("us", "ns"):
        kind = {("us", True): 12, ("us", False): 13, ("ns", True): 18, ("ns", False): 19}[type_.unit, type_.tz is not None]
        return lambda array: _of_width(array, kind, np.dtype("<i8"))
    if pa.types.is_decimal128(type_) or pa.types.is_decimal32(type_) or pa.types.is_decimal64(type_):
        return _decimals
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return lambda array: [None if v is None else encoding.text(v) for v in array.cast(pa.large_binary()).to_pylist()]
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return lambda array: [None if v is None else encoding.binary(v) for v in array.to_pylist()]
    if type_ == pa.binary(16):
        return lambda array: [None if v is None else encoding.primitive(20, v) for v in array.to_pylist()]
    return None


_FIXED: dict[pa.DataType, tuple[int, np.dtype[Any]]] = {
    pa.int8(): (3, np.dtype("<i1")),
    pa.int16(): (4, np.dtype("<i2")),
    pa.int32(): (5, np.dtype("<i4")),
    pa.int64(): (6, np.dtype("<i8")),
    pa.float32(): (14, np.dtype("<f4")),
    pa.float64(): (7, np.dtype("<f8")),
    pa.date32(): (11, np.dtype("<i4")),
    pa.time64("us"): (17, np.dtype("<i8")),
}
"""Variant type id and form of the Arrow types whose values are numbers of one width."""


def _of_width(array: pa.Array, kind: int, form: np.dtype[Any]) -> Encoded:
    if not pa.types.is_floating(array.type):
        array = array.view({1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}[form.itemsize])
    valid = array.is_valid().to_pylist()
    raw = np.asarray(array.fill_null(0)).astype(form, copy=False).tobytes()
    width = form.itemsize
    return [encoding.primitive(kind, raw[i * width : (i + 1) * width]) if there else None for i, there in enumerate(valid)]


def _decimals(array: pa.Array) -> Encoded:
    precision, scale = array.type.precision, array.type.scale
    kind, width = (8, 4) if precision <= 9 else (9, 8) if precision <= 18 else (10, 16)
    raw = array.cast(pa.decimal128(precision, scale)).view(pa.binary(16)).to_pylist()
    return [None if v is None else encoding.primitive(kind, bytes((scale,)) + v[:width]) for v in raw]
