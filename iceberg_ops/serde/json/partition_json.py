"""Partition specs <-> JSON (spec: Appendix C, "Partition Specs").

v1 writers may omit ``field-id``: ids are then 1000, 1001, ... by position within each spec. A field with one source has
``source-id``, with several ``source-ids``.
"""

from __future__ import annotations

from typing import Any

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.serde.json.json_objects import JsonObject, as_int, as_list, as_text
from iceberg_ops.spec.partitioning import FIRST_PARTITION_FIELD_ID, PartitionField, PartitionSpec
from iceberg_ops.spec.transforms import transform_from_text


def sources_to_dict(source_ids: tuple[int, ...]) -> dict[str, Any]:
    """``source-id`` or, for several, ``source-ids``."""
    return {"source-id": source_ids[0]} if len(source_ids) == 1 else {"source-ids": list(source_ids)}


def sources_from_dict(document: JsonObject) -> tuple[int, ...]:
    """The source ids of a partition or sort field. Raises CorruptTableError if it names none."""
    if document.has("source-ids"):
        document.drop("source-id")
        ids = tuple(as_int(v, f"{document.what}.source-ids") for v in document.get("source-ids", as_list))
        if not ids:
            raise CorruptTableError(f"{document.what}.source-ids is empty: must name at least one column")
        return ids
    return (document.get("source-id", as_int),)


def spec_fields_to_list(spec: PartitionSpec) -> list[dict[str, Any]]:
    """Only the fields, as stored in manifests and v1 metadata."""
    return [
        {"name": f.name, "transform": str(f.transform), **sources_to_dict(f.source_ids), "field-id": f.field_id, **f.extra}
        for f in spec.fields
    ]


def spec_to_dict(spec: PartitionSpec) -> dict[str, Any]:
    """The spec's JSON object."""
    return {"spec-id": spec.spec_id, "fields": spec_fields_to_list(spec), **spec.extra}


def spec_fields_from_list(value: Any, what: str = "partition spec") -> tuple[PartitionField, ...]:
    """Fields from a JSON array. Raises CorruptTableError, also if only some fields have an id."""
    items = [JsonObject(item, f"a field of {what}") for item in as_list(value, what)]
    with_id = sum(item.has("field-id") for item in items)
    if 0 < with_id < len(items):
        raise CorruptTableError(f"{what}: {len(items) - with_id} of {len(items)} fields lack field-id: all or none must have it")
    fields = []
    for position, item in enumerate(items):
        name = item.get("name", as_text)
        item.what = f"field {name!r} of {what}"
        field_id = item.maybe("field-id", as_int)
        fields.append(
            PartitionField(
                sources_from_dict(item),
                FIRST_PARTITION_FIELD_ID + position if field_id is None else field_id,
                transform_from_text(item.get("transform", as_text)),
                name,
                item.extra(),
            )
        )
    return tuple(fields)


def spec_from_dict(value: Any, what: str = "partition spec") -> PartitionSpec:
    """The spec of a JSON object. Raises CorruptTableError."""
    document = JsonObject(value, what)
    spec_id = document.get("spec-id", as_int)
    fields = document.get("fields", lambda v, _: spec_fields_from_list(v, f"{what} {spec_id}"))
    return PartitionSpec(spec_id, fields, document.extra())
