"""Checks whether a promotion by another writer keeps equality deletes from reaching older rows of their keys.

A delete reaches rows of its own partition. If a promotion changes partition values (``spec.promotion``), an older row lies in
another partition than a delete of its key. For ints under truncate, the affected partitions are known by a value that no long has:
live files there show them. For dates only the table's schemas show it.
"""

from __future__ import annotations

from collections.abc import Sequence

from iceberg_ops.expressions.evaluators import manifest_pruner
from iceberg_ops.expressions.predicates import BoundPredicate, BoundReference, Op
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import ManifestContent, ManifestFile
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.promotion import MovedField, moved_by_promotion
from iceberg_ops.spec.types import INT
from iceberg_ops.spec.wrapped_values import WIDEST_OF_INTS, wrapped_truncation
from iceberg_ops.table.manifests import entries_of
from iceberg_ops.table.table import Table, require_spec


def unreached_keys(
    table: Table, manifests: Sequence[ManifestFile], specs: Sequence[PartitionSpec], deletes: Sequence[DataFile] = ()
) -> MovedField | None:
    """A partition field by which deletes in ``specs`` may miss rows of ``manifests``; None if there is none. ``deletes``: those
    that are already written, perhaps before the promotion. Raises CorruptTableError."""
    metadata = table.metadata
    for moved in moved_by_promotion(metadata.schemas, metadata.schema, specs, metadata.format_version):
        if moved.old != INT or _has_wrapped(table, manifests, moved, deletes):
            return moved
    return None


def why_unreached(table: Table, moved: MovedField) -> str:
    """The text for a message: which promotion of which column causes it."""
    column = table.schema.names_by_id.get(moved.field.source_id, str(moved.field.source_id))
    if moved.old == INT:
        return f"another writer promoted column {column!r} from {moved.old}"
    if moved.is_known:
        return f"another writer promoted column {column!r} from {moved.old}, or replaced the table"
    return f"another writer may have promoted column {column!r} from {moved.old} (the schema that it began with was removed)"


def _has_wrapped(table: Table, manifests: Sequence[ManifestFile], moved: MovedField, deletes: Sequence[DataFile]) -> bool:
    """Whether a file lies, or may lie, in a partition whose value wraps around for ints. If the width is so large that most values
    wrap, no partition is checked."""
    if (moved.field.transform.parameter or 0) > WIDEST_OF_INTS:
        return True
    spec = require_spec(table.metadata, moved.spec_id)
    place, value = spec.fields.index(moved.field), wrapped_truncation(moved.field.transform, 32)
    if any(f.spec_id == moved.spec_id and f.partition[place] == value for f in deletes):
        return True
    type_ = table.partition_type(moved.spec_id)
    column = type_.fields[place]
    is_there = BoundPredicate(Op.EQ, BoundReference(column.field_id, column.name, column.type, (place,)), (value,))
    may_hold = manifest_pruner(is_there, type_)
    return any(
        entry.data_file.partition[place] == value
        for m in manifests
        if m.content is ManifestContent.DATA and m.partition_spec_id == moved.spec_id and m.has_live_files and may_hold(m)
        for entry in entries_of(table, m, live_only=True)
    )
