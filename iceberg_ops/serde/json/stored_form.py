"""Checks that table metadata can be stored: writing, reading and writing again gives the same bytes.

Every commit is checked before it is tried, because metadata that cannot be written would end as an unknown outcome, and metadata
that cannot be read would destroy the table. Only new parts are written and read: a commit of one snapshot costs the same on a
table of 10,000 snapshots and 1,000 columns. Old parts are recognised by object identity: the metadata builder keeps unchanged ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from iceberg_ops.errors import BadInputError, IcebergOpsError
from iceberg_ops.serde.json.metadata_json import metadata_from_json, metadata_to_dict, metadata_to_json
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import MAIN_BRANCH
from iceberg_ops.spec.sorting import SortOrder
from iceberg_ops.spec.table_metadata import TableMetadata

T = TypeVar("T")


def check_can_be_stored(metadata: TableMetadata, before: TableMetadata | None, what: str) -> None:
    """Raises BadInputError that names ``what``. ``before``: the stored metadata that ``metadata`` was built on."""
    new = metadata if before is None else _new_parts(metadata, before)
    try:
        _check_plain(metadata_to_dict(new), "metadata")
        written = metadata_to_json(new)
        again = metadata_to_json(metadata_from_json(written, "of this commit"))
    except (IcebergOpsError, TypeError, ValueError, ArithmeticError, AttributeError, LookupError, RecursionError) as e:
        raise BadInputError(f"{what}: its new metadata cannot be stored: {e}; nothing was committed") from e
    if again != written:
        raise BadInputError(f"{what}: its new metadata cannot be stored: {_difference(written, again)}; nothing was committed")


def _check_plain(value: Any, where: str) -> None:
    """Raises TypeError for a value without a JSON form of its own. The encoder would convert it to text (bytes to Base64)."""
    if isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{where} has the key {key!r}, which is not text")
            _check_plain(part, f"{where}.{key}")
    elif isinstance(value, list):
        for part in value:
            _check_plain(part, where)
    elif value is not None and not isinstance(value, str | int | float):
        raise TypeError(f"{where} is {value!r} of type {type(value).__name__}, which JSON does not have")


def _new_parts(metadata: TableMetadata, before: TableMetadata) -> TableMetadata:
    """``metadata`` without the parts of ``before``; a current schema, spec or order that is not new is left empty."""
    snapshots = metadata.snapshots_by_id
    refs = {name: ref for name, ref in metadata.refs.items() if before.refs.get(name) is not ref or name == MAIN_BRANCH}
    new_snapshots = _new(metadata.snapshots, before.snapshots)
    added = {s.snapshot_id for s in new_snapshots}
    named = {ref.snapshot_id for ref in refs.values()}
    return replace(
        metadata,
        schemas=_with_current(
            _new(metadata.schemas, before.schemas), lambda s: s.schema_id, Schema.of(schema_id=metadata.current_schema_id)
        ),
        partition_specs=_with_current(
            _new(metadata.partition_specs, before.partition_specs), lambda s: s.spec_id, PartitionSpec(metadata.default_spec_id)
        ),
        sort_orders=_with_current(
            _new(metadata.sort_orders, before.sort_orders), lambda o: o.order_id, SortOrder(metadata.default_sort_order_id)
        ),
        properties={key: value for key, value in metadata.properties.items() if before.properties.get(key) is not value},
        snapshots=(*(snapshots[i] for i in named if i in snapshots and i not in added), *new_snapshots),
        refs=refs,
        snapshot_log=_new(metadata.snapshot_log, before.snapshot_log),
        metadata_log=_new(metadata.metadata_log, before.metadata_log),
        statistics=_new(metadata.statistics, before.statistics),
        partition_statistics=_new(metadata.partition_statistics, before.partition_statistics),
        encryption_keys=_new(metadata.encryption_keys, before.encryption_keys),
        extra={} if metadata.extra is before.extra else metadata.extra,
    )


def _new(now: tuple[T, ...], before: Iterable[T]) -> tuple[T, ...]:
    if now is before:
        return ()
    known = set(map(id, before))
    return tuple(part for part in now if id(part) not in known)


def _with_current(new: tuple[T, ...], id_of: Callable[[T], int], stand_in: T) -> tuple[T, ...]:
    return new if any(id_of(part) == id_of(stand_in) for part in new) else (*new, stand_in)


def _difference(written: bytes, again: bytes) -> str:
    """The first key whose value changes by reading it."""
    sent, read = msgspec.json.decode(written), msgspec.json.decode(again)
    for key, value in sent.items():
        if read.get(key) != value:
            return f"{key} {value!r} would be read as {read.get(key)!r}"
    return "it would be read as other metadata"
