"""Reads CSV and JSON files of a source in this process, with the table's types, by the rules of ``data.sources.text``.

A first pass finds the columns (for CSV in the first record of each file), the second one reads them, some megabytes at a time. A
bad record fails the job; the error names file, line, column and value. Only Spark can put bad records aside (``bad-records``)."""

from __future__ import annotations

import bz2
import gzip
import itertools
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import RawIOBase
from typing import BinaryIO, cast

import pyarrow as pa

from iceberg_ops.actions.local.local_source import file_errors
from iceberg_ops.config.job_spec import Source
from iceberg_ops.config.lanes import MOST_BYTES_IN_MEMORY
from iceberg_ops.data.arrow.arrow_values import bare_batch
from iceberg_ops.data.sources.text import csv_rows, json_rows
from iceberg_ops.data.sources.text.csv_columns import csv_shape, names_by_file, united_guesses, united_names
from iceberg_ops.data.sources.text.decoding import without_mark
from iceberg_ops.data.sources.text.json_shape import ObservedValues, check_map_keys, has_nested_keys, source_fields
from iceberg_ops.data.sources.text.parsed import BadRecord, Parsed
from iceberg_ops.data.sources.text.text_chunks import (
    Chunk,
    cut_by_bytes,
    cut_text,
    first_fields,
    is_left_out,
    of_chunks,
    refuse,
    unpaired_named,
    without_headers,
)
from iceberg_ops.data.sources.text.text_options import CsvOptions, JsonOptions, TextOptions, listing_options, text_options
from iceberg_ops.errors import DataError, NeedsSparkError, UnsupportedError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.spec.fresh_ids import with_fresh_ids
from iceberg_ops.spec.name_matching import case_twins
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    STRING,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    child_fields,
)

_BLOCK = 4 << 20
"""Bytes that are parsed at a time: about ten thousand records."""
_OPENERS: dict[str, Callable[[BinaryIO], BinaryIO]] = {
    ".gz": lambda stream: cast(BinaryIO, gzip.GzipFile(fileobj=stream)),
    ".bz2": lambda stream: cast(BinaryIO, _Bzip2(stream)),
}
"""By the suffix of a file's name, as in Hadoop."""
_OF_SPARK = (".deflate", ".zst", ".lz4", ".snappy")
_WITHOUT_TEXT = frozenset({"variant", "geometry", "geography", "unknown"})

Check = Callable[[pa.RecordBatch], object]
"""Raises DataError for rows that the table cannot store."""


@dataclass(frozen=True, slots=True)
class TextRows:
    """Rows under the source's column names. ``batches(check)``: in the canonical form of ``fields``; raises DataError for a bad
    record, and for the first row that ``check`` refuses."""

    fields: tuple[NestedField, ...]
    batches: Callable[[Check | None], Generator[pa.RecordBatch]]


def text_rows(source: Source, locations: Sequence[str], io: FileIO, schema: Schema) -> TextRows:
    """The records of CSV or JSON files in the columns they have, with the table's types; columns that the table does not have are
    typed by the rules of ``data.sources.text``.

    Raises OptionError for an unknown reader option, DataError for text or a header that cannot be read, SchemaError for
    CSV by position with another number of columns than the table's, NeedsSparkError for files that only Spark reads, and
    UnsupportedError for a column whose type has no text values."""
    options = text_options(source.format, source.options)
    if of_listing := sorted(listing_options(source.options)):
        raise NeedsSparkError.to(f"reader option {of_listing[0]}")
    for a, b in sorted(case_twins(StructType(schema.fields))):
        raise UnsupportedError(
            f"not supported: a {source.format} source for a table whose columns {a!r} and {b!r} differ only in case"
        )
    files = _Files(locations, io, options)
    reads = _csv if isinstance(options, CsvOptions) else _json
    return reads(files, source, options, schema)  # type: ignore[arg-type]


class _Files:
    """The text of the files, in their order, cut into chunks."""

    def __init__(self, locations: Sequence[str], io: FileIO, options: TextOptions) -> None:
        self.locations, self._io, self._options = locations, io, options

    def chunks(self) -> Iterator[Chunk]:
        for location in self.locations:
            yield from self.of(location)

    def of(self, location: str) -> Iterator[Chunk]:
        with ExitStack() as opened:
            stream = self._opened(location, opened)
            if not cut_by_bytes(self._options):
                if raw := _read(stream, MOST_BYTES_IN_MEMORY + 1, location):
                    _check_size(len(raw), location, "a file that is read as a whole")
                    yield Chunk(location, cut_text(location, raw, self._options), begins=True)
                return
            line, rest = 1, b""
            while block := _read(stream, _BLOCK, location):
                text = rest + block
                end = max(text.rfind(b"\n"), text.rfind(b"\r", 0, len(text) - 1)) + 1
                if end:
                    chunk = _chunk(location, text[:end], line)
                    yield chunk
                    line += len(chunk.texts)
                rest = text[end:]
                _check_size(len(rest), location, "a record")
            if rest:
                yield _chunk(location, rest, line)

    def _opened(self, location: str, until: ExitStack) -> BinaryIO:
        ends = location.lower()
        if (by := next((end for end in _OF_SPARK if ends.endswith(end)), None)) is not None:
            raise NeedsSparkError.to(f"a source file that is compressed as {by} ({location})")
        with file_errors(location):
            stream = until.enter_context(self._io.open_input(location))
        opener = next((opener for end, opener in _OPENERS.items() if ends.endswith(end)), None)
        return stream if opener is None else until.enter_context(opener(stream))


class _Bzip2(RawIOBase):
    """The text of all streams of a file, one after the other. Python's own reader takes a stream with a damaged beginning for
    garbage, and silently skips it with all of its rows."""

    def __init__(self, stored: BinaryIO) -> None:
        self._stored, self._stream = stored, bz2.BZ2Decompressor()
        self._raw, self._is_begun = b"", False

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes; empty only at the end. Raises OSError for data that is not a stream, EOFError for one that is cut
        off."""
        while True:
            if not self._raw and (self._stream.eof or self._stream.needs_input):
                self._raw = self._stored.read(_BLOCK)
                if not self._raw:
                    if self._is_begun and not self._stream.eof:
                        raise EOFError("it ends inside a bzip2 stream")
                    return b""
            if self._stream.eof:
                self._stream = bz2.BZ2Decompressor()
            self._is_begun = True
            text = self._stream.decompress(self._raw, size)
            self._raw = self._stream.unused_data
            if text:
                return text


def _read(stream: BinaryIO, size: int, location: str) -> bytes:
    """Up to ``size`` bytes; fewer only at the end."""
    parts, missing = [], size
    try:
        with file_errors(location):
            while missing and (part := stream.read(missing)):
                parts.append(part)
                missing -= len(part)
    except (EOFError, zlib.error) as e:
        raise DataError(f"source {location} has content that does not match its file name: {e}") from None
    return b"".join(parts)


def _check_size(size: int, location: str, what: str) -> None:
    if size > MOST_BYTES_IN_MEMORY:
        raise NeedsSparkError.to(f"{what} of more than {MOST_BYTES_IN_MEMORY >> 20} MiB ({location})")


def _chunk(location: str, text: bytes, line: int) -> Chunk:
    texts = text.splitlines()
    if line == 1:
        texts[0] = without_mark(texts[0])
    return Chunk(location, texts, begins=line == 1, line=line)


def _csv(files: _Files, source: Source, options: CsvOptions, schema: Schema) -> TextRows:
    heads = {}
    for location in files.locations:
        candidates = (first_fields(chunk, options) for chunk in files.of(location))
        if (head := next((head for head in candidates if head is not None), None)) is not None:
            heads[location] = head[1]
    names_of_files = names_by_file(heads, options, schema, ", ".join(source.paths))
    names = united_names(names_of_files.values())
    known = {f.name.lower(): f for f in schema.fields}
    types = {name: STRING if f.type.is_nested else f.type for name, f in known.items()}
    if options.infers and not known.keys() >= (unknown := {name.lower() for name in names}):
        guessed = _guessed(files, options, names_of_files)
        types |= {name: guessed[name] for name in unknown - known.keys()}
    column_types: list[IcebergType] = [types.get(name.lower(), STRING) for name in names]
    for name, type_ in zip(names, column_types, strict=True):
        _check_has_text(name, type_, source.format)
    shapes = {location: csv_shape(names, column_types, have) for location, have in names_of_files.items()}
    plain = csv_shape(names, column_types, names)

    def parsed() -> Iterator[tuple[Chunk, Parsed]]:
        for chunk, skip in without_headers(files.chunks(), options):
            with unpaired_named(chunk.file, options):
                yield chunk, csv_rows.parse(chunk.texts, shapes.get(chunk.file, plain), of_chunks(options), skip=skip)

    return _rows([*zip(names, column_types, strict=True)], parsed, options)


def _guessed(files: _Files, options: CsvOptions, names_of_files: dict[str, list[str]]) -> dict[str, IcebergType]:
    guesses = []
    for chunk, skip in without_headers(files.chunks(), options):
        names = names_of_files[chunk.file]
        with unpaired_named(chunk.file, options):
            guesses.append((names, csv_rows.guessed_types(chunk.texts, len(names), of_chunks(options), skip=skip)))
    return united_guesses(guesses)


def _json(files: _Files, source: Source, options: JsonOptions, schema: Schema) -> TextRows:
    table, occurring = StructType(tuple(_optional(f) for f in schema.fields)), ObservedValues()
    for chunk in files.chunks():
        occurring.merge(json_rows.occurring(chunk.texts, table, of_chunks(options), _pass))
    fields = source_fields(occurring, table, as_text=options.as_text)
    if occurring.fields is None:  # no record shows which columns there are
        fields = tuple(f for f in table.fields if not has_nested_keys(f.type) and not _without_text(f.type))
    for f in fields:
        check_map_keys(f)
        _check_has_text(f.name, f.type, source.format)

    def parsed() -> Iterator[tuple[Chunk, Parsed]]:
        for chunk in files.chunks():
            yield chunk, json_rows.parse(chunk.texts, StructType(fields), of_chunks(options))

    return _rows([(f.name, f.type) for f in fields], parsed, options)


def _rows(
    columns: list[tuple[str, IcebergType]], parsed: Callable[[], Iterator[tuple[Chunk, Parsed]]], options: TextOptions
) -> TextRows:
    def batches(check: Check | None) -> Generator[pa.RecordBatch]:
        for chunk, parsed_columns in parsed():
            batch = _batch([name for name, _ in columns], parsed_columns, chunk, options, check)
            if batch.num_rows:
                yield batch

    fields = StructType(tuple(NestedField(0, name, type_) for name, type_ in columns))
    return TextRows(cast(StructType, with_fresh_ids(fields, itertools.count(1).__next__)).fields, batches)


def _batch(names: list[str], parsed: Parsed, chunk: Chunk, options: TextOptions, check: Check | None) -> pa.RecordBatch:
    """Raises DataError for the first bad record."""
    rows = list(range(len(parsed.lines)))
    if parsed.bad and not is_left_out(chunk, parsed.bad, options):
        row = min(parsed.bad)
        refuse(chunk.file, parsed.bad[row], _line(chunk, parsed, row))
    batch = pa.RecordBatch.from_arrays(list(parsed.columns), names=names) if names else bare_batch(len(rows))
    if parsed.bad:
        rows = [row for row in rows if row not in parsed.bad]
        batch = batch.take(pa.array(rows, pa.int64())) if names else bare_batch(len(rows))
    if check is not None and (refused := _first_refused(batch, check)) is not None:
        at, why = refused
        refuse(chunk.file, BadRecord(why, parsed.text_of(rows[at])), _line(chunk, parsed, rows[at]))
    return batch


def _line(chunk: Chunk, parsed: Parsed, row: int) -> int | None:
    return None if chunk.line is None else chunk.line + parsed.lines[row]


def _first_refused(batch: pa.RecordBatch, check: Check) -> tuple[int, str] | None:
    """The first row that is refused, and why; None: none is."""
    if (why := _refusal(batch, check)) is None:
        return None
    good, bad = 0, batch.num_rows  # the first ``good`` rows are accepted, and one of the first ``bad`` is not
    while bad - good > 1:
        middle = (good + bad) // 2
        if _refusal(batch.slice(good, middle - good), check) is None:
            good = middle
        else:
            bad = middle
    return good, _refusal(batch.slice(good, 1), check) or why


def _refusal(batch: pa.RecordBatch, check: Check) -> str | None:
    try:
        check(batch)
    except DataError as e:
        return str(e)
    return None


def _check_has_text(name: str, type_: IcebergType, form: str) -> None:
    if (part := _without_text(type_)) is not None:
        raise UnsupportedError(
            f"not supported: column {name!r} of type {part} in a source of format {form}, which has no values of this type: use "
            "Parquet files or another table as the source"
        )


def _without_text(type_: IcebergType) -> IcebergType | None:
    if not type_.is_nested:
        return type_ if str(type_).partition("(")[0] in _WITHOUT_TEXT else None
    return next((part for f in child_fields(type_) if (part := _without_text(f.type)) is not None), None)


def _optional(f: NestedField) -> NestedField:
    """Optional, because the user of the rows reports missing values."""
    return NestedField(f.field_id, f.name, _optional_parts(f.type), write_default=f.write_default)


def _optional_parts(type_: IcebergType) -> IcebergType:
    if isinstance(type_, StructType):
        return StructType(tuple(_optional(f) for f in type_.fields))
    if isinstance(type_, ListType):
        return ListType(_optional(type_.element))
    if isinstance(type_, MapType):
        return MapType(type_.key, _optional(type_.value))
    return type_


def _pass(_: BadRecord) -> None:
    """The second pass handles bad records."""
