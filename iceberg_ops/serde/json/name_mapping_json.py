"""Name mappings <-> JSON, the value of ``schema.name-mapping.default`` (spec: Appendix C, "Name Mapping Serialization")."""

from __future__ import annotations

from typing import Any

import msgspec

from iceberg_ops.config.properties import NAME_MAPPING
from iceberg_ops.errors import CorruptTableError, SchemaError
from iceberg_ops.serde.json.json_objects import JsonObject, as_int, as_list, as_text, parse_json
from iceberg_ops.spec.name_mapping import MappedField, NameMapping, check_name_mapping, updated_name_mapping
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.updates import SetProperties


def name_mapping_from_json(data: bytes | str) -> NameMapping:
    """The mapping in a property's text. Raises CorruptTableError, also if one name stands for two fields at one level."""
    return name_mapping_from_list(parse_json(data, "name mapping"))


def name_mapping_from_list(value: Any) -> NameMapping:
    """From a parsed JSON array. Raises CorruptTableError."""
    mapping = NameMapping(_fields(value, "name mapping"))
    try:
        check_name_mapping(mapping)
    except SchemaError as e:
        raise CorruptTableError(str(e)) from None
    return mapping


def _fields(value: Any, what: str) -> tuple[MappedField, ...]:
    return tuple(_field(item) for item in as_list(value, what))


def _field(value: Any) -> MappedField:
    document = JsonObject(value, "an entry of the name mapping")
    names = tuple(as_text(n, "name mapping.names") for n in document.get("names", as_list))
    return MappedField(names, document.maybe("field-id", as_int), document.maybe("fields", _fields) or (), document.extra())


def name_mapping_to_list(mapping: NameMapping | MappedField) -> list[dict[str, Any]]:
    """The JSON array."""
    return [_field_to_dict(f) for f in mapping.fields]


def _field_to_dict(f: MappedField) -> dict[str, Any]:
    document: dict[str, Any] = {} if f.field_id is None else {"field-id": f.field_id}
    document["names"] = list(f.names)
    if f.fields:
        document["fields"] = name_mapping_to_list(f)
    return document | dict(f.extra)


def name_mapping_to_json(mapping: NameMapping) -> str:
    """The property's text."""
    return msgspec.json.encode(name_mapping_to_list(mapping)).decode("utf-8")


def table_name_mapping(metadata: TableMetadata) -> NameMapping | None:
    """The table's mapping; None if it has none. Raises CorruptTableError."""
    text = NAME_MAPPING.maybe(metadata.properties)
    return None if text is None else name_mapping_from_json(text)


def name_mapping_update(metadata: TableMetadata, schema: Schema) -> SetProperties | None:
    """The update of the table's mapping to commit with a new schema; None if nothing changes."""
    mapping = table_name_mapping(metadata)
    if mapping is None:
        return None
    updated = updated_name_mapping(mapping, schema)
    return None if updated == mapping else SetProperties({NAME_MAPPING.name: name_mapping_to_json(updated)})
