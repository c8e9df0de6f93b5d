"""Creates the demo's Iceberg tables from ``datasets``, once: an existing table is not changed.

Runs in a task's own process; only this module of the demo opens the catalog to write.
"""

from __future__ import annotations

import contextlib

from demo.datasets import DATASETS, NAMESPACE, Dataset
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.errors import AlreadyExistsError
from iceberg_ops.spec.partitioning import FIRST_PARTITION_FIELD_ID, UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import UNSORTED, NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import IDENTITY, transform_from_text
from iceberg_ops.spec.types import NestedField, primitive_from_name


def ensure_table(config: CatalogConfig, name: str) -> str:
    """Create dataset ``name``'s namespace and table if they are missing; returns ``catalog.namespace.table``."""
    dataset = DATASETS[name]
    catalog = load_catalog(config)
    identifier = (NAMESPACE, dataset.name)
    if not catalog.table_exists(identifier):
        _ensure_namespace(catalog)
        # Another run may create it between our check and our call: then it exists, as wanted.
        with contextlib.suppress(AlreadyExistsError):
            catalog.create_table(
                identifier,
                schema_of(dataset),
                spec=partition_spec_of(dataset),
                sort_order=sort_order_of(dataset),
                properties={"comment": dataset.doc, **dataset.properties},
            )
    return f"{config.name}.{dataset.table}"


def schema_of(dataset: Dataset) -> Schema:
    """The dataset's columns as an Iceberg schema with docs; key columns are required and identify a row."""
    fields = [
        NestedField(i, c.name, primitive_from_name(c.type), required=c.key, doc=c.doc)
        for i, c in enumerate(dataset.columns, start=1)
    ]
    return Schema.of(*fields, identifier_field_ids=tuple(f.field_id for f in fields if f.required))


def partition_spec_of(dataset: Dataset) -> PartitionSpec:
    """Partition fields in the dataset's order, with Iceberg's default names (``time_hour_day``)."""
    if not dataset.partition_by:
        return UNPARTITIONED
    fields = [
        PartitionField(
            (_id(dataset, column),), FIRST_PARTITION_FIELD_ID + i, transform_from_text(transform), f"{column}_{transform}"
        )
        for i, (transform, column) in enumerate(dataset.partition_by)
    ]
    return PartitionSpec(0, tuple(fields))


def sort_order_of(dataset: Dataset) -> SortOrder:
    """Ascending, nulls first."""
    if not dataset.sort_by:
        return UNSORTED
    fields = [SortField((_id(dataset, c),), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST) for c in dataset.sort_by]
    return SortOrder(1, tuple(fields))


def _id(dataset: Dataset, column: str) -> int:
    return [c.name for c in dataset.columns].index(column) + 1


def _ensure_namespace(catalog: Catalog) -> None:
    with contextlib.suppress(AlreadyExistsError):
        catalog.create_namespace((NAMESPACE,), {"comment": "flights from New York City, 2013"})
