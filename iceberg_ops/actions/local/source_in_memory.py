"""The rows of a source as a table in memory, which upsert and merge on lane local look up, order and evaluate.

The columns have the source's own types, as Spark would read them, whatever the table's types are. A column whose type cannot be
held unchanged is unusable, and an error names it when it is used. A source that is larger than ``MOST_BYTES`` needs Spark.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from iceberg_ops.actions.local.local_source import LocalSource
from iceberg_ops.actions.local.source_files import source_scan, source_table
from iceberg_ops.actions.local.text_source import text_rows
from iceberg_ops.actions.run.context import Run
from iceberg_ops.config.job_spec import TEXT_FORMATS, Source, require_paths
from iceberg_ops.data.arrow.arrow_schema import arrow_schema, arrow_type, type_of_arrow
from iceberg_ops.data.reading.reader import scan_batches
from iceberg_ops.data.sorting.external_sort import in_one
from iceberg_ops.data.sources.source_fit import fits, stored_parts, type_fits
from iceberg_ops.data.sources.source_parts import SourcePart, read_parts
from iceberg_ops.data.writing.conform import conform
from iceberg_ops.errors import NeedsSparkError, OptionError, SchemaError, UnsupportedError
from iceberg_ops.scan.planning import plan
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import FixedType, IcebergType, NestedField

MOST_BYTES = 256 << 20
"""The largest source in memory, in Arrow bytes."""


@dataclass(frozen=True, slots=True)
class SourceRows:
    """``rows`` in the canonical form of ``schema``; ``unusable`` columns are included, with types that cannot be held.
    ``of_files``: the types are those stored in files. 16 bytes of a file may then be a uuid, those of a table may not."""

    name: str
    schema: Schema
    rows: pa.RecordBatch
    unusable: Mapping[str, str]
    of_files: bool = True

    @property
    def names(self) -> list[str]:
        """Every column."""
        return [*(f.name for f in self.schema.fields), *self.unusable]

    def find(self, name: str) -> NestedField | None:
        """The column of that name, ignoring case. Raises UnsupportedError for an unusable one."""
        for other, kind in self.unusable.items():
            if other.lower() == name.lower():
                raise NeedsSparkError.to(f"source column {other} of type {kind}")
        return next((f for f in self.schema.fields if f.name.lower() == name.lower()), None)

    def column(self, f: NestedField) -> pa.Array:
        return self.rows.column(self.schema.fields.index(f))

    def check_fit(self, f: NestedField, target: NestedField) -> None:
        """Raise UnsupportedError unless the values of column ``f`` are valid for the table's column ``wanted`` without
        conversion."""
        as_stored = fits(arrow_type(f.type), target.type) and (self.of_files or type_fits(f.type, target.type))
        if f.type != target.type and not as_stored:
            raise NeedsSparkError.to(f"source column {f.name} of type {f.type} as {target.name} of type {target.type}")


def read_source(run: Run, *, require_success_file: bool) -> SourceRows:
    """The job's source. Raises OptionError without one, UnsupportedError for one that needs Spark, DataError for one that is
    missing or half written."""
    source = run.job.source
    if source is None:
        raise OptionError(f"{run.job.job} needs a source")
    if source.format != "table":
        files = LocalSource(run.table, require_success_file=require_success_file)
        with files.unchanged():
            return (
                _read_text(run, source, files) if source.format in TEXT_FORMATS else _read_files(run, require_paths(source), files)
            )
    other = source_table(run, source)
    scan = source_scan(source)
    schema = Schema.of(*(replace(f, required=False) for f in plan(other, scan).schema.fields))
    _check_names(other.name, [f.name for f in schema.fields])
    batches = scan_batches(other, scan, check_texts=True)
    return SourceRows(other.name, schema, _held(other.name, schema, batches), {}, of_files=False)


def _read_text(run: Run, source: Source, files: LocalSource) -> SourceRows:
    paths = require_paths(source)
    rows = text_rows(source, [location for path in paths for location in files.files(path)], files.io, run.table.schema)
    name, schema = ", ".join(paths), Schema.of(*rows.fields)
    for f in schema.fields_by_id.values():
        if str(f.type) == "uuid" or isinstance(f.type, FixedType):  # Spark has text and binary, which compare differently
            raise NeedsSparkError.to(f"{source.format} column {f.name} of type {f.type} in a source of {run.job.job}")
    return SourceRows(name, schema, _held(name, schema, rows.batches(None)), {}, of_files=False)


def _read_files(run: Run, paths: Iterable[str], files: LocalSource) -> SourceRows:
    parts: list[SourcePart] = []
    first: tuple[str, dict[str, pa.DataType]] | None = None
    for path in paths:
        for location in files.files(path):
            try:
                columns, of_file = stored_parts(location)
            except UnsupportedError as e:
                raise NeedsSparkError.to(str(e)) from None
            _check_names(location, columns.names)
            types = {c.name: c.type.value_type if isinstance(c.type, pa.DictionaryType) else c.type for c in columns}
            if first is not None and types != first[1]:
                raise NeedsSparkError.to(f"source files of different columns ({first[0]}, {location})")
            first = first or (location, types)
            parts += of_file
    if first is None:
        raise OptionError(f"{run.job.job} needs a source with a path")
    name, types = ", ".join(paths), first[1]
    schema, unusable = _exact_schema(types)
    rows = read_parts(files.io, parts, schema)
    return SourceRows(name, schema, _held(name, schema, rows), unusable)


def _exact_schema(columns: Mapping[str, pa.DataType]) -> tuple[Schema, dict[str, str]]:
    ids, fields, unusable = itertools.count(1), [], {}
    for name, stored in columns.items():
        kind = _exact_type(stored, ids)
        if kind is None:
            unusable[name] = str(stored)
        else:
            fields.append(NestedField(next(ids), name, kind))
    return Schema.of(*fields), unusable


def _exact_type(stored: pa.DataType, ids: Iterator[int]) -> IcebergType | None:
    """The type whose values can be held exactly as they are stored; None: there is none."""
    try:
        kind = type_of_arrow(stored, ids)
    except SchemaError:
        return None
    return kind if fits(stored, kind) else None


def _check_names(source: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise SchemaError(f"source column {name!r} occurs twice: {source}")
        seen.add(name.lower())


def _held(name: str, schema: Schema, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        known = [c for c in batch.schema.names if any(f.name == c for f in schema.fields)]
        held.append(conform(batch.select(known), schema))
        size += held[-1].nbytes
        if size > MOST_BYTES:
            raise NeedsSparkError.to(f"a source of more than {MOST_BYTES >> 20} MiB ({name})")
    if not sum(b.num_rows for b in held):
        return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in arrow_schema(schema)], schema=arrow_schema(schema))
    return in_one([b for b in held if b.num_rows])
