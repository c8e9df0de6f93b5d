"""Deletion vectors: row positions <-> the ``deletion-vector-v1`` blob (spec: Puffin, "deletion-vector-v1 blob type"; DV-06..DV-11).

A blob is: length of magic and vector (4 bytes, big endian), magic ``D1 D3 39 64``, the vector, CRC-32 of magic and vector (4 bytes,
big endian). The vector is a 64-bit roaring bitmap in portable form, little endian. The manifest records the offset of a blob and
its data file.
"""

from __future__ import annotations

import struct
import zlib

from pyroaring import BitMap64

from iceberg_ops.errors import CorruptTableError, DataError

MAGIC = b"\xd1\xd3\x39\x64"
MAX_POSITION = 2**63 - 1
_ENDS = struct.Struct(">I")
_COUNT = struct.Struct("<Q")
_WORD = struct.Struct("<I")


def serialize(positions: BitMap64) -> bytes:
    """The blob of a set of positions (0-based, below 2**63). Raises DataError for a position above that."""
    if positions and positions[-1] > MAX_POSITION:
        raise DataError(f"deletion vector: position {positions[-1]} is above 2**63 - 1")
    packed = positions.copy()
    packed.run_optimize()
    body: bytes = MAGIC + packed.serialize()
    return _ENDS.pack(len(body)) + body + _ENDS.pack(zlib.crc32(body))


def deserialize(data: bytes, name: str = "deletion vector") -> BitMap64:
    """The positions of one complete blob; error messages start with ``name``. Raises CorruptTableError (length, magic, CRC,
    structure)."""
    if len(data) < 20:
        raise CorruptTableError(f"{name}: a deletion vector of {len(data)} bytes is too short")
    (length,) = _ENDS.unpack_from(data)
    if length != len(data) - 8:
        raise CorruptTableError(f"{name}: deletion vector says {length} bytes, its blob has {len(data) - 8}")
    body = data[4:-4]
    if body[:4] != MAGIC:
        raise CorruptTableError(f"{name}: deletion vector starts with {body[:4].hex()}, must start with {MAGIC.hex()}")
    if zlib.crc32(body) != _ENDS.unpack_from(data, len(data) - 4)[0]:
        raise CorruptTableError(f"{name}: deletion vector fails its CRC-32")
    return bitmap_from_portable(body[4:], name)


def bitmap_from_portable(vector: bytes, name: str = "deletion vector") -> BitMap64:
    """The 64-bit roaring bitmap in ``vector``, without extra bytes. Raises CorruptTableError."""
    if len(vector) < _COUNT.size:
        raise CorruptTableError(f"{name}: roaring bitmap of {len(vector)} bytes is too short")
    (count,) = _COUNT.unpack_from(vector)
    if count > (len(vector) - _COUNT.size) // 8:
        raise CorruptTableError(f"{name}: roaring bitmap claims {count} parts in {len(vector)} bytes")
    position, last = _COUNT.size, -1
    for _ in range(count):
        key = _word(vector, position, name)
        if key <= last or key >= 2**31:
            raise CorruptTableError(f"{name}: roaring bitmap has key {key} after {last}: must rise and stay below 2**31")
        last = key
        position = _end_of_bitmap32(vector, position + 4, name)
    if position != len(vector):
        raise CorruptTableError(f"{name}: roaring bitmap ends at byte {position} of {len(vector)}")
    try:
        return BitMap64.deserialize(vector)
    except ValueError as e:
        raise CorruptTableError(f"{name}: {e}") from None


def _word(vector: bytes, position: int, name: str) -> int:
    if position + 4 > len(vector):
        raise CorruptTableError(f"{name}: roaring bitmap is cut off at byte {len(vector)}")
    return int(_WORD.unpack_from(vector, position)[0])


def _end_of_bitmap32(vector: bytes, start: int, name: str) -> int:
    """Parse the containers of one 32-bit bitmap in portable form (cookies 12346 and 12347); returns where it ends."""
    cookie = _word(vector, start, name)
    position, runs = start + 4, b""
    if cookie & 0xFFFF == 12347:
        containers = (cookie >> 16) + 1
        runs = vector[position : position + (containers + 7) // 8]
        position += (containers + 7) // 8
    elif cookie == 12346:
        containers = _word(vector, position, name)
        position += 4
    else:
        raise CorruptTableError(f"{name}: roaring bitmap has cookie {cookie}, must be 12346 or 12347")
    headers = position
    position += 4 * containers
    if containers > 65536 or position > len(vector):
        raise CorruptTableError(f"{name}: roaring bitmap claims {containers} containers in {len(vector)} bytes")
    if not runs or containers >= 4:
        position += 4 * containers
    last_key = -1
    for i in range(containers):
        key = int.from_bytes(vector[headers + 4 * i : headers + 4 * i + 2], "little")
        if key <= last_key:
            raise CorruptTableError(f"{name}: roaring containers are out of order")
        last_key = key
        cardinality = int.from_bytes(vector[headers + 4 * i + 2 : headers + 4 * i + 4], "little") + 1
        if runs and runs[i // 8] >> (i % 8) & 1:
            position += 2 + 4 * int.from_bytes(vector[position : position + 2], "little")
        else:
            position += 8192 if cardinality > 4096 else 2 * cardinality
        if position > len(vector):
            raise CorruptTableError(f"{name}: roaring bitmap is cut off at byte {len(vector)}")
    return position
