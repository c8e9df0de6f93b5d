"""Manifest entries and manifest-list rows (spec: "Manifests", "Manifest Lists")."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from iceberg_ops.spec.content_files import DataFile

UNASSIGNED = -1
"""Sequence number of a manifest that is not yet in a manifest list: the list that adds it assigns one."""


class ManifestContent(IntEnum):
    DATA = 0
    DELETES = 1


class EntryStatus(IntEnum):
    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One entry. The manifest reader returns entries with inheritance resolved: ``snapshot_id``, ``sequence_number`` (the data
    sequence number), ``file_sequence_number`` and, for data files of v3 tables, ``data_file.first_row_id``."""

    status: EntryStatus
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    data_file: DataFile

    @property
    def is_live(self) -> bool:
        return self.status is not EntryStatus.DELETED


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """Summary of one partition field over a manifest's files. Bounds are binary single values; None if absent."""

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """One row of a manifest list. Counts are None if an old list does not record them."""

    manifest_path: str
    manifest_length: int
    partition_spec_id: int = 0
    content: ManifestContent = ManifestContent.DATA
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[FieldSummary, ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None

    @property
    def has_live_files(self) -> bool:
        """False only if the counts show that there are no live files."""
        if self.added_files_count is None or self.existing_files_count is None:
            return True
        return self.added_files_count + self.existing_files_count > 0
