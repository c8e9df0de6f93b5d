"""Old files under new schemas: by field id at every depth, promoted, filled (SCHEMA-11, SCHEMA-12, SCHEMA-13, SCHEMA-18,
DEFAULT-01, DEFAULT-09, DEFAULT-11, TYPE-37, NAMEMAP-01..05, NAMEMAP-07, SCAN-16, SCAN-17, RESID-14, LINEAGE-03..06)."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task
from iceberg_ops.data.writing.conform import conform
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import CorruptTableError, FormerColumnsError
from iceberg_ops.expressions.binding import bind, reference
from iceberg_ops.expressions.metrics_evaluators import metrics_all_match, metrics_may_match
from iceberg_ops.expressions.predicates import BoundPredicate, Op, eq, gt, is_nan, is_null, not_, not_null
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.name_mapping import MappedField, NameMapping
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import (
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    UNKNOWN,
    VARIANT,
    DecimalType,
    IcebergType,
    NestedField,
    StructType,
    list_of,
    map_of,
)
from tests.data.files import batch_of, new_io, read, rows_of, write, write_context

ID = NestedField(1, "id", LONG, True)


def field(field_id: int, name: str, type_: IcebergType, **options: Any) -> NestedField:
    return NestedField(field_id, name, type_, **options)


def reread(old: Schema, rows: list[tuple[Any, ...]], new: Schema, **options: Any) -> list[tuple[Any, ...]]:
    io = new_io()
    properties = {"write.format.default": options.pop("form", "parquet")}
    return read(write(write_context(old, properties=properties), io, rows), new, io, schemas=(old, new), **options)


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_columns_are_found_by_id_whatever_their_name_and_place(form: str) -> None:
    """The spec's own example: file 1:a, 2:b, 3:c read as 3:measurement, 2:name, 4:a."""
    old = Schema.of(field(1, "a", INT), field(2, "b", STRING), field(3, "c", DOUBLE))
    new = Schema.of(field(3, "measurement", DOUBLE), field(2, "name", STRING), field(4, "a", INT))
    assert reread(old, [(1, "x", 0.5), (2, None, None)], new, form=form) == [(0.5, "x", None), (None, None, None)]


PROMOTIONS: list[tuple[IcebergType, IcebergType, Any, Any]] = [
    (INT, LONG, -(2**31), -(2**31)),
    (FLOAT, DOUBLE, 0.5, 0.5),
    (DecimalType(precision=5, scale=2), DecimalType(precision=30, scale=2), Decimal("-123.45"), Decimal("-123.45")),
    (DATE, TIMESTAMP, -1, -86_400_000_000),
    (DATE, TIMESTAMP_NS, 1, 86_400_000_000_000),
]


@pytest.mark.parametrize("form", ["parquet", "avro"])
@pytest.mark.parametrize(("before", "after", "stored", "shown"), [pytest.param(*p, id=f"{p[0]} to {p[1]}") for p in PROMOTIONS])
def test_promoted_values_are_read_at_the_top_and_inside(
    form: str, before: IcebergType, after: IcebergType, stored: Any, shown: Any
) -> None:
    def schema(type_: IcebergType) -> Schema:
        struct = StructType((field(5, "x", type_),))
        return Schema.of(ID, field(2, "v", type_), field(3, "l", list_of(4, struct)), field(6, "m", map_of(7, STRING, 8, type_)))

    rows = [(1, stored, [(stored,), None], [("k", stored)]), (2, None, None, None)]
    expected = [(1, shown, [(shown,), None], [("k", shown)]), (2, None, None, None)]
    assert reread(schema(before), rows, schema(after), form=form) == expected


def test_a_date_outside_the_range_of_nanoseconds_fails() -> None:
    with pytest.raises(CorruptTableError, match="outside"):
        reread(Schema.of(field(1, "d", DATE)), [(2932896,)], Schema.of(field(1, "d", TIMESTAMP_NS)))


@pytest.mark.parametrize("holder", [False, True], ids=["column", "field of a struct"])
def test_a_date_outside_the_range_of_nanoseconds_is_not_taken_for_a_former_column(holder: bool) -> None:
    """The table's history shows the promotion. The message said that another engine had replaced the table."""
    old, new = (
        Schema.of(field(2, "s", StructType((f,))) if holder else f) for f in (field(1, "d", DATE), field(1, "d", TIMESTAMP_NS))
    )
    io = new_io()
    files = write(write_context(old), io, [(((2932896,),) if holder else (2932896,))])
    with pytest.raises(CorruptTableError, match="outside") as raised:
        read(files, new, io, schemas=(old, replace(new, schema_id=1)))
    assert not isinstance(raised.value, FormerColumnsError)


@pytest.mark.parametrize(("before", "after"), [(STRING, INT), (LONG, STRING), (DOUBLE, LONG), (INT, list_of(9, INT))])
def test_what_no_promotion_allows_is_corrupt_rather_than_converted(before: IcebergType, after: IcebergType) -> None:
    value = {STRING: "1", LONG: 1, DOUBLE: 1.0, INT: 1}[before]
    with pytest.raises(CorruptTableError, match="cannot be read as"):
        reread(Schema.of(field(1, "v", before)), [(value,)], Schema.of(field(1, "v", after)))


def test_missing_columns_take_their_initial_default_and_stored_nulls_stay() -> None:
    old = Schema.of(ID, field(2, "v", INT))
    new = Schema.of(
        ID, field(2, "v", INT, initial_default=9), field(3, "w", INT, required=True, initial_default=7), field(4, "n", INT)
    )
    assert reread(old, [(1, None)], new) == [(1, None, 7, None)]


def test_a_required_column_without_default_makes_the_file_unreadable() -> None:
    with pytest.raises(CorruptTableError, match="required column w"):
        reread(Schema.of(ID), [(1,)], Schema.of(ID, field(3, "w", INT, required=True)))


def test_struct_defaults_are_those_of_the_fields() -> None:
    """DEFAULT-09: null + missing, null + {x:3}, {} + missing, {} + {y:-1}."""
    inner = StructType((field(10, "x", INT, initial_default=0), field(11, "y", INT, initial_default=0)))
    cases: list[tuple[Any, NestedField | None, Any, Any]] = [
        (None, None, None, None),
        (None, field(2, "s", StructType((field(10, "x", INT),))), (3,), (3, 0)),
        ((None, None), None, None, (0, 0)),
        ((None, None), field(2, "s", StructType((field(11, "y", INT),))), (-1,), (0, -1)),
    ]
    for default, stored, value, shown in cases:
        new = Schema.of(ID, field(2, "s", inner, initial_default=default))
        old = Schema.of(ID, *([stored] if stored else []))
        assert reread(old, [(1, value) if stored else (1,)], new) == [(1, shown)]


def test_a_null_parent_stays_null_and_a_present_one_without_known_fields_stays_present() -> None:
    old = Schema.of(ID, field(2, "s", StructType((field(3, "gone", INT),))))
    new = Schema.of(ID, field(2, "s", StructType((field(4, "fresh", INT),))))
    assert reread(old, [(1, None), (2, (5,)), (3, (None,))], new) == [(1, None), (2, (None,)), (3, (None,))]


def test_unknown_columns_are_null_whatever_the_file_holds() -> None:
    assert reread(Schema.of(ID, field(2, "v", INT)), [(1, 5)], Schema.of(ID, field(2, "v", UNKNOWN))) == [(1, None)]


def test_the_partition_value_comes_before_the_default() -> None:
    spec = PartitionSpec(0, (PartitionField((2,), 1000, IDENTITY, "city"),))
    schema = Schema.of(ID, field(2, "city", STRING, initial_default="nowhere"))
    io = new_io()
    (file,) = write(write_context(Schema.of(ID)), io, [(1,)])
    assert read([replace(file, partition=("Bonn",))], schema, io, spec=spec) == [(1, "Bonn")]
    assert read([replace(file, partition=("Bonn",))], schema, io, spec=spec, where=bind(schema, eq("city", "Bonn"))) == [
        (1, "Bonn")
    ]
    assert read([file], schema, io) == [(1, "nowhere")]


def test_a_filter_on_a_column_that_is_not_there_meets_its_default() -> None:
    """Iceberg Java loses these rows on Parquet (its behaviour 1)."""
    new = Schema.of(ID, field(2, "v", INT, initial_default=7))
    assert reread(Schema.of(ID), [(1,), (2,)], new, where=bind(new, eq("v", 7))) == [(1, 7), (2, 7)]


def idless(form: str) -> tuple[Any, DataFile]:
    io = new_io()
    inner = pa.struct([("a", pa.int32()), ("dotted.name", pa.string())])
    table = pa.table({"Id": pa.array([1, 2], pa.int64()), "s": pa.array([{"a": 5, "dotted.name": "x"}, None], inner)})
    table = table.append_column("l", pa.array([[1], None], pa.list_(pa.int32())))
    sink = pa.BufferOutputStream()
    (pq if form == "parquet" else orc).write_table(table, sink)
    io.write("memory://f", sink.getvalue().to_pybytes())
    return io, DataFile(file_path="memory://f", file_format=FileFormat(form), record_count=2, file_size_in_bytes=1)


NESTED = Schema.of(
    field(1, "id", LONG), field(2, "s", StructType((field(3, "b", INT), field(4, "c", STRING)))), field(5, "l", list_of(6, LONG))
)


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_a_name_mapping_gives_ids_to_files_without_them(form: str) -> None:
    io, file = idless(form)
    inner = (MappedField(("old", "a"), 3), MappedField(("dotted.name",), 4))
    mapping = NameMapping(
        (MappedField(("id", "Id"), 1), MappedField(("s",), 2, inner), MappedField(("l",), 5, (MappedField(("element",), 6),)))
    )
    context = ReadContext(table_schema=NESTED, projected=NESTED, schemas=(NESTED,), specs={}, name_mapping=mapping)
    found = rows_of(NESTED, read_task(FileScanTask(file, 1), context, io))
    assert found == [(1, (5, "x"), [1]), (2, None, None)]


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_without_ids_and_mapping_columns_go_by_the_tables_names(form: str) -> None:
    io, file = idless(form)
    assert read([file], NESTED, io, columns=["id", "l"]) == [(1, [1]), (2, None)]


def test_a_mapping_that_contradicts_the_schema_is_not_used() -> None:
    io, file = idless("parquet")
    elements = (MappedField(("element",), 4),)
    wrong = NameMapping((MappedField(("Id",), 1), MappedField(("s",), 2), MappedField(("l",), 3, elements)))
    context = ReadContext(table_schema=NESTED, projected=NESTED, schemas=(NESTED,), specs={}, name_mapping=wrong).select(
        ["id", "l"]
    )
    assert rows_of(context.projected, read_task(FileScanTask(file, 1), context, io)) == [(1, [1]), (2, None)]


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_splits_read_every_row_once_and_know_their_positions(form: str) -> None:
    io = new_io()
    schema = Schema.of(ID)
    properties = {"write.format.default": form, "write.parquet.row-group-size-bytes": "400"}
    writer = PartitionedWriter(write_context(schema, properties=properties), io, operation_id="op")
    for start in range(0, 3000, 250):
        writer.write(batch_of(schema, [(i,) for i in range(start, start + 250)]))
    (file,) = writer.close()
    assert form == "avro" or len(file.split_offsets or ()) == 12
    length = io.length(file.file_path)
    context = ReadContext(table_schema=schema, projected=schema, schemas=(schema,), specs={}).select(["id", "_pos", "_file"])
    found = []
    for start in range(0, length, length // 5):
        task = FileScanTask(file, 1, start=start, length=length // 5)
        found += rows_of(context.projected, read_task(task, context, io, batch_rows=70))
    assert found == [(i, i, file.file_path) for i in range(3000)]


def test_positions_survive_filters_and_metadata_columns_alone_need_no_data() -> None:
    io = new_io()
    schema = Schema.of(ID)
    (file,) = write(write_context(schema), io, [(i * 10,) for i in range(5)])
    assert read([file], schema, io, columns=["_pos"], where=bind(schema, gt("id", 25))) == [(3,), (4,)]
    assert read([file], schema, io, columns=["_pos"]) == [(i,) for i in range(5)]
    assert read([file], schema, io, columns=["_spec_id", "_deleted"])[0] == (0, False)


def test_lineage_is_inherited_where_it_is_null_and_absent_without_a_first_row_id() -> None:
    io = new_io()
    context = write_context(Schema.of(ID), row_lineage=True)
    (file,) = write(context, io, [(1, None, None), (2, 70, 3)])
    names = ["id", "_row_id", "_last_updated_sequence_number"]
    assert read([replace(file, first_row_id=100)], Schema.of(ID), io, columns=names, sequence_number=8) == [(1, 100, 8), (2, 70, 3)]
    assert read([file], Schema.of(ID), io, columns=names) == [(1, None, None), (2, None, None)]


def test_int96_timestamps_are_read_in_microseconds() -> None:
    io = new_io()
    table = pa.table({"t": pa.array([-1, 253_402_300_799_999_999], pa.timestamp("us"))})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, use_deprecated_int96_timestamps=True)
    io.write("memory://f", sink.getvalue().to_pybytes())
    file = DataFile(file_path="memory://f", file_format=FileFormat.PARQUET, record_count=2, file_size_in_bytes=1)
    assert read([file], Schema.of(field(1, "t", TIMESTAMP)), io) == [(-1,), (253_402_300_799_999_999,)]


def test_a_missing_or_damaged_file_is_named() -> None:
    io = new_io()
    file = DataFile(file_path="memory://nothing", file_format=FileFormat.PARQUET, record_count=2, file_size_in_bytes=1)
    with pytest.raises(CorruptTableError, match="memory://nothing"):
        read([file], Schema.of(ID), io)
    for form in FileFormat.PARQUET, FileFormat.AVRO, FileFormat.ORC:
        io.write(f"memory://x{form.value}", b"not a file of any format at all")
        with pytest.raises(CorruptTableError, match="memory://x"):
            read([replace(file, file_path=f"memory://x{form.value}", file_format=form)], Schema.of(ID), io)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_an_unknown_column_is_null_to_filters_whatever_the_file_holds_and_counts(file_format: str, nested: bool) -> None:
    """Statistics of row groups and files count the physical values that a column of type unknown does not show (TYPE-37)."""

    def table(type_: IcebergType) -> Schema:
        inner = field(2, "u", type_)
        return Schema.of(ID, field(3, "s", StructType((inner, field(4, "x", INT)))) if nested else inner)

    old, new = table(INT), table(UNKNOWN)
    io = new_io()
    rows = [(1, (5, 1)), (2, (6, 2))] if nested else [(1, 5), (2, 6)]
    shown = [(1, (None, 1)), (2, (None, 2))] if nested else [(1, None), (2, None)]
    (file,) = write(write_context(old, properties={"write.format.default": file_format}), io, rows)
    name = "s.u" if nested else "u"
    for where, expected, all_match, may_match in (
        (is_null(name), shown, True, True),
        (not_null(name), [], False, False),
        (not_(is_null(name)), [], False, False),
        (is_nan(name), [], False, False),
    ):
        bound = bind(new, where)
        assert read([file], new, io, where=bound) == expected
        assert metrics_all_match(bound, file) is all_match
        assert metrics_may_match(bound, file) is may_match
    leaf = BoundPredicate(Op.IS_NULL, reference(new, name))  # bound by a caller that did not fold it
    assert metrics_all_match(leaf, file)
    assert metrics_may_match(leaf, file)
    assert read([file], new, io, where=leaf) == shown


@pytest.mark.parametrize("form", ["parquet", "avro"])
@pytest.mark.parametrize(
    "now", [STRING, VARIANT, StructType((field(7, "x", INT, required=True),)), list_of(7, INT), map_of(7, STRING, 8, INT)], ids=str
)
def test_a_column_that_was_unknown_is_null_in_older_files_whatever_it_became(form: str, now: IcebergType) -> None:
    """Avro files store it, as Avro's null; so do rows of a writer whose column has no value at all."""
    old, new = Schema.of(ID, field(2, "u", UNKNOWN)), Schema.of(ID, field(2, "u", now))
    assert reread(old, [(1, None), (2, None)], new, form=form) == [(1, None), (2, None)]
    given = pa.RecordBatch.from_pydict({"id": [1], "u": pa.nulls(1)})
    assert rows_of(new, [conform(given, new)]) == [(1, None)]
