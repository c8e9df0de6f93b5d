"""Writes deletes: position delete files (v2), deletion vectors (v3), equality delete files (spec: "Delete Formats").

Deletes are written in the spec and partition of the data files they are for, whatever the table's current spec is. Properties
``write.delete.parquet.*`` override ``write.parquet.*``. A new deletion vector must also hold the positions that older deletes of
its file removed (DV-03); the caller ensures this by passing all positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from iceberg_ops.config.properties import (
    DELETE_FORMAT,
    DELETE_GRANULARITY,
    DELETE_TARGET_FILE_SIZE_BYTES,
    METRICS_COLUMN_PREFIX,
    METRICS_DEFAULT,
)
from iceberg_ops.data.arrow.arrow_schema import arrow_schema
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.deletes.position_deletes import DELETE_SCHEMA
from iceberg_ops.data.formats.parquet_options import EncodingHints
from iceberg_ops.data.writing.avro_writer import AvroFileWriter
from iceberg_ops.data.writing.conform import conform
from iceberg_ops.data.writing.file_names import FileNames
from iceberg_ops.data.writing.parquet_writer import ParquetFileWriter
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import FileWriter
from iceberg_ops.deletion.own_files import CreatedFiles
from iceberg_ops.errors import DataError, SchemaError, UnsupportedError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.serde.puffins.deletion_vector import MAX_POSITION, serialize
from iceberg_ops.serde.puffins.puffin import DELETION_VECTOR, BlobToWrite, write_puffin
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.metadata_columns import DELETE_FILE_PATH, DELETE_FILE_POS, POS_ID
from iceberg_ops.spec.partition_keys import value_identity
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import UNSORTED
from iceberg_ops.spec.types import NestedField, StructType, can_be_key

PositionsByFile = Mapping[DataFile, Iterable[int]]
_DELETE_PREFIX, _PREFIX = "write.delete.parquet.", "write.parquet."
_POSITION_ENCODINGS = EncodingHints(frozenset({DELETE_FILE_PATH.name}), {DELETE_FILE_POS.name: "DELTA_BINARY_PACKED"})
"""Paths are always in a dictionary, however few there are: some readers (PyIceberg) ask Arrow for a dictionary, which it refuses
for text in other encodings."""
_WRITTEN_AT_ONCE = 8
"""Useful for remote storage; on a local disk writing is mostly Python code, which threads do not make faster."""


def write_position_deletes(
    io: FileIO,
    context: WriteContext,
    positions: PositionsByFile,
    granularity: str | None = None,
    *,
    operation_id: str,
    task_id: str = "00000",
) -> list[DataFile]:
    """Position delete files for the given rows, sorted by path and position, each position once.

    ``granularity`` file: a delete file per data file, which names it in ``referenced_data_file``; partition: one per partition
    tuple (more if it exceeds the target size); None: the value of ``write.delete.granularity``. Raises UnsupportedError for a v3
    table.
    """
    if context.format_version >= 3:
        raise UnsupportedError("not supported: position delete files in a v3 table, because v3 takes deletion vectors only")
    granularity = granularity or DELETE_GRANULARITY.of(context.properties)
    groups: dict[Any, list[DataFile]] = {}
    for file in sorted(positions, key=lambda f: f.file_path):
        key = file.file_path if granularity == "file" else (file.spec_id, tuple(value_identity(v) for v in file.partition))
        groups.setdefault(key, []).append(file)
    maker = _Maker(context, io, FileNames(task_id, operation_id), CreatedFiles(io))

    def write(files: list[DataFile]) -> list[DataFile]:
        return _position_files(maker, {f: ascending(positions[f]) for f in files})

    return _all_or_none(maker, write, list(groups.values()))


@dataclass(frozen=True, slots=True)
class _Maker:
    """Creates the delete files of one call."""

    context: WriteContext
    io: FileIO
    names: FileNames
    created: CreatedFiles

    def begin(
        self, write_context: WriteContext, schema: Schema, partition: Sequence[Any], hints: EncodingHints | None = None
    ) -> FileWriter:
        """A file of ``schema`` in a partition of the spec of ``own``."""
        target = DELETE_TARGET_FILE_SIZE_BYTES.of(self.context.properties)
        form, context = delete_format(self.context), _delete_context(write_context, schema)
        location = write_context.new_file_location(partition, self.names.next(f"-deletes.{form.value}"))
        if form is FileFormat.AVRO:
            return AvroFileWriter(context, self.io, location, partition, target, self.created)
        return ParquetFileWriter(context, self.io, location, partition, target, hints, created=self.created)


def _all_or_none(
    maker: _Maker, write: Callable[[list[DataFile]], list[DataFile]], groups: Sequence[list[DataFile]]
) -> list[DataFile]:
    """The results of ``write`` for every group, some in parallel; if one fails, the created files are deleted."""
    is_local = all(maker.io.local_path(files[0].file_path) is not None for files in groups[:1])
    with ThreadPoolExecutor(1 if is_local else _WRITTEN_AT_ONCE, thread_name_prefix="deletes") as threads:
        futures = [threads.submit(write, files) for files in groups]
        try:
            return [file for future in futures for file in future.result()]
        except BaseException:
            threads.shutdown(cancel_futures=True)
            maker.created.discard()
            raise


def ascending(positions: Iterable[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Distinct positions in order, from any iterable, array or bitmap. Raises DataError for one below 0 or above 2**63 - 1."""
    if isinstance(positions, BitMap64):
        positions = np.asarray(positions.to_array())
    given = positions if isinstance(positions, np.ndarray) else np.asarray(list(positions))
    wrong = given[(given < 0) | (given > MAX_POSITION)] if len(given) else given
    if len(wrong):
        raise DataError(f"row position {wrong[0]} is outside 0 to 2**63 - 1: a file's rows are counted from 0")
    return np.unique(given.astype(np.int64))


def _position_files(maker: _Maker, positions: Mapping[DataFile, np.ndarray[Any, np.dtype[np.int64]]]) -> list[DataFile]:
    """The delete files of one partition tuple: rolled at the target size, between data files if that is close enough."""
    done: list[DataFile] = []
    writer: FileWriter | None = None
    paths: list[str] = []

    def finish() -> None:
        file = writer.close() if writer is not None else None
        if file is not None:
            only = paths[0] if len(paths) == 1 else None
            done.append(replace(file, content=FileContent.POSITION_DELETES, sort_order_id=None, referenced_data_file=only))

    try:
        for file, deleted in positions.items():
            if not len(deleted):
                continue
            if writer is None or writer.is_full:
                finish()
                context = maker.context.with_spec(file.spec_id)
                writer, paths = maker.begin(context, DELETE_SCHEMA, file.partition, _POSITION_ENCODINGS), []
            paths.append(file.file_path)
            writer.write(_position_rows(file.file_path, deleted))
        finish()
    except BaseException:
        if writer is not None:
            writer.abandon()
        raise
    return done


def _position_rows(path: str, positions: np.ndarray[Any, np.dtype[np.int64]]) -> pa.RecordBatch:
    codes = pa.array(np.zeros(len(positions), np.int32))
    paths = pa.DictionaryArray.from_arrays(codes, pa.array([path]))
    schema = arrow_schema(DELETE_SCHEMA)
    schema = schema.set(0, schema.field(0).with_type(paths.type))
    return pa.RecordBatch.from_arrays([paths, pa.array(positions)], schema=schema)


def delete_format(context: WriteContext) -> FileFormat:
    """Format of new delete files: ``write.delete.format.default``, else that of data files. Raises UnsupportedError for ORC."""
    stated = DELETE_FORMAT.maybe(context.properties)
    if stated is None:
        return context.file_format
    if stated == "orc":
        raise UnsupportedError("not supported: ORC delete files (write.delete.format.default = orc), because ORC is only read")
    return FileFormat(stated)


def _delete_context(context: WriteContext, schema: Schema) -> WriteContext:
    """The context of a delete file: its own columns, full bounds (equal bounds of file_path mean file scope)."""
    properties = {k: v for k, v in context.properties.items() if not k.startswith(METRICS_COLUMN_PREFIX)}
    properties |= {_PREFIX + k.removeprefix(_DELETE_PREFIX): v for k, v in properties.items() if k.startswith(_DELETE_PREFIX)}
    properties[METRICS_DEFAULT.name] = "full"
    return replace(context, schema=schema, properties=properties, row_lineage=False, sort_order=None, default_sort_order=UNSORTED)


def write_deletion_vectors(
    io: FileIO, context: WriteContext, positions: PositionsByFile, *, operation_id: str, task_id: str = "00000"
) -> list[DataFile]:
    """Deletion vectors for the given data files, all in one Puffin file; one entry each (DV-01, DV-12). Raises UnsupportedError
    before
    v3."""
    if context.format_version < 3:
        raise UnsupportedError(f"not supported: deletion vectors in a v{context.format_version} table, because they came with v3")
    files = sorted(positions, key=lambda f: f.file_path)
    vectors = [(f, BitMap64(ascending(positions[f]).tolist())) for f in files]
    vectors = [(f, v) for f, v in vectors if len(v)]
    if not vectors:
        return []
    blobs = [
        BlobToWrite(
            type=DELETION_VECTOR,
            data=serialize(vector),
            fields=(POS_ID,),
            properties={"referenced-data-file": file.file_path, "cardinality": str(len(vector))},
        )
        for file, vector in vectors
    ]
    data, placed, _ = write_puffin(blobs, {"created-by": "iceberg-ops"})
    location = f"{context.data_location}/{FileNames(task_id, operation_id).next('-deletes.puffin')}"
    io.write(location, data)
    return [
        DataFile(
            content=FileContent.POSITION_DELETES,
            file_path=location,
            file_format=FileFormat.PUFFIN,
            spec_id=file.spec_id,
            partition=file.partition,
            record_count=len(vector),
            file_size_in_bytes=len(data),
            referenced_data_file=file.file_path,
            content_offset=blob.offset,
            content_size_in_bytes=blob.length,
        )
        for (file, vector), blob in zip(vectors, placed, strict=True)
    ]


def write_equality_deletes(
    io: FileIO,
    context: WriteContext,
    equality_ids: Sequence[int],
    rows: Iterable[pa.RecordBatch],
    *,
    partition: Sequence[Any] = (),
    operation_id: str,
    task_id: str = "00000",
    created: CreatedFiles | None = None,
) -> list[DataFile]:
    """Equality delete files of one partition tuple (of ``context.spec``; empty: global deletes need an unpartitioned spec).

    ``rows`` hold at least the columns of ``equality_ids``; others are left out. The files of a failed call are deleted, or left to
    the caller that passed a record (``created``). Raises SchemaError for a column that cannot be a delete column (DEL-EQ-03),
    DataError for rows that lack one.
    """
    if context.format_version < 2:
        raise UnsupportedError("not supported: equality deletes in a v1 table, because they came with v2")
    schema = _equality_schema(context, equality_ids)
    maker = _Maker(context, io, FileNames(task_id, operation_id), created or CreatedFiles(io))
    done: list[DataFile] = []
    writer: FileWriter | None = None

    def finish() -> None:
        file = writer.close() if writer is not None else None
        if file is not None:
            done.append(replace(file, content=FileContent.EQUALITY_DELETES, sort_order_id=None, equality_ids=tuple(equality_ids)))

    try:
        for batch in rows:
            if writer is None or writer.is_full:
                finish()
                writer = maker.begin(context, schema, partition)
            writer.write(conform(_picked(batch, schema), schema, of_structs_some=True))
        finish()
    except BaseException:
        if writer is not None:
            writer.abandon()
        if created is None:
            maker.created.discard()
        raise
    return done


def _equality_schema(context: WriteContext, equality_ids: Sequence[int]) -> Schema:
    if not equality_ids:
        raise SchemaError("equality_ids is empty: an equality delete needs at least one column")
    reading = ReadContext(table_schema=context.schema, projected=context.schema)
    fields: dict[int, NestedField] = {}
    for field_id in equality_ids:
        leaf = context.schema.field(field_id)
        if not can_be_key(leaf.type):
            raise SchemaError(f"column {context.schema.name_of(field_id)} of type {leaf.type} cannot be a delete column")
        path = reading.path_to(field_id)
        fields[path.field_id] = _merged(fields[path.field_id], path) if path.field_id in fields else path
    return Schema(StructType(tuple(fields.values())), context.schema.schema_id)


def _merged(a: NestedField, b: NestedField) -> NestedField:
    """Two paths through the same structs as one field."""
    assert isinstance(a.type, StructType)
    assert isinstance(b.type, StructType)
    fields = {f.field_id: f for f in a.type.fields}
    for f in b.type.fields:
        fields[f.field_id] = _merged(fields[f.field_id], f) if f.field_id in fields else f
    return replace(a, type=StructType(tuple(fields.values())))


def _picked(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    names = [f.name for f in schema.fields]
    if missing := [n for n in names if n not in batch.schema.names]:
        raise DataError(f"equality deletes need column {missing[0]!r}, which the rows do not have")
    return batch.select(names)
