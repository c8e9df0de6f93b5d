"""A column of each type in a file of each format: TYPE-01..23, AVRO-01, AVRO-02, PARQUET-01..04, ORC-01, ORC-02, GEN-08,
DEFAULT-02, DEFAULT-03, LINEAGE-02, LINEAGE-05, MANIFEST-60, MANIFEST-61, SCHEMA-16, TYPE-33, TYPE-39."""

# ruff: noqa: E501 - the tables of types read best one case a line

from __future__ import annotations

import io
import time
import uuid
from dataclasses import replace
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from iceberg_ops.data.arrow.variant_values import Variant
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task
from iceberg_ops.data.writing.conform import conform
from iceberg_ops.errors import CorruptTableError, DataError, UnsupportedError
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.serde.json.single_value_json import to_json_value
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    NestedField,
    StructType,
    list_of,
    map_of,
)
from tests.data.files import batch_of, new_io, read, rows_of, write, write_context

ID = NestedField(1, "id", LONG, True)


def decimal(precision: int) -> DecimalType:
    return DecimalType(precision=precision, scale=2)


def stamp(unit: str, utc: bool) -> str:
    return f"Timestamp(isAdjustedToUTC={str(utc).lower()}, timeUnit={unit}seconds"


def avro_stamp(unit: str, utc: bool) -> dict[str, Any]:
    return {"type": "long", "logicalType": f"timestamp-{unit}s", "adjust-to-utc": utc}


def avro_fixed(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "size": size, **more}


FORMS: list[tuple[str, IcebergType, tuple[str, str, int] | None, Any]] = [
    ("TYPE-01", UNKNOWN, None, None),
    ("TYPE-02", BOOLEAN, ("BOOLEAN", "None", 0), "boolean"),
    ("TYPE-03", INT, ("INT32", "None", 0), "int"),
    ("TYPE-04", LONG, ("INT64", "None", 0), "long"),
    ("TYPE-05", FLOAT, ("FLOAT", "None", 0), "float"),
    ("TYPE-06", DOUBLE, ("DOUBLE", "None", 0), "double"),
    ("TYPE-07 P=9", decimal(9), ("INT32", "Decimal(precision=9, scale=2)", 0), avro_fixed(4, logicalType="decimal", precision=9, scale=2)),
    ("TYPE-07 P=18", decimal(18), ("INT64", "Decimal(precision=18, scale=2)", 0), avro_fixed(8, logicalType="decimal", precision=18, scale=2)),
    ("TYPE-07 P=19", decimal(19), ("FIXED_LEN_BYTE_ARRAY", "Decimal(precision=19, scale=2)", 9), avro_fixed(9, logicalType="decimal", precision=19, scale=2)),
    ("TYPE-07 P=38", decimal(38), ("FIXED_LEN_BYTE_ARRAY", "Decimal(precision=38, scale=2)", 16), avro_fixed(16, logicalType="decimal", precision=38, scale=2)),
    ("TYPE-08", DATE, ("INT32", "Date", 0), {"type": "int", "logicalType": "date"}),
    ("TYPE-09", TIME, ("INT64", "Time(isAdjustedToUTC=false, timeUnit=microseconds)", 0), {"type": "long", "logicalType": "time-micros"}),
    ("TYPE-10", TIMESTAMP, ("INT64", stamp("micro", False), 0), avro_stamp("micro", False)),
    ("TYPE-11", TIMESTAMPTZ, ("INT64", stamp("micro", True), 0), avro_stamp("micro", True)),
    ("TYPE-12", TIMESTAMP_NS, ("INT64", stamp("nano", False), 0), avro_stamp("nano", False)),
    ("TYPE-13", TIMESTAMPTZ_NS, ("INT64", stamp("nano", True), 0), avro_stamp("nano", True)),
    ("TYPE-14", STRING, ("BYTE_ARRAY", "String", 0), "string"),
    ("TYPE-15", UUID, ("FIXED_LEN_BYTE_ARRAY", "UUID", 16), avro_fixed(16, logicalType="uuid")),
    ("TYPE-16", FixedType(length=5), ("FIXED_LEN_BYTE_ARRAY", "None", 5), avro_fixed(5)),
    ("TYPE-17", BINARY, ("BYTE_ARRAY", "None", 0), "bytes"),
    ("TYPE-22", GeometryType(), ("BYTE_ARRAY", "Geometry(crs=)", 0), "bytes"),
    ("TYPE-22 crs", GeometryType(crs="srid:4326"), ("BYTE_ARRAY", "Geometry(crs=srid:4326)", 0), "bytes"),
    ("TYPE-23", GeographyType(), ("BYTE_ARRAY", "Geography(crs=, algorithm=spherical)", 0), "bytes"),
]  # fmt: skip
FORM = pytest.mark.parametrize(("type_", "parquet", "avro"), [pytest.param(*f[1:], id=f[0]) for f in FORMS])


def parquet_of(schema: Schema, rows: list[tuple[Any, ...]]) -> Any:
    store = new_io()
    (file,) = write(write_context(schema), store, rows)
    return pq.ParquetFile(pa.BufferReader(store.read(file.file_path))).schema


def avro_of(schema: Schema, rows: list[tuple[Any, ...]]) -> Any:
    store = new_io()
    (file,) = write(write_context(schema, properties={"write.format.default": "avro"}), store, rows)
    return fastavro.reader(io.BytesIO(store.read(file.file_path))).writer_schema


@FORM
def test_a_type_has_its_parquet_form(type_: IcebergType, parquet: tuple[str, str, int] | None, avro: Any) -> None:
    """PARQUET-01"""
    found = parquet_of(Schema.of(ID, NestedField(2, "v", type_)), [(1, None)])
    columns = {found.column(i).name: found.column(i) for i in range(len(found.names))}
    if parquet is None:
        assert list(columns) == ["id"]
        return
    physical, logical, length = parquet
    assert (columns["v"].physical_type, columns["v"].length) == (physical, length)
    assert str(columns["v"].logical_type).startswith(logical)


@FORM
def test_a_type_has_its_avro_form(type_: IcebergType, parquet: Any, avro: Any) -> None:
    """AVRO-01"""
    fields = {f["name"]: f for f in avro_of(Schema.of(ID, NestedField(2, "v", type_)), [(1, None)])["fields"]}
    if avro is None:
        assert list(fields) == ["id"]
        return
    null, inner = fields["v"]["type"]
    assert (null, fields["v"]["default"], fields["v"]["field-id"]) == ("null", None, 2)
    assert ({k: v for k, v in inner.items() if k != "name"} if isinstance(inner, dict) else inner) == avro


def test_nested_types_have_their_parquet_form() -> None:
    """TYPE-18, TYPE-19, TYPE-20, PARQUET-01, PARQUET-02: three levels, ids on every one."""
    struct = StructType((NestedField(3, "x", INT),))
    schema = Schema.of(
        NestedField(2, "s", struct), NestedField(4, "l", list_of(5, INT)), NestedField(6, "m", map_of(7, STRING, 8, INT))
    )
    found = parquet_of(schema, [((1,), [1], [("a", 1)])])
    paths = [found.column(i).path for i in range(len(found.names))]
    assert paths == ["s.x", "l.list.element", "m.key_value.key", "m.key_value.value"]
    assert all(f"field_id={i} " in str(found) for i in range(2, 9))


def test_nested_types_have_their_avro_form() -> None:
    """TYPE-18, TYPE-19, TYPE-20, AVRO-03, AVRO-05"""
    struct = StructType((NestedField(3, "x", INT),))
    schema = Schema.of(
        NestedField(2, "s", struct, True),
        NestedField(4, "l", list_of(5, INT), True),
        NestedField(6, "m", map_of(7, STRING, 8, INT), True),
        NestedField(9, "n", map_of(10, INT, 11, INT), True),
    )
    s, elements, m, n = (f["type"] for f in avro_of(schema, [((1,), [1], [("a", 1)], [(1, 2)])])["fields"])
    assert (s["type"], s["fields"][0]["field-id"]) == ("record", 3)
    assert (elements["type"], elements["element-id"], elements["items"]) == ("array", 5, ["null", "int"])
    assert (m["type"], m["key-id"], m["value-id"], m["values"]) == ("map", 7, 8, ["null", "int"])
    assert (n["type"], n["logicalType"]) == ("array", "map")
    assert [(f["name"], f["field-id"], f["type"]) for f in n["items"]["fields"]] == [
        ("key", 10, "int"), ("value", 11, ["null", "int"]),
    ]  # fmt: skip


AVRO_DEFAULTS: list[tuple[IcebergType, Any, Any]] = [
    (INT, 7, 7),
    (STRING, "a", "a"),
    (DATE, 3, 3),
    (BINARY, b"\x00\xff", "\x00\xff"),
    (decimal(9), Decimal("1.28"), "\x00\x00\x00\x80"),
    (UUID, uuid.UUID(int=1), "\x00" * 15 + "\x01"),
    (DOUBLE, float("nan"), None),
]


@pytest.mark.parametrize(("type_", "default", "stored"), AVRO_DEFAULTS, ids=str)
@pytest.mark.parametrize("required", [False, True])
def test_an_avro_field_has_the_columns_default(type_: IcebergType, default: Any, stored: Any, required: bool) -> None:
    """AVRO-02: null first unless there is another default, which then comes first."""
    schema = Schema.of(NestedField(2, "v", type_, required, None, default))
    (field,) = avro_of(schema, [(default,)])["fields"]
    if required:
        assert field.get("default") == stored
        assert not isinstance(field["type"], list)
    else:
        assert field["default"] == stored
        assert field["type"].index("null") == (0 if stored is None else 1)
    store = new_io()
    files = write(write_context(schema, properties={"write.format.default": "avro"}), store, [(default,)])
    assert repr(read(files, schema, store)) == repr([(default,)])


MICROS = 1_000_001
ORC_COLUMNS: list[tuple[str, IcebergType, pa.DataType, dict[bytes, bytes], list[Any], list[Any]]] = [
    ("TYPE-02", BOOLEAN, pa.bool_(), {}, [True, None], [True, None]),
    ("TYPE-03 tinyint", INT, pa.int8(), {}, [-5, None], [-5, None]),
    ("TYPE-03 smallint", INT, pa.int16(), {}, [-500, None], [-500, None]),
    ("TYPE-03", INT, pa.int32(), {}, [2**31 - 1, None], [2**31 - 1, None]),
    ("TYPE-04", LONG, pa.int64(), {}, [2**63 - 1, None], [2**63 - 1, None]),
    ("TYPE-05", FLOAT, pa.float32(), {}, [1.5, None], [1.5, None]),
    ("TYPE-06", DOUBLE, pa.float64(), {}, [1e300, None], [1e300, None]),
    ("TYPE-07", decimal(30), pa.decimal128(30, 2), {}, [Decimal("-1.28"), None], [Decimal("-1.28"), None]),
    ("TYPE-08", DATE, pa.date32(), {}, [-1, None], [-1, None]),
    ("TYPE-09", TIME, pa.int64(), {b"iceberg.long-type": b"TIME"}, [MICROS, None], [MICROS, None]),
    ("TYPE-10", TIMESTAMP, pa.timestamp("ns"), {}, [-1_500, 1_001_999, None], [-2, 1001, None]),
    ("TYPE-11", TIMESTAMPTZ, pa.timestamp("ns", "UTC"), {b"iceberg.timestamp-unit": b"MICROS"}, [1_001_999, None], [1001, None]),
    ("TYPE-12", TIMESTAMP_NS, pa.timestamp("ns"), {b"iceberg.timestamp-unit": b"NANOS"}, [-1, None], [-1, None]),
    ("TYPE-13", TIMESTAMPTZ_NS, pa.timestamp("ns", "UTC"), {b"iceberg.timestamp-unit": b"NANOS"}, [1_001_999, None], [1_001_999, None]),
    ("TYPE-14", STRING, pa.string(), {}, ["ä", None], ["ä", None]),
    ("TYPE-15", UUID, pa.binary(), {b"iceberg.binary-type": b"UUID"}, [b"\x00" * 15 + b"\x07", None], [uuid.UUID(int=7), None]),
    ("TYPE-16", FixedType(length=2), pa.binary(), {b"iceberg.binary-type": b"FIXED", b"iceberg.length": b"2"}, [b"ab", None], [b"ab", None]),
    ("TYPE-17", BINARY, pa.binary(), {}, [b"\x00", None], [b"\x00", None]),
    ("TYPE-22", GeometryType(), pa.binary(), {b"iceberg.binary-type": b"GEOMETRY"}, [b"\x01\x01", None], [b"\x01\x01", None]),
    ("TYPE-23", GeographyType(), pa.binary(), {b"iceberg.binary-type": b"GEOGRAPHY"}, [b"\x01\x01", None], [b"\x01\x01", None]),
]  # fmt: skip


def with_orc_ids(f: pa.Field, field_id: int, **more: Any) -> pa.Field:
    return f.with_metadata({b"iceberg.id": str(field_id).encode(), b"iceberg.required": b"false", **more})


def orc_file(store: MemoryFileIO, table: pa.Table) -> DataFile:
    sink = pa.BufferOutputStream()
    orc.write_table(table, sink)
    store.write("memory://o.orc", sink.getvalue().to_pybytes())
    return DataFile(file_path="memory://o.orc", file_format=FileFormat.ORC, record_count=table.num_rows, file_size_in_bytes=1)


@pytest.mark.parametrize(
    ("type_", "stored_type", "attributes", "stored", "shown"), [pytest.param(*c[1:], id=c[0]) for c in ORC_COLUMNS]
)
def test_a_type_is_read_from_orc(
    type_: IcebergType, stored_type: pa.DataType, attributes: dict[bytes, bytes], stored: list[Any], shown: list[Any]
) -> None:
    """ORC-01, ORC-02: by id, under another name; nanoseconds are floored to the column's unit."""
    metadata = {b"iceberg.id": b"2", b"iceberg.required": b"false", **attributes}
    field = pa.field("another name", stored_type, metadata=metadata)
    store = new_io()
    file = orc_file(store, pa.table([pa.array(stored, stored_type)], schema=pa.schema([field])))
    assert read([file], Schema.of(NestedField(2, "v", type_)), store) == [(v,) for v in shown]


def test_nested_types_are_read_from_orc() -> None:
    """TYPE-18, TYPE-19, TYPE-20, ORC-01"""
    struct = pa.struct([with_orc_ids(pa.field("q", pa.int32()), 3)])
    elements = pa.list_(with_orc_ids(pa.field("item", pa.int32()), 5))
    pairs = pa.map_(with_orc_ids(pa.field("key", pa.string(), False), 7), with_orc_ids(pa.field("value", pa.int32()), 8))
    fields = [with_orc_ids(pa.field(n, t), i) for n, t, i in (("a", struct, 2), ("b", elements, 4), ("c", pairs, 6))]
    columns = [pa.array([{"q": 1}, None], struct), pa.array([[1, None], None], elements), pa.array([[("k", 1)], None], pairs)]
    store = new_io()
    file = orc_file(store, pa.table(columns, schema=pa.schema(fields)))
    schema = Schema.of(
        NestedField(4, "l", list_of(5, INT)),
        NestedField(2, "s", StructType((NestedField(3, "x", INT),))),
        NestedField(6, "m", map_of(7, STRING, 8, INT)),
    )
    assert read([file], schema, store) == [([1, None], (1,), [("k", 1)]), (None, None, None)]


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_a_variant_comes_back_and_its_parts_have_no_ids(form: str) -> None:
    """TYPE-21, PARQUET-04"""
    schema = Schema.of(ID, NestedField(2, "v", VARIANT))
    rows = [(1, Variant(b"\x01\x00\x00", b"\x0c\x05")), (2, None)]
    store = new_io()
    (file,) = write(write_context(schema, properties={"write.format.default": form}), store, rows)
    assert read([file], schema, store) == rows
    if form == "parquet":
        found = pq.ParquetFile(pa.BufferReader(store.read(file.file_path))).schema_arrow.field("v").type
        assert [(f.name, (f.metadata or {}).get(b"PARQUET:field_id")) for f in found] == [("metadata", None), ("value", None)]
    else:
        record = avro_of(schema, rows)["fields"][1]["type"][1]
        assert [(f["name"], f["type"], "field-id" in f) for f in record["fields"]] == [
            ("metadata", "bytes", False), ("value", "bytes", False),
        ]  # fmt: skip


@pytest.mark.parametrize("form", ["parquet", "avro"])
@pytest.mark.parametrize("dimensions", [0, 1000, 2000, 3000], ids=["XY", "XYZ", "XYM", "XYZM"])
def test_wkb_of_every_dimension_comes_back_byte_for_byte(form: str, dimensions: int) -> None:
    """TYPE-39"""
    numbers = {0: 2, 1000: 3, 2000: 3, 3000: 4}[dimensions]
    point = b"\x01" + (1 + dimensions).to_bytes(4, "little") + bytes(8 * numbers)
    schema = Schema.of(NestedField(1, "a", GeometryType()), NestedField(2, "b", GeographyType()))
    store = new_io()
    files = write(write_context(schema, properties={"write.format.default": form}), store, [(point, point), (None, None)])
    assert read(files, schema, store) == [(point, point), (None, None)]


def test_variant_columns_have_no_bounds() -> None:
    """MANIFEST-61: bounds are optional; none are written, so none can be wrong."""
    schema = Schema.of(ID, NestedField(4, "v", VARIANT))
    (file,) = write(write_context(schema), new_io(), [(1, Variant(b"\x01\x00\x00", b"\x0c\x05"))])
    assert set(file.lower_bounds or {}) == set(file.upper_bounds or {}) == {1}


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu"])
def test_timestamps_do_not_move_with_the_local_zone(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """TYPE-33"""
    schema = Schema.of(NestedField(1, "t", TIMESTAMP), NestedField(2, "z", TIMESTAMPTZ))
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for form in ("parquet", "avro"):
            store = new_io()
            files = write(write_context(schema, properties={"write.format.default": form}), store, [(0, 0)])
            ((local, instant),) = read(files, schema, store)
            assert (local, instant) == (0, 0)
        assert to_json_value(TIMESTAMP, local) == "1970-01-01T00:00:00"
        assert to_json_value(TIMESTAMPTZ, instant) == "1970-01-01T00:00:00+00:00"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_identity_partition_columns_are_in_the_file_too(form: str) -> None:
    """GEN-08"""
    schema = Schema.of(ID, NestedField(2, "city", STRING))
    spec = PartitionSpec(0, (PartitionField((2,), 1000, IDENTITY, "city"),))
    store = new_io()
    files = write(write_context(schema, spec=spec, properties={"write.format.default": form}), store, [(1, "Bonn"), (2, None)])
    assert {f.partition for f in files} == {("Bonn",), (None,)}
    assert sorted(read(files, schema, store), key=str) == [(1, "Bonn"), (2, None)]


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_a_column_of_nulls_is_written_and_hides_the_default(form: str) -> None:
    """DEFAULT-03, DEFAULT-11"""
    schema = Schema.of(ID, NestedField(2, "v", INT, initial_default=9))
    store = new_io()
    (file,) = write(write_context(schema, properties={"write.format.default": form}), store, [(1, None), (2, None)])
    assert read([file], schema, store) == [(1, None), (2, None)]
    if form == "parquet":
        assert pq.ParquetFile(pa.BufferReader(store.read(file.file_path))).schema_arrow.names == ["id", "v"]


def test_what_a_writer_is_not_given_is_the_write_default_or_a_failure() -> None:
    """DEFAULT-02, DEFAULT-06"""
    given = batch_of(Schema.of(ID), [(1,)])
    filled = Schema.of(ID, NestedField(2, "v", INT, True, None, 7, 8), NestedField(3, "n", INT))
    assert conform(given, filled).to_pylist() == [{"id": 1, "v": 8, "n": None}]
    with pytest.raises(DataError, match="v"):
        conform(given, Schema.of(ID, NestedField(2, "v", INT, True, None, 7)))


def test_identifier_fields_do_not_make_rows_one() -> None:
    """SCHEMA-16"""
    schema = Schema.of(ID, identifier_field_ids=(1,))
    store = new_io()
    assert read(write(write_context(schema), store, [(1,), (1,)]), schema, store) == [(1,), (1,)]


def idless_parquet(table: pa.Table, **options: Any) -> tuple[MemoryFileIO, DataFile]:
    store = new_io()
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    store.write("memory://f", sink.getvalue().to_pybytes())
    return store, DataFile(
        file_path="memory://f", file_format=FileFormat.PARQUET, record_count=table.num_rows, file_size_in_bytes=1
    )


@pytest.mark.parametrize(
    "stored", [pa.decimal32(5, 2), pa.decimal64(12, 2), pa.decimal128(25, 2), pa.decimal128(4, 2)], ids=["int32", "int64", "fixed", "narrow"]
)  # fmt: skip
def test_decimals_are_read_from_every_physical_form(stored: pa.DataType) -> None:
    """PARQUET-03"""
    table = pa.table({"d": pa.array([Decimal("-1.28"), None], stored)})
    for as_integer in (True, False):
        store, file = idless_parquet(table, store_decimal_as_integer=as_integer)
        assert read([file], Schema.of(NestedField(1, "d", decimal(30))), store) == [(Decimal("-1.28"),), (None,)]


@pytest.mark.parametrize("compliant", [True, False], ids=["element", "item"])
def test_lists_are_read_whatever_their_inner_groups_are_called(compliant: bool) -> None:
    """PARQUET-02, NAMEMAP-05"""
    store, file = idless_parquet(pa.table({"l": pa.array([[1, None], None, []])}), use_compliant_nested_type=compliant)
    assert read([file], Schema.of(NestedField(1, "l", list_of(2, LONG))), store) == [([1, None],), (None,), ([],)]


def test_an_encrypted_data_file_is_not_read_as_plain() -> None:
    """ENC-02"""
    store = new_io()
    store.write("memory://f", b"PARE" + bytes(40) + b"PARE")
    file = DataFile(
        file_path="memory://f", file_format=FileFormat.PARQUET, record_count=1, file_size_in_bytes=48, key_metadata=b"k"
    )
    with pytest.raises(CorruptTableError, match="memory://f cannot be read: Could not read encrypted metadata"):
        read([file], Schema.of(ID), store)


def test_files_of_new_rows_leave_the_lineage_columns_out() -> None:
    """LINEAGE-01, LINEAGE-02"""
    store = new_io()
    (file,) = write(write_context(Schema.of(ID)), store, [(1,), (2,)])
    assert pq.ParquetFile(pa.BufferReader(store.read(file.file_path))).schema_arrow.names == ["id"]
    names = ["id", "_row_id", "_last_updated_sequence_number"]
    numbered = replace(file, first_row_id=40)
    assert read([numbered], Schema.of(ID), store, columns=names, sequence_number=3) == [(1, 40, 3), (2, 41, 3)]


def test_rows_were_last_updated_at_the_data_sequence_number_of_their_file() -> None:
    """LINEAGE-05: neither the file sequence number nor that of the snapshot read."""
    store = new_io()
    (file,) = write(write_context(Schema.of(ID)), store, [(1,)])
    context = ReadContext(table_schema=Schema.of(ID), projected=Schema.of(ID), schemas=(Schema.of(ID),), specs={0: PartitionSpec()})
    context = context.select(["_last_updated_sequence_number"])
    task = FileScanTask(replace(file, first_row_id=0), 4, 9)
    assert rows_of(context.projected, read_task(task, context, store)) == [(4,)]


def test_the_partition_column_shows_the_fields_of_every_spec() -> None:
    """RESID-04, RESID-05"""
    schema = Schema.of(ID, NestedField(2, "city", STRING))
    by_city = PartitionSpec(1, (PartitionField((2,), 1000, IDENTITY, "city"),))
    by_id = PartitionSpec(2, (PartitionField((1,), 1001, IDENTITY, "id"),))
    store = new_io()
    context = ReadContext(table_schema=schema, projected=schema, schemas=(schema,), specs={1: by_city, 2: by_id})
    context = context.select(["_spec_id", "_partition"])
    found = []
    for spec in (by_city, by_id):
        (file,) = write(write_context(schema, spec=spec), store, [(7, "Bonn")], operation_id=str(spec.spec_id))
        found += rows_of(context.projected, read_task(FileScanTask(file, 1), context, store))
    assert found == [(1, ("Bonn", None)), (2, (None, 7))]


def test_avro_types_that_are_used_again_by_name_are_read() -> None:
    """AVRO-01: Java defines one fixed for all uuids and one for all decimals of a precision, and refers to it by name."""
    number = {"type": "fixed", "name": "decimal_9_2", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}
    key = {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}
    pair = {
        "type": "record",
        "name": "org.x.pair",
        "fields": [{"name": "u", "type": ["null", key], "default": None, "field-id": 6}],
    }
    schema = {
        "type": "record", "name": "table", "namespace": "org.x", "fields": [
            {"name": "a", "type": ["null", number], "default": None, "field-id": 1},
            {"name": "b", "type": ["null", "decimal_9_2"], "default": None, "field-id": 2},
            {"name": "c", "type": {"type": "array", "items": "org.x.decimal_9_2", "element-id": 4}, "field-id": 3},
            {"name": "s", "type": pair, "field-id": 5},
            {"name": "k", "type": "uuid_fixed", "field-id": 7},
        ],
    }  # fmt: skip
    raw, one = (128).to_bytes(4, "big"), uuid.UUID(int=1)
    out = io.BytesIO()
    plain = fastavro.parse_schema({**schema, "fields": [dict(f) for f in schema["fields"]]})
    fastavro.writer(
        out, plain, [{"a": Decimal("1.28"), "b": Decimal("1.28"), "c": [Decimal("1.28")], "s": {"u": one.bytes}, "k": one.bytes}]
    )
    assert raw in out.getvalue()
    store = new_io()
    store.write("memory://f", out.getvalue())
    file = DataFile(file_path="memory://f", file_format=FileFormat.AVRO, record_count=1, file_size_in_bytes=1)
    wanted = Schema.of(
        NestedField(1, "a", decimal(9)),
        NestedField(2, "b", decimal(9)),
        NestedField(3, "c", list_of(4, decimal(9))),
        NestedField(5, "s", StructType((NestedField(6, "u", UUID),))),
        NestedField(7, "k", UUID),
    )
    cents = Decimal("1.28")
    assert read([file], wanted, store) == [(cents, cents, [cents], (one,), one)]


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (["int", "string"], "not supported: Avro unions of several types"),
        (["null", "table"], "not supported: Avro type table, because it is not defined before or contains itself"),
    ],
    ids=str,
)
def test_avro_schemas_that_no_table_has_are_refused_by_name(type_: Any, message: str) -> None:
    """AVRO-02"""
    schema = {"type": "record", "name": "table", "fields": [{"name": "v", "type": type_, "field-id": 1}]}
    out = io.BytesIO()
    fastavro.writer(out, schema, [])
    store = new_io()
    store.write("memory://f", out.getvalue())
    file = DataFile(file_path="memory://f", file_format=FileFormat.AVRO, record_count=0, file_size_in_bytes=1)
    with pytest.raises(UnsupportedError, match=message):
        read([file], Schema.of(NestedField(1, "v", INT)), store)
