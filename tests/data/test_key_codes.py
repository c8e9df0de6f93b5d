"""Integer codes of keys agree with tuples in a dictionary, whatever the types, with and without nulls as keys."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.data.columns.key_codes import KeyCodes, ranks

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "long": (pa.int64(), st.sampled_from([0, 1, -1, 2**62, None])),
    "text": (pa.string(), st.sampled_from(["", "a", "é", "aa", None])),
    "bool": (pa.bool_(), st.sampled_from([True, False, None])),
    "decimal": (pa.decimal128(9, 2), st.sampled_from([Decimal("1.50"), Decimal("-0.01"), None])),
    "time": (pa.timestamp("us", "UTC"), st.sampled_from([0, 1, None])),
    "bytes": (pa.binary(), st.sampled_from([b"", b"\xff", None])),
}
Rows = list[tuple[Any, ...]]


@st.composite
def keys(draw: st.DrawFn) -> tuple[list[str], Rows, Rows]:
    """Kinds of columns, some rows and other rows."""
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
    row = st.tuples(*(KINDS[k][1] for k in kinds))
    return kinds, draw(st.lists(row, max_size=12)), draw(st.lists(row, max_size=12))


def columns(kinds: list[str], rows: Rows) -> list[pa.Array]:
    return [pa.array([r[i] for r in rows], KINDS[k][0]) for i, k in enumerate(kinds)]


@given(keys(), st.booleans())
def test_rows_of_equal_keys_and_only_these_share_a_number(found: tuple[list[str], Rows, Rows], nulls_are_keys: bool) -> None:
    kinds, rows, others = found
    made = KeyCodes(columns(kinds, rows), nulls_are_keys=nulls_are_keys)
    codes = made.of_rows.tolist()
    for row, code in zip(rows, codes, strict=True):
        assert (code == -1) is (None in row and not nulls_are_keys)
        same = [c == code for r, c in zip(rows, codes, strict=True) if r == row]
        assert all(same)
    known = {row: code for row, code in zip(rows, codes, strict=True) if code >= 0}
    assert len(set(known.values())) == len(known)
    expected = [-1 if None in other else known.get(other, -1) for other in others]
    assert made.find(columns(kinds, others)).tolist() == expected


@given(st.sampled_from(sorted(KINDS)).flatmap(lambda k: st.tuples(st.just(k), st.lists(KINDS[k][1]))))
def test_ranks_are_the_order_of_the_values(found: tuple[str, list[Any]]) -> None:
    kind, values = found
    order = {v: i for i, v in enumerate(sorted({v for v in values if v is not None}))}
    assert ranks(pa.array(values, KINDS[kind][0])).tolist() == [order.get(v, -1) for v in values]


@pytest.mark.parametrize("encoded", [False, True])
def test_text_in_dictionaries_is_text(encoded: bool) -> None:
    column = pa.array(["b", None, "a", "b"])
    made = KeyCodes([column.dictionary_encode() if encoded else column])
    assert made.of_rows[0] == made.of_rows[3] != made.of_rows[2]
    assert made.find([pa.array(["a", "c"]).dictionary_encode()]).tolist() == [made.of_rows[2], -1]
