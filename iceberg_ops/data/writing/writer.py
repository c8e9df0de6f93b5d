"""Writes data files: rolling at a target size, one writer per partition.

Rows are buffered to row groups of about a million rows (or ``write.parquet.row-group-size-bytes`` of Arrow data) and cut so that
files have about the target size. ``file_names`` names the files. They belong to the table's next commit only after
``close`` returned them; ``abort`` deletes the files of this writer.

The rule: all rows of a file have the partition tuple recorded for it (PART-01), every column of the table is in every file
(DEFAULT-03), no required column contains a null, and the rows of a file that records a sort order are in it (SORT-05): a file
that violates this is never completed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_ops.config.properties import TARGET_FILE_SIZE_BYTES
from iceberg_ops.data.arrow.arrow_schema import arrow_type
from iceberg_ops.data.arrow.arrow_values import values_of
from iceberg_ops.data.arrow.nested_nulls import NestedNulls
from iceberg_ops.data.columns.partition_values import transformed
from iceberg_ops.data.columns.sort_keys import KeyMaker, order_keys
from iceberg_ops.data.formats.parquet_options import EncodingHints
from iceberg_ops.data.writing.avro_writer import AvroFileWriter
from iceberg_ops.data.writing.conform import check_required, conform
from iceberg_ops.data.writing.file_names import FileNames
from iceberg_ops.data.writing.open_files import most_open_files
from iceberg_ops.data.writing.parquet_writer import ParquetFileWriter
from iceberg_ops.data.writing.row_order import RowOrder
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.deletion.own_files import CreatedFiles
from iceberg_ops.errors import DataError, SchemaError, VerificationError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.partition_keys import value_identity
from iceberg_ops.spec.partitioning import PartitionField, partition_field_type

MOST_BUFFERED_BYTES = 512 << 20
"""A fan-out writer writes its largest buffers when all buffers together exceed this. An open file costs about 30 KiB in
addition."""
_LEFT_BUFFERED = 0.5
"""This part of the limit may stay buffered then: less would make row groups smaller, more would write them at every batch."""


class FileWriter(Protocol):
    """One file being written."""

    @property
    def location(self) -> str: ...

    @property
    def is_full(self) -> bool: ...

    @property
    def is_open(self) -> bool:
        """Whether it uses a file descriptor."""
        ...

    @property
    def buffered_bytes(self) -> int: ...

    @property
    def ratio(self) -> float | None: ...

    def rows_that_fit(self, batch: pa.RecordBatch) -> int: ...

    def write(self, batch: pa.RecordBatch) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> DataFile | None: ...

    def abandon(self) -> None: ...


class RollingWriter:
    """Files of one partition tuple; a new one starts when the last one has reached ``target_size`` bytes. ``created``: the record
    of a caller that also has other files."""

    def __init__(
        self,
        context: WriteContext,
        io: FileIO,
        *,
        partition: Sequence[Any] = (),
        names: FileNames | None = None,
        target_size: int | None = None,
        hints: EncodingHints | None = None,
        created: CreatedFiles | None = None,
        order: KeyMaker | None = None,
    ) -> None:
        """``order``: the keys of a required row order, besides that of ``context.sort_order``."""
        self._context, self._io, self._hints = context, io, hints
        self._created = created or CreatedFiles(io)
        self._order = order or claimed_order(context)
        self._check: RowOrder | None = None
        self.rows_in_order = 0
        """Rows whose order was verified; 0 without a required order."""
        self._nested = NestedNulls(stored=True)
        self._partition = tuple(partition)
        self._names = names or FileNames("00000", "data")
        self._target = target_size or TARGET_FILE_SIZE_BYTES.of(context.properties)
        self._ratio: float | None = None
        self._current: FileWriter | None = None
        self._done: list[DataFile] = []

    @property
    def nested_nulls(self) -> Mapping[int, int]:
        """Nulls of structs, lists, maps and variants in the files written, by field id."""
        return self._nested.counts

    @property
    def buffered_bytes(self) -> int:
        return 0 if self._current is None else self._current.buffered_bytes

    @property
    def is_open(self) -> bool:
        """Whether it uses a file descriptor."""
        return self._current is not None and self._current.is_open

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; columns in any order, missing ones are filled (see ``conform``). Raises DataError."""
        self.write_canonical(conform(batch, self._context.file_schema, keep_dictionaries=True))

    def write_canonical(self, batch: pa.RecordBatch) -> None:
        """Add rows that already have the canonical form of ``context.file_schema`` (text may be dictionaries). Raises DataError for
        a null in a required column: Parquet would store an empty value in its place."""
        check_required(batch, self._context.file_schema)
        self._nested.add(self._context.file_schema.fields, batch.columns)
        self.write_checked(batch)

    def write_checked(self, batch: pa.RecordBatch) -> None:
        """Add canonical rows whose nulls the caller has checked."""
        start = 0
        while start < batch.num_rows:
            if self._current is None:
                self._current = self._open()
            rest = batch.slice(start)
            rows = self._current.rows_that_fit(rest)
            self._write(self._current, rest.slice(0, rows))
            start += rows
            if self._current.is_full:
                self.end_file()

    def _write(self, file: FileWriter, rows: pa.RecordBatch) -> None:
        if self._check is not None:
            if not self._check.holds(rows):
                raise VerificationError(
                    f"file {file.location}: its rows are not in the sort order that it would record: nothing was committed"
                )
            self.rows_in_order += rows.num_rows
        file.write(rows)

    def flush(self) -> None:
        """Write the buffered rows as a row group."""
        if self._current is not None:
            self._current.flush()

    def close(self) -> list[DataFile]:
        """Complete the last file; returns all files in order."""
        self.end_file()
        return self._done

    def abort(self) -> None:
        """Stop: the unfinished file is never created, complete files are deleted."""
        self.give_up()
        self._created.discard()

    def give_up(self) -> None:
        """Stop tracking the written files. Complete files stay until their owner discards them."""
        current, self._current = self._current, None
        self._done = []
        if current is not None:
            current.abandon()

    def end_file(self) -> None:
        """Complete the current file; later rows start another."""
        if self._current is not None:
            file = self._current.close()
            self._ratio = self._current.ratio
            self._current = None
            if file is not None:
                self._done.append(file)

    def _open(self) -> FileWriter:
        form = self._context.file_format
        self._check = None if self._order is None else RowOrder(self._order)
        location = self._context.new_file_location(self._partition, self._names.next(f".{form.value}"))
        if form is FileFormat.AVRO:
            return AvroFileWriter(self._context, self._io, location, self._partition, self._target, self._created)
        return ParquetFileWriter(
            self._context, self._io, location, self._partition, self._target, self._hints, self._ratio, self._created
        )


class PartitionedWriter:
    """Rows of any partitions: each goes to the writer of its partition tuple.

    ``fanout`` keeps a writer per partition, of which ``most_open`` have an open file at a time (None: a safe number for this
    process): the least recently used one ends its file, and starts a smaller one when rows come again. Without ``fanout``
    rows must come clustered by partition, each partition's files are closed when the next one begins, and a partition that comes
    again is a DataError.
    """

    def __init__(
        self,
        context: WriteContext,
        io: FileIO,
        *,
        operation_id: str,
        task_id: str = "00000",
        fanout: bool = True,
        target_size: int | None = None,
        hints: EncodingHints | None = None,
        order: KeyMaker | None = None,
        most_buffered_bytes: int = MOST_BUFFERED_BYTES,
        most_open: int | None = None,
        created: CreatedFiles | None = None,
    ) -> None:
        """``order`` as for ``RollingWriter``, for each partition's rows."""
        self._context, self._io, self._fanout, self._order = context, io, fanout, order
        self._most_buffered = most_buffered_bytes
        self._most_open = most_open or most_open_files()
        self._created = created or CreatedFiles(io)
        self._target = target_size
        self.hints = hints
        """The encodings for the files of later partitions."""
        self._names = FileNames(task_id, operation_id)
        self._writers: dict[tuple[Any, ...], RollingWriter] = {}
        self._open: dict[int, RollingWriter] = {}
        """Writers with an open file by identity, the least recently used first."""
        self._closed: dict[tuple[Any, ...], list[DataFile]] = {}
        self.rows_in_order = 0
        """As for ``RollingWriter``; known after ``close`` returned."""
        self._nested = NestedNulls(stored=True)

    @property
    def nested_nulls(self) -> Mapping[int, int]:
        """As for ``RollingWriter``."""
        return self._nested.counts

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows. Raises DataError for rows that do not fit the table."""
        self.write_canonical(conform(batch, self._context.file_schema, keep_dictionaries=True))

    def write_canonical(self, batch: pa.RecordBatch) -> None:
        """Add rows that already have the canonical form of ``context.file_schema``. Raises the DataError of ``RollingWriter``."""
        check_required(batch, self._context.file_schema)
        self._nested.add(self._context.file_schema.fields, batch.columns)
        for partition, rows in split_by_partition(batch, self._context):
            writer = self._writer(partition)
            writer.write_checked(rows)
            self._limit_open(writer)
        self._flush_largest()

    def _limit_open(self, used: RollingWriter) -> None:
        """Called after each use of a writer, so that at most one file more than allowed is open for a moment."""
        self._open.pop(id(used), None)
        if used.is_open:
            self._open[id(used)] = used
        while len(self._open) > self._most_open:
            self._open.pop(next(iter(self._open))).end_file()

    def _flush_largest(self) -> None:
        buffered = sum(w.buffered_bytes for w in self._writers.values())
        if buffered <= self._most_buffered:
            return
        for writer in sorted(self._writers.values(), key=lambda w: -w.buffered_bytes):
            if buffered <= self._most_buffered * _LEFT_BUFFERED:
                break
            buffered -= writer.buffered_bytes
            writer.flush()
            self._limit_open(writer)

    def close(self) -> list[DataFile]:
        """Complete all files; returns them."""
        files = [f for done in self._closed.values() for f in done]
        for writer in self._writers.values():
            files.extend(self._complete(writer))
        self._writers, self._open = {}, {}
        return files

    def _complete(self, writer: RollingWriter) -> list[DataFile]:
        files = writer.close()
        self.rows_in_order += writer.rows_in_order
        return files

    def abort(self) -> None:
        """Stop: delete the written files. It can be called after any error, also one after ``close``."""
        for writer in self._writers.values():
            writer.give_up()
        self._writers, self._open, self._closed = {}, {}, {}
        self._created.discard()

    def handed_over(self) -> None:
        """The files of ``close`` are about to be committed: after this ``abort`` does not delete them."""
        self._created.handed_over()

    def _writer(self, partition: tuple[Any, ...]) -> RollingWriter:
        key = tuple(value_identity(v) for v in partition)
        open_writer = self._writers.get(key)
        if open_writer is not None:
            return open_writer
        if key in self._closed:
            raise DataError(f"rows are not clustered by partition: {partition} comes again after another one")
        if not self._fanout:
            for done, writer in self._writers.items():
                self._closed[done] = self._complete(writer)
            self._writers, self._open = {}, {}
        made = RollingWriter(
            self._context,
            self._io,
            partition=partition,
            names=self._names,
            target_size=self._target,
            hints=self.hints,
            created=self._created,
            order=self._order,
        )
        self._writers[key] = made
        return made


def claimed_order(context: WriteContext) -> KeyMaker | None:
    """The keys of the order that files of ``context`` record."""
    return None if context.sort_order is None else order_keys(context.file_schema, context.sort_order)


def split_by_partition(batch: pa.RecordBatch, context: WriteContext) -> list[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """A canonical batch cut by partition tuple, in the order of first occurrence; rows of one partition keep their
    order. No part keeps another's memory in use."""
    spec = context.spec
    if not spec.fields:
        return [((), batch)]
    if not batch.num_rows:
        return []
    columns = partition_columns(batch, context)
    codes = _codes(columns, batch.num_rows)
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    firsts = pa.array(order[starts])
    types = [f.type for f in context.partition_type.fields]
    tuples = list(zip(*(values_of(t, c.take(firsts)) for t, c in zip(types, columns, strict=True)), strict=True))
    if len(starts) == 1:
        return [(tuples[0], batch)]
    ends = [*starts[1:], batch.num_rows]
    parts = [(t, order[s:e]) for t, s, e in zip(tuples, starts, ends, strict=True)]
    return [(t, _part(batch, rows)) for t, rows in sorted(parts, key=lambda part: int(part[1][0]))]


def _part(batch: pa.RecordBatch, rows: np.ndarray[Any, np.dtype[np.int64]]) -> pa.RecordBatch:
    """Those rows in separate memory; a dictionary with more values than rows is replaced."""
    part = batch.take(pa.array(rows))
    for i, column in enumerate(part.columns):
        if isinstance(column, pa.DictionaryArray) and len(column.dictionary) > len(rows):
            plain = column.dictionary_decode()
            part = part.set_column(i, part.schema.field(i).with_type(plain.type), plain)
    return part


def partition_columns(batch: pa.RecordBatch, context: WriteContext) -> list[pa.Array]:
    """The values of each partition field for the rows of a canonical batch.

    A void field needs no source: v1 keeps it after its column was dropped. Raises SchemaError for another field whose source is
    missing, DataError for a value that does not fit the field's type.
    """
    return [_partition_column(f, batch, context) for f in context.spec.fields]


def _partition_column(f: PartitionField, batch: pa.RecordBatch, context: WriteContext) -> pa.Array:
    if f.transform.is_void:
        return pa.nulls(batch.num_rows, arrow_type(partition_field_type(f, context.known_fields)))
    if f.source_id not in context.schema.fields_by_id:
        raise SchemaError(
            f"partition spec {context.spec.spec_id}: field {f.name!r} comes from a column that was dropped (id {f.source_id}), "
            "so no file can be written in this spec"
        )
    try:
        return transformed(f.transform, context.schema.field(f.source_id).type, source_column(batch, context, f.source_id))
    except DataError as e:
        raise DataError(f"column {context.schema.name_of(f.source_id)!r}, partition field {f.name!r}: {e}") from None


def source_column(batch: pa.RecordBatch, context: WriteContext, field_id: int) -> pa.Array:
    """A column of a canonical batch by field id, through structs (a null struct on the path is a null value)."""
    chain = [field_id]
    while (parent := context.schema.parents[chain[0]]) is not None:
        chain.insert(0, parent)
    place = next(i for i, f in enumerate(context.file_schema.fields) if f.field_id == chain[0])
    array, type_ = batch.column(place), context.schema.field(chain[0]).type
    for step in chain[1:]:
        index = next(i for i, f in enumerate(type_.fields) if f.field_id == step)  # type: ignore[attr-defined]
        array, type_ = array.flatten()[index], context.schema.field(step).type
    return array


def _codes(columns: Sequence[pa.Array], rows: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    codes = np.zeros(rows, np.int64)
    for column in columns:
        if column.null_count == rows:  # for example a void field, whose type may have no dictionary
            continue
        values = column.dictionary if isinstance(column, pa.DictionaryArray) else column
        encoded = _encodable(values).dictionary_encode("encode")
        kinds = np.asarray(encoded.indices, np.int64)
        if isinstance(column, pa.DictionaryArray):
            # A row without a value has a separate kind: the number after the dictionary's last.
            places = np.asarray(column.indices.fill_null(len(values)), np.int64)
            kinds = np.append(kinds, len(encoded.dictionary))[places]
        _, codes = np.unique(codes * (len(encoded.dictionary) + 1) + kinds, return_inverse=True)
    return codes


def _encodable(column: pa.Array) -> pa.Array:
    return pc.cast(column, pa.int8()) if pa.types.is_boolean(column.type) else column
