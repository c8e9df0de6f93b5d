"""Fingerprints are equal if and only if the rows are equal."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from demo.readers import duckdb_with_iceberg, fingerprint

ROWS = st.lists(st.tuples(st.one_of(st.none(), st.integers(-5, 5)), st.one_of(st.none(), st.text(max_size=3))), max_size=8)


def table(rows: list[tuple[int | None, str | None]]) -> pa.Table:
    return pa.table({"a": pa.array([r[0] for r in rows], pa.int32()), "b": pa.array([r[1] for r in rows], pa.string())})


@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows: list[tuple[int | None, str | None]], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert fingerprint(table(rows), ["a", "b"]) == fingerprint(table(shuffled), ["a", "b"])


@given(ROWS, ROWS)
def test_different_rows_differ(left: list[tuple[int | None, str | None]], right: list[tuple[int | None, str | None]]) -> None:
    same = sorted(map(repr, left)) == sorted(map(repr, right))
    assert (fingerprint(table(left), ["a", "b"]) == fingerprint(table(right), ["a", "b"])) is same


def test_readers_may_spell_types_differently() -> None:
    at = datetime(2013, 2, 8, 5, tzinfo=UTC)
    ours = pa.table({"n": pa.array([1], pa.int32()), "s": pa.array(["x"]), "t": pa.array([at], pa.timestamp("us", "UTC"))})
    theirs = pa.table(
        {
            "n": pa.array([1], pa.int64()),
            "s": pa.array(["x"], pa.large_string()),
            "t": pa.array([at], pa.timestamp("us", "America/New_York")),
        }
    )
    assert fingerprint(ours, ["n", "s", "t"]) == fingerprint(theirs, ["n", "s", "t"])


def test_null_is_not_the_empty_text() -> None:
    assert fingerprint(table([(1, None)]), ["a", "b"]) != fingerprint(table([(1, "")]), ["a", "b"])


def test_duckdb_loads_its_extension_from_the_wheel() -> None:
    with duckdb_with_iceberg() as connection:
        loaded = connection.sql("SELECT loaded FROM duckdb_extensions() WHERE extension_name = 'iceberg'").fetchall()
    assert loaded == [(True,)]
