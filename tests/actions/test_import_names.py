"""Names of imported files without field ids: each name keeps the column that it was written for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
from iceberg_ops.errors import SchemaError
from iceberg_ops.serde.json.name_mapping_json import table_name_mapping
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.types import DATE, LONG, STRING, NestedField
from tests.actions.rows_place import RowsPlace
from tests.actions.test_add_files import Place

ABC = pa.schema({"id": pa.int64(), "a": pa.int64(), "b": pa.int64()})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.write("x.parquet", [{"id": 1, "a": 10, "b": 20}, {"id": 2, "a": 11, "b": 21}], ABC)
    made.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, "a", LONG), NestedField(3, "b", LONG)))
    made.add()
    return made


def evolve(place: Place, *steps: Callable[[SchemaEvolution], Any]) -> None:
    for step in steps:
        table = place.table
        commit(place.catalog, table, UpdateSchema(schema=step(SchemaEvolution.of_table(table.metadata)).apply()))


@pytest.mark.parametrize("type_", [LONG, DATE])
def test_values_of_a_dropped_column_do_not_come_back_under_a_new_column_of_its_name(place: Place, type_: Any) -> None:
    evolve(place, lambda e: e.drop_column("a"), lambda e: e.add_column("a", type_))
    assert [r["a"] for r in place.rows()] == [None, None]
    place.write("y.parquet", [{"id": 3, "a": 12, "b": 22}], ABC)
    with pytest.raises(SchemaError, match="column 'a' has a name that the table's name mapping gives to a column that is gone"):
        place.add(check_duplicate_files="false")


def test_columns_that_swap_their_names_keep_their_values(place: Place) -> None:
    evolve(place, *(lambda e, o=o, n=n: e.rename_column(o, n) for o, n in (("a", "tmp"), ("b", "a"), ("tmp", "b"))))
    assert place.rows() == [{"id": 1, "b": 10, "a": 20}, {"id": 2, "b": 11, "a": 21}]
    assert (place.rows("a = 20"), place.rows("a = 10")) == ([{"id": 1, "b": 10, "a": 20}], [])
    place.write("y.parquet", [{"id": 3, "a": 12, "b": 22}], ABC)
    with pytest.raises(SchemaError, match="column 'a' was the name of column 'b' before, and is another column's now"):
        place.add(check_duplicate_files="false")


def test_imports_at_once_keep_each_others_names(tmp_path: Path) -> None:
    place = RowsPlace.at(tmp_path)
    place.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, "name", STRING)))
    for folder, column in (("one", "NAME"), ("two", "Name")):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({"id": pa.array([1], pa.int64()), column: [folder]}), tmp_path / folder / "a.parquet")

    def add(folder: str, *others: Callable[[], object]) -> None:
        place.run("add_files", *others, options={"source-path": str(tmp_path / folder)})

    add("one", lambda: add("two"))
    assert [r["name"] for r in place.rows()] == ["one", "two"]
    mapping = table_name_mapping(place.table().metadata)
    assert mapping is not None
    assert set(mapping.fields[1].names) == {"name", "Name", "NAME"}
