"""Writes one Avro data file (spec: "Avro").

Optional is a union with null, null first unless the column has another default (AVRO-02); ids are on fields, elements, keys and
values; a map whose keys are not strings is an array of key-value records. Values are passed to Avro as plain integers and bytes.
The only metric is the row count, because the format keeps no statistics (Java writes none either); blocks are not split
offsets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.write import Writer

from iceberg_ops.config.properties import AVRO_COMPRESSION
from iceberg_ops.data.arrow.arrow_values import values_of
from iceberg_ops.data.formats import avro_codecs
from iceberg_ops.data.formats.storable import check_storable
from iceberg_ops.data.writing.new_files import open_new_file
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.deletion.own_files import CreatedFiles
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.io.file_io import FileIO, discard_output
from iceberg_ops.serde.avro.avro_names import record_names
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    MISSING,
    STRING,
    UNKNOWN,
    VARIANT,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
)
from iceberg_ops.spec.values import unscaled

_CODECS = {"gzip": "deflate", "zstd": "zstandard", "snappy": "snappy", "uncompressed": "null", "none": "null"}
_PLAIN: dict[str, Any] = {
    "boolean": "boolean", "int": "int", "long": "long", "float": "float", "double": "double", "string": "string", "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    "timestamp_ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
    "timestamptz_ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
}  # fmt: skip
_STEP_ROWS = 4096
Encode = Callable[[Any], Any]
avro_codecs.register()
_MIN_BYTES = [next(n for n in range(1, 17) if 10**p - 1 < 1 << (8 * n - 1)) for p in range(1, 39)]
_MOST_HELD = 1 << 20
"""Arrow bytes that wait to be encoded. A fan-out writer has more partitions than open files, so small amounts must not each begin a
file."""


class AvroFileWriter:
    """See ``writer.FileWriter``. Rows are buffered up to a MiB or the target size, then encoded, and written block by block (16
    KB). The file is opened with the first encoded rows; without rows there is no file."""

    ratio: float | None = None

    def __init__(
        self,
        context: WriteContext,
        io: FileIO,
        location: str,
        partition: Sequence[Any],
        target_size: int,
        created: CreatedFiles | None = None,
    ) -> None:
        self.location = location
        self._created = created or CreatedFiles(io)
        self._context, self._io, self._partition, self._target = context, io, tuple(partition), target_size
        check_storable(context.file_schema, FileFormat.AVRO)
        self._fields = context.file_schema.fields
        self._encode_row = encoder(context.file_schema.struct)
        self._sink: Any = None
        self._writer: Any = None
        self._rows = 0
        self._held: list[pa.RecordBatch] = []
        self.buffered_bytes = 0

    @property
    def is_full(self) -> bool:
        return self._sink is not None and bool(self._sink.tell() >= self._target)

    @property
    def is_open(self) -> bool:
        return self._sink is not None

    def rows_that_fit(self, batch: pa.RecordBatch) -> int:
        """Rows are encoded at once, so this returns a small number of rows at a time."""
        return min(int(batch.num_rows), _STEP_ROWS)

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._held.append(batch)
        self.buffered_bytes += batch.nbytes
        if self.buffered_bytes >= min(_MOST_HELD, self._target):
            self.flush()

    def flush(self) -> None:
        """Encode the buffered rows."""
        held, self._held, self.buffered_bytes = self._held, [], 0
        if held and self._writer is None:
            self._sink = open_new_file(self._io, self.location, self._context, self._partition)
            self._writer = _writer(self._sink, self._context)
        for batch in held:
            self._encode(batch)
        if held:
            self._writer.flush()

    def _encode(self, batch: pa.RecordBatch) -> None:
        columns = [values_of(f.type, c) for f, c in zip(self._fields, batch.columns, strict=True)]
        for row in zip(*columns, strict=True):
            self._writer.write(self._encode_row(row))
        self._rows += batch.num_rows

    def close(self) -> DataFile | None:
        """Complete the file. None if no row was written."""
        self.flush()
        if self._writer is None:
            return None
        size = int(self._sink.tell())
        self._sink.close()
        self._created.created(self.location)
        return DataFile(
            content=FileContent.DATA,
            file_path=self.location,
            file_format=FileFormat.AVRO,
            spec_id=self._context.spec.spec_id,
            partition=self._partition,
            record_count=self._rows,
            file_size_in_bytes=size,
            sort_order_id=self._context.sort_order_id,
        )

    def abandon(self) -> None:
        """Leave the file incomplete; buffered rows are not written."""
        if self._sink is not None:
            discard_output(self._sink)


def _writer(sink: Any, context: WriteContext) -> Any:
    codec = _CODECS[AVRO_COMPRESSION.of(context.properties)]
    return Writer(sink, fastavro.parse_schema(avro_schema(context.file_schema)), codec=codec)


def avro_schema(schema: Schema, name: str = "table") -> dict[str, Any]:
    """The Avro schema of a data file."""
    return _record(schema.struct, name)


def _record(type_: StructType, name: str) -> dict[str, Any]:
    stored = _stored(type_)
    fields = [_field(f, avro) for f, avro in zip(stored, record_names(stored), strict=True)]
    return {"type": "record", "name": name, "fields": fields}


def _stored(type_: StructType) -> tuple[NestedField, ...]:
    return tuple(f for f in type_.fields if f.type != UNKNOWN)


def _field(f: NestedField, name: str) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "field-id": f.field_id}
    if name != f.name:
        made["iceberg-field-name"] = f.name
    inner, default = _avro_type(f), _avro_default(f)
    if f.required:
        return made | {"type": inner} | ({} if default is None else {"default": default})
    return made | ({"type": ["null", inner], "default": None} if default is None else {"type": [inner, "null"], "default": default})


def _avro_default(f: NestedField) -> Any:
    """The initial default in Avro's JSON form, bytes as Latin-1; None if there is none, or none that JSON can hold."""
    value = f.initial_default
    if value is MISSING or not f.type.is_primitive:
        return None
    made = encoder(f.type)(value)
    if isinstance(made, bytes):
        return made.decode("latin-1")
    return None if isinstance(made, float) and not math.isfinite(made) else made


def _avro_type(f: NestedField) -> Any:
    type_ = f.type
    if isinstance(type_, StructType):
        return _record(type_, f"r{f.field_id}")
    if isinstance(type_, ListType):
        return {"type": "array", "items": _part(type_.element), "element-id": type_.element.field_id}
    if isinstance(type_, MapType):
        return _map(type_)
    if isinstance(type_, DecimalType):
        size = _MIN_BYTES[type_.precision - 1]
        name = f"decimal_{f.field_id}"
        return {
            "type": "fixed",
            "name": name,
            "size": size,
            "logicalType": "decimal",
            "precision": type_.precision,
            "scale": type_.scale,
        }
    if isinstance(type_, FixedType):
        return {"type": "fixed", "name": f"fixed_{f.field_id}", "size": type_.length}
    if isinstance(type_, GeometryType | GeographyType):
        return "bytes"
    if type_ == VARIANT:
        parts = [{"name": n, "type": "bytes"} for n in ("metadata", "value")]
        return {"type": "record", "name": f"r{f.field_id}", "logicalType": "variant", "fields": parts}
    if isinstance(type_, PrimitiveType) and type_.name == "uuid":
        return {"type": "fixed", "name": f"uuid_{f.field_id}", "size": 16, "logicalType": "uuid"}
    if isinstance(type_, PrimitiveType) and type_.name in _PLAIN:
        return _PLAIN[type_.name]
    raise UnsupportedError(f"not supported: type {type_} in Avro data files, because no Avro form is defined for it")


def _part(f: NestedField) -> Any:
    return _avro_type(f) if f.required else ["null", _avro_type(f)]


def _map(type_: MapType) -> dict[str, Any]:
    key, value = type_.key, type_.value
    if key.type == STRING:
        return {"type": "map", "values": _part(value), "key-id": key.field_id, "value-id": value.field_id}
    fields = [
        {"name": "key", "type": _avro_type(key), "field-id": key.field_id},
        {"name": "value", "type": _part(value), "field-id": value.field_id, **({} if value.required else {"default": None})},
    ]
    record = {"type": "record", "name": f"k{key.field_id}_v{value.field_id}", "fields": fields}
    return {"type": "array", "items": record, "logicalType": "map"}


def encoder(type_: IcebergType) -> Encode:
    """The function that converts canonical values of that type, or None, to fastavro's input."""
    encode = _encoder(type_)
    return lambda value: None if value is None else encode(value)


def _encoder(type_: IcebergType) -> Encode:
    """``encoder`` for values that are not None."""
    if isinstance(type_, StructType):
        return _struct_encoder(type_)
    if isinstance(type_, ListType):
        element = encoder(type_.element.type)
        return lambda value: [element(v) for v in value]
    if isinstance(type_, MapType):
        key, part = encoder(type_.key.type), encoder(type_.value.type)
        if type_.key.type == STRING:
            return lambda value: {key(k): part(v) for k, v in value}
        return lambda value: [{"key": key(k), "value": part(v)} for k, v in value]
    if type_ == VARIANT:
        return lambda value: {"metadata": value.metadata, "value": value.value}
    if isinstance(type_, DecimalType):
        size = _MIN_BYTES[type_.precision - 1]
        return lambda value: unscaled(value).to_bytes(size, "big", signed=True)
    if isinstance(type_, PrimitiveType) and type_.name == "uuid":
        return lambda value: value.bytes
    return lambda value: value


def _struct_encoder(type_: StructType) -> Encode:
    stored = _stored(type_)
    steps = [(name, type_.fields.index(f), encoder(f.type)) for name, f in zip(record_names(stored), stored, strict=True)]
    return lambda value: {name: encode(value[at]) for name, at, encode in steps}
