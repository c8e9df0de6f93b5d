"""Partition tuples as Hive-style paths: ``ts_hour=2017-12-01-10/id_bucket=3`` (Java: PartitionSpec.partitionToPath).

Paths are for people and file names only: readers take partition values from manifests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote_plus

from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.transform_functions import human_value
from iceberg_ops.spec.types import UNKNOWN, NestedField


def escape(text: str) -> str:
    """Java's URLEncoder over UTF-8: letters, digits and ``.-*_`` stay, a space becomes ``+``."""
    return quote_plus(text.encode("utf-8", "replace"), safe="*").replace("~", "%7E")


def partition_path(spec: PartitionSpec, partition: Sequence[Any], fields_by_id: Mapping[int, NestedField]) -> str:
    """``name=value`` of each field, escaped and joined by slashes; empty for an unpartitioned spec.

    ``partition`` has one canonical value per field of ``spec``; ``fields_by_id`` as for ``PartitionSpec.partition_type``.
    """
    parts = []
    for field, value in zip(spec.fields, partition, strict=True):
        source = fields_by_id.get(field.source_id)
        text = human_value(field.transform, source.type if source is not None else UNKNOWN, value)
        parts.append(f"{escape(field.name)}={escape(text)}")
    return "/".join(parts)
