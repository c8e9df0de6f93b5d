"""A writer of another engine that replaces a table (CREATE OR REPLACE TABLE [AS SELECT]), in the same way as Iceberg Java.

Uuid, location and properties stay. A column has the id of the present one with its name, whatever its type; ``kind`` may become a
number or a text, or be dropped. Main is dropped, and set to a first snapshot without a parent, or has none until the first append.
All other refs and snapshots stay: a branch may hold rows of former columns, which nobody can read by the table's
(``Watched.fit``)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

from iceberg_ops.commit.operations.refs import SetCurrentSnapshot
from iceberg_ops.errors import CommitFailedError, CommitStateUnknownError, IcebergOpsError
from iceberg_ops.spec.metadata_builder import apply_updates
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import UNSORTED
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.transforms import VOID
from iceberg_ops.spec.types import LONG, STRING, IcebergType, NestedField
from iceberg_ops.spec.updates import (
    LAST_ADDED,
    AddPartitionSpec,
    AddSchema,
    AddSortOrder,
    RemoveSnapshotRef,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    TableUpdate,
)
from iceberg_ops.table.table import Table
from tests.torture.acts import Act
from tests.torture.foreign import MOST_SWAPS, as_loaded, swap_once
from tests.torture.making import PARTITIONS, SCHEMA, new_data, some_rows
from tests.torture.refs import to_rows_of
from tests.torture.rows import KIND, Row
from tests.torture.running import act_of
from tests.torture.stepping import Writer
from tests.torture.watched import MAIN
from tests.torture.world import World

Drawn = Callable[[TableMetadata], tuple[TableUpdate, ...]]


def replace_table(world: World, w: Writer) -> None:
    w.branch = MAIN
    table = world.load(w)
    if len(world.of(table).models) > 1:
        world.seen("replaced beside a branch")
    dice = world.random.random
    kind: IcebergType | None = None if dice() < 0.15 else LONG if dice() < 0.6 else STRING
    layouts = [name for name, fields in PARTITIONS.items() if kind is not None or all(source != 4 for source, _, _ in fields)]
    layout = None if dice() < 0.5 else world.random.choice(layouts)
    drawn = partial(_replacement, kind=kind, strict=dice() < 0.2, layout=layout)
    if dice() < 0.35:
        rows: list[Row] = []
    else:
        rows = some_rows(world, _as_replaced(table, drawn(table.metadata), world))
    w.effect = lambda model: tuple(rows)
    world.attempt(w, Act("replacement"), lambda: _swap(world, w, table, drawn, rows), planned=table)


def _swap(world: World, w: Writer, old: Table, drawn: Drawn, rows: list[Row]) -> None:
    for attempt in range(MOST_SWAPS):
        now = w.catalog.load_table(old.identifier[1:])
        if len({table.metadata.table_uuid.lower() for table in (old, now)} - {""}) > 1:
            return
        updates = drawn(now.metadata)
        try:
            _swap_once(world, w, now, updates, rows, attempt)
        except CommitFailedError:
            continue
        except IcebergOpsError as e:
            raise CommitStateUnknownError(f"{e}") from e
        return


def _swap_once(world: World, w: Writer, now: Table, updates: tuple[TableUpdate, ...], rows: list[Row], attempt: int) -> None:
    w.committing_since = w.committing_since or w.started
    replaced = _as_replaced(now, updates, world)
    kind = replaced.schema.find(KIND)
    id_now = None if kind is None else kind.field_id
    rows[:] = [r if r.kind is None or id_now is None else r._replace(kind=(id_now, r.kind[1])) for r in rows]
    if rows:
        swap_once(w, now, new_data(world, replaced, rows), (), attempt, (replaced.metadata, updates))
    else:
        w.catalog.commit_table(now, as_loaded(now), updates)


def _as_replaced(table: Table, updates: tuple[TableUpdate, ...], world: World) -> Table:
    return dataclasses.replace(table, metadata=apply_updates(table.metadata, updates, now_ms=world.clock()))


def _replacement(metadata: TableMetadata, *, kind: IcebergType | None, strict: bool, layout: str | None) -> tuple[TableUpdate, ...]:
    """``kind``: the type of that column; None: there is none. ``strict``: column ``data`` has no nulls. ``layout``: how the table
    is partitioned; None: as before, as far as possible."""
    known, last = {f.name: f.field_id for f in metadata.schema.fields}, metadata.last_column_id
    fields = []
    for f in SCHEMA.fields:
        if f.name == KIND and kind is None:
            continue
        field_id = known.get(f.name)
        if field_id is None:
            field_id = last = last + 1
        type_ = kind if f.name == KIND and kind is not None else f.type
        fields.append(NestedField(field_id, f.name, type_, f.required or (strict and f.name == "data")))
    schema = Schema.of(*fields)
    main = () if metadata.current_snapshot_id is None else (RemoveSnapshotRef(MAIN),)
    return (
        AddSchema(schema),
        SetCurrentSchema(LAST_ADDED),
        AddPartitionSpec(_spec(metadata, schema, layout)),
        SetDefaultSpec(LAST_ADDED),
        AddSortOrder(UNSORTED),
        SetDefaultSortOrder(LAST_ADDED),
        *main,
    )


def _spec(metadata: TableMetadata, schema: Schema, layout: str | None) -> PartitionSpec:
    """Fields have the ids of equal ones; v1 keeps the fields that go as ``void``."""
    wanted: dict[Any, str] = {}
    if layout is None:
        there = [f for f in metadata.spec.fields if not f.transform.is_void and f.source_id in schema.fields_by_id]
        wanted = {(f.source_id, f.transform): f.name for f in there}
    else:
        ids = {f.name: f.field_id for f in schema.fields}
        wanted = {(ids[SCHEMA.fields_by_id[source].name], t): name for source, t, name in PARTITIONS[layout]}
    names, fields = {*wanted.values()}, []
    known = {(f.source_id, f.transform): f.field_id for spec in metadata.partition_specs for f in spec.fields}
    if metadata.format_version < 2:
        known = {}
        for f in metadata.spec.fields:
            kept = wanted.pop((f.source_id, f.transform), None)
            gone = f.name if f.name not in names else f"{f.name}_{f.field_id}"
            fields.append(dataclasses.replace(f, name=kept) if kept else dataclasses.replace(f, name=gone, transform=VOID))
    last = metadata.last_partition_id
    for (source, transform), name in wanted.items():
        field_id = known.get((source, transform))
        if field_id is None:
            field_id = last = last + 1
        fields.append(PartitionField((source,), field_id, transform, name))
    return PartitionSpec(0, tuple(fields))


def back_to_any(world: World, w: Writer) -> None:
    """Main is set to any snapshot of the table, as ``rollback --any-snapshot`` does: not to rows of former columns."""
    table, w.branch = world.load(w), MAIN
    if table.metadata.snapshots:
        target = world.random.choice(table.metadata.snapshots).snapshot_id
        w.effect = to_rows_of(world, target)
        act = act_of(world, w, SetCurrentSnapshot.name)
        world.commit(w, table, SetCurrentSnapshot(snapshot_id=target, run_key=act.key), act)


KINDS: dict[str, tuple[float, Callable[[World, Writer], None]]] = {
    "replace table": (2, replace_table),
    "back to any": (1, back_to_any),
}
