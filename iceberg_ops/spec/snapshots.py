"""Snapshots, refs and the logs (spec: "Snapshots", "Snapshot References")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

MAIN_BRANCH = "main"


class SnapshotOperation(str, Enum):
    """The kind of change in a snapshot; ``replace`` changes files and never rows."""

    APPEND = "append"
    REPLACE = "replace"
    OVERWRITE = "overwrite"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One snapshot. Either ``manifest_list`` or (some v1 tables) ``manifests`` is set. ``summary`` includes ``operation``."""

    snapshot_id: int
    parent_snapshot_id: int | None = None
    sequence_number: int = 0
    timestamp_ms: int
    manifest_list: str | None = None
    manifests: tuple[str, ...] | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None
    key_id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def operation(self) -> str | None:
        return self.summary.get("operation")

    def __hash__(self) -> int:
        return hash(self.snapshot_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRef:
    """A branch or tag. Retention fields are None if the table's properties decide."""

    snapshot_id: int
    type: str = "branch"
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_branch(self) -> bool:
        return self.type == "branch"


@dataclass(frozen=True, slots=True)
class SnapshotLogEntry:
    """From ``timestamp_ms`` (milliseconds since the epoch) on, ``snapshot_id`` was main's head. ``extra`` holds unknown JSON
    keys."""

    timestamp_ms: int
    snapshot_id: int
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class MetadataLogEntry:
    """A previous metadata file: its location, and when it was last updated, in milliseconds since the epoch. ``extra`` holds
    unknown JSON keys."""

    timestamp_ms: int
    metadata_file: str
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
