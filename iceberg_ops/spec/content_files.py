"""Data and delete files in manifests (spec: "Manifests", struct ``data_file``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any


class FileContent(IntEnum):
    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class FileFormat(str, Enum):
    PARQUET = "parquet"
    AVRO = "avro"
    ORC = "orc"
    PUFFIN = "puffin"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One data file, delete file or deletion vector (a DV is a position-delete entry whose format is puffin).

    ``partition`` has one canonical value per field of spec ``spec_id``. Maps go from field id to a count, or to a bound in the
    spec's binary single-value form; None if the manifest does not have the map. ``first_row_id`` is as recorded: None means
    not assigned (the manifest reader resolves inheritance on ManifestEntry).
    """

    content: FileContent = FileContent.DATA
    file_path: str
    file_format: FileFormat
    spec_id: int = 0
    partition: tuple[Any, ...] = ()
    record_count: int
    file_size_in_bytes: int
    column_sizes: Mapping[int, int] | None = None
    value_counts: Mapping[int, int] | None = None
    null_value_counts: Mapping[int, int] | None = None
    nan_value_counts: Mapping[int, int] | None = None
    lower_bounds: Mapping[int, bytes] | None = None
    upper_bounds: Mapping[int, bytes] | None = None
    key_metadata: bytes | None = None
    split_offsets: tuple[int, ...] | None = None
    equality_ids: tuple[int, ...] | None = None
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None

    @property
    def is_deletion_vector(self) -> bool:
        return self.content is FileContent.POSITION_DELETES and self.file_format is FileFormat.PUFFIN

    @property
    def stored_bytes(self) -> int:
        """Bytes of this entry alone: a DV is a slice of its Puffin file."""
        if self.is_deletion_vector and self.content_size_in_bytes is not None:
            return self.content_size_in_bytes
        return self.file_size_in_bytes

    def __hash__(self) -> int:
        return hash((self.content, self.file_path, self.content_offset))
