"""Generated histories of a table: columns that are added, changed and dropped between writes, deletes and rewrites.

Time travel to a snapshot shows the same rows as a scan did when the snapshot was current. A scan with a filter and selected columns
shows the part of the whole that the filter keeps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.actions.local.delete_rows import DeleteRows
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema, UpdateSpec
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.data.arrow.arrow_schema import stored_schema
from iceberg_ops.data.arrow.arrow_values import values_of
from iceberg_ops.data.arrow.variant_values import Variant
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.data.writing.delete_files import write_equality_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import SchemaError, UnsupportedError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.predicates import Expression, Literal, Op, Predicate, Reference, and_, or_
from iceberg_ops.expressions.row_evaluator import row_filter
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.fresh_ids import with_fresh_ids
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.transforms import DAY, IDENTITY, bucket
from iceberg_ops.spec.types import (
    DATE,
    INT,
    LONG,
    MISSING,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    UNKNOWN,
    VARIANT,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    list_of,
    map_of,
)
from iceberg_ops.table.table import Table
from tests.actions.lake import Lake
from tests.builders import IDENTIFIER, make_catalog
from tests.data.files import batch_of
from tests.generated.drawing import Draw, for_each_seed, missing

KIND = "histories"
ODD = (UNKNOWN, VARIANT)
PROMOTED = {INT: (LONG,), DATE: (TIMESTAMP, TIMESTAMP_NS), UNKNOWN: (INT, STRING)}
SMALLEST = {TIMESTAMP: 86_400_000_000, TIMESTAMP_NS: 86_400_000_000_000}
Rows = list[tuple[Any, ...]]


def type_of(draw: Draw, depth: int = 2) -> IcebergType:
    kind = draw.choice(["struct", "struct", "map", "list", *["plain"] * 6]) if depth else "plain"
    if kind == "struct":
        return StructType(tuple(NestedField(0, f"f{i}", type_of(draw, depth - 1)) for i in range(draw.randint(1, 2))))
    if kind == "map":
        return map_of(0, STRING, 0, type_of(draw, depth - 1))
    return list_of(0, type_of(draw, depth - 1)) if kind == "list" else draw.choice([DATE, DATE, DATE, INT, STRING, *ODD])


def value(draw: Draw, f: NestedField) -> Any:
    return None if f.type == UNKNOWN or (not f.required and draw.often(0.2)) else present(draw, f.type)


def present(draw: Draw, type_: IcebergType) -> Any:
    if isinstance(type_, StructType):
        return tuple(value(draw, f) for f in type_.fields)
    if isinstance(type_, ListType):
        return [value(draw, type_.element) for _ in range(draw.randint(0, 2))]
    if isinstance(type_, MapType):
        return [(key, value(draw, type_.value)) for key in draw.sample(["a", "b", "c"], draw.randint(0, 2))]
    if type_ == VARIANT:
        return Variant(b"\x01\x00\x00", draw.choice([b"\x00", b"\x04"]))
    number = draw.randint(-2, 2)
    return draw.choice(["", "a", "é"]) if type_ == STRING else number * SMALLEST.get(type_, 1)


class History:
    """One table, and what was read of each snapshot when it was current."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        catalog = make_catalog()
        ids = itertools.count(2)
        columns = [NestedField(next(ids), f"c{i}", with_fresh_ids(type_of(draw), ids.__next__)) for i in range(draw.randint(1, 3))]
        properties = {"format-version": "3", "write.format.default": draw.choice(["parquet", "parquet", "avro"])}
        catalog.create_table(IDENTIFIER, Schema.of(NestedField(1, "id", LONG, True), *columns), properties=properties)
        self.lake = Lake(catalog)
        self.counter = itertools.count()
        self.seen: dict[int, list[str]] = {}

    @property
    def table(self) -> Table:
        return self.lake.table

    def rows(self, scan: Scan | None = None, columns: list[str] | None = None) -> tuple[Schema, Rows]:
        found = scan_table(self.table, scan, columns)
        schema = plan(self.table, scan or Scan()).schema
        fields = schema.fields if columns is None else schema.select(columns).fields
        return schema, list(zip(*(values_of(f.type, c) for f, c in zip(fields, found.columns, strict=True)), strict=True))

    def step(self) -> None:
        what: Callable[[], str | None] = self.draw.choice([
            self.append, self.append, self.append, self.foreign, self.add, self.add, self.add, self.drop, self.rename,
            self.promote, self.promote, self.delete_keys, self.delete_keys, self.delete, self.rewrite, self.partition,
        ])  # fmt: skip
        try:
            done = what()
        except (SchemaError, UnsupportedError):
            done = None
        if done:
            self.draw.note(done)
        now = self.table.metadata
        head = now.current_snapshot_id
        if head is not None and head not in self.seen and now.snapshot(head).schema_id == now.current_schema_id:
            self.seen[head] = sorted(map(repr, self.rows()[1]))

    def batch(self, schema: Schema) -> pa.RecordBatch:
        rows = [tuple(next(self.counter) if f.field_id == 1 else value(self.draw, f) for f in schema.fields) for _ in range(5)]
        return batch_of(schema, rows[: self.draw.randint(1, 5)])

    def append(self) -> str:
        table = self.table
        writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=f"a{next(self.counter)}")
        writer.write(self.batch(table.schema))
        commit(self.lake.catalog, table, AppendFiles(added=tuple(writer.close())))
        return "appended"

    def foreign(self) -> str | None:
        """As another writer's file: small row groups, no metrics."""
        table, sink = self.table, pa.BufferOutputStream()
        stored, rows = stored_schema(table.schema), pa.Table.from_batches([self.batch(table.schema)])
        if not table.metadata.spec.is_unpartitioned or stored.names != rows.schema.names:
            return None
        pq.write_table(rows.cast(stored), sink, row_group_size=self.draw.randint(1, 3), use_dictionary=self.draw.often(0.5))
        path, data = f"{table.location}/data/f{next(self.counter)}.parquet", sink.getvalue().to_pybytes()
        table.io.write(path, data)
        form = FileFormat.PARQUET
        file = DataFile(file_path=path, file_format=form, record_count=rows.num_rows, file_size_in_bytes=len(data))
        file = DataFile(**{**{k: getattr(file, k) for k in file.__slots__}, "partition": (None,) * len(table.metadata.spec.fields)})
        commit(self.lake.catalog, table, AppendFiles(added=(file,)))
        return "foreign file"

    def evolved(self, change: Callable[[SchemaEvolution], object]) -> None:
        evolution = SchemaEvolution.of_table(self.table.metadata)
        change(evolution)
        commit(self.lake.catalog, self.table, UpdateSchema(schema=evolution.apply()))

    def paths(self, wanted: Callable[[NestedField], bool]) -> list[str]:
        """Columns, and fields of structs at any depth, but for the id."""
        schema = self.table.schema
        holders = {i: None if p is None else schema.fields_by_id[p].type for i, p in schema.parents.items()}
        return [
            schema.name_of(i)
            for i, f in schema.fields_by_id.items()
            if i > 1 and isinstance(holders[i], StructType | None) and wanted(f)
        ]

    def add(self) -> str:
        type_ = type_of(self.draw)
        has_default = type_.is_primitive and type_ not in ODD and self.draw.often(0.8)
        default = present(self.draw, type_) if has_default else MISSING
        parent = self.draw.choice([None, None, *self.paths(lambda f: isinstance(f.type, StructType))])
        name, required = f"n{next(self.counter)}", has_default and self.draw.often(0.3)
        self.evolved(lambda e: e.add_column(name, type_, parent=parent, default=default, required=required))
        return "added with default" if has_default else "added"

    def drop(self) -> str | None:
        names = self.paths(lambda f: True)
        if not names:
            return None
        name = self.draw.choice(names)
        self.evolved(lambda e: e.drop_column(name))
        return "dropped"

    def rename(self) -> str | None:
        names = self.paths(lambda f: True)
        if not names:
            return None
        name, new = self.draw.choice(names), self.draw.choice(["c0", "f0", f"r{next(self.counter)}"])
        self.evolved(lambda e: e.rename_column(name, new))
        return "renamed"

    def promote(self) -> str | None:
        names = self.paths(lambda f: f.type in PROMOTED)
        if not names:
            return None
        name = self.draw.choice(names)
        found = self.table.schema.find(name)
        assert found is not None
        new = self.draw.choice(PROMOTED[found.type])  # type: ignore[index]
        self.evolved(lambda e: e.update_type(name, new))
        return f"promoted {found.type}"

    def partition(self) -> str:
        evolution = SpecEvolution.of_table(self.table.metadata)
        if fields := self.table.metadata.spec.fields:
            evolution.remove_field(fields[0].name)
        else:
            evolution.add_field(
                self.draw.choice(self.single()), self.draw.choice([IDENTITY, bucket(3), DAY]), f"p{next(self.counter)}"
            )
        commit(self.lake.catalog, self.table, UpdateSpec(spec=evolution.apply()))
        return "partitioned"

    def single(self) -> list[str]:
        """Primitive columns with one value a row."""
        schema = self.table.schema
        names = self.paths(lambda f: f.type.is_primitive and f.type not in ODD)
        inside = {schema.name_of(i) for i, f in schema.fields_by_id.items() if isinstance(f.type, ListType | MapType)}
        return [name for name in names if not any(name.startswith(f"{other}.") for other in inside)] or ["id"]

    def delete_keys(self) -> str | None:
        """By equality, as streaming engines do: by a row's value in some column, mostly one that older files lack."""
        table = self.table
        schema, rows = self.rows()
        if not rows or not table.metadata.spec.is_unpartitioned:
            return None
        found = [schema.find(name) for name in self.single()]
        younger = [f for f in found if f is not None and f.initial_default is not MISSING]
        chosen = self.draw.choice(younger or [f for f in found if f is not None])
        writer, partition = WriteContext.for_table(table.metadata), (None,) * len(table.metadata.spec.fields)
        rows = [batch_of(schema, [self.draw.choice(rows)])]
        name = f"e{next(self.counter)}"
        files = write_equality_deletes(table.io, writer, (chosen.field_id,), rows, partition=partition, operation_id=name)
        head = table.metadata.current_snapshot_id
        commit(self.lake.catalog, table, RowDelta(added_deletes=tuple(files), starting_snapshot_id=head))
        return "deleted by equality"

    def delete(self) -> str:
        mode = self.draw.choice(["copy-on-write", "merge-on-read"])
        DeleteRows(where=self.where(), mode=mode).run(self.lake.catalog, self.table)
        return f"deleted {mode}"

    def rewrite(self) -> str:
        job = self.draw.choice(["rewrite_data_files", "convert_equality_deletes"])
        self.lake.run(job, **({"rewrite_all": "true"} if job == "rewrite_data_files" else {}))
        return job

    def where(self) -> Expression:
        def leaf() -> Expression:
            name = self.draw.choice(self.single())
            f = self.table.schema.find(name)
            assert f is not None
            op = self.draw.choice([Op.EQ, Op.NOT_EQ, Op.LT, Op.GT_EQ, Op.IS_NULL, Op.IS_NULL, Op.NOT_NULL])
            literals = () if op.is_unary else (Literal(present(self.draw, f.type), f.type),)  # type: ignore[arg-type]
            return Predicate(op, Reference(name), literals)

        return self.draw.choice([leaf, lambda: and_(leaf(), leaf()), lambda: or_(leaf(), leaf())])()

    def check(self) -> None:
        schema, rows = self.rows()
        for _ in range(4):
            where = self.where()
            names = self.draw.sample([f.name for f in schema.fields], self.draw.randint(1, len(schema.fields)))
            places = [next(i for i, f in enumerate(schema.fields) if f.name == name) for name in names]
            keeps = row_filter(bind(schema, where))
            wanted = sorted(repr(tuple(row[i] for i in places)) for row in rows if keeps(row))
            assert sorted(map(repr, self.rows(Scan(where=where), names)[1])) == wanted, (where, names)
        for snapshot_id, shown in self.seen.items():
            assert sorted(map(repr, self.rows(Scan(snapshot_id=snapshot_id))[1])) == shown, f"snapshot {snapshot_id}"
            if self.table.metadata.snapshot(snapshot_id).schema_id != self.table.metadata.current_schema_id:
                self.draw.note("read under an older schema")


def check_history(draw: Draw) -> None:
    history = History(draw)
    for _ in range(14):
        history.step()
    history.check()


WANTED = {
    "appended", "foreign file", "added", "added with default", "dropped", "renamed", "promoted date", "promoted unknown",
    "partitioned", "deleted by equality", "deleted copy-on-write", "deleted merge-on-read", "rewrite_data_files",
    "read under an older schema",
}  # fmt: skip


def test_what_was_read_once_is_read_for_ever_and_filters_keep_of_it_what_they_say() -> None:
    for_each_seed(KIND, 40, check_history)
    assert missing(KIND, WANTED) == set()
