"""Repairs footers that Arrow refuses although the data is valid.

Hive's parquet-mr 1.11 marked the repeated group inside a map (converted type MAP_KEY_VALUE) with the logical type UNKNOWN, which
the Parquet specification allows only on leaves. Arrow does not open such a file. This module parses the footer (Thrift, compact
protocol) and removes that mark from the copy that Arrow gets; the file itself is not changed.
"""

from __future__ import annotations

import io
from typing import BinaryIO

import pyarrow.parquet as pq

from iceberg_ops.errors import CorruptTableError

_MAGIC = b"PAR1"
_SCHEMA, _NUM_CHILDREN, _LOGICAL_TYPE, _UNKNOWN = 2, 5, 10, 11
_BINARY, _LIST, _SET, _MAP, _STRUCT, _DOUBLE, _BYTE = 8, 9, 10, 11, 12, 7, 3
REFUSAL = "Logical type Null cannot be applied to group node"
"""Arrow's error for such a file."""


def repaired_metadata(source: BinaryIO, location: str) -> pq.FileMetaData:
    """The footer of a Parquet file without UNKNOWN marks on groups. Raises CorruptTableError for an invalid footer."""
    size = source.seek(0, io.SEEK_END)
    source.seek(max(0, size - 8))
    tail = source.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or length + 8 > size:
        raise CorruptTableError(f"file {location} has no Parquet footer")
    source.seek(size - 8 - length)
    try:
        footer = _Footer(source.read(length)).without_unknown_groups()
    except (IndexError, ValueError) as e:
        raise CorruptTableError(f"file {location}: its Parquet footer is damaged: {e}") from None
    return pq.read_metadata(io.BytesIO(_MAGIC + footer + len(footer).to_bytes(4, "little") + _MAGIC))


class _Footer:
    """A cursor over Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def without_unknown_groups(self) -> bytes:
        """The logical type is a schema element's last field, so removing its bytes keeps every other field's delta."""
        cuts: list[tuple[int, int]] = []
        for field_id, kind in self._fields():
            if field_id == _SCHEMA and kind == _LIST:
                count, _ = self._list_header()
                for _ in range(count):
                    cuts += self._element_cuts()
            else:
                self._skip(kind)
        parts, start = [], 0
        for begin, end in cuts:
            parts.append(self.data[start:begin])
            start = end
        return b"".join([*parts, self.data[start:]])

    def _element_cuts(self) -> list[tuple[int, int]]:
        is_group, cuts = False, []
        before = self.at
        for field_id, kind in self._fields():
            if field_id == _LOGICAL_TYPE and kind == _STRUCT:
                unknown = False
                for choice, inner in self._fields():
                    unknown = choice == _UNKNOWN
                    self._skip(inner)
                if unknown:
                    cuts.append((before, self.at))
            else:
                is_group = is_group or field_id == _NUM_CHILDREN
                self._skip(kind)
            before = self.at
        return cuts if is_group else []

    def _fields(self) -> _Fields:
        return _Fields(self)

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            b = self.byte()
            value |= (b & 0x7F) << shift
            shift += 7
            if b < 0x80:
                return value
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def _list_header(self) -> tuple[int, int]:
        header = self.byte()
        count = header >> 4
        return (self.varint() if count == 15 else count), header & 0x0F

    def _skip(self, kind: int, *, in_list: bool = False) -> None:
        if kind in (1, 2):
            self.at += in_list
        elif kind == _BYTE:
            self.at += 1
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BINARY:
            length = self.varint()
            self.at += length
        elif kind in (_LIST, _SET):
            count, inner = self._list_header()
            for _ in range(count):
                self._skip(inner, in_list=True)
        elif kind == _MAP:
            self._skip_map()
        elif kind == _STRUCT:
            for _, inner in self._fields():
                self._skip(inner)
        else:
            self.varint()

    def _skip_map(self) -> None:
        count = self.varint()
        if count:
            kinds = self.byte()
            for _ in range(count):
                self._skip(kinds >> 4, in_list=True)
                self._skip(kinds & 0x0F, in_list=True)


class _Fields:
    """(field id, type) of a struct's fields; the caller reads each value before the next."""

    def __init__(self, cursor: _Footer) -> None:
        self._cursor, self._last = cursor, 0

    def __iter__(self) -> _Fields:
        return self

    def __next__(self) -> tuple[int, int]:
        header = self._cursor.byte()
        if header == 0:
            raise StopIteration
        delta = header >> 4
        if delta:
            self._last += delta
        else:
            raw = self._cursor.varint()
            self._last = (raw >> 1) ^ -(raw & 1)
        return self._last, header & 0x0F
