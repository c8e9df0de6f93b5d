"""Sort orders that are only partly understood still parse (SORT-04, SORT-07, META-37); schemas show which one is current
(META-09)."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.serde.json.metadata_json import metadata_from_dict, metadata_to_dict
from tests.serde.test_metadata_json import document


def test_sort_orders_over_dropped_columns_and_unknown_transforms_are_kept() -> None:
    """SORT-04, SORT-07"""
    field = {"transform": "identity", "source-id": 77, "direction": "asc", "null-order": "nulls-first"}
    odd = {"transform": "frobnicate[2]", "source-id": 1, "direction": "desc", "null-order": "nulls-last"}
    orders = [{"order-id": 0, "fields": []}, {"order-id": 1, "fields": [field]}, {"order-id": 2, "fields": [odd]}]
    metadata = metadata_from_dict(document(**{"sort-orders": orders, "default-sort-order-id": 2}))
    assert metadata.sort_order.order_id == 2
    assert metadata_to_dict(metadata)["sort-orders"] == orders


@pytest.mark.parametrize("version", [1, 2, 3])
def test_schemas_without_the_id_of_the_current_one_are_refused_in_every_version(version: int) -> None:
    """META-09: optional in v1, but Java asks for it wherever ``schemas`` is there (TableMetadataParser)."""
    schema = document(version)["schemas"][0]
    old: dict[str, Any] = {"schema": schema} if version == 1 else {}
    unsaid: dict[str, Any] = {"current-schema-id": None}
    with pytest.raises(CorruptTableError, match="current-schema-id"):
        metadata_from_dict(document(version, **old, **unsaid))
    if version == 1:
        assert metadata_from_dict(document(1, schemas=None, **old, **unsaid)).current_schema_id == schema["schema-id"]
