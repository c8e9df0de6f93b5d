"""Deletion vectors: golden blobs byte for byte, round trips, and every check named."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from iceberg_ops.errors import CorruptTableError, DataError
from iceberg_ops.serde.puffins.deletion_vector import MAGIC, bitmap_from_portable, deserialize, serialize
from tests.fixture_paths import GOLDEN, requires_fixtures

SPEC_VECTORS = {
    (): "0000000cd1d339640000000000000000bf18480c",
    (1, 3, 5, 7, 9): "0000002ad1d339640100000000000000000000003a30000001000000000004001000000001000300050007000900b3fb20be",
}
GOLDEN_BLOBS = {
    "empty-position-index.bin": [],
    "small-alternating-values-position-index.bin": [1, 3, 5, 7, 9],
    "small-and-large-values-position-index.bin": [100, 101, 2147483747, 2147483748],
}


@pytest.mark.parametrize("positions", SPEC_VECTORS)
def test_the_vectors_of_the_requirements(positions: tuple[int, ...]) -> None:
    """DV-06, DV-07, DV-11."""
    blob = bytes.fromhex(SPEC_VECTORS[positions])
    assert list(deserialize(blob)) == list(positions)
    assert serialize(BitMap64(positions)) == blob


@requires_fixtures
@pytest.mark.fixtures
@pytest.mark.parametrize("name", GOLDEN_BLOBS)
def test_blobs_of_java_are_read_and_written_byte_for_byte(name: str) -> None:
    assert GOLDEN is not None
    blob = (GOLDEN / "deletion-vectors" / name).read_bytes()
    assert list(deserialize(blob, name)) == GOLDEN_BLOBS[name]
    assert serialize(BitMap64(GOLDEN_BLOBS[name])) == blob


@requires_fixtures
@pytest.mark.fixtures
@pytest.mark.parametrize(("name", "count"), [("64map32bitvals.bin", 10), ("64mapempty.bin", 0), ("64mapspreadvals.bin", 100)])
def test_bitmaps_of_the_roaring_format_read(name: str, count: int) -> None:
    """DV-08."""
    assert GOLDEN is not None
    assert len(bitmap_from_portable((GOLDEN / "deletion-vectors" / name).read_bytes(), name)) == count


positions = st.sets(st.integers(0, 2**63 - 1) | st.integers(0, 70_000), max_size=50)
runs = st.lists(st.tuples(st.integers(0, 2**40), st.integers(1, 9000)), max_size=4)


@settings(deadline=None)
@given(positions, runs)
def test_any_positions_round_trip(single: set[int], ranges: list[tuple[int, int]]) -> None:
    """DV-08: array, bitmap and run containers."""
    found = BitMap64(single)
    for start, length in ranges:
        found |= BitMap64(range(start, start + length))
    assert deserialize(serialize(found)) == found


def test_writing_leaves_the_set_alone() -> None:
    found = BitMap64(range(1000))
    before = found.serialize()
    serialize(found)
    assert found.serialize() == before


def _blob(vector: bytes) -> bytes:
    body = MAGIC + vector
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


GOOD = bytes.fromhex(SPEC_VECTORS[1, 3, 5, 7, 9])
BROKEN = {
    "too short": (GOOD[:10], "too short"),
    "length": (GOOD + b"\x00", "says 42 bytes, its blob has 43"),
    "magic": (GOOD[:4] + b"abcd" + GOOD[8:], "starts with 61626364"),
    "crc": (GOOD[:-1] + b"\x00", "fails its CRC-32"),
    "count": (_blob(b"\xff" * 8), "claims 18446744073709551615 parts"),
    "key": (_blob(bytes.fromhex("0100000000000000") + b"\xff" * 4 + bytes(8)), "must rise and stay below"),
    "cookie": (_blob(bytes.fromhex("0100000000000000") + bytes(12)), "has cookie 0"),
    "trailing": (_blob(GOOD[8:-4] + b"\x00"), "ends at byte"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_blobs_say_what_is_wrong(case: str) -> None:
    """DV-10."""
    blob, message = BROKEN[case]
    with pytest.raises(CorruptTableError, match=f"f.puffin: .*{message}"):
        deserialize(blob, "f.puffin")


def test_positions_above_63_bits_are_refused() -> None:
    """DV-09."""
    with pytest.raises(DataError, match="above"):
        serialize(BitMap64([2**63]))
