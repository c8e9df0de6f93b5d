"""``iceberg-ops scan``: the rows of a table, streamed in the requested format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from iceberg_ops.cli.scan_output import check_output, opened
from iceberg_ops.cli.target import open_table, parse_instant, parse_optional_where, snapshot_options, target_options
from iceberg_ops.errors import OptionError, UnsupportedError

if TYPE_CHECKING:
    import pyarrow as pa

    from iceberg_ops.expressions.predicates import Expression
    from iceberg_ops.scan.planning import Scan
    from iceberg_ops.spec.schema import Schema
    from iceberg_ops.spec.types import NestedField
    from iceberg_ops.table.table import Table

_TEXT_FORMATS = ("jsonl", "csv")
FORMATS = (*_TEXT_FORMATS, "parquet", "arrow")


@click.command()
@target_options
@click.option("--where", metavar="SQL", help="Only rows that match (Spark SQL).")
@click.option("--columns", metavar="A,B", help="Only these columns, in this order.")
@snapshot_options
@click.option(
    "--changes-from", type=int, metavar="N", help="Print rows added and removed after this snapshot, not the current rows."
)
@click.option(
    "--changes-to", type=int, metavar="N", help="The last snapshot of the changes; without --changes-from, all changes up to it."
)
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Maximum number of rows to print.")
@click.option("--format", "kind", type=click.Choice(FORMATS), help="Default: jsonl.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format jsonl.")
@click.option("-o", "output", metavar="FILE", help="Write to a file instead of standard output.")
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists, unless it belongs to the table.")
def scan(
    target: str,
    locations: tuple[str, ...],
    where: str | None,
    columns: str | None,
    snapshot_id: int | None,
    ref: str | None,
    as_of: str | None,
    changes_from: int | None,
    changes_to: int | None,
    limit: int | None,
    kind: str | None,
    as_json: bool,
    output: str | None,
    overwrite: bool,
) -> None:
    """Print the rows of a table."""
    from iceberg_ops.scan.planning import Scan

    if as_json and kind not in (None, "jsonl"):
        raise OptionError(f"--json and --format {kind} were given: choose one")
    if overwrite and output is None:
        raise OptionError("--overwrite needs -o FILE: standard output is not replaced")
    names = parse_columns(columns)
    table = open_table(target, locations)
    request = Scan(snapshot_id=snapshot_id, ref=ref, as_of_ms=parse_instant(as_of), where=parse_optional_where(where))
    if changes_from is None and changes_to is None:
        shown, batches_read = _rows(table, request, names, check_texts=kind in (None, *_TEXT_FORMATS))
    elif request != Scan(where=request.where):
        raise OptionError("--changes-from and --changes-to choose the snapshots: give no other snapshot option")
    else:
        shown, batches_read = _changes(table, changes_from, changes_to, request.where, names)
    batches = _limited(batches_read, limit)
    if output is not None:
        check_output(table, output, overwrite=overwrite)
    with opened(output) as sink:
        _WRITERS[kind or "jsonl"](batches, shown, sink)


def _rows(table: Table, request: Scan, names: list[str] | None, *, check_texts: bool) -> tuple[Schema, Iterator[pa.RecordBatch]]:
    from iceberg_ops.data.columns.read_context import ReadContext
    from iceberg_ops.data.reading.reader import scan_batches
    from iceberg_ops.scan.snapshot_choice import choose_snapshot

    _, schema = choose_snapshot(table.metadata, snapshot_id=request.snapshot_id, ref=request.ref, as_of_ms=request.as_of_ms)
    shown = ReadContext.for_table(table.metadata, schema=schema, columns=names).projected
    return shown, scan_batches(table, request, columns=names, check_texts=check_texts)


def _changes(
    table: Table, start: int | None, end: int | None, where: Expression, names: list[str] | None
) -> tuple[Schema, Iterator[pa.RecordBatch]]:
    from iceberg_ops.data.rewriting.changelog import changelog_batches, changelog_schema

    return changelog_schema(table, end, columns=names), changelog_batches(table, start, end, where=where, columns=names)


def parse_columns(text: str | None) -> list[str] | None:
    """``a,b`` as names; None for all columns. Raises OptionError for an empty or repeated name."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) != len(names):
        raise OptionError(f"--columns {text!r}: must be different names with commas between")
    return names


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    if limit is None:
        yield from batches
        return
    if limit == 0:
        return
    for batch in batches:
        yield batch.slice(0, min(limit, batch.num_rows))
        limit -= min(limit, batch.num_rows)
        if limit == 0:
            return


def _write_jsonl(batches: Iterator[pa.RecordBatch], schema: Schema, sink: BinaryIO) -> None:
    from iceberg_ops.data.reading.json_rows import json_lines

    for batch in batches:
        sink.write(json_lines(batch, schema))


def _write_csv(batches: Iterator[pa.RecordBatch], schema: Schema, sink: BinaryIO) -> None:
    import json

    from iceberg_ops.data.reading.json_rows import rows_to_json

    sink.write(_csv_line([f.name for f in schema.fields]))
    for batch in batches:
        rows = rows_to_json(batch, schema)
        sink.write(b"".join(_csv_line([_csv_cell(v, json.dumps) for v in row.values()]) for row in rows))


def _csv_line(cells: list[str]) -> bytes:
    """RFC 4180 with line feeds. Python's own writer does not quote a carriage return, which ends the line in some readers."""
    special = {",", '"', "\r", "\n"}
    quoted = ['"' + c.replace('"', '""') + '"' if special.intersection(c) or cells == [""] else c for c in cells]
    return (",".join(quoted) + "\n").encode("utf-8", "surrogatepass")


def _csv_cell(value: Any, dumps: Callable[[Any], str]) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else dumps(value)


def _write_parquet(batches: Iterator[pa.RecordBatch], schema: Schema, sink: BinaryIO) -> None:
    import pyarrow.parquet as pq

    from iceberg_ops.data.arrow.arrow_schema import arrow_schema

    _check_columns(schema, "parquet")
    _check_structs(schema.fields)
    with pq.ParquetWriter(sink, arrow_schema(schema), compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(_cast(batch, writer.schema))


def _write_arrow(batches: Iterator[pa.RecordBatch], schema: Schema, sink: BinaryIO) -> None:
    import pyarrow as pa

    from iceberg_ops.data.arrow.arrow_schema import arrow_schema

    _check_columns(schema, "arrow")
    target = arrow_schema(schema)
    with pa.ipc.new_stream(sink, target) as writer:
        for batch in batches:
            writer.write_batch(_cast(batch, target))


def _check_columns(schema: Schema, form: str) -> None:
    """Raise UnsupportedError for a schema without columns: the files would not have the number of rows."""
    if not schema.fields:
        raise UnsupportedError(f"not supported: --format {form} without columns, which keeps no rows: use --format jsonl")


def _check_structs(fields: Iterable[NestedField], within: str = "") -> None:
    """Raise UnsupportedError for a struct without fields, which Parquet cannot store."""
    from iceberg_ops.spec.types import StructType, child_fields

    for f in fields:
        if f.type == StructType(()):
            raise UnsupportedError(
                f"not supported: --format parquet with column {within + f.name!r}, a struct without fields, which Parquet cannot "
                "store: use --format jsonl or arrow, or choose other --columns"
            )
        _check_structs(child_fields(f.type), f"{within}{f.name}.")


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Readers may return dictionary-encoded columns; files get the plain types."""
    import pyarrow as pa

    if batch.schema.equals(schema):
        return batch
    return pa.RecordBatch.from_arrays(
        [column if column.type == f.type else column.cast(f.type) for column, f in zip(batch.columns, schema, strict=True)],
        schema=schema,
    )


_WRITERS: dict[str, Callable[[Iterator[pa.RecordBatch], Schema, BinaryIO], None]] = {
    "jsonl": _write_jsonl,
    "csv": _write_csv,
    "parquet": _write_parquet,
    "arrow": _write_arrow,
}
