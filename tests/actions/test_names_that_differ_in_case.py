"""Columns of the table whose names differ only in case (another engine made them): the exact name selects the column."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from iceberg_ops.config.job_spec import MergeClause
from iceberg_ops.errors import OptionError, SchemaError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from tests.actions.rows_place import RowsPlace

MODES = pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
DELETE, UPDATE = MergeClause(when="matched", action="delete"), MergeClause(when="matched", action="update")
FIRST, SECOND = {"id": 1, "ab": 10, "AB": 20, "y": None}, {"id": 2, "ab": 20, "AB": 10, "y": None}


def arrow(*names: str) -> pa.Schema:
    return pa.schema({name: pa.int64() for name in names})


@pytest.fixture
def place(tmp_path: Path) -> RowsPlace:
    found = RowsPlace.at(tmp_path)
    found.create(Schema.of(NestedField(1, "id", LONG)))
    found.set_schema(Schema.of(*(NestedField(i, name, LONG) for i, name in enumerate(FIRST, 1))))
    found.run("append", source=found.source([FIRST, SECOND], arrow(*FIRST)))
    return found


@MODES
@pytest.mark.parametrize(("name", "value"), [("ab", 10), ("AB", 20), ("target.AB", 20)])
def test_set_reads_the_column_of_that_name(place: RowsPlace, mode: str, name: str, value: int) -> None:
    place.update(mode, {"y": name}, "id = 1")
    assert place.rows() == [{**FIRST, "y": value}, SECOND]


@MODES
@pytest.mark.parametrize(("name", "kept"), [("ab", SECOND), ("AB", FIRST)])
def test_on_joins_the_column_of_that_name(place: RowsPlace, mode: str, name: str, kept: dict[str, int]) -> None:
    place.merge(mode, place.source([{"k": 10}], arrow("k")), f"target.{name} = source.k", DELETE)
    assert place.rows() == [kept]


@MODES
def test_all_columns_are_those_of_these_names(place: RowsPlace, mode: str) -> None:
    with pytest.raises(OptionError, match="it lacks AB"):
        place.merge(mode, place.source([{"id": 1, "ab": 7, "y": 8}], arrow("id", "ab", "y")), "target.id = source.id", UPDATE)
    assert place.rows() == [FIRST, SECOND]


def test_another_spelling_means_neither(place: RowsPlace) -> None:
    with pytest.raises(SchemaError, match="may be 'ab' or 'AB'"):
        place.update("merge-on-read", {"y": "Ab"})
    with pytest.raises(SchemaError, match="may be 'ab' or 'AB'"):
        place.merge("merge-on-read", place.source([{"k": 10}], arrow("k")), "target.aB = source.k", DELETE)
