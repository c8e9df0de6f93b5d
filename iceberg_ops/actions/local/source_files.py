"""Reads the rows of a source and writes them as data files of the table, in this process: appends and overwrites on lane local.

It reads CSV and JSON files (``text_source``), Parquet files that fit the table unchanged (``data.source_fit``), and other Iceberg
tables. Conversions and computations need Spark, and the error says so. The rules about paths are those of the Spark job
(``data.source_folder``); ``local_source`` finds the files and checks that they do not change.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from contextlib import closing
from functools import partial

import pyarrow as pa

from iceberg_ops.actions.local.local_source import LocalSource
from iceberg_ops.actions.local.text_source import text_rows
from iceberg_ops.actions.rows.row_engine import WrittenSource
from iceberg_ops.actions.rows.write_options import write_context
from iceberg_ops.actions.run.context import Run
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.job_spec import TEXT_FORMATS, Source, require_paths
from iceberg_ops.config.plurals import counted
from iceberg_ops.config.row_options import WriteOptions
from iceberg_ops.config.table_name import TableName
from iceberg_ops.data.arrow.arrow_schema import arrow_schema
from iceberg_ops.data.reading.reader import scan_batches
from iceberg_ops.data.sorting.sorted_writer import TableWriter, table_writer
from iceberg_ops.data.sources.source_fit import column_names, parts_that_fit, type_fits
from iceberg_ops.data.sources.source_parts import SourcePart, read_parts, source_hints
from iceberg_ops.data.writing.conform import conform
from iceberg_ops.errors import DataError, NeedsSparkError, OptionError, SchemaError, UnsupportedError
from iceberg_ops.scan.planning import Scan
from iceberg_ops.scan.snapshot_choice import choose_snapshot
from iceberg_ops.spec.name_matching import matched
from iceberg_ops.spec.schema import Schema, not_of_table
from iceberg_ops.spec.snapshots import MAIN_BRANCH
from iceberg_ops.spec.types import MISSING, NestedField
from iceberg_ops.table.same_table import logged
from iceberg_ops.table.table import Table


def write_source(run: Run, options: WriteOptions) -> WrittenSource:
    """The source's rows as data files, sorted within files by the table's sort order; none for a source without rows.

    Raises OptionError without a source, UnsupportedError for one that needs Spark, DataError for one that is missing, half written
    or does not fit, SchemaError for a column the table does not have. A failed call deletes its files.
    """
    context = write_context(run.table, options, in_table_order=True)
    writer = table_writer(context, run.table.io, operation_id=run.operation_id)
    files = LocalSource(run.table, require_success_file=options.require_success_file)
    try:
        with run.step("write") as detail, files.unchanged(), closing(_rows(run, files, writer)) as rows:
            for batch in rows:
                writer.write(batch)
            written = list(writer.close())
            detail.append(counted(len(written), "file"))
        return WrittenSource(schema=run.table.schema, files=written)
    except BaseException:
        writer.abort()
        raise


def source_scan(source: Source) -> Scan:
    """The scan of a source that is a table."""
    return Scan(snapshot_id=source.snapshot_id, ref=source.ref)


def _rows(run: Run, files: LocalSource, writer: TableWriter) -> Generator[pa.RecordBatch]:
    source = run.job.source
    if source is None:
        raise OptionError(f"{run.job.job} needs a source")
    if source.format == "table":
        return _rows_of_table(run, source)
    if source.format in TEXT_FORMATS:
        return _rows_of_text(run, source, files)
    return _rows_of_files(run, source, files, writer)


def _rows_of_files(run: Run, source: Source, files: LocalSource, writer: TableWriter) -> Generator[pa.RecordBatch]:
    parts = _planned(run, source, files)
    writer.hints = source_hints(files.io, parts, run.table.schema)
    with closing(read_parts(files.io, parts, run.table.schema)) as rows:
        yield from rows


def _rows_of_text(run: Run, source: Source, files: LocalSource) -> Generator[pa.RecordBatch]:
    """Raises SchemaError for columns that do not fit, whatever their values are, and DataError for the first row that does not
    fit."""
    name, schema = ", ".join(require_paths(source)), run.table.schema
    locations = [location for path in require_paths(source) for location in files.files(path)]
    text = text_rows(source, locations, files.io, schema)
    _fields(name, [f.name for f in text.fields], schema)
    check = partial(conform, schema=schema)
    try:
        check(pa.RecordBatch.from_pylist([], arrow_schema(Schema.of(*text.fields))))
    except DataError as e:
        raise SchemaError(f"source {name}: {e}") from None
    return text.batches(check)


def _rows_of_table(run: Run, source: Source) -> Generator[pa.RecordBatch]:
    other = source_table(run, source)
    _, schema = choose_snapshot(other.metadata, snapshot_id=source.snapshot_id, ref=source.ref)
    fields = _fields(other.name, [f.name for f in schema.fields], run.table.schema)
    for f in schema.fields:
        if not type_fits(f.type, target_type := fields[f.name].type):
            raise NeedsSparkError.to(f"source table {other.name}: column {f.name} is {f.type}, not {target_type}")
    scan = source_scan(source)
    return (batch for batch in scan_batches(other, scan, check_texts=True))


def source_table(run: Run, source: Source) -> Table:
    """The Iceberg table that is the source. Raises OptionError if its rows are the target's own, and the errors of loading."""
    name = source.table or ""
    if name == run.job.table and source.catalog in (None, run.job.catalog) and _reads_base(run.table, run.job.branch, source):
        raise OptionError(
            f"source {name} is the target table, which already has these rows; a query (format sql) may read it as the view target"
        )
    catalog = load_catalog(source.catalog or run.job.catalog)
    other = run.outcome.reads.load(lambda: catalog.load_table(TableName.parse(name).identifier))
    check_is_another(run.table, run.job.branch, other, source)
    return other


def check_is_another(table: Table, branch: str, other: Table, source: Source) -> None:
    """Raise OptionError if the source ``other``, loaded after ``table``, is the written ``branch`` itself under another name or
    catalog. Other branches, snapshots, and an earlier state that is registered elsewhere are valid sources."""
    if _reads_base(table, branch, source) and logged(other, table.metadata_location, table.metadata.last_updated_ms):
        raise OptionError(
            f"source {other.name} is the target itself, {table.name}, by another name: the table already has these rows"
        )


def _reads_base(table: Table, branch: str, source: Source) -> bool:
    """Whether a source that is ``table`` has the rows that a commit to ``branch`` builds on: a new branch starts with main's."""
    base = branch if table.metadata.ref(branch) is not None else MAIN_BRANCH
    return source.snapshot_id is None and (source.ref or MAIN_BRANCH) == base


def _planned(run: Run, source: Source, files: LocalSource) -> list[SourcePart]:
    parts: list[SourcePart] = []
    for path in require_paths(source):
        for location in files.files(path):
            fields = _fields(location, column_names(location), run.table.schema)
            try:
                parts += parts_that_fit(location, fields)
            except UnsupportedError as e:
                raise NeedsSparkError.to(str(e)) from None
    return parts


def _fields(source: str, names: list[str], schema: Schema) -> dict[str, NestedField]:
    """The table's fields by the source's column names. Raises SchemaError."""
    fields = matched(names, schema.fields, f"source {source}")
    if unknown := [name for name in names if name not in fields]:
        raise SchemaError(f"source {source}: column {not_of_table(unknown[0], schema.fields)}")
    check_required_columns(source, fields.values(), schema)
    return fields


def check_required_columns(source: str, given: Collection[NestedField], schema: Schema) -> None:
    """Raise SchemaError for a required column of the table without a write default that is not ``given``, whatever the rows are."""
    for f in schema.fields:
        if f.required and f.write_default is MISSING and f not in given:
            raise SchemaError(f"required column {f.name!r} is not in the source: {source}")
