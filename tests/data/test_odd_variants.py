"""Variants of any value and depth are read, and damaged ones are refused without exhausting time, memory or the stack (TYPE-21)."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.data.arrow import variant_encoding as encoding
from iceberg_ops.data.arrow.variant import read_variant
from iceberg_ops.data.arrow.variant_values import TemporalValue, Variant, decode, variant_to_json
from iceberg_ops.data.reading.json_rows import json_lines
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import DATE, VARIANT, NestedField
from tests.data.files import batch_of

NO_NAMES = bytes((1, 0, 0))
NAMES = bytes((0x11, 2, 0, 1, 2)) + b"ad"
SCHEMA = Schema.of(NestedField(1, "v", VARIANT))


def date(days: int) -> bytes:
    return encoding.primitive(11, struct.pack("<i", days))


def nested(depth: int, object_: bool = False) -> bytes:
    found = encoding.NULL
    for _ in range(depth):
        found = encoding.object_({"a": found}, {"a": 0, "d": 1}) if object_ else encoding.array([found])
    return found


def overlapping(depth: int) -> bytes:
    """Arrays of two elements, both of which are the same bytes."""
    found = encoding.NULL
    for _ in range(depth):
        width = 1 if len(found) < 256 else 2
        offsets = b"".join(o.to_bytes(width, "little") for o in (0, 0, len(found)))
        found = bytes((((width - 1) << 2) | 3, 2)) + offsets + found
    return found


def shredded(inside: bytes) -> bytes:
    """The value of an object whose field ``a`` is shredded and whose field ``d`` is not."""
    residual = encoding.object_({"d": inside}, {"a": 0, "d": 1})
    group = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])
    typed = pa.struct([pa.field("a", group, False)])
    row = {"metadata": NAMES, "value": residual, "typed_value": {"a": {"value": None, "typed_value": 5}}}
    parts = [pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary()), pa.field("typed_value", typed)]
    (found,) = read_variant(pa.array([row], pa.struct(parts)), "v").to_pylist()
    return bytes(found["value"])


@pytest.mark.parametrize(
    ("days", "text"), [(0, "1970-01-01"), (-719162, "0001-01-01"), (3_000_000, "+10183-09-21"), (-(2**31), "-5877641-06-23")]
)
def test_every_date_that_fits_is_one(days: int, text: str) -> None:
    assert decode(Variant(NO_NAMES, date(days))) == TemporalValue(DATE, days)
    assert variant_to_json(Variant(NO_NAMES, date(days))) == text
    assert variant_to_json(Variant(NAMES, shredded(date(days)))) == {"a": 5, "d": text}


@pytest.mark.parametrize("object_", [False, True])
def test_values_up_to_500_levels_deep_are_shown_as_json(object_: bool) -> None:
    value = Variant(NAMES, nested(500, object_))
    (line,) = json_lines(batch_of(SCHEMA, [(value,)]), SCHEMA).decode().splitlines()
    found, depth = json.loads(line)["v"], 0
    while found is not None:
        (found,) = found.values() if object_ else found
        depth += 1
    assert depth == 500


def test_deeper_ones_are_read_as_they_are_and_not_shown() -> None:
    for value in (nested(501), nested(20_000)):
        with pytest.raises(CorruptTableError, match="more than 500 levels"):
            variant_to_json(Variant(NO_NAMES, value))
        assert value in shredded(value)


@pytest.mark.parametrize("depth", [24, 200])
def test_values_that_share_bytes_without_end_are_refused_at_once(depth: int) -> None:
    value = overlapping(depth)
    with pytest.raises(CorruptTableError, match="they overlap"):
        variant_to_json(Variant(NO_NAMES, value))
    assert value in shredded(value)
    assert variant_to_json(Variant(NO_NAMES, overlapping(3))) == [[[None, None]] * 2] * 2


def test_an_object_with_a_name_twice_is_damaged() -> None:
    value = bytes((2, 2, 0, 0, 0, 1, 2)) + b"\x00\x00"
    with pytest.raises(CorruptTableError, match="2 fields, but only 1 names"):
        variant_to_json(Variant(NAMES, value))


def plain(rng: random.Random, depth: int) -> tuple[bytes, Any]:
    """An encoded value and the JSON that it is."""
    kind = rng.choice(["null", "int", "text", "long text", "date", "array", "object"][: 7 if depth else 5])
    if kind == "array":
        parts = [plain(rng, depth - 1) for _ in range(rng.choice([0, 1, 3, 300 if depth == 1 else 2]))]
        return encoding.array([p for p, _ in parts]), [shown for _, shown in parts]
    if kind == "object":
        fields = {name: plain(rng, depth - 1) for name in rng.sample("ad", rng.randint(0, 2))}
        return encoding.object_({n: p for n, (p, _) in fields.items()}, {"a": 0, "d": 1}), {n: s for n, (_, s) in fields.items()}
    if kind in ("text", "long text"):
        text = "é" * rng.randint(0, 5) if kind == "text" else "x" * rng.randint(64, 300)
        return encoding.text(text.encode()), text
    if kind == "date":
        return date(2_932_897), "+10000-01-01"
    number = rng.randint(-128, 127)
    return (encoding.NULL, None) if kind == "null" else (encoding.primitive(3, struct.pack("<b", number)), number)


def test_generated_values_are_shown_and_damaged_ones_end_well() -> None:
    rng = random.Random(7)
    for _ in range(300):
        value, shown = plain(rng, rng.randint(0, 4))
        assert variant_to_json(Variant(NAMES, value)) == shown
        damaged = bytearray(value)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        for read in (lambda v: variant_to_json(Variant(NAMES, v)), shredded):
            try:
                read(bytes(damaged[: rng.randint(1, len(damaged))]))
            except CorruptTableError:
                continue
