"""Theta sketches count their input, and are written in DataSketches' compact form."""

from __future__ import annotations

import struct

import mmh3
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iceberg_ops.serde.puffins.theta_sketch import NOMINAL, SEED, ThetaSketch, hashes_of_words


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_words_hash_as_their_bytes_do(kind: type) -> None:
    words = np.array([0, 1, -1, 42, np.iinfo(kind).min, np.iinfo(kind).max], kind)
    expected = [mmh3.hash64(w.tobytes(), SEED, signed=False)[0] >> 1 for w in words]
    assert hashes_of_words(words).tolist() == expected


@pytest.mark.parametrize("count", [0, 1, 17, NOMINAL, NOMINAL + 1, 300_000])
def test_the_estimate_is_exact_for_few_and_close_for_many(count: int) -> None:
    sketch = ThetaSketch()
    values = np.arange(count, dtype=np.int64)
    for part in np.array_split(np.concatenate([values, values]), 7):
        sketch.update_words(part)
    assert sketch.estimate == (count if count <= NOMINAL else pytest.approx(count, rel=0.05))


def test_order_and_repetition_change_nothing() -> None:
    a, b = ThetaSketch(), ThetaSketch()
    texts = [f"v{i}".encode() for i in range(20_000)]
    a.update_bytes(texts)
    for i in range(0, 20_000, 3_000):
        b.update_bytes(reversed(texts[i : i + 3_000]))
    b.update_bytes(texts[:100])
    b.update_bytes([b""])
    assert a.to_bytes() == b.to_bytes()


def test_the_compact_form_by_its_bytes() -> None:
    assert ThetaSketch().to_bytes() == bytes.fromhex("010303000016").replace(b"\x16", b"\x1e") + bytes.fromhex("cc93")
    sketch = ThetaSketch()
    sketch.update_words(np.array([1, 2, 3], np.int64))
    data = sketch.to_bytes()
    assert data[:8] == bytes.fromhex("020303000 01acc93".replace(" ", ""))
    count, p = struct.unpack_from("<If", data, 8)
    assert (count, p, len(data)) == (3, 1.0, 16 + 24)
    hashes = struct.unpack_from("<3Q", data, 16)
    assert list(hashes) == sorted(hashes)


def test_an_estimating_sketch_says_its_theta_and_keeps_only_what_lies_below() -> None:
    sketch = ThetaSketch()
    sketch.update_words(np.arange(50_000, dtype=np.int64))
    data = sketch.to_bytes()
    (theta,) = struct.unpack_from("<Q", data, 16)
    hashes = np.frombuffer(data, "<u8", offset=24)
    assert (data[0], len(hashes)) == (3, NOMINAL)
    assert int(hashes.max()) < theta


@example([[1]], 9_000)
@given(st.lists(st.lists(st.integers(0, 2**40), max_size=20), min_size=1, max_size=5), st.integers(0, 9_000))
def test_merged_sketches_are_the_sketch_of_all(parts: list[list[int]], more: int) -> None:
    whole, merged = ThetaSketch(), ThetaSketch()
    for n, part in enumerate([*parts, list(range(0, 3 * more, 3)), list(range(more))]):
        sketch = ThetaSketch()
        sketch.update_words(np.array(part, np.int64))
        whole.update_words(np.array(part, np.int64))
        merged.merge(ThetaSketch.from_bytes(sketch.to_bytes()) if n % 2 else sketch)
        assert merged.to_bytes() == whole.to_bytes()
