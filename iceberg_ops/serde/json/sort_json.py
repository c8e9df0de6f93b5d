"""Sort orders <-> JSON (spec: Appendix C, "Sort Orders").

Directions and null orders are read ignoring case, as in Java; a field without a transform (the spec of 2021) is
sorted by identity.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.serde.json.json_objects import JsonObject, as_int, as_list, as_text
from iceberg_ops.serde.json.partition_json import sources_from_dict, sources_to_dict
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import IDENTITY, transform_from_text

E = TypeVar("E", bound=Enum)


def sort_order_to_dict(order: SortOrder) -> dict[str, Any]:
    """The order's JSON object."""
    fields = [
        {
            "transform": str(f.transform),
            **sources_to_dict(f.source_ids),
            "direction": f.direction.value,
            "null-order": f.null_order.value,
            **f.extra,
        }
        for f in order.fields
    ]
    return {"order-id": order.order_id, "fields": fields, **order.extra}


def sort_order_from_dict(value: Any, what: str = "sort order") -> SortOrder:
    """The order of a JSON object. Raises CorruptTableError."""
    document = JsonObject(value, what)
    order_id = document.get("order-id", as_int)
    fields = tuple(_field_from_dict(f, f"a field of {what} {order_id}") for f in document.get("fields", as_list))
    if order_id == 0 and fields:
        raise CorruptTableError(f"{what} 0 has fields: order id 0 is the unsorted order")
    return SortOrder(order_id, fields, document.extra())


def _field_from_dict(value: Any, what: str) -> SortField:
    document = JsonObject(value, what)
    transform = document.maybe("transform", as_text)
    return SortField(
        sources_from_dict(document),
        IDENTITY if transform is None else transform_from_text(transform),
        _choice(SortDirection, document.get("direction", as_text), f"{what}.direction"),
        _choice(NullOrder, document.get("null-order", as_text), f"{what}.null-order"),
        document.extra(),
    )


def _choice(kind: type[E], text: str, what: str) -> E:
    try:
        return kind(text.lower())
    except ValueError:
        raise CorruptTableError(f"{what} is {text!r}: must be one of {', '.join(e.value for e in kind)}") from None
