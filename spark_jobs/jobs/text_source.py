"""CSV and JSON sources as rows with the table's types, and the problem of each bad row.

Spark lists the files, gives the values of folder names, and reads lines (or whole files). ``data.text`` does everything else,
without Spark's guesses. A first pass over the text finds the columns (for CSV in the first record of each file), the second one
reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from iceberg_ops.config.job_spec import Source
from iceberg_ops.data.sources.text.csv_columns import csv_shape, names_by_file, united_guesses, united_names
from iceberg_ops.data.sources.text.json_shape import ObservedValues, check_map_keys, has_nested_keys, source_fields
from iceberg_ops.data.sources.text.text_chunks import cut_by_bytes
from iceberg_ops.data.sources.text.text_options import CsvOptions, JsonOptions, TextOptions, listing_options, text_options
from iceberg_ops.errors import DataError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    BINARY,
    STRING,
    FixedType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    primitive_from_name,
)
from spark_jobs.jobs.block_codecs import check_blocks
from spark_jobs.jobs.source_files import folder_columns, past_cache, refuse_listed_twice
from spark_jobs.jobs.source_state import check_as_listed
from spark_jobs.runners.changes import retryable_if_changed
from spark_jobs.runners.column_names import CORRUPT_RECORD_COLUMN, OWN, quoted
from spark_jobs.runners.spark_schema import arrow_type, spark_schema
from spark_jobs.runners.text_tasks import (
    Output,
    Task,
    csv_guesses,
    csv_heads,
    csv_reader,
    json_occurring,
    json_reader,
)

_TEXT = f"{OWN}text"
_ANSWER = "answer string"
_PLACE = pa.struct([("file", pa.string()), ("reason", pa.string()), ("record", pa.string())])
_SPARK_PLACE = spark.StructType([spark.StructField(name, spark.StringType()) for name in ("file", "reason", "record")])


def text_rows(session: SparkSession, source: Source, schema: Schema, *, strict: bool = False) -> DataFrame:
    """The records of a CSV or JSON source in the columns they have, with the table's types, and ``CORRUPT_RECORD_COLUMN``;
    with ``strict`` a bad record fails the read instead.

    Raises OptionError for an unsupported reader option, SchemaError for CSV by position with another number of columns
    than the table's, DataError for a header that names a column twice, for a file that two paths lead to, for a compression that
    Hadoop does not support and for no file, UnsupportedError for a column of a type that Spark or the format does not have."""
    options = text_options(source.format, source.options)
    lines = _lines(session, source, options)
    return (
        _csv(lines, source, options, schema, strict=strict)
        if isinstance(options, CsvOptions)
        else _json(lines, options, schema, strict=strict)
    )


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines or files in the form for ``text_tasks``. ``folders``: the columns whose values are in folder names."""

    rows: DataFrame
    folders: list[str]

    def answers(self, task: Task) -> list[Any]:
        with retryable_if_changed(lambda: check_as_listed(self.rows)):
            return [json.loads(row[0]) for row in self.rows.mapInArrow(task, _ANSWER).collect()]  # type: ignore[arg-type]

    def read(self, task: Task, output: spark.StructType) -> DataFrame:
        return self.rows.mapInArrow(task, output)  # type: ignore[arg-type]


def _lines(session: SparkSession, source: Source, options: TextOptions) -> _Lines:
    reader = session.read.options(**listing_options(source.options), **past_cache())
    if not cut_by_bytes(options):
        reader = reader.option("wholetext", "true")
    lines = reader.format("text").load(source.paths)
    of_folders = folder_columns(lines)
    folders = [f.name for f in lines.schema.fields if f.name.lower() in of_folders]
    shape = spark.StructType([spark.StructField(name, spark.StringType()) for name in (_TEXT, *folders)])
    typed = reader.schema(shape).format("text").load(source.paths)
    refuse_listed_twice(typed)
    files = typed.inputFiles()
    if not files:
        raise DataError(
            f"source {', '.join(source.paths)} has no data file that the reader options let through (pathGlobFilter, "
            "modifiedBefore, modifiedAfter)"
        )
    check_blocks(session, files)
    about = typed.metadataColumn("_metadata")
    rows = typed.select(
        F.col(_TEXT).cast("binary").alias(_TEXT),
        about.getField("file_path").alias(f"{OWN}file"),
        about.getField("file_block_start").alias(f"{OWN}start"),
        *[F.col(quoted(name)) for name in folders],
    )
    return _Lines(rows, folders)


def _csv(lines: _Lines, source: Source, options: CsvOptions, schema: Schema, *, strict: bool) -> DataFrame:
    answers: dict[str, list[str | None] | None] = dict(sorted(lines.answers(csv_heads(options))))
    heads = {file: fields for file, fields in answers.items() if fields is not None}
    headless = frozenset(answers.keys() - heads.keys())
    names_of_files = names_by_file(heads, options, schema, ", ".join(source.paths), lines.folders)
    names = united_names(names_of_files.values(), lines.folders)
    types = {f.name.lower(): _read_as(f.type, nested=False) for f in schema.fields}
    if options.infers and (unknown := {name.lower() for name in names} - types.keys()):
        types |= {name: t for name, t in _guessed(lines, options, names_of_files, headless).items() if name in unknown}
    column_types = [types.get(name.lower(), STRING) for name in names]
    shapes = {file: csv_shape(names, column_types, have) for file, have in names_of_files.items()}
    first = next(iter(shapes.values()), csv_shape(names, column_types, names))
    one = first if all(shape == first for shape in shapes.values()) else None
    columns = [*zip(names, column_types, strict=True), *_typed_folders(lines, schema)]
    fields = _spark_columns(columns, strict=strict)
    output = _output(columns, list(range(len(names))), len(lines.folders), strict=strict)
    return lines.read(csv_reader(options, one or shapes, output, headless), fields)


def _guessed(
    lines: _Lines, options: CsvOptions, names_of_files: Mapping[str, list[str]], headless: frozenset[str]
) -> dict[str, IcebergType]:
    """By name in lower case."""
    answers = lines.answers(csv_guesses(options, {file: len(names) for file, names in names_of_files.items()}, headless))
    return united_guesses((names_of_files[file], [t and primitive_from_name(t) for t in types]) for file, types in answers)


def _json(lines: _Lines, options: JsonOptions, schema: Schema, *, strict: bool) -> DataFrame:
    folders = {name.lower() for name in lines.folders}
    table = StructType(tuple(_optional(f) for f in schema.fields if f.name.lower() not in folders))
    occurring = ObservedValues()
    for answer in lines.answers(json_occurring(options, table, strict=strict)):
        occurring.merge(ObservedValues.from_json(answer))
    fields = source_fields(occurring, table, as_text=options.as_text)
    if occurring.fields is None:  # no record shows which columns there are
        fields = tuple(f for f in table.fields if not has_nested_keys(f.type))
    fields = tuple(f if f.name.lower() not in folders else NestedField(f.field_id, f.name, STRING) for f in fields)
    kept = [i for i, f in enumerate(fields) if f.name.lower() not in folders]
    columns = [*((fields[i].name, fields[i].type) for i in kept), *_typed_folders(lines, schema)]
    for i in kept:
        check_map_keys(fields[i])
    found_columns = _spark_columns(columns, strict=strict)
    output = _output(columns, kept, len(lines.folders), strict=strict)
    return lines.read(json_reader(options, StructType(fields), output), found_columns)


def _typed_folders(lines: _Lines, schema: Schema) -> Iterator[tuple[str, IcebergType]]:
    types = {f.name.lower(): _read_as(f.type, nested=False) for f in schema.fields}
    yield from ((name, types.get(name.lower(), STRING)) for name in lines.folders)


def _output(columns: list[tuple[str, IcebergType]], kept: list[int], folders: int, *, strict: bool) -> Output:
    fields = [pa.field(name, arrow_type(type_)) for name, type_ in columns]
    types = [type_ for _, type_ in columns][len(columns) - folders :]
    return Output(kept, types, pa.schema(fields if strict else [*fields, pa.field(CORRUPT_RECORD_COLUMN, _PLACE)]), strict)


def _spark_columns(columns: list[tuple[str, IcebergType]], *, strict: bool) -> spark.StructType:
    fields = [spark.StructField(name, spark_schema(Schema.of(NestedField(1, name, type_)))[0].dataType) for name, type_ in columns]
    return spark.StructType(fields if strict else [*fields, spark.StructField(CORRUPT_RECORD_COLUMN, _SPARK_PLACE)])


def _read_as(type_: IcebergType, *, nested: bool = True) -> IcebergType:
    """The type for reading values: Spark's, in which a uuid is text and a fixed binary. CSV has no nested values: the later
    assignment of the text reports that."""
    if str(type_) == "uuid":
        return STRING
    if isinstance(type_, FixedType):
        return BINARY
    if not type_.is_nested:
        return type_
    if not nested:
        return STRING
    if isinstance(type_, StructType):
        return StructType(tuple(_optional(f) for f in type_.fields))
    if isinstance(type_, ListType):
        return ListType(_optional(type_.element))
    assert isinstance(type_, MapType)
    return MapType(NestedField(type_.key.field_id, "key", _read_as(type_.key.type), required=True), _optional(type_.value))


def _optional(f: NestedField) -> NestedField:
    """Optional, because the later assignment reports missing values."""
    return NestedField(f.field_id, f.name, _read_as(f.type), write_default=f.write_default)
