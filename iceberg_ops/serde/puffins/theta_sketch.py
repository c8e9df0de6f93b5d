"""Theta sketches: the number of distinct values of a column in a few kilobytes (Puffin blob apache-datasketches-theta-v1).

A sketch keeps the smallest ``NOMINAL`` hashes of its values; theta, the next one, is the share of all hashes below it, so
kept / theta estimates the number of values. The sketch is written in the compact ordered form of Apache DataSketches (serial
version 3, family COMPACT) with the default seed, which every theta implementation reads and merges. Values are hashed in Iceberg's
binary single-value form; Apache's Python library does not accept bytes, so the dozen lines are here.

Source: Puffin specification, "apache-datasketches-theta-v1"; DataSketches' PreambleUtil.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import mmh3
import numpy as np
import numpy.typing as npt

NOMINAL = 4096
SEED = 9001
_SEED_HASH = 0x93CC
_SERIAL_VERSION, _COMPACT_FAMILY = 3, 3
_READ_ONLY, _EMPTY, _COMPACT, _ORDERED = 2, 4, 8, 16
_WHOLE = 1 << 63
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
Hashes = npt.NDArray[np.uint64]


class ThetaSketch:
    """Distinct values seen so far."""

    def __init__(self) -> None:
        self._hashes: Hashes = np.empty(0, np.uint64)
        self._theta = _WHOLE

    def update_words(self, words: npt.NDArray[np.int32] | npt.NDArray[np.int64]) -> None:
        """Values whose binary form is their 4 or 8 bytes, little endian."""
        self._take(hashes_of_words(words))

    def update_bytes(self, values: Iterable[bytes]) -> None:
        """Values in binary form; an empty one is ignored, as in DataSketches."""
        self._take(np.fromiter((mmh3.hash64(v, SEED, signed=False)[0] >> 1 for v in values if v), np.uint64))

    def _take(self, hashes: Hashes) -> None:
        new = hashes[(hashes < np.uint64(self._theta)) & (hashes > 0)]
        merged = np.unique(np.concatenate([self._hashes, new]))
        if len(merged) > NOMINAL:
            self._theta = int(merged[NOMINAL])
            merged = merged[:NOMINAL]
        self._hashes = merged

    def merge(self, other: ThetaSketch) -> None:
        """Add the values of ``other``: the result is the same as if this sketch had received them all."""
        self._theta = min(self._theta, other._theta)
        self._hashes = self._hashes[self._hashes < np.uint64(self._theta)]
        self._take(other._hashes)

    @property
    def estimate(self) -> float:
        """The number of distinct values: exact up to ``NOMINAL``, above that within about 3 % (two standard errors)."""
        return len(self._hashes) * (_WHOLE / self._theta)

    @classmethod
    def from_bytes(cls, data: bytes) -> ThetaSketch:
        """A sketch that ``to_bytes`` wrote."""
        sketch = cls()
        words = data[0]
        if words > 1:
            (count,) = struct.unpack_from("<I", data, 8)
            if words > 2:
                (sketch._theta,) = struct.unpack_from("<Q", data, 16)
            sketch._hashes = np.frombuffer(data, "<u8", count, 8 * words).astype(np.uint64)
        return sketch

    def to_bytes(self) -> bytes:
        """The compact ordered form."""
        flags = _READ_ONLY | _COMPACT | _ORDERED
        if not len(self._hashes):
            return struct.pack("<BBBBBBH", 1, _SERIAL_VERSION, _COMPACT_FAMILY, 0, 0, flags | _EMPTY, _SEED_HASH)
        exact = self._theta == _WHOLE
        head = struct.pack("<BBBBBBH", 2 if exact else 3, _SERIAL_VERSION, _COMPACT_FAMILY, 0, 0, flags, _SEED_HASH)
        head += struct.pack("<If", len(self._hashes), 1.0)
        return head + (b"" if exact else struct.pack("<Q", self._theta)) + self._hashes.astype("<u8").tobytes()


def hashes_of_words(words: npt.NDArray[np.int32] | npt.NDArray[np.int64]) -> Hashes:
    """MurmurHash3 x64 128 of each value's 4 or 8 bytes, first half, without its lowest bit."""
    width = words.dtype.itemsize
    raw = words.view(np.uint32).astype(np.uint64) if width == 4 else words.view(np.uint64)
    with np.errstate(over="ignore"):
        k = raw * _C1
        k = (k << np.uint64(31)) | (k >> np.uint64(33))
        h1 = (np.uint64(SEED) ^ (k * _C2)) ^ np.uint64(width)
        h2 = np.full_like(h1, np.uint64(SEED) ^ np.uint64(width))
        h1 = h1 + h2
        h2 = h2 + h1
        return (_mixed(h1) + _mixed(h2)) >> np.uint64(1)


def _mixed(h: Hashes) -> Hashes:
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(33))
