"""Conditions on the current metadata that a commit requires (REST: ``TableRequirement``).

The catalog checks requirements: ``check`` raises CommitFailedError, and the committer then refreshes and retries.

``AssertRetention``, ``AssertNoRun``, ``AssertProperty``, ``AssertSameRef`` and ``AssertSameHeads`` exist only in this package and
have no JSON form. A REST catalog checks them on the metadata that it loads right before the swap, not in the swap.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from iceberg_ops.config.properties import GC_ENABLED, LEDGER_FILE_PREFIX, RETENTION_PREFIX
from iceberg_ops.errors import CommitFailedError
from iceberg_ops.spec.snapshots import Snapshot, SnapshotRef
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.table_uuid import uuid_key


class TableRequirement(ABC):
    """Base of all requirements."""

    __slots__ = ()

    @abstractmethod
    def check(self, current: TableMetadata | None) -> None:
        """Raise CommitFailedError unless this holds for ``current`` (None: the table does not exist)."""


def _exists(current: TableMetadata | None) -> TableMetadata:
    if current is None:
        raise CommitFailedError("requirement failed: the table no longer exists")
    return current


def _expect(what: str, expected: object, actual: object) -> None:
    if expected != actual:
        raise CommitFailedError(f"requirement failed: {what} has changed: expected {expected}, found {actual}")


@dataclass(frozen=True, slots=True)
class AssertCreate(TableRequirement):
    """The table does not exist."""

    def check(self, current: TableMetadata | None) -> None:
        if current is not None:
            raise CommitFailedError("requirement failed: the table already exists")


@dataclass(frozen=True, slots=True)
class AssertTableUUID(TableRequirement):
    """The table has this uuid, in upper or lower case."""

    uuid: str

    def check(self, current: TableMetadata | None) -> None:
        _expect("table uuid", uuid_key(self.uuid), uuid_key(_exists(current).table_uuid))


@dataclass(frozen=True, slots=True)
class AssertRefSnapshotId(TableRequirement):
    """The ref's head; ``snapshot_id`` None: the ref must not exist."""

    ref: str
    snapshot_id: int | None

    def check(self, current: TableMetadata | None) -> None:
        ref = _exists(current).ref(self.ref)
        _expect(f"ref {self.ref}", self.snapshot_id, None if ref is None else ref.snapshot_id)


@dataclass(frozen=True, slots=True)
class AssertSameRef(TableRequirement):
    """The ref is unchanged since its next value was computed, including its kind and its retention (None: there was none)."""

    ref: str
    seen: SnapshotRef | None

    def check(self, current: TableMetadata | None) -> None:
        _expect(f"ref {self.ref}", self.seen, _exists(current).ref(self.ref))


@dataclass(frozen=True, slots=True)
class AssertSameHeads(TableRequirement):
    """Each branch and tag has the same head as in ``seen``, and there is no other one: all their content has been checked."""

    seen: TableMetadata

    def check(self, current: TableMetadata | None) -> None:
        then, now = _heads(self.seen), _heads(_exists(current))
        if changed := sorted(name for name, _ in then ^ now):
            raise CommitFailedError(
                f"requirement failed: {', '.join(dict.fromkeys(changed))} were moved, created or removed since they were read"
            )


def same_heads(metadata: TableMetadata) -> tuple[TableRequirement, ...]:
    """All branches and tags are as in ``metadata``; the catalogs of other engines can check the branches, too."""
    branches = (AssertRefSnapshotId(name, ref.snapshot_id) for name, ref in metadata.refs.items() if ref.is_branch)
    return (*branches, AssertSameHeads(metadata))


def _heads(metadata: TableMetadata) -> set[tuple[str, int]]:
    return {(name, ref.snapshot_id) for name, ref in metadata.refs.items()}


@dataclass(frozen=True, slots=True)
class AssertLastAssignedFieldId(TableRequirement):
    """No column was added since: the highest column id is the same."""

    last_assigned_field_id: int

    def check(self, current: TableMetadata | None) -> None:
        _expect("last assigned field id", self.last_assigned_field_id, _exists(current).last_column_id)


@dataclass(frozen=True, slots=True)
class AssertCurrentSchemaId(TableRequirement):
    current_schema_id: int

    def check(self, current: TableMetadata | None) -> None:
        _expect("current schema id", self.current_schema_id, _exists(current).current_schema_id)


@dataclass(frozen=True, slots=True)
class AssertLastAssignedPartitionId(TableRequirement):
    last_assigned_partition_id: int

    def check(self, current: TableMetadata | None) -> None:
        _expect("last assigned partition id", self.last_assigned_partition_id, _exists(current).last_partition_id)


@dataclass(frozen=True, slots=True)
class AssertDefaultSpecId(TableRequirement):
    default_spec_id: int

    def check(self, current: TableMetadata | None) -> None:
        _expect("default spec id", self.default_spec_id, _exists(current).default_spec_id)


@dataclass(frozen=True, slots=True)
class AssertDefaultSortOrderId(TableRequirement):
    default_sort_order_id: int

    def check(self, current: TableMetadata | None) -> None:
        _expect("default sort order id", self.default_sort_order_id, _exists(current).default_sort_order_id)


@dataclass(frozen=True, slots=True)
class AssertRetention(TableRequirement):
    """Everything that determines what may expire is the same as in ``seen``: snapshots, refs with their ages, retention properties,
    schemas, partition specs and sort orders."""

    seen: TableMetadata

    def check(self, current: TableMetadata | None) -> None:
        metadata = _exists(current)
        if metadata is self.seen:
            return
        seen, now = _retention(self.seen), _retention(metadata)
        if changed := [what for what in seen if seen[what] != now[what]]:
            raise CommitFailedError(f"requirement failed: {', '.join(changed)} changed since the expiry was planned")


def _retention(metadata: TableMetadata) -> dict[str, object]:
    return {
        "snapshots": metadata.snapshots_by_id.keys(),
        "refs": metadata.refs,
        "current snapshot": metadata.current_snapshot_id,
        "retention properties": {
            k: v for k, v in metadata.properties.items() if k == GC_ENABLED.name or k.startswith(RETENTION_PREFIX)
        },
        "schemas": (metadata.current_schema_id, metadata.schemas_by_id.keys()),
        "partition specs": (metadata.default_spec_id, metadata.specs_by_id.keys()),
        "sort orders": metadata.sort_orders_by_id.keys(),
    }


@dataclass(frozen=True, slots=True)
class AssertProperty(TableRequirement):
    """A table property is unchanged since its next value was computed (None: not set). A value that does not depend on the previous
    one needs no such requirement: the later one counts."""

    name: str
    value: str | None

    def check(self, current: TableMetadata | None) -> None:
        if _exists(current).properties.get(self.name) != self.value:
            raise CommitFailedError(f"requirement failed: table property {self.name} has changed since its next value was computed")


class Run(Protocol):
    """A piece of work that is committed once (``iceberg_ops.commit.protocol.run_keys``)."""

    @property
    def ledger_names(self) -> tuple[str, ...]:
        """Table properties, any of which shows that it was committed."""

    def made(self, snapshot: Snapshot) -> bool:
        """Whether it made the snapshot."""


@dataclass(frozen=True, slots=True)
class AssertNoRun(TableRequirement):
    """The run has not been committed since the search for it: no snapshot was made by it, the table's properties do not record
    it, and they name no ledger file other than ``ledger_files``, which were searched. An expiry may have moved it into another
    one, which the requirement does not read: then the search must be repeated."""

    run: Run
    ledger_files: frozenset[str] = frozenset()

    def check(self, current: TableMetadata | None) -> None:
        metadata = _exists(current)
        if name := next((name for name in self.run.ledger_names if name in metadata.properties), None):
            raise CommitFailedError(f"requirement failed: the table property {name} says that this run was committed")
        for snapshot in metadata.snapshots:
            if self.run.made(snapshot):
                raise CommitFailedError(f"requirement failed: snapshot {snapshot.snapshot_id} was committed by the same run")
        for name, location in metadata.properties.items():
            if name.startswith(LEDGER_FILE_PREFIX) and location not in self.ledger_files:
                raise CommitFailedError(f"requirement failed: ledger file {location}, which remembers run keys, is new")
