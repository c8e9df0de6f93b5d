"""Statistics files registered in table metadata (spec: "Table Statistics", "Partition Statistics")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobMetadata:
    """A blob of a statistics file: its Puffin type, the snapshot and sequence number it was computed from, the field ids of its
    columns. ``extra`` holds unknown JSON keys."""

    type: str
    snapshot_id: int
    sequence_number: int
    fields: tuple[int, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsFile:
    """A Puffin file of statistics of one snapshot; sizes in bytes. ``extra`` holds unknown JSON keys."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int
    file_footer_size_in_bytes: int
    key_metadata: str | None = None
    blob_metadata: tuple[BlobMetadata, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatisticsFile:
    """A file of partition statistics of one snapshot; its size in bytes. ``extra`` holds unknown JSON keys."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
