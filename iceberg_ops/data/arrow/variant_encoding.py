"""Encodes variant values (Parquet's Variant encoding, version 1): the inverse of ``variant_values``.

Every part is encoded in its shortest form: short strings for up to 63 bytes, offsets and field ids in the fewest bytes that can
hold them, object fields sorted by the bytes of their names. Integers, decimals and times keep the width of their type.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from iceberg_ops.errors import CorruptTableError

NULL = b"\x00"
_OBJECT, _ARRAY, _SHORT = 2, 3, 1
_SHORTEST_LONG = 64
_BINARY, _STRING = 15, 16


def primitive(kind: int, content: bytes) -> bytes:
    """A primitive value: its type id (``VariantEncoding``, "Value Encoding") and its bytes."""
    return bytes((kind << 2,)) + content


def text(content: bytes) -> bytes:
    """A string of UTF-8 bytes."""
    if len(content) < _SHORTEST_LONG:
        return bytes((len(content) << 2 | _SHORT,)) + content
    return primitive(_STRING, len(content).to_bytes(4, "little") + content)


def binary(content: bytes) -> bytes:
    """A byte string."""
    return primitive(_BINARY, len(content).to_bytes(4, "little") + content)


def array(elements: Sequence[bytes]) -> bytes:
    """An array of encoded values."""
    offsets, width = _offsets(elements)
    large = len(elements) > 0xFF
    header = bytes(((large << 2 | (width - 1)) << 2 | _ARRAY,))
    return b"".join((header, len(elements).to_bytes(4 if large else 1, "little"), offsets, *elements))


def object_(fields: Mapping[str, bytes], ids: Mapping[str, int]) -> bytes:
    """An object of encoded values by name; ``ids`` are the positions of names in the metadata. Raises CorruptTableError for a name
    that is not there."""
    names = sorted(fields, key=lambda name: name.encode("utf-8"))
    if missing := [name for name in names if name not in ids]:
        raise CorruptTableError(f"variant field {missing[0]!r} is not in the variant's metadata")
    values = [fields[name] for name in names]
    offsets, width = _offsets(values)
    large, id_width = len(names) > 0xFF, _width(len(ids))
    header = bytes(((large << 4 | (id_width - 1) << 2 | (width - 1)) << 2 | _OBJECT,))
    field_ids = b"".join(ids[name].to_bytes(id_width, "little") for name in names)
    return b"".join((header, len(names).to_bytes(4 if large else 1, "little"), field_ids, offsets, *values))


def _offsets(values: Sequence[bytes]) -> tuple[bytes, int]:
    ends = list(itertools.accumulate((len(v) for v in values), initial=0))
    width = _width(ends[-1])
    return b"".join(end.to_bytes(width, "little") for end in ends), width


def _width(largest: int) -> int:
    return max(1, (largest.bit_length() + 7) // 8)
