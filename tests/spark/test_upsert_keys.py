"""Source rows with one key are matched by the key as the table stores it, however the source writes it; in both lanes."""

from __future__ import annotations

import random
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.config.job_spec import JobSpec, Source
from iceberg_ops.errors import DataError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    BINARY,
    DATE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    UUID,
    DecimalType,
    FixedType,
    IcebergType,
    NestedField,
)
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

ID = uuid.UUID("0123abcd-0123-4567-89ab-cdef01234567")
CASES: dict[str, tuple[IcebergType, list[str]]] = {
    "uuid in three spellings": (UUID, [f"'{ID}'", f"'{str(ID).upper()}'", f"'{ID.hex}'"]),
    "decimals of several scales": (DecimalType(precision=9, scale=2), ["1.5BD", "1.50BD", "1.500BD", "1.499BD"]),
    "numbers of several types": (LONG, ["CAST(7 AS TINYINT)", "7", "7L"]),
    "a number as text": (STRING, ["7", "'7'"]),
    "a day as a time": (TIMESTAMP, ["DATE '2024-01-01'", "TIMESTAMP_NTZ '2024-01-01 00:00:00'"]),
    "text of one collation": (STRING, ["'a' COLLATE UTF8_LCASE", "'a' COLLATE UTF8_LCASE"]),
    "bytes": (FixedType(length=2), ["X'0102'", "X'0102'"]),
}
APART: dict[str, tuple[IcebergType, list[str]]] = {
    "text that differs in case": (STRING, ["'a' COLLATE UTF8_LCASE", "'A' COLLATE UTF8_LCASE"]),
    "text that differs in blanks": (STRING, ["'a'", "'a '"]),
    "decimals": (DecimalType(precision=9, scale=2), ["1.50BD", "1.51BD"]),
    "bytes": (BINARY, ["X'01'", "X'0100'"]),
}


def make(place: Place, kind: IcebergType) -> None:
    place.create("t", Schema.of(NestedField(1, "k", kind), NestedField(2, "n", INT)))


def of_keys(keys: list[str]) -> Source:
    """Rows of one type each, brought to the first column's type by UNION only where it is the table's business."""
    parts = " UNION ALL ".join(f"SELECT {key} AS k, {n} AS n" for n, key in enumerate(keys))
    return Source(format="sql", query=parts)


@pytest.mark.parametrize("case", CASES)
def test_a_key_that_is_there_twice_once_it_is_stored_is_an_error(place: Place, case: str) -> None:
    kind, keys = CASES[case]
    make(place, kind)
    with pytest.raises(DataError, match=f"{len(keys)} source rows of key"):
        place.run("upsert", "t", source=of_keys(keys), options={"upsert-keys": "k"})
    place.run("upsert", "t", source=of_keys(keys), options={"upsert-keys": "k", "order-by": "n"})
    assert [r["n"] for r in place.rows("t")] == [len(keys) - 1]


@pytest.mark.parametrize("case", APART)
def test_keys_that_are_stored_apart_are_two(place: Place, case: str) -> None:
    kind, keys = APART[case]
    make(place, kind)
    place.run("upsert", "t", source=of_keys(keys), options={"upsert-keys": "k"})
    assert sorted(r["n"] for r in place.rows("t")) == list(range(len(keys)))


def test_a_row_whose_key_can_not_be_stored_is_never_dropped_for_another(place: Place) -> None:
    """Its key would be NULL, and a row of NULL with a greater value would take its place."""
    make(place, UUID)
    query = "SELECT 'no uuid' AS k, 1 AS n UNION ALL SELECT NULL AS k, 2 AS n"
    with pytest.raises(DataError, match="column 'k': no uuid does not fit uuid"):
        place.run("upsert", "t", source=Source(format="sql", query=query), options={"upsert-keys": "k", "order-by": "n"})
    assert place.rows("t") == []


STORED_ALIKE: dict[str, tuple[IcebergType, dict[Any, list[str]]]] = {
    "uuid": (UUID, {i.bytes: [f"'{i}'", f"'{str(i).upper()}'", f"'{i.hex}'"] for i in (ID, uuid.UUID(int=7), uuid.UUID(int=8))}),
    "decimal": (
        DecimalType(precision=9, scale=2),
        {Decimal(text): [f"{text}0BD", f"{text}4BD", f"{text}1BD"] for text in ("1.50", "-1.00", "0.02")},
    ),
}
"""By type of the key: values, and literals that are stored as them."""
SEEDS = 4


@pytest.mark.parametrize("seed", range(SEEDS))
def test_generated_upserts_agree_with_a_dictionary_by_stored_keys(place: Place, seed: int) -> None:
    check_upserts(place, seed)


def check_upserts(place: Place, seed: int) -> None:
    rng, kept = random.Random(f"upsert keys {seed}"), dict[Any, int]()
    kind, literals = list(STORED_ALIKE.values())[seed % len(STORED_ALIKE)]
    make(place, kind)
    for _ in range(2):
        drawn = [rng.choice(list(literals)) for _ in range(rng.randint(2, 5))]
        source = of_keys([rng.choice(literals[key]) for key in drawn])
        if len(set(drawn)) < len(drawn):
            with pytest.raises(DataError, match="source rows of key"):
                place.run("upsert", "t", source=source, options={"upsert-keys": "k"})
        place.run("upsert", "t", source=source, options={"upsert-keys": "k", "order-by": "n"})
        kept |= {key: n for n, key in enumerate(drawn)}
        assert sorted((row["k"], row["n"]) for row in place.rows("t")) == sorted(kept.items()), source.query


LOCAL: dict[str, tuple[IcebergType, pa.Array]] = {
    "uuid": (UUID, pa.array([ID.bytes, ID.bytes], pa.binary(16))),
    "narrower decimal": (DecimalType(precision=9, scale=2), pa.array([Decimal("1.50"), Decimal("1.50")], pa.decimal128(5, 2))),
    "narrower number": (LONG, pa.array([7, 7], pa.int16())),
    "date": (DATE, pa.array([1, 1], pa.int32()).cast(pa.date32())),
}


@pytest.mark.parametrize("case", LOCAL)
def test_lane_local_compares_keys_as_they_are_stored(place: Place, case: str) -> None:
    kind, keys = LOCAL[case]
    make(place, kind)
    source = place.parquet(pa.table({"k": keys, "n": pa.array([0, 1], pa.int32())}))

    def upsert(**more: Any) -> None:
        options = {"upsert-keys": "k", **more}
        job = JobSpec(job="upsert", table="test.db.t", catalog=place.config, lane="local", source=source, options=options)
        run_job(job, catalog=place.catalog)

    with pytest.raises(DataError, match="2 source rows of key"):
        upsert()
    upsert(**{"order-by": "n"})
    assert [r["n"] for r in place.rows("t")] == [1]
