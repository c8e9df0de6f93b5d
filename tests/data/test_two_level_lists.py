"""Two-level lists, as older Parquet writers wrote them (PARQUET-02). No writer here writes them: the test builds a file by hand."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField, list_of
from tests.data.files import new_io, read

INT32, INT64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
"""Types of Thrift's compact protocol."""


def varint(n: int) -> bytes:
    out = b""
    while n > 0x7F:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def encoded(kind: int, value: Any) -> bytes:
    if kind in (INT32, INT64):
        return varint(value << 1)
    if kind == BINARY:
        return varint(len(value)) + value
    if kind == STRUCT:
        return struct(*value)
    inner, items = value
    return bytes([len(items) << 4 | inner]) + b"".join(encoded(inner, item) for item in items)


def struct(*fields: tuple[int, int, Any]) -> bytes:
    """A Thrift struct of (field id, type, value), ascending by id."""
    out, last = b"", 0
    for field_id, kind, value in fields:
        out, last = out + bytes([(field_id - last) << 4 | kind]) + encoded(kind, value), field_id
    return out + b"\x00"


def two_level_file(element: bytes, with_ids: bool) -> bytes:
    """Rows [1, 2], null, []: ``optional group l (LIST) { repeated int64 <element> }``."""
    repetition, definition = b"\x03\x02", b"\x03\x4a\x00"
    levels = b"".join(len(part).to_bytes(4, "little") + part for part in (repetition, definition))
    page = levels + b"".join(n.to_bytes(8, "little") for n in (1, 2))
    header = struct(
        (1, INT32, 0), (2, INT32, len(page)), (3, INT32, len(page)),
        (5, STRUCT, [(1, INT32, 4), (2, INT32, 0), (3, INT32, 3), (4, INT32, 3)]),
    )  # fmt: skip
    ids = [[(9, INT32, n)] if with_ids else [] for n in (1, 2)]
    schema = [
        [(4, BINARY, b"table"), (5, INT32, 1)],
        [(3, INT32, 1), (4, BINARY, b"l"), (5, INT32, 1), (6, INT32, 3), *ids[0]],
        [(1, INT32, 2), (3, INT32, 2), (4, BINARY, element), *ids[1]],
    ]
    size = len(header) + len(page)
    column = [
        (1, INT32, 2), (2, LIST, (INT32, [0, 3])), (3, LIST, (BINARY, [b"l", element])), (4, INT32, 0), (5, INT64, 4),
        (6, INT64, size), (7, INT64, size), (9, INT64, 4),
    ]  # fmt: skip
    group = [(1, LIST, (STRUCT, [[(2, INT64, 4), (3, STRUCT, column)]])), (2, INT64, size), (3, INT64, 3)]
    footer = struct((1, INT32, 1), (2, LIST, (STRUCT, schema)), (3, INT64, 3), (4, LIST, (STRUCT, [group])))
    return b"PAR1" + header + page + footer + len(footer).to_bytes(4, "little") + b"PAR1"


@pytest.mark.parametrize("with_ids", [True, False], ids=["with ids", "without ids"])
@pytest.mark.parametrize("element", [b"array", b"l_tuple"])
def test_lists_of_two_levels_are_read(element: bytes, with_ids: bool) -> None:
    """PARQUET-02, NAMEMAP-05"""
    store = new_io()
    data = two_level_file(element, with_ids)
    store.write("memory://f", data)
    file = DataFile(file_path="memory://f", file_format=FileFormat.PARQUET, record_count=3, file_size_in_bytes=len(data))
    assert read([file], Schema.of(NestedField(1, "l", list_of(2, LONG))), store) == [([1, 2],), (None,), ([],)]
