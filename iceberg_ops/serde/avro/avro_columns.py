"""Decodes records of Avro blocks in parallel: one numpy step per field for all records, not one record after another.

A cursor is an array of positions, one per record; every step reads one field at all of them and advances them. If a position runs
over the end of the bytes, or finds invalid bytes, it moves to a place behind the end and stays there, so that the check of record
ends detects it. ``avro_record_starts`` finds where records start; the caller interprets them.

It supports records, arrays, fixed and primitives, each alone or with null (no enum, no map, no wider union). Schemas are those of
``avro_schema`` (inlined).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from iceberg_ops.errors import CorruptTableError

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Items = Callable[[Positions, Positions, Positions | None], Positions]
"""``items(positions, counts, rows)``: reads that many items at each position and returns the positions after them. ``rows`` are the
rows of the cursor that these belong to (None: all)."""

_PADDING = 32
_SAMPLE = 1 << 16
_BEHIND = 8
_HIGH = np.uint64(0x8080808080808080)
_ONES = np.uint64(0x0101010101010101)
_ONE, _SEVEN, _TOP = np.uint64(1), np.uint64(7), np.uint64(56)
_WIDTHS = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_WHOLE = frozenset({"int", "long"})
_MOST_ITEMS = 20_000
_MOST_BLOCKS = 16
"""Arrays with more blocks count as invalid bytes, because one of them would delay all others."""


class NotDecodable(Exception):
    """This decoder does not support these bytes: the caller uses the record decoder."""


@dataclass(slots=True)
class Column:
    """One field of all records; ``node`` is its type, without null. ``present`` marks non-null values (None: all). Integers
    and booleans are in ``values``; for all other types ``starts`` and ``lengths`` give the place of the bytes (for an array only
    its start)."""

    node: Any
    present: Mask | None
    values: Positions | None = None
    starts: Positions | None = None
    lengths: Positions | None = None

    def known(self, rows: int) -> Mask:
        """``present`` as an array."""
        return np.ones(rows, bool) if self.present is None else self.present


def non_null_type(node: Any) -> Any:
    """The type without null."""
    return next((n for n in node if n != "null"), "null") if isinstance(node, list) else node


def _named(node: Any) -> Any:
    """A column's type: an array by its schema, anything else only by its kind."""
    return node if node_type_name(node) == "array" else node_type_name(node)


def is_taken(node: Any) -> bool:
    """Whether this decoder supports the schema."""
    if isinstance(node, list):
        return (
            len(node) == 2
            and node.count("null") == 1
            and not isinstance(non_null_type(node), list)
            and is_taken(non_null_type(node))
        )
    if isinstance(node, str):
        return True
    if node["type"] == "record":
        return all(is_taken(f["type"]) for f in node["fields"])
    if node["type"] == "array":
        return is_taken(node["items"])
    return node["type"] == "fixed" or (node["type"] in _WHOLE | _WIDTHS.keys() | {"bytes", "string"})


def node_type_name(node: Any) -> str:
    """The name of a type outside a union."""
    kind: str = node if isinstance(node, str) else node["type"]
    return kind


class ColumnReader:
    """Reads fields at many positions of one buffer: ``parts`` one after the other (``raw``, up to ``end``)."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self.raw = b"".join((*parts, bytes(_PADDING)))
        self.end = len(self.raw) - _PADDING
        self._bytes = np.frombuffer(self.raw, np.uint8)
        self._words: npt.NDArray[np.uint64] = np.ndarray((len(self.raw) - 8,), "<u8", buffer=self.raw, strides=(1,))

    def bytes_at(self, positions: Positions) -> npt.NDArray[np.uint8]:
        """One byte at each position."""
        return self._bytes.take(positions, mode="clip")

    def words_at(self, positions: Positions) -> npt.NDArray[np.uint64]:
        """Eight bytes at each position, the first the lowest."""
        return self._words[np.minimum(positions, self.end + _BEHIND)]

    def find_all(self, text: bytes) -> Positions:
        """All positions of this text (not empty), ascending: its rarest byte is searched, then the rest compared."""
        codes = np.frombuffer(text, np.uint8)
        rarest = int(np.bincount(self._bytes[:_SAMPLE], minlength=256)[codes].argmin())
        places: Positions = np.flatnonzero(self._bytes[: self.end] == codes[rarest]) - rarest
        places = places[(places >= 0) & (places <= self.end - len(text))]
        for n in range(0, len(text), 8):
            part = text[n : n + 8]
            shift = np.uint64(64 - 8 * len(part))
            places = places[(self.words_at(places + n) << shift) == np.uint64(int.from_bytes(part, "little") << int(shift))]
        return places

    def numbers(self, at: Positions) -> tuple[Positions, Positions]:
        """The integers there, and the positions after them."""
        first = self.bytes_at(at)
        if not len(first) or first.max() < 0x80:
            small = first.astype(np.int64)
            return (small >> 1) ^ -(small & 1), at + 1
        word = self.words_at(at)
        stop = ~word & _HIGH
        mask = stop ^ (stop - _ONE)
        length = (((mask & _ONES) * _ONES) >> _TOP).astype(np.int64)
        packed = _packed(word & mask)
        long = stop == 0
        if long.any():
            packed, length = self._long_numbers(at, packed, length, long)
        return (packed >> _ONE).astype(np.int64) ^ -(packed & _ONE).astype(np.int64), at + length

    def _long_numbers(
        self, at: Positions, packed: npt.NDArray[np.uint64], length: Positions, long: Mask
    ) -> tuple[npt.NDArray[np.uint64], Positions]:
        """The ninth and tenth byte of numbers that have them; a longer one is invalid."""
        ninth, tenth = self.bytes_at(at + 8).astype(np.uint64), self.bytes_at(at + 9).astype(np.uint64)
        has_tenth = long & (ninth >= 0x80)
        packed = np.where(long, packed | (ninth & np.uint64(0x7F)) << _TOP, packed)
        packed = np.where(has_tenth, packed | tenth << np.uint64(63), packed)
        length = np.where(long, 9 + has_tenth, length)
        return packed, np.where(has_tenth & (tenth > 1), self.end + _PADDING, length)

    def skip_numbers(self, at: Positions, counts: Positions) -> Positions:
        """The positions after that many integers, found eight bytes at a time: each ends with its first byte under 128."""
        at = at.copy()
        left: npt.NDArray[np.uint64] = counts.astype(np.uint64)
        while left.any():
            stops = (~self.words_at(at) & _HIGH) >> _SEVEN
            ended: npt.NDArray[np.uint64] = stops * _ONES
            few: npt.NDArray[np.uint64] = np.minimum(left, np.uint64(9))
            enough: npt.NDArray[np.uint64] = (((ended | _HIGH) - few * _ONES) & _HIGH) >> _SEVEN
            reached: npt.NDArray[np.uint64] = (enough * _ONES) >> _TOP
            ends = reached > 0
            step = np.where(ends, 9 - reached.astype(np.int64), 8)
            at += np.where(left == 0, 0, step)
            left = np.where(ends, np.uint64(0), left - (ended >> _TOP))
            at = np.minimum(at, self.end + _BEHIND)
        return at

    def skip(self, node: Any, at: Positions) -> Positions:
        """The positions after a value of that type."""
        if isinstance(node, list):
            some, at = self._branches(node, at)
            return _where(some, at, lambda p, _: self.skip(non_null_type(node), p))
        kind = node_type_name(node)
        if kind == "record":
            for f in node["fields"]:
                at = self.skip(f["type"], at)
            return at
        if kind == "array":
            return self.items(at, self._skipping(node["items"]))
        return self.read(node, at)[1]

    def read(self, node: Any, at: Positions) -> tuple[Column, Positions]:
        """The values of that type (not a record), and the positions after them."""
        if isinstance(node, list):
            return self._optional(node, at)
        kind = node_type_name(node)
        if kind in _WHOLE:
            values, at = self.numbers(at)
            return Column(_named(node), None, values), at
        if kind == "boolean":
            flags = self.bytes_at(at)
            return Column(_named(node), None, flags.astype(np.int64)), np.where(flags > 1, self.end + _BEHIND, at + 1)
        if kind == "array":
            return Column(_named(node), None, starts=at), self.skip(node, at)
        if kind in ("bytes", "string"):
            lengths, at = self.numbers(at)
            fits = (lengths >= 0) & (lengths <= self.end - at)
            return Column(_named(node), None, starts=at, lengths=lengths), np.where(fits, at + lengths, self.end + _BEHIND)
        width = node["size"] if kind == "fixed" else _WIDTHS[kind]
        return Column(_named(node), None, starts=at, lengths=np.full(len(at), width, np.int64)), np.minimum(
            at + width, self.end + _BEHIND
        )

    def _optional(self, node: Any, at: Positions) -> tuple[Column, Positions]:
        some, behind = self._branches(node, at)
        column = Column(_named(non_null_type(node)), some)

        def read(positions: Positions, rows: Positions | None) -> Positions:
            present_values, after = self.read(non_null_type(node), positions)
            column.values, column.starts, column.lengths = (
                _spread(part, rows, len(at)) for part in (present_values.values, present_values.starts, present_values.lengths)
            )
            return after

        behind = _where(some, behind, read)
        if some.all():
            column.present = None
        return column, behind

    def _branches(self, node: Any, at: Positions) -> tuple[Mask, Positions]:
        """Which values of a union with null are not null, and their positions."""
        branch, behind = self.bytes_at(at), at + 1
        some: Mask = branch == (0 if node[1] == "null" else 2)
        wrong = (branch & 0xFD) != 0
        return some, np.where(wrong, self.end + _BEHIND, behind) if wrong.any() else behind

    def items(self, at: Positions, read: Items) -> Positions:
        """The positions after arrays, whose items ``read`` reads block by block."""
        at, rows = at.copy(), None
        for _ in range(_MOST_BLOCKS):
            counts, behind = self.numbers(at if rows is None else at[rows])
            if (counts < 0).any():
                behind = np.where(counts < 0, self.numbers(behind)[1], behind)
                counts = np.abs(counts)
            wrong = (counts < 0) | (counts > np.minimum(self.end - behind, _MOST_ITEMS))
            counts, behind = np.where(wrong, 0, counts), np.where(wrong, self.end + _BEHIND, behind)
            if rows is None:
                at = behind
            else:
                at[rows] = behind
            more = np.flatnonzero(counts)
            if not len(more):
                return at
            whole = rows is None and len(more) == len(at)
            rows = more if rows is None else rows[more]
            at[rows] = read(behind[more], counts[more], None if whole else rows)
            rows = None if whole else rows
        at[slice(None) if rows is None else rows] = self.end + _BEHIND
        return at

    def _skipping(self, item: Any) -> Items:
        numbers = _whole_numbers(item)
        if numbers:
            return lambda at, counts, _: self.skip_numbers(at, counts * numbers)
        if _is_bytes_by_number(item):
            return lambda at, counts, _: each(at, counts, lambda p, _rows: self._skip_pair(item, p))
        return lambda at, counts, _: each(at, counts, lambda p, _rows: self.skip(item, p))

    def _skip_pair(self, item: Any, at: Positions) -> Positions:
        """The positions after a number and bytes, which mostly take one byte for the number and one for the length."""
        key, size = self.bytes_at(at), self.bytes_at(at + 1)
        if ((key | size) & 0x80).any() or (size & 1).any():
            return self.skip(item, at)
        return at + ((size >> 1) + np.int64(2))

    def slices(self, column: Column, rows: Sequence[int] | Positions | None = None) -> list[bytes]:
        """The bytes of each row's value (for null: empty)."""
        assert column.starts is not None
        assert column.lengths is not None
        starts, ends = column.starts, column.starts + column.lengths
        if rows is not None:
            starts, ends = starts[rows], ends[rows]
        raw = self.raw
        return [raw[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]

    def texts(self, column: Column) -> list[str]:
        """The same as text. Raises UnicodeDecodeError."""
        assert column.starts is not None
        assert column.lengths is not None
        # Cutting one text of all bytes is twice as fast as decoding each value; only ASCII is the same in both encodings.
        raw = self.raw.decode("latin-1")
        texts = [raw[a:b] for a, b in zip(column.starts.tolist(), (column.starts + column.lengths).tolist(), strict=True)]
        if all(map(str.isascii, texts)):
            return texts
        return [t if t.isascii() else t.encode("latin-1").decode() for t in texts]


def each(at: Positions, counts: Positions, read: Callable[[Positions, Positions | None], Positions]) -> Positions:
    """Reads the first item of every row, then the second of rows that have one, and so on; ``read(positions, rows)``."""
    at = at.copy()
    fewest = int(counts.min())
    for n in range(int(counts.max())):
        if n < fewest:
            at = read(at, None)
        else:
            rows = np.flatnonzero(counts > n)
            at[rows] = read(at[rows], rows)
    return at


def value_at(node: Any, raw: bytes, at: int) -> tuple[Any, int]:
    """One value (for an array: a list of values, for a record: of fields), and the position after it. Raises CorruptTableError."""
    if isinstance(node, list):
        branch, at = number_at(raw, at)
        return value_at(node[branch], raw, at)
    kind = node_type_name(node)
    if kind in _WHOLE:
        return number_at(raw, at)
    if kind == "array":
        return _array_at(node["items"], raw, at)
    if kind == "record":
        values = []
        for f in node["fields"]:
            value, at = value_at(f["type"], raw, at)
            values.append(value)
        return values, at
    if kind == "null":
        return None, at
    size, at = (node["size"], at) if kind == "fixed" else (_WIDTHS[kind], at) if kind in _WIDTHS else number_at(raw, at)
    return raw[at : at + size], at + size


def number_at(raw: bytes, at: int) -> tuple[int, int]:
    """One integer, and the position after it. Raises CorruptTableError."""
    value = shift = 0
    while shift < 70 and at < len(raw):
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise CorruptTableError(f"Avro number at byte {at} is longer than 64 bits or cut off")


def _array_at(item: Any, raw: bytes, at: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    while True:
        count, at = number_at(raw, at)
        if count == 0:
            return items, at
        if count < 0:
            count, (_, at) = -count, number_at(raw, at)
        for _ in range(count):
            value, at = value_at(item, raw, at)
            items.append(value)


def _packed(word: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The lower seven bits of eight bytes, joined."""
    for low, high, by in _PACKING:
        word = (word & low) | ((word & high) >> by)
    return word


_PACKING = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(by))
    for low, high, by in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)


def _where(some: Mask, at: Positions, read: Callable[[Positions, Positions | None], Positions]) -> Positions:
    """``read`` for the rows for which ``some`` is true; the other positions stay."""
    if some.all():
        return read(at, None)
    rows = np.flatnonzero(some)
    if len(rows):
        at[rows] = read(at[rows], rows)
    return at


def _spread(part: Positions | None, rows: Positions | None, count: int) -> Positions | None:
    """Values of some rows at their positions among all rows."""
    if part is None or rows is None:
        return part
    full = np.zeros(count, np.int64)
    full[rows] = part
    return full


def _is_bytes_by_number(node: Any) -> bool:
    """Whether it is a record of an integer and bytes."""
    if isinstance(node, list) or node_type_name(node) != "record":
        return False
    kinds = [node_type_name(f["type"]) for f in node["fields"] if not isinstance(f["type"], list)]
    return len(kinds) == len(node["fields"]) == 2 and kinds[0] in _WHOLE and kinds[1] in ("bytes", "string")


def _whole_numbers(node: Any) -> int:
    """How many integers make up a value of that type; 0 if it contains anything else."""
    if isinstance(node, list):
        return 0
    if node_type_name(node) != "record":
        return int(node_type_name(node) in _WHOLE)
    inner = [_whole_numbers(f["type"]) for f in node["fields"]]
    return sum(inner) if all(inner) else 0
