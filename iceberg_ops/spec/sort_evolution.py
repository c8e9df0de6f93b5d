"""Building sort orders (spec: "Sorting"; Java: ReplaceSortOrder).

A new order replaces the table's default; orders that files refer to stay in the metadata.
"""

from __future__ import annotations

from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.schema import Schema, no_column
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.transforms import IDENTITY, Transform
from iceberg_ops.spec.updates import LAST_ADDED, AddSortOrder, SetDefaultSortOrder, TableUpdate
from iceberg_ops.spec.validity import check_sort_order


class SortOrderBuilder:
    """Collects sort keys, most significant first; without keys it builds the unsorted order."""

    def __init__(self, schema: Schema, *, case_sensitive: bool = True) -> None:
        self.schema = schema
        self._case_sensitive = case_sensitive
        self._fields: list[SortField] = []

    @classmethod
    def of_table(cls, metadata: TableMetadata, *, case_sensitive: bool = True) -> SortOrderBuilder:
        """For a new default order of the table."""
        return cls(metadata.schema, case_sensitive=case_sensitive)

    def asc(self, column: str, transform: Transform = IDENTITY, null_order: NullOrder = NullOrder.NULLS_FIRST) -> SortOrderBuilder:
        """Add an ascending key. Raises SchemaError for an unknown column."""
        return self._add(column, transform, SortDirection.ASC, null_order)

    def desc(self, column: str, transform: Transform = IDENTITY, null_order: NullOrder = NullOrder.NULLS_LAST) -> SortOrderBuilder:
        """Add a descending key. Raises SchemaError for an unknown column."""
        return self._add(column, transform, SortDirection.DESC, null_order)

    def _add(self, column: str, transform: Transform, direction: SortDirection, null_order: NullOrder) -> SortOrderBuilder:
        field = self.schema.find(column, case_sensitive=self._case_sensitive)
        if field is None:
            raise SchemaError(no_column(self.schema, column))
        self._fields.append(SortField((field.field_id,), transform, direction, null_order))
        return self

    def apply(self) -> SortOrder:
        """The order; id 0 for the unsorted one, 1 for any other until the metadata builder assigns an id. Raises SchemaError."""
        order = SortOrder(1 if self._fields else 0, tuple(self._fields))
        check_sort_order(order, self.schema)
        return order

    def updates(self) -> tuple[TableUpdate, ...]:
        """The updates to commit: the new order, made the default."""
        return AddSortOrder(self.apply()), SetDefaultSortOrder(LAST_ADDED)
