"""Opens a new data file in its partition's folder."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.errors import DataError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.spec.partition_paths import partition_path


def open_new_file(io: FileIO, location: str, context: WriteContext, partition: Sequence[Any]) -> Any:
    """The output of a new file of that partition. Raises DataError for a partition value whose folder name is too long for the
    file system (mostly more than 255 bytes), and the errors of opening."""
    try:
        return io.open_output(location)
    except OSError as e:
        if e.errno != errno.ENAMETOOLONG or not partition:
            raise
        folders = partition_path(context.spec, partition, context.known_fields).split("/")
        place = max(range(len(folders)), key=lambda n: len(folders[n].encode()))
        field, value = context.spec.fields[place], partition[place]
        column = context.known_fields[field.source_id].name if field.source_id in context.known_fields else field.name
        raise DataError(
            f"column {column!r}: the value {str(value)[:60]!r}... makes a folder name of {len(folders[place].encode())} bytes for "
            f"partition field {field.name!r}, which is longer than the file system allows. Partition the table by truncate or "
            "bucket of the column, or set write.object-storage.enabled = true and write.object-storage.partitioned-paths = false"
        ) from None
