"""Types and schemas <-> JSON (spec: Appendix C, "Schemas").

Unknown keys are kept at every level. Reading raises CorruptTableError; the writer's spelling of a type is the canonical one.
"""

from __future__ import annotations

from typing import Any

from iceberg_ops.errors import CorruptTableError, SchemaError
from iceberg_ops.serde.json.json_objects import JsonObject, as_flag, as_int, as_list, as_text, parse_json
from iceberg_ops.serde.json.single_value_json import from_json_value, to_json_value
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    MISSING,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    primitive_from_name,
)


def type_to_json(type_: IcebergType) -> Any:
    """A primitive's name, or a nested type's JSON object."""
    if isinstance(type_, StructType):
        return {"type": "struct", "fields": [_field_to_dict(f) for f in type_.fields], **type_.extra}
    if isinstance(type_, ListType):
        return {
            "type": "list",
            "element-id": type_.element.field_id,
            "element": type_to_json(type_.element.type),
            "element-required": type_.element.required,
            **type_.extra,
        }
    if isinstance(type_, MapType):
        return {
            "type": "map",
            "key-id": type_.key.field_id,
            "key": type_to_json(type_.key.type),
            "value-id": type_.value.field_id,
            "value": type_to_json(type_.value.type),
            "value-required": type_.value.required,
            **type_.extra,
        }
    return str(type_)


def _field_to_dict(f: NestedField) -> dict[str, Any]:
    document: dict[str, Any] = {"id": f.field_id, "name": f.name, "required": f.required, "type": type_to_json(f.type)}
    if f.doc is not None:
        document["doc"] = f.doc
    if f.initial_default is not MISSING:
        document["initial-default"] = to_json_value(f.type, f.initial_default)
    if f.write_default is not MISSING:
        document["write-default"] = to_json_value(f.type, f.write_default)
    return document | {key: value for key, value in f.extra.items() if key not in document}


def schema_to_dict(schema: Schema) -> dict[str, Any]:
    """The schema's JSON object, with ``schema-id``; with ``identifier-field-ids`` if there are any."""
    document: dict[str, Any] = {"type": "struct", "schema-id": schema.schema_id}
    if schema.identifier_field_ids:
        document["identifier-field-ids"] = list(schema.identifier_field_ids)
    document["fields"] = [_field_to_dict(f) for f in schema.fields]
    return document | {key: value for key, value in schema.extra.items() if key not in document}


def type_from_json(value: Any, what: str = "type") -> IcebergType:
    """The type of a JSON name or object. Raises CorruptTableError."""
    if isinstance(value, str):
        try:
            return primitive_from_name(value)
        except SchemaError as e:
            raise CorruptTableError(f"{what}: {e}") from None
    document = JsonObject(value, what)
    kind = document.get("type", as_text)
    if kind == "struct":
        fields = tuple(_field_from_dict(f, what) for f in document.get("fields", as_list))
        return StructType(fields, document.extra())
    if kind == "list":
        element_id, required = document.get("element-id", as_int), document.get("element-required", as_flag)
        element = NestedField(element_id, "element", document.get("element", type_from_json), required)
        return ListType(element, document.extra())
    if kind == "map":
        key = NestedField(document.get("key-id", as_int), "key", document.get("key", type_from_json), True)
        value_id, required = document.get("value-id", as_int), document.get("value-required", as_flag)
        return MapType(key, NestedField(value_id, "value", document.get("value", type_from_json), required), document.extra())
    raise CorruptTableError(f"{what}: unknown nested type {kind!r}: must be struct, list or map")


def _field_from_dict(value: Any, what: str) -> NestedField:
    document = JsonObject(value, f"a field of {what}")
    field_id, name = document.get("id", as_int), document.get("name", as_text)
    document.what = f"field {name!r} of {what}"
    type_ = document.get("type", type_from_json)
    defaults = {"initial-default": MISSING, "write-default": MISSING}
    for key in defaults:
        if isinstance(value, dict) and key in value:
            defaults[key] = document.get(key, lambda v, w: from_json_value(type_, v, w))
    return NestedField(
        field_id,
        name,
        type_,
        document.get("required", as_flag),
        document.maybe("doc", as_text),
        defaults["initial-default"],
        defaults["write-default"],
        document.extra(),
    )


def schema_from_dict(value: Any, what: str = "schema") -> Schema:
    """The schema of a JSON object; ``schema-id`` defaults to 0 (v1). Raises CorruptTableError, also for a repeated field id."""
    document = JsonObject(value, what)
    schema_id = document.maybe("schema-id", as_int) or 0
    if document.get("type", as_text) != "struct":
        raise CorruptTableError(f"{what}.type must be struct")
    document.what = what = f"{what} {schema_id}"
    fields = tuple(_field_from_dict(f, what) for f in document.get("fields", as_list))
    identifiers = document.optional_array("identifier-field-ids", lambda v: as_int(v, f"{what}.identifier-field-ids"))
    schema = Schema(StructType(fields), schema_id, identifiers, document.extra())
    try:
        known = schema.fields_by_id
    except SchemaError as e:
        raise CorruptTableError(str(e)) from None
    for field_id in identifiers:
        if field_id not in known:
            raise CorruptTableError(f"{what}: identifier field {field_id} is not in the schema")
    return schema


def schema_from_json(data: bytes | str, what: str = "schema") -> Schema:
    """``schema_from_dict`` of JSON text. Raises CorruptTableError."""
    return schema_from_dict(parse_json(data, what), what)
