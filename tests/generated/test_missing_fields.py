"""Generated structs of which a file or a batch lacks fields at any depth: each field has its partition's value, its default, or
null."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task
from iceberg_ops.data.writing.conform import conform
from iceberg_ops.errors import CorruptTableError, DataError
from iceberg_ops.expressions.predicates import is_null, not_null
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import INT, MISSING, NestedField, StructType
from tests.data.files import new_io
from tests.generated.drawing import Draw, for_each_seed, missing

KIND = "missing fields"
WANTED = {"from the partition", "initial default", "write default", "struct filled", "null", "refused", "filtered in a struct"}


class Nowhere(Exception):
    """A required field has no value."""


def struct(draw: Draw, ids: Any, depth: int) -> StructType:
    return StructType(tuple(field(draw, next(ids), depth) for _ in range(draw.randint(1, 3))))


def field(draw: Draw, field_id: int, depth: int) -> NestedField:
    required = draw.often(0.15)
    if depth and draw.often(0.5):
        type_ = struct(draw, iter(range(field_id * 10, field_id * 10 + 9)), depth - 1)
        defaults = [draw.choice([MISSING, None, (None,) * len(type_.fields)]) for _ in range(2)]
        return NestedField(field_id, f"f{field_id}", type_, required, None, *defaults)
    return NestedField(
        field_id, f"f{field_id}", INT, required, None, *(draw.choice([MISSING, None, field_id, 2]) for _ in range(2))
    )


def leaves(type_: StructType) -> list[NestedField]:
    return [x for f in type_.fields for x in (leaves(f.type) if isinstance(f.type, StructType) else [f])]


def part_of(draw: Draw, type_: StructType) -> pa.StructType | None:
    """The type without some of its fields; None: without all."""
    kept = []
    for f in type_.fields:
        inner = part_of(draw, f.type) if isinstance(f.type, StructType) else pa.int32()
        if inner is not None and draw.often(0.6):
            kept.append(pa.field(f.name, inner, metadata={"PARQUET:field_id": str(f.field_id)}))
    return pa.struct(kept) if kept else None


def value(draw: Draw, type_: pa.DataType, fields: tuple[NestedField, ...]) -> dict[str, Any]:
    """Values of what a file holds; only what is optional is null."""
    known = {f.name: f for f in fields}
    found: dict[str, Any] = {}
    for own in type_:
        f = known[own.name]
        if not f.required and draw.often(0.3):
            found[own.name] = None
        else:
            found[own.name] = value(draw, own.type, f.type.fields) if isinstance(f.type, StructType) else draw.randint(0, 9)
    return found


def shown(draw: Draw, fields: tuple[NestedField, ...], given: dict[str, Any], partition: dict[int, int | None], label: str) -> Any:
    """What the rules make of ``given``; ``label`` is which default counts. Raises Nowhere."""
    found: dict[str, Any] = {}
    for f in fields:
        if f.name in given:
            own = given[f.name]
            inner = isinstance(f.type, StructType) and own is not None
            found[f.name] = shown(draw, f.type.fields, own, partition, label) if inner else own  # type: ignore[union-attr]
            continue
        found[f.name] = lacking(draw, f, partition, label)
    return found


def lacking(draw: Draw, f: NestedField, partition: dict[int, int | None], label: str) -> Any:
    default = f.initial_default if label == "initial default" else f.write_default
    found: Any = None if default is MISSING else default
    if f.field_id in partition:
        draw.note("from the partition")
        return partition[f.field_id]
    if isinstance(f.type, StructType):
        set_inside = any(partition.get(leaf.field_id) is not None for leaf in leaves(f.type))
        if found is not None or set_inside:
            draw.note("struct filled")
            found = {c.name: lacking(draw, c, partition, label) for c in f.type.fields}
    elif found is not None:
        draw.note(label)
    if found is None and f.required:
        raise Nowhere
    draw.note(*(["null"] if found is None else []))
    return found


def case(draw: Draw) -> tuple[Schema, pa.Table, list[dict[str, Any]]]:
    type_ = struct(draw, iter(range(1, 9)), 2)
    schema = Schema(type_, 0)
    held = part_of(draw, type_) or pa.struct([])
    extra = pa.field("other", pa.int32(), metadata={"PARQUET:field_id": "9999"})  # a file has a column
    rows = [value(draw, held, type_.fields) for _ in range(draw.randint(1, 4))]
    stored = pa.Table.from_pylist([{**r, "other": 1} for r in rows], pa.schema([*held, extra]))
    return schema, stored, rows


def read_case(draw: Draw) -> None:
    schema, stored, rows = case(draw)
    names = {f.field_id for f in schema.fields_by_id.values()}
    sources = [f for f in leaves(schema.struct) if f.field_id in names and draw.often(0.2)]
    constants = {f.field_id: None if not f.required and draw.often(0.3) else 77 for f in sources}
    spec = PartitionSpec(0, tuple(PartitionField((i,), 1000 + i, IDENTITY, f"p{i}") for i in constants))
    sink, io = pa.BufferOutputStream(), new_io()
    pq.write_table(stored, sink)
    io.write("memory://f", sink.getvalue().to_pybytes())
    file = DataFile(
        file_path="memory://f", file_format=FileFormat.PARQUET, record_count=len(rows), file_size_in_bytes=1,
        partition=tuple(constants.values()),
    )  # fmt: skip
    context = ReadContext(table_schema=schema, projected=schema, schemas=(schema,), specs={0: spec})
    found: Any
    try:
        found = [row for batch in read_task(FileScanTask(file, 1), context, io) for row in batch.to_pylist()]
    except CorruptTableError:
        found = None
    assert found == expected(draw, schema, rows, constants, "initial default"), (schema, stored.schema, constants)
    if found is not None:
        filtered(draw, schema, file, context, io, found)


def filtered(draw: Draw, schema: Schema, file: DataFile, context: ReadContext, io: Any, rows: list[dict[str, Any]]) -> None:
    """A filter sees what the rows show, though it reads the path to its own column only: a struct that the partition alone makes
    present, say."""
    for f in draw.sample(sorted(schema.fields_by_id.values(), key=lambda f: f.field_id), 1):
        name = schema.name_of(f.field_id)
        for test, wanted in ((is_null(name), True), (not_null(name), False)):
            task = FileScanTask(file, 1, residual=test)
            found = [row for batch in read_task(task, context, io) for row in batch.to_pylist()]
            assert found == [r for r in rows if (at(r, name) is None) == wanted], (test, schema)
        draw.note("filtered in a struct" if "." in name else "filtered")


def at(row: Any, name: str) -> Any:
    for part in name.split("."):
        row = None if row is None else row[part]
    return row


def written_case(draw: Draw) -> None:
    schema, stored, rows = case(draw)
    found: Any
    try:
        found = conform(stored.drop_columns(["other"]).to_batches()[0], schema).to_pylist()
    except DataError:
        found = None
    assert found == expected(draw, schema, rows, {}, "write default"), (schema, stored.schema)


def expected(draw: Draw, schema: Schema, rows: list[dict[str, Any]], constants: dict[int, int | None], label: str) -> Any:
    try:
        return [shown(draw, schema.fields, row, constants, label) for row in rows]
    except Nowhere:
        draw.note("refused")
        return None


def test_what_a_file_or_batch_lacks_is_filled_by_one_rule_at_every_depth() -> None:
    for_each_seed(KIND, 300, read_case)
    for_each_seed(f"{KIND} of rows", 300, written_case)
    assert missing(KIND, WANTED - {"write default"}) == set()
    assert missing(f"{KIND} of rows", {"write default", "struct filled", "null", "refused"}) == set()
