"""Deletion vectors as row positions, and Puffin files of them (v3; spec: "Deletion Vectors").

The blob's bytes are in ``iceberg_ops.serde.puffins.deletion_vector``, the Puffin container in ``iceberg_ops.serde.puffins.puffin``.
The scan decides which vector applies to which file. A new vector must already contain the positions that older deletes of its file
removed (DV-03); the writer's caller ensures this.
"""

from __future__ import annotations

import numpy as np

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.serde.puffins.deletion_vector import deserialize
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.table.stored_files import named_failures


def read_deletion_vector(io: FileIO, file: DataFile) -> np.ndarray:
    """The deleted positions, ascending (int64). Raises CorruptTableError if blob, range or cardinality are invalid (DV-10)."""
    if file.content_offset is None or file.content_size_in_bytes is None:
        raise CorruptTableError(f"deletion vector in {file.file_path}: content_offset or content_size_in_bytes is not recorded")
    if file.content_offset < 0:
        raise CorruptTableError(f"deletion vector in {file.file_path}: its content_offset is {file.content_offset}")
    with named_failures(file.file_path), io.open_input(file.file_path) as source:
        source.seek(file.content_offset)
        blob = source.read(file.content_size_in_bytes)
    if len(blob) != file.content_size_in_bytes:
        raise CorruptTableError(f"deletion vector in {file.file_path} at {file.content_offset}: the file ends before its last byte")
    positions = np.asarray(deserialize(blob).to_array(), dtype=np.int64)
    if len(positions) != file.record_count:
        raise CorruptTableError(
            f"deletion vector in {file.file_path} at {file.content_offset}: it has {len(positions)} positions, "
            f"{file.record_count} are recorded"
        )
    return positions
