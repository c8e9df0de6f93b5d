"""Partition tuples in manifests: the Avro type of each field, and the conversion of values.

The struct's type comes from the partition spec; its field ids are the spec's (PART-16). Names that are invalid in Avro are
sanitized as in the reference implementation (MANIFEST-62); readers use ids. Reading accepts narrower types: a value written before
its column was promoted is converted to the current type.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.serde.avro.avro_encoding import PRIMITIVES, Encode, optional
from iceberg_ops.serde.avro.avro_names import sanitized, unique
from iceberg_ops.serde.avro.avro_schema import Leaf
from iceberg_ops.spec.types import DecimalType, FixedType, IcebergType, PrimitiveType, StructType
from iceberg_ops.spec.values import decimal_of, unscaled

Convert = Callable[[Any], Any]

_MICROS_PER_DAY = 86_400_000_000
_LOGICAL: Mapping[str, tuple[str, dict[str, Any]]] = {
    "date": ("int", {"logicalType": "date"}),
    "time": ("long", {"logicalType": "time-micros"}),
    "timestamp": ("long", {"logicalType": "timestamp-micros", "adjust-to-utc": False}),
    "timestamptz": ("long", {"logicalType": "timestamp-micros", "adjust-to-utc": True}),
    "timestamp_ns": ("long", {"logicalType": "timestamp-nanos", "adjust-to-utc": False}),
    "timestamptz_ns": ("long", {"logicalType": "timestamp-nanos", "adjust-to-utc": True}),
}
_PLAIN = {**{name: name for name in ("boolean", "int", "long", "float", "double", "string")}, "binary": "bytes"}
_READS: Mapping[str, frozenset[str]] = {
    "boolean": frozenset({"boolean"}),
    "int": frozenset({"int", "long"}),
    "long": frozenset({"int", "long"}),
    "date": frozenset({"int", "long"}),
    "time": frozenset({"int", "long"}),
    "timestamp": frozenset({"int", "long"}),
    "timestamptz": frozenset({"int", "long"}),
    "timestamp_ns": frozenset({"int", "long"}),
    "timestamptz_ns": frozenset({"int", "long"}),
    "float": frozenset({"float"}),
    "double": frozenset({"float", "double"}),
    "decimal": frozenset({"fixed", "bytes"}),
    "uuid": frozenset({"fixed", "bytes", "string"}),
    "fixed": frozenset({"fixed", "bytes"}),
    "binary": frozenset({"bytes", "fixed"}),
    "string": frozenset({"string", "bytes"}),
}


def minimal_width(precision: int) -> int:
    """Bytes that can hold any decimal of that precision (the table under TYPE-07)."""
    width = 1
    while 2 ** (8 * width - 1) < 10**precision:
        width += 1
    return width


def partition_schema(partition_type: StructType) -> dict[str, Any]:
    """The Avro record of partition tuples (name ``r102``)."""
    fields: list[dict[str, Any]] = []
    taken: set[str] = set()
    for f in partition_type.fields:
        name = unique(sanitized(f.name), f.field_id, taken)
        avro = _avro_type(f.type)
        if isinstance(avro, dict) and "name" in avro:
            avro["name"] = unique(avro["name"], f.field_id, taken)
        type_ = avro if avro == "null" else ["null", avro]
        field: dict[str, Any] = {"name": name, "type": type_, "default": None, "field-id": f.field_id}
        if name != f.name:
            field["iceberg-field-name"] = f.name
        fields.append(field)
    return {"type": "record", "name": "r102", "fields": fields}


def _avro_type(type_: IcebergType) -> Any:
    if isinstance(type_, DecimalType):
        size = minimal_width(type_.precision)
        return {
            "type": "fixed",
            "name": f"decimal_{type_.precision}_{type_.scale}",
            "size": size,
            "logicalType": "decimal",
            "precision": type_.precision,
            "scale": type_.scale,
        }
    if isinstance(type_, FixedType):
        return {"type": "fixed", "name": f"fixed_{type_.length}", "size": type_.length}
    name = type_.name if isinstance(type_, PrimitiveType) else ""
    if name == "uuid":
        return {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}
    if name in _LOGICAL:
        base, more = _LOGICAL[name]
        return {"type": base, **more}
    if name in _PLAIN:
        return _PLAIN[name]
    return "null"


def partition_encoder(partition_type: StructType) -> Encode:
    """Partition tuple -> Avro bytes. A value that does not fit its type raises the error of the encoding."""
    encoders = [_value_encoder(f.type) for f in partition_type.fields]

    def encode(partition: tuple[Any, ...]) -> bytes:
        return b"".join([e(v) for e, v in zip(encoders, partition, strict=True)])

    return encode


def _value_encoder(type_: IcebergType) -> Encode:
    if isinstance(type_, DecimalType):
        size = minimal_width(type_.precision)
        return optional(lambda value: unscaled(value).to_bytes(size, "big", signed=True))
    avro = _avro_type(type_)
    if avro == "null":
        return PRIMITIVES["null"]
    if isinstance(avro, dict) and avro["type"] == "fixed":
        return optional((lambda value: value.bytes) if avro.get("logicalType") == "uuid" else bytes)
    return optional(PRIMITIVES[avro if isinstance(avro, str) else avro["type"]])


def partition_converter(type_: IcebergType, leaf: Leaf, name: str) -> Convert | None:
    """Converts a decoded Avro value to a canonical value of ``type_``; None if it already is one. Raises CorruptTableError."""
    kind = type_.name if isinstance(type_, PrimitiveType) else ""
    if leaf.base == "null" or kind not in _READS:
        return None
    if leaf.base not in _READS[kind]:
        raise CorruptTableError(f"{name}: partition value of type {type_} is written as Avro {leaf.base}")
    if isinstance(type_, DecimalType):
        scale = type_.scale
        written = scale if leaf.node is None else leaf.node.get("scale", scale)
        if written != scale:
            raise CorruptTableError(f"{name}: partition value of type {type_} is written as Avro decimal of scale {written}")
        return lambda raw: decimal_of(int.from_bytes(raw, "big", signed=True), scale)
    if kind == "uuid":
        return uuid.UUID if leaf.base == "string" else lambda raw: uuid.UUID(bytes=raw)
    if kind == "string" and leaf.base == "bytes":
        return lambda raw: raw.decode()
    factor = _ticks_per_written(kind, leaf.logical)
    return None if factor == 1 else lambda value: value * factor


def _ticks_per_written(kind: str, logical: str | None) -> int:
    """Ticks of the current type in one tick of the type in which the value was written."""
    nanos = kind.endswith("_ns")
    if not kind.startswith("time"):
        return 1
    micros = {
        "date": _MICROS_PER_DAY,
        "time-millis": 1000,
        "timestamp-millis": 1000,
        "local-timestamp-millis": 1000,
    }.get(logical or "", 1)
    if not nanos:
        return micros
    written_in_micros = micros > 1 or logical in ("timestamp-micros", "local-timestamp-micros")
    return micros * 1000 if written_in_micros else 1
