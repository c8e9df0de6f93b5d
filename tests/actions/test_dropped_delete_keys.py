"""``evolve`` drops no column that live equality deletes compare: Iceberg Java could not scan the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from iceberg_ops.cli.alterations import parse_alterations
from iceberg_ops.cli.evolve import plan_operations
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
from iceberg_ops.commit.operations.refs import RemoveRef, SetRef
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.types import INT, LONG, NestedField, StructType
from tests.actions.rows_place import RowsPlace
from tests.catalog.wrappers import Meddles

SCHEMA = Schema.of(
    NestedField(1, "k", LONG), NestedField(2, "d", INT), NestedField(3, "s", StructType((NestedField(4, "a", INT),)))
)
ROWS = pa.schema({"k": pa.int64(), "d": pa.int32()})


def place(tmp_path: Path, version: int) -> RowsPlace:
    made = RowsPlace.at(tmp_path)
    made.create(SCHEMA, format__version=str(version))
    made.run("append", source=made.source([{"k": 1, "d": 5}, {"k": 2, "d": 6}], ROWS))
    return made


def upsert(made: RowsPlace, branch: str = "main") -> None:
    made.run("upsert", source=made.source([{"k": 3, "d": 5}], ROWS), options={"upsert-keys": "d"}, branch=branch)


def evolve(made: RowsPlace, *steps: str, allow: bool = False, before: Callable[[], object] | None = None) -> None:
    """What ``iceberg-ops evolve`` does; ``before``: what another writer does right before the swap."""
    operations, _ = plan_operations(made.table(), parse_alterations(steps), allow)
    catalog = Meddles(made.catalog, *([before] if before else []))
    commit(catalog, made.table(), Transaction(operations=tuple(operations)), sleep=lambda _: None)


@pytest.mark.parametrize("version", [2, 3])
def test_a_column_is_dropped_once_its_equality_deletes_are_converted(version: int, tmp_path: Path) -> None:
    made = place(tmp_path, version)
    upsert(made)
    evolve(made, "DROP COLUMN s", "RENAME COLUMN d TO e")
    with pytest.raises(SchemaError, match=r"drop column 'e': .* in branch 'main', compares it.*: run convert_equality_deletes"):
        evolve(made, "DROP COLUMN e")
    made.run("convert_equality_deletes", options={})
    evolve(made, "DROP COLUMN e")
    assert sorted(r["k"] for r in made.rows()) == [2, 3]


@pytest.mark.parametrize("version", [2, 3])
def test_branches_and_tags_count(version: int, tmp_path: Path) -> None:
    made = place(tmp_path, version)
    commit(made.catalog, made.table(), SetRef(ref="audit", snapshot_id=made.table().metadata.current_snapshot_id or 0))
    upsert(made, branch="audit")
    head = made.table().metadata.refs["audit"].snapshot_id
    commit(made.catalog, made.table(), SetRef(ref="kept", snapshot_id=head, type="tag"))
    with pytest.raises(SchemaError, match="run convert_equality_deletes on branch 'audit' first"):
        evolve(made, "DROP COLUMN d")
    made.run("convert_equality_deletes", options={}, branch="audit")
    with pytest.raises(SchemaError, match="drop tag 'kept' first"):
        evolve(made, "DROP COLUMN d")
    commit(made.catalog, made.table(), RemoveRef(ref="kept"))
    evolve(made, "DROP COLUMN d")


@pytest.mark.parametrize("version", [2, 3])
def test_it_is_dropped_where_that_is_allowed(version: int, tmp_path: Path) -> None:
    """By ``--allow-incompatible``, and by a writer that stages the change as Iceberg Java does. Rows are read as before."""
    made = place(tmp_path, version)
    upsert(made)
    evolve(made, "DROP COLUMN d", allow=True)
    assert sorted(r["k"] for r in made.rows()) == [2, 3]
    made = place(tmp_path / "other", version)
    upsert(made)
    commit(
        made.catalog, made.table(), UpdateSchema(schema=SchemaEvolution.of_table(made.table().metadata).drop_column("d").apply())
    )
    assert sorted(r["k"] for r in made.rows()) == [2, 3]


@pytest.mark.parametrize("version", [2, 3])
def test_an_upsert_that_comes_at_the_swap_is_seen(version: int, tmp_path: Path) -> None:
    made = place(tmp_path, version)
    with pytest.raises(SchemaError, match="cannot drop column 'd'"):
        evolve(made, "DROP COLUMN d", before=lambda: upsert(made))
    assert made.table().schema.find("d") is not None


@pytest.mark.parametrize("version", [2, 3])
def test_an_upsert_is_refused_where_its_key_is_dropped_at_its_swap(version: int, tmp_path: Path) -> None:
    made = place(tmp_path, version)
    with pytest.raises(SchemaError, match="upsert-keys: 'd' is not a column of the table"):
        made.run(
            "upsert",
            lambda: evolve(made, "DROP COLUMN d"),
            source=made.source([{"k": 3, "d": 5}], ROWS),
            options={"upsert-keys": "d"},
        )
    assert sorted(r["k"] for r in made.rows()) == [1, 2]
