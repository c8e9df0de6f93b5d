"""Avro data and delete files as Arrow batches.

Values are decoded without Avro's logical types (dates and timestamps stay integers, at any distance from 1970) and
are converted to the Arrow types below. Ids are the schema's ``field-id``, ``element-id``, ``key-id`` and ``value-id``; a map whose
keys are not strings is an array of key-value records with logical type ``map`` (AVRO-05). A part of a file is the blocks that
begin in it; Avro is not columnar, so whole rows are decoded.
"""

from __future__ import annotations

import decimal
import lzma
import zlib
from collections.abc import Callable, Generator, Iterator
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from iceberg_ops.data.arrow.arrow_schema import FIELD_ID
from iceberg_ops.data.arrow.arrow_values import bare_batch
from iceberg_ops.data.arrow.batch_sizes import BATCH_BYTES
from iceberg_ops.data.columns.file_columns import ColumnIds, FileColumn, pruned
from iceberg_ops.data.formats import avro_codecs
from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.table.stored_files import read_failure

_WIDE = decimal.Context(prec=128)
Converter = Callable[[Any], Any] | None
avro_codecs.register()

_PLAIN = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "bytes": pa.binary(), "string": pa.string(), "null": pa.null(), "enum": pa.string(),
}  # fmt: skip
_UNDECODABLE = (ValueError, KeyError, EOFError, TypeError, IndexError, lzma.LZMAError, zlib.error)
_UNREADABLE = (
    ValueError, KeyError, EOFError, TypeError, StopIteration, IndexError, AttributeError, SchemaParseException, UnknownType,
    RecursionError, pa.ArrowException,
)  # fmt: skip
"""Errors of opening a file that is not an Avro file, or whose schema is invalid."""
_MOST_DIGITS = 38
"""The most digits of a decimal of 16 bytes."""
_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}


class AvroFile:
    """One open Avro file (see ``formats.OpenFile``)."""

    def __init__(self, io: FileIO, location: str, ids: ColumnIds) -> None:
        self.location = location
        self._source = io.open_input(location)
        try:
            self._read_schema(ids)
        except _UNREADABLE as e:
            self._source.close()
            what = f"{type(e).__name__} {e}" if isinstance(e, KeyError) else str(e)
            raise CorruptTableError(f"file {location} is not a readable avro file: {what}") from None
        except BaseException:
            self._source.close()
            raise

    def _read_schema(self, ids: ColumnIds) -> None:
        self._blocks = fastavro.block_reader(self._source)
        schema: Any = self._blocks.writer_schema
        if isinstance(schema, dict) and schema.get("type") != "record":
            raise CorruptTableError(f"file {self.location}: its Avro schema is not a record")
        self._raw = fastavro.parse_schema(_without_logical_types(schema), _force=True)
        schema = _spelled_out(schema, {}, "")
        self._fields = [_Typed(f["type"], f.get("field-id")) for f in schema["fields"]]
        self._names = [f["name"] for f in schema["fields"]]
        arrow = [
            _arrow_field(f.get("iceberg-field-name", f["name"]), t) for f, t in zip(schema["fields"], self._fields, strict=True)
        ]
        self._schema = pa.schema(arrow)
        self.columns: tuple[FileColumn, ...] = ids.columns(self._schema)

    def close(self) -> None:
        self._source.close()

    def batches(
        self, leaves: set[int], start: int, length: int | None, batch_rows: int, where: Expression = ALWAYS_TRUE
    ) -> Generator[tuple[int, pa.RecordBatch, tuple[FileColumn, ...]]]:
        picked = [c for c in self.columns if leaves.intersection(c.leaves)]
        schema = pa.schema([self._schema.field(c.index) for c in picked])
        columns = pruned(self.columns, schema, {n for c in picked for n in c.leaves})
        for position, rows in self._records(start, length, batch_rows):
            try:
                batch = self._batch(rows, picked, schema)
            except (pa.ArrowException, *_UNDECODABLE, OverflowError, decimal.InvalidOperation) as e:
                raise CorruptTableError(f"file {self.location} cannot be decoded: {e}") from None
            yield position, batch, columns

    def _records(self, start: int, length: int | None, batch_rows: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        position = 0
        rows: list[dict[str, Any]] = []
        first = size = 0
        try:
            for block in self._blocks:
                # The sync marker before a block decides: the first block begins right after the header.
                inside = (position == 0 and start == 0) or block.offset > start
                inside = inside and (length is None or block.offset <= start + length)
                if inside:
                    first = first if rows else position
                    rows.extend(self._decoded(block))
                    size += len(block.bytes_.getbuffer())  # type: ignore[attr-defined]
                position += block.num_records
                while len(rows) >= batch_rows or (rows and size >= BATCH_BYTES):
                    taken = rows[:batch_rows]
                    yield first, taken
                    size -= size * len(taken) // len(rows)
                    rows, first = rows[batch_rows:], first + len(taken)
        except (*_UNDECODABLE, OSError, CorruptTableError) as e:
            if isinstance(e, OSError) and e.errno is not None:
                raise read_failure(e, self.location) from None  # of the store; bzip2 reports damage without an error number
            raise CorruptTableError(f"file {self.location} cannot be decoded: {e}") from None
        if rows:
            yield first, rows

    def _decoded(self, block: Any) -> Iterator[dict[str, Any]]:
        for _ in range(block.num_records):
            yield fastavro.schemaless_reader(block.bytes_, self._raw)  # type: ignore[misc]

    def _batch(self, rows: list[dict[str, Any]], picked: list[FileColumn], schema: pa.Schema) -> pa.RecordBatch:
        if not picked:
            return bare_batch(len(rows))
        arrays = []
        for c, target in zip(picked, schema, strict=True):
            name, convert = self._names[c.index], self._fields[c.index].convert
            values = [row[name] for row in rows] if convert is None else [convert(row[name]) for row in rows]
            arrays.append(pa.array(values, target.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _Typed:
    """An Avro type as an Arrow type, with the conversion its raw values need (None: none), nullability and id."""

    def __init__(self, avro: Any, field_id: int | None) -> None:
        self.field_id = field_id
        self.nullable = isinstance(avro, list)
        if isinstance(avro, list):
            options = [t for t in avro if t != "null"]
            if len(options) > 1:
                raise UnsupportedError("not supported: Avro unions of several types, because the spec allows only unions with null")
            avro = options[0] if options else "null"
        self.type, self._convert = _typed(avro)

    @property
    def convert(self) -> Converter:
        inner = self._convert
        if inner is None:
            return None
        return lambda value: None if value is None else inner(value)


def _arrow_field(name: str, typed: _Typed) -> pa.Field:
    metadata = None if typed.field_id is None else {FIELD_ID: str(typed.field_id).encode()}
    return pa.field(name, typed.type, nullable=typed.nullable or typed.type == pa.null(), metadata=metadata)


def _typed(avro: Any) -> tuple[pa.DataType, Converter]:
    if isinstance(avro, str):
        if avro not in _PLAIN:
            raise UnsupportedError(f"not supported: Avro type {avro}, because it is not defined before or contains itself")
        return _PLAIN[avro], None
    kind = avro["type"]
    if isinstance(kind, dict | list):
        typed = _Typed(kind, None)
        return typed.type, typed.convert
    if kind == "record":
        return _record(avro)
    if kind == "array":
        return _pairs(avro) if avro.get("logicalType") == "map" else _array(avro)
    if kind == "map":
        value = _Typed(avro["values"], avro.get("value-id"))
        return _map_type(_Typed("string", avro.get("key-id")), value, lambda m: list(m.items()))
    return _logical(avro, kind)


def _logical(avro: dict[str, Any], kind: str) -> tuple[pa.DataType, Converter]:
    logical = avro.get("logicalType")
    zone = "UTC" if avro.get("adjust-to-utc") else None
    if logical == "decimal":
        scale = avro.get("scale", 0)
        width = pa.decimal128 if avro["precision"] <= _MOST_DIGITS else pa.decimal256
        return width(avro["precision"], scale), lambda raw: _decimal(raw, scale)
    if logical in ("timestamp-millis", "timestamp-micros", "timestamp-nanos"):
        return pa.timestamp(_UNITS[logical.rpartition("-")[2]], zone), None
    if logical in ("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"):
        return pa.timestamp(_UNITS[logical.rpartition("-")[2]]), None
    if logical == "date":
        return pa.date32(), None
    if logical in ("time-micros", "time-millis"):
        return (pa.time64("us"), None) if logical == "time-micros" else (pa.time32("ms"), None)
    if kind == "fixed":
        return pa.binary(avro["size"]), None
    return _PLAIN[kind], None


def _decimal(raw: bytes, scale: int) -> Any:
    return decimal.Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale, _WIDE)


def _record(avro: dict[str, Any]) -> tuple[pa.DataType, Converter]:
    names = [f["name"] for f in avro["fields"]]
    typed = [_Typed(f["type"], f.get("field-id")) for f in avro["fields"]]
    shown = [f.get("iceberg-field-name", f["name"]) for f in avro["fields"]]
    type_ = pa.struct([_arrow_field(n, t) for n, t in zip(shown, typed, strict=True)])
    converts = [t.convert for t in typed]
    if shown == names and not any(converts):
        return type_, None
    steps = list(zip(names, shown, converts, strict=True))
    return type_, lambda row: {s: row[n] if c is None else c(row[n]) for n, s, c in steps}


def _array(avro: dict[str, Any]) -> tuple[pa.DataType, Converter]:
    element = _Typed(avro["items"], avro.get("element-id"))
    convert = element.convert
    return pa.list_(_arrow_field("element", element)), None if convert is None else lambda row: [convert(v) for v in row]


def _pairs(avro: dict[str, Any]) -> tuple[pa.DataType, Converter]:
    fields = {f["name"]: f for f in avro["items"]["fields"]}
    key = _Typed(fields["key"]["type"], fields["key"].get("field-id"))
    value = _Typed(fields["value"]["type"], fields["value"].get("field-id"))
    return _map_type(key, value, lambda rows: [(r["key"], r["value"]) for r in rows])


def _map_type(key: _Typed, value: _Typed, pairs: Callable[[Any], list[tuple[Any, Any]]]) -> tuple[pa.DataType, Converter]:
    type_ = pa.map_(_arrow_field("key", key).with_nullable(False), _arrow_field("value", value))
    key_of, value_of = key.convert, value.convert

    def convert(raw: Any) -> Any:
        return [(k if key_of is None else key_of(k), v if value_of is None else value_of(v)) for k, v in pairs(raw)]

    return type_, convert


def _spelled_out(avro: Any, known: dict[str, Any], space: str) -> Any:
    """The schema with every named type repeated where it is used, because Java uses one fixed type for all uuid columns."""
    if isinstance(avro, list):
        return [_spelled_out(t, known, space) for t in avro]
    if isinstance(avro, str):
        return avro if avro in _PLAIN else known.get(_full_name(avro, space), avro)
    made = dict(avro)
    space = made.get("namespace", made["name"].rpartition(".")[0] or space) if "name" in made else space
    for key in ("type", "items", "values"):
        if isinstance(made.get(key), dict | list) or (key != "type" and key in made):
            made[key] = _spelled_out(made[key], known, space)
    if "fields" in made:
        made["fields"] = [{**f, "type": _spelled_out(f["type"], known, space)} for f in made["fields"]]
    if made["type"] in ("record", "fixed", "enum"):
        known[_full_name(made["name"], space)] = made
    return made


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _without_logical_types(avro: Any) -> Any:
    if isinstance(avro, list):
        return [_without_logical_types(t) for t in avro]
    if isinstance(avro, dict):
        dropped = ("logicalType", "__fastavro_parsed__", "__named_schemas")
        return {
            k: _without_logical_types(v) if k in ("type", "items", "values", "fields") else v
            for k, v in avro.items()
            if k not in dropped
        }
    return avro
