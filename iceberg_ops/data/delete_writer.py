"""Writing deletes of rows by position: position delete files (v2) or deletion vectors (v3).

Rules: rows of a position delete file are sorted by file path and position; a file's partition and spec are those of the data
files it deletes from (spec: "Position Delete Files"). A deletion vector takes in everything older deletes removed from its data
file, so it replaces the vector and the file-scoped position deletes that were there (DV-03); position delete files that name
several data files stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from iceberg_ops.config.properties import DELETE_FORMAT, DELETE_TARGET_FILE_SIZE_BYTES, METRICS_DEFAULT
from iceberg_ops.data.avro_writer import AvroFileWriter
from iceberg_ops.data.parquet_writer import ParquetFileWriter
from iceberg_ops.data.position_deletes import deleted_positions
from iceberg_ops.data.write_context import WriteContext
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.scan.delete_index import scoped_path
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask
from iceberg_ops.serde.deletion_vector import serialize
from iceberg_ops.serde.puffin import DELETION_VECTOR, BlobToWrite, write_puffin
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.metadata_columns import DELETE_FILE_PATH, DELETE_FILE_POS, POS_ID
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import UNSORTED

Positions = npt.NDArray[np.int64]
DELETE_SCHEMA = Schema.of(DELETE_FILE_PATH, DELETE_FILE_POS)
_DELETE_PREFIX, _DATA_PREFIX = "write.delete.", "write."


@dataclass(frozen=True, slots=True)
class RowDeletes:
    """``added`` delete files or vectors, and the older ones that they ``replaced``."""

    added: tuple[DataFile, ...]
    replaced: tuple[DataFile, ...] = ()


def write_row_deletes(
    io: FileIO,
    context: WriteContext,
    specs: Mapping[int, PartitionSpec],
    deleted: Sequence[tuple[FileScanTask, Positions]],
    *,
    operation_id: str,
    granularity: str = "file",
) -> RowDeletes:
    """Delete ``positions`` (distinct, ascending) of each task's data file.

    ``granularity`` file: a delete file per data file; partition: one per partition (v2 only). ``specs`` are the table's by id.
    Raises UnsupportedError for a v1 table and for ORC delete files.
    """
    if context.format_version < 2:
        raise UnsupportedError("not supported: merge-on-read on a v1 table, because v1 has no row-level deletes: upgrade it to v2")
    if not deleted:
        return RowDeletes(())
    if context.format_version >= 3:
        return write_deletion_vectors(io, context, deleted, operation_id=operation_id)
    return RowDeletes(tuple(_position_delete_files(io, context, specs, deleted, operation_id, granularity)))


def write_deletion_vectors(
    io: FileIO, context: WriteContext, deleted: Sequence[tuple[FileScanTask, Positions]], *, operation_id: str
) -> RowDeletes:
    """One Puffin file with a vector per data file; each holds the new positions and all that older deletes removed."""
    blobs, replaced = [], []
    for task, positions in deleted:
        earlier = [d for d in task.deletes if not d.is_equality]
        merged = BitMap64(np.concatenate([positions, deleted_positions(io, earlier, task.file_path)]))
        replaced.extend(d.data_file for d in earlier if d.is_deletion_vector or _is_scoped(d))
        properties = {"referenced-data-file": task.file_path, "cardinality": str(len(merged))}
        blob = BlobToWrite(type=DELETION_VECTOR, data=serialize(merged), fields=(POS_ID,), properties=properties)
        blobs.append((task, len(merged), blob))
    data, placed, _ = write_puffin([blob for _, _, blob in blobs], {"created-by": "iceberg-ops"})
    location = f"{context.data_location}/{operation_id}-deletes.puffin"
    io.write(location, data)
    added = [
        DataFile(
            content=FileContent.POSITION_DELETES,
            file_path=location,
            file_format=FileFormat.PUFFIN,
            spec_id=task.data_file.spec_id,
            partition=task.data_file.partition,
            record_count=count,
            file_size_in_bytes=len(data),
            referenced_data_file=task.file_path,
            content_offset=place.offset,
            content_size_in_bytes=place.length,
        )
        for (task, count, _), place in zip(blobs, placed, strict=True)
    ]
    return RowDeletes(tuple(added), tuple(replaced))


def _is_scoped(delete: DeleteFile) -> bool:
    return scoped_path(delete.data_file) is not None


def _position_delete_files(
    io: FileIO,
    context: WriteContext,
    specs: Mapping[int, PartitionSpec],
    deleted: Sequence[tuple[FileScanTask, Positions]],
    operation_id: str,
    granularity: str,
) -> Iterator[DataFile]:
    for number, group in enumerate(_groups(deleted, granularity)):
        file = group[0][0].data_file
        placed = replace(context, spec=specs[file.spec_id])
        form = _delete_format(context)
        location = placed.location_of(file.partition, f"00000-{operation_id}-{number + 1:05d}-deletes.{form.value}")
        written = _write_group(io, _delete_context(placed), location, form, group)
        scope = group[0][0].file_path if len(group) == 1 else None
        yield replace(written, content=FileContent.POSITION_DELETES, referenced_data_file=scope, sort_order_id=None)


def _groups(deleted: Sequence[tuple[FileScanTask, Positions]], granularity: str) -> list[list[tuple[FileScanTask, Positions]]]:
    ordered = sorted(deleted, key=lambda d: d[0].file_path)
    if granularity == "file":
        return [[one] for one in ordered]
    groups: dict[tuple[int, str], list[tuple[FileScanTask, Positions]]] = {}
    for task, positions in ordered:
        groups.setdefault((task.spec_id, repr(task.data_file.partition)), []).append((task, positions))
    return list(groups.values())


def _write_group(
    io: FileIO, context: WriteContext, location: str, form: FileFormat, group: Sequence[tuple[FileScanTask, Positions]]
) -> DataFile:
    target = DELETE_TARGET_FILE_SIZE_BYTES.of(context.properties)
    partition = group[0][0].data_file.partition
    kind = AvroFileWriter if form is FileFormat.AVRO else ParquetFileWriter
    writer = kind(context, io, location, partition, target)
    for task, positions in group:
        paths = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(positions), np.int32)), pa.array([task.file_path]))
        columns = [paths if form is FileFormat.PARQUET else paths.dictionary_decode(), pa.array(positions, pa.int64())]
        writer.write(pa.RecordBatch.from_arrays(columns, names=[f.name for f in DELETE_SCHEMA.fields]))
    file = writer.close()
    assert file is not None, "a group has at least one position"
    return file


def _delete_format(context: WriteContext) -> FileFormat:
    found = FileFormat(DELETE_FORMAT.maybe(context.properties) or context.file_format.value)
    if found is FileFormat.ORC:
        raise UnsupportedError("not supported: writing ORC delete files (write.delete.format.default = orc): set it to parquet")
    return found


def _delete_context(context: WriteContext) -> WriteContext:
    """The writer's settings for delete files: ``write.delete.parquet.*`` wins, and paths keep their whole bounds (file scope
    shows)."""
    own = {_DATA_PREFIX + k.removeprefix(_DELETE_PREFIX): v for k, v in context.properties.items() if k.startswith(_DELETE_PREFIX)}
    kept = {k: v for k, v in context.properties.items() if not k.startswith("write.metadata.metrics.")}
    return replace(
        context,
        schema=DELETE_SCHEMA,
        properties={**kept, **own, METRICS_DEFAULT.name: "full"},
        sort_order_id=None,
        default_sort_order=UNSORTED,
        row_lineage=False,
    )
