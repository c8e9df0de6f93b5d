"""Tasks that parse the text of a CSV or JSON source: Spark lists the files and cuts them into lines, ``data.text`` does the rest.

Rows of the input are lines, or whole files: the bytes, the file's URL, the offset in the file where the part of Spark's task
begins, and the values of folder names, which are text. The header of a CSV file is only in its first part, so tasks get its
content.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from iceberg_ops.data.arrow.arrow_values import bare_batch
from iceberg_ops.data.sources.text import csv_rows, json_rows
from iceberg_ops.data.sources.text.csv_rows import CsvShape
from iceberg_ops.data.sources.text.decoding import without_mark
from iceberg_ops.data.sources.text.json_shape import ObservedValues
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
from iceberg_ops.data.sources.text.text_options import CsvOptions, JsonOptions, TextOptions
from iceberg_ops.data.sources.text.text_values import TextForms, parse_texts
from iceberg_ops.errors import DataError
from iceberg_ops.spec.types import IcebergType, StructType
from spark_jobs.runners.task_process import begin_task

Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]


@dataclass(frozen=True, slots=True)
class Output:
    """The rows that a task returns: of the parsed columns those at the indexes ``kept``, then the values of folder names with their
    types, and last the struct of file, reason and record, unless ``strict``: then a bad record fails the task. ``columns``: all of
    them in the form for Spark."""

    kept: list[int]
    folders: list[IcebergType]
    columns: pa.Schema
    strict: bool = False


def csv_heads(options: CsvOptions) -> Task:
    """Returns, for each file that begins in the task, its URL and the fields of the first record (None: the part of it that the
    task reads has none), as JSON."""

    def read(batches: Batches) -> Batches:
        begin_task()
        awaited: str | None = None
        for chunk in _chunks(batches, options):
            if chunk.begins:
                if awaited is not None:
                    yield _answer([awaited, None])
                awaited = chunk.file
            if awaited == chunk.file and (head := first_fields(chunk, options)) is not None:
                awaited = None
                yield _answer([chunk.file, head[1]])
        if awaited is not None:
            yield _answer([awaited, None])

    return read


def csv_guesses(options: CsvOptions, widths: Mapping[str, int], headless: frozenset[str]) -> Task:
    """Returns the guessed types of the columns of each part of a file, as JSON. ``headless``: as for ``csv_reader``."""

    def read(batches: Batches) -> Batches:
        begin_task()
        for chunk, skip in without_headers(_chunks(batches, options), options, partial(_is_headless, options, headless)):
            with unpaired_named(chunk.file, options):
                types = csv_rows.guessed_types(chunk.texts, widths[chunk.file], of_chunks(options), skip=skip)
            yield _answer([chunk.file, [None if t is None else str(t) for t in types]])

    return read


def csv_reader(
    options: CsvOptions, shapes: Mapping[str, CsvShape] | CsvShape, output: Output, headless: frozenset[str] = frozenset()
) -> Task:
    """Returns the rows of CSV. ``shapes``: by file, or one for all. ``headless``: files whose first part has no record, so that no
    part of them may have one: its first record would be the header."""

    def read(batches: Batches) -> Batches:
        begin_task()
        for chunk, skip in without_headers(_chunks(batches, options), options, partial(_is_headless, options, headless)):
            shape = shapes if isinstance(shapes, CsvShape) else shapes[chunk.file]
            with unpaired_named(chunk.file, options):
                parsed = csv_rows.parse(chunk.texts, shape, of_chunks(options), skip=skip)
            yield from _rows(parsed, chunk, output, options)

    return read


def json_occurring(options: JsonOptions, table: StructType, *, strict: bool) -> Task:
    """Returns the fields in the records, as JSON; ``table`` as for ``json_rows.occurring``. With ``strict``, a text that is not a
    record fails the task."""

    def read(batches: Batches) -> Batches:
        begin_task()
        occurring = ObservedValues()
        for chunk in _chunks(batches, options):
            on_bad_record = partial(refuse, chunk.file) if strict and not options.drops_malformed else _pass
            occurring.merge(json_rows.occurring(chunk.texts, table, of_chunks(options), on_bad_record))
        yield _answer(occurring.to_json())

    return read


def json_reader(options: JsonOptions, fields: StructType, output: Output) -> Task:
    """Returns the rows of JSON."""

    def read(batches: Batches) -> Batches:
        begin_task()
        for chunk in _chunks(batches, options):
            yield from _rows(json_rows.parse(chunk.texts, fields, of_chunks(options)), chunk, output, options)

    return read


def _chunks(batches: Batches, options: TextOptions) -> Iterator[Chunk]:
    """The input by files."""
    is_cut, last = cut_by_bytes(options), None
    for batch in batches:
        files, starts = batch.column(1).to_pylist(), batch.column(2).to_pylist()
        first = 0
        for i in range(1, len(files) + 1):
            if i < len(files) and files[i] == files[first] and is_cut:
                continue
            texts = batch.column(0).slice(first, i - first).to_pylist()
            folders = [batch.column(n).slice(first, i - first) for n in range(3, batch.num_columns)]
            begins = not is_cut or (starts[first] == 0 and files[first] != last)
            if not is_cut:
                texts = cut_text(files[first], texts[0], options)
                folders = [pa.array(values.to_pylist() * len(texts), values.type) for values in folders]
            if begins and is_cut:
                texts[0] = without_mark(texts[0])
            yield Chunk(files[first], texts, begins, folders)
            last, first = files[first], i


def _is_headless(options: CsvOptions, headless: frozenset[str], chunk: Chunk) -> bool:
    """Whether the chunk belongs to a file in ``headless``. Raises DataError for a record in such a file."""
    if chunk.file not in headless:
        return False
    if first_fields(chunk, options) is not None:
        raise DataError(
            f"source {chunk.file}: the part of it that Spark reads first holds blank lines and comments only, so its header is "
            "not found: remove them, or let Spark read larger parts (spark.sql.files.maxPartitionBytes)"
        )
    return True


def _pass(_: BadRecord) -> None:
    """The second pass handles bad records."""


def _rows(parsed: Parsed, chunk: Chunk, output: Output, options: TextOptions) -> Batches:
    """The rows in the form for Spark, with the problem of each bad one."""
    rows, bad = len(parsed.lines), dict(parsed.bad)
    given = [parsed.columns[i] for i in output.kept]
    for type_, texts in zip(output.folders, chunk.folders, strict=True):
        name = output.columns.names[len(given)]
        # Folder names have the form that tables write, whatever the options say about the text.
        values, wrong = parse_texts(texts.take(pa.array(parsed.lines, pa.int64())).to_pylist(), type_, TextForms())
        given.append(values)
        for row, why in wrong.items():
            bad.setdefault(row, BadRecord(f"folder {name!r}: {why}", parsed.text_of(row)))
    left_out = is_left_out(chunk, bad, options)
    if bad and not left_out and (output.strict or options.drops_malformed):
        refuse(chunk.file, bad[min(bad)])
    about = [bad.get(row) for row in range(rows)] if bad else [None] * rows
    reasons = pa.array([record and record.reason for record in about], pa.string())
    records = pa.array([record and record.text for record in about], pa.string())
    arrays = [array.cast(f.type) for array, f in zip(given, output.columns, strict=False)]
    if not output.strict:
        parts = [pa.array([chunk.file] * rows, pa.string()), reasons, records]
        arrays.append(pa.StructArray.from_arrays(parts, fields=list(output.columns.field(len(arrays)).type)))
    batch = pa.RecordBatch.from_arrays(arrays, schema=output.columns) if arrays else bare_batch(rows)
    if left_out and bad:
        batch = batch.filter(reasons.is_null())
    if batch.num_rows:
        yield batch


def _answer(document: Any) -> pa.RecordBatch:
    return pa.record_batch([pa.array([json.dumps(document)], pa.string())], names=["answer"])
