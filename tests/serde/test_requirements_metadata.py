"""Sort orders that can not be understood whole still parse: SORT-04, SORT-07, META-37."""

from __future__ import annotations

from iceberg_ops.serde.metadata_json import metadata_from_dict, metadata_to_dict
from tests.serde.test_metadata_json import document


def test_sort_orders_over_dropped_columns_and_unknown_transforms_are_kept() -> None:
    """SORT-04, SORT-07"""
    field = {"transform": "identity", "source-id": 77, "direction": "asc", "null-order": "nulls-first"}
    odd = {"transform": "frobnicate[2]", "source-id": 1, "direction": "desc", "null-order": "nulls-last"}
    orders = [{"order-id": 0, "fields": []}, {"order-id": 1, "fields": [field]}, {"order-id": 2, "fields": [odd]}]
    metadata = metadata_from_dict(document(**{"sort-orders": orders, "default-sort-order-id": 2}))
    assert metadata.sort_order.order_id == 2
    assert metadata_to_dict(metadata)["sort-orders"] == orders
