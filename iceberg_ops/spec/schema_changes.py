"""Applies collected schema changes to a type tree, for ``schema_evolution``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.fresh_ids import with_children
from iceberg_ops.spec.types import IcebergType, ListType, MapType, NestedField, StructType, child_fields


@dataclass(frozen=True, slots=True)
class Move:
    """Move field ``field_id`` to the first position, or before or after its sibling ``reference_id``."""

    field_id: int
    place: str
    reference_id: int | None


@dataclass(slots=True)
class PendingChanges:
    """By field id: changed and added fields, dropped ones, and per parent (None: the table) the added ids and the moves."""

    updates: dict[int, NestedField] = field(default_factory=dict)
    deletes: set[int] = field(default_factory=set)
    adds: dict[int | None, list[int]] = field(default_factory=dict)
    moves: dict[int | None, list[Move]] = field(default_factory=dict)


def rebuilt(type_: IcebergType, holder_id: int | None, changes: PendingChanges) -> IcebergType:
    """The type of field ``holder_id`` after the changes. Raises SchemaError for a change to a map key or a list's element."""
    if isinstance(type_, StructType):
        kept = [_rebuilt_field(f, changes) for f in type_.fields if f.field_id not in changes.deletes]
        added = [_rebuilt_field(changes.updates[i], changes) for i in changes.adds.get(holder_id, ())]
        return replace(type_, fields=tuple(_moved([*kept, *added], changes.moves.get(holder_id, []))))
    for f in child_fields(type_):
        if f.field_id in changes.deletes:
            what = "list element" if isinstance(type_, ListType) else f"map {f.name}"
            raise SchemaError(f"cannot drop a {what}: drop the whole column")
    fields = tuple(_rebuilt_field(f, changes) for f in child_fields(type_))
    if isinstance(type_, MapType) and fields[0] != type_.key:
        raise SchemaError("cannot alter map keys: values already there were stored under the old keys")
    return with_children(type_, fields)


def _rebuilt_field(f: NestedField, changes: PendingChanges) -> NestedField:
    current = changes.updates.get(f.field_id, f)
    return replace(current, type=rebuilt(current.type, current.field_id, changes))


def _moved(fields: list[NestedField], moves: list[Move]) -> list[NestedField]:
    for move in moves:
        moving = next(f for f in fields if f.field_id == move.field_id)
        fields.remove(moving)
        if move.reference_id is None:
            fields.insert(0, moving)
            continue
        at = next(i for i, f in enumerate(fields) if f.field_id == move.reference_id)
        fields.insert(at + (move.place == "after"), moving)
    return fields
