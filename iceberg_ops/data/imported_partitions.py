"""What a file that someone else wrote says of its own partition.

Planning goes by the partition's value, reading by the file's column where there is one (spec: "Column Projection"). An engine that
puts the value of the folder over the column never saw that the two differ; here rows would be found by one and shown with the
other, so such a file is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iceberg_ops.data.arrow_schema import arrow_type
from iceberg_ops.data.arrow_values import array_of
from iceberg_ops.errors import DataError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.schema import Schema


def check_partition_columns(
    io: FileIO, location: str, names: Mapping[int, str], schema: Schema, spec: PartitionSpec, partition: Sequence[Any]
) -> None:
    """Raise DataError where a column of the file (``names`` by field id) holds another value than the partition's.

    Reads the columns concerned, which files in folders rarely have.
    """
    for field, value in zip(spec.fields, partition, strict=True):
        name = names.get(field.source_id)
        if name is None or not field.transform.is_identity:
            continue
        type_ = schema.fields_by_id[field.source_id].type
        held = _values(io, location, name).cast(arrow_type(type_))
        expected = array_of(type_, [value])
        for found in held:
            if found != expected[0] and not (value is None and not found.is_valid):
                raise DataError(f"file {location}: column {name!r} holds {found}, its folder says {expected[0]}")


def _values(io: FileIO, location: str, name: str) -> pa.Array:
    path = io.local_path(location)
    try:
        with pq.ParquetFile(path if path is not None else io.open_input(location)) as file:
            column = file.read([name]).column(name).combine_chunks()
    except (pa.ArrowException, OSError) as e:
        raise DataError(f"file {location}: column {name!r} can not be read: {e}") from None
    return pc.unique(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column)
