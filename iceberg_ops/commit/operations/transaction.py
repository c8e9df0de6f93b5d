"""Several operations in one commit: all of them are in the table afterwards, or none (Java: BaseTransaction).

Each is validated and staged on the table that the operation before it made, in memory; the catalog sees one list of updates. So a
later operation can conflict with an earlier one as with a commit of another writer. On a retry every operation is validated and
staged again; what it prepared is kept.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
from iceberg_ops.commit.protocol.history import History
from iceberg_ops.commit.protocol.operation import Operation, OperationFields, StagedCommit
from iceberg_ops.commit.protocol.run_keys import ledger_entries, not_committed_yet
from iceberg_ops.errors import BadInputError
from iceberg_ops.spec.metadata_builder import apply_updates
from iceberg_ops.spec.requirements import (
    AssertNoRun,
    AssertProperty,
    AssertRefSnapshotId,
    AssertRetention,
    AssertSameHeads,
    AssertSameRef,
    TableRequirement,
)
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.updates import SetProperties, TableUpdate
from iceberg_ops.table.table import Table


@dataclass(frozen=True, slots=True)
class PreparedParts:
    """What each operation prepared; ``callers`` is the table as the caller saw it."""

    parts: tuple[Any, ...]
    callers: TableMetadata

    @property
    def written(self) -> tuple[str, ...]:
        return tuple(f for part in self.parts for f in part.written)


@dataclass(frozen=True, kw_only=True)
class Transaction(OperationFields):
    """``operations`` in order. The transaction's run key is looked up before the swap; also give it to one of the operations that
    make a snapshot, so that it is found afterwards."""

    operations: tuple[Operation, ...]
    name: str = "transaction"

    def __post_init__(self) -> None:
        if not self.operations:
            raise BadInputError("a transaction needs operations")

    @property
    def property_changes(self) -> Mapping[str, str | None]:
        return {name: value for operation in self.operations for name, value in operation.property_changes.items()}

    def prepare(self, table: Table) -> PreparedParts:
        return PreparedParts(tuple(o.prepare(table) for o in self.operations), table.metadata)

    def validate(self, table: Table, history: History) -> None:
        callers = history.callers
        for operation in self.operations:
            _validate(operation, table, callers)
            callers = _after(operation, table.metadata, table.metadata, callers)

    def stage(self, prepared: PreparedParts, table: Table) -> StagedCommit:
        requirements: list[TableRequirement] = []
        updates: list[TableUpdate] = []
        referenced: frozenset[str] = frozenset()
        unused: frozenset[str] = frozenset()
        snapshot: Snapshot | None = None
        now, base, callers = time.time_ns() // 1_000_000, table.metadata, prepared.callers
        for operation, part in zip(self.operations, prepared.parts, strict=True):
            if table.metadata is not base:
                _validate(operation, table, callers)
            staged = operation.stage(part, table)
            requirements += _not_yet_required(_before(staged.requirements, base), requirements)
            updates += staged.updates
            referenced |= staged.referenced
            unused |= staged.unused
            snapshot = staged.snapshot or snapshot
            before, table = table, replace(table, metadata=apply_updates(table.metadata, staged.updates, now_ms=now))
            callers = _after(operation, before.metadata, table.metadata, callers)
        if updates and self.run is not None:
            entries = ledger_entries({self.run: None if snapshot is None else snapshot.snapshot_id}, now)
            updates += [SetProperties(entries)] if entries else []
            requirements += not_committed_yet(self.run, base)
        return StagedCommit(
            requirements=tuple(requirements), updates=tuple(updates), snapshot=snapshot, referenced=referenced, unused=unused
        )


def _after(operation: Operation, before: TableMetadata, made: TableMetadata, callers: TableMetadata) -> TableMetadata:
    """Files of the operations after ``operation`` were written with the schema that it makes, also if another commit has made the
    same schema before. The exception is a schema that brings a column back, which earlier copied rows may lack."""
    is_in_force = isinstance(operation, UpdateSchema) and made.schema.same_columns(operation.schema)
    if not is_in_force and made.current_schema_id == before.current_schema_id:
        return callers
    if any(i <= callers.last_column_id and i not in callers.schema.fields_by_id for i in made.schema.fields_by_id):
        return callers
    return replace(callers, schemas=made.schemas, current_schema_id=made.current_schema_id, last_column_id=made.last_column_id)


def _validate(operation: Operation, table: Table, callers: TableMetadata) -> None:
    history = History(table, operation.branch, operation.starting_snapshot_id, callers=callers)
    operation.validate(table, history)


def _before(requirements: Sequence[TableRequirement], base: TableMetadata) -> list[TableRequirement]:
    """The requirements of an operation on the table that the operations before it made, as requirements on the table they were
    staged on. Its own run key is not looked up: the transaction's is."""
    return [_of_base(r, base) for r in requirements if not isinstance(r, AssertNoRun)]


def _of_base(requirement: TableRequirement, base: TableMetadata) -> TableRequirement:
    if isinstance(requirement, AssertRetention | AssertSameHeads):
        return replace(requirement, seen=base)
    if isinstance(requirement, AssertProperty):
        return replace(requirement, value=base.properties.get(requirement.name))
    if isinstance(requirement, AssertSameRef):
        return replace(requirement, seen=base.ref(requirement.ref))
    return requirement


def _not_yet_required(new: Sequence[TableRequirement], known: Sequence[TableRequirement]) -> list[TableRequirement]:
    """Requirements apply to the table before the transaction: only the first one of a kind (of a ref, or a property) can."""
    seen = {_subject(r) for r in known}
    return [r for r in new if _subject(r) not in seen]


def _subject(requirement: TableRequirement) -> tuple[type, str]:
    if isinstance(requirement, AssertRefSnapshotId | AssertSameRef):
        return type(requirement), requirement.ref
    return type(requirement), requirement.name if isinstance(requirement, AssertProperty) else ""
