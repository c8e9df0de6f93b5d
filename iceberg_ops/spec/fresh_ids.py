"""Assigns new field ids to types, in the same order as Java.

All fields of a struct get their ids before the fields inside them; so do a list's element and a map's key and value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from iceberg_ops.spec.types import IcebergType, ListType, MapType, NestedField, StructType, child_fields


def with_fresh_ids(type_: IcebergType, next_id: Callable[[], int]) -> IcebergType:
    """``type_`` with every nested field's id taken from ``next_id``; a primitive is unchanged."""
    fields = child_fields(type_)
    ids = [next_id() for _ in fields]
    fresh = tuple(replace(f, field_id=i, type=with_fresh_ids(f.type, next_id)) for f, i in zip(fields, ids, strict=True))
    return with_children(type_, fresh)


def with_children(type_: IcebergType, fields: tuple[NestedField, ...]) -> IcebergType:
    """The same nested type with other child fields, in the order of ``child_fields``."""
    if isinstance(type_, StructType):
        return replace(type_, fields=fields)
    if isinstance(type_, ListType):
        return replace(type_, element=fields[0])
    if isinstance(type_, MapType):
        return replace(type_, key=fields[0], value=fields[1])
    return type_
