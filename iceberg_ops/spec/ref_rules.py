"""Checks a branch or tag before it is written (spec: "Snapshot References")."""

from __future__ import annotations

from iceberg_ops.config.whole_numbers import INT_MAX, LONG_MAX
from iceberg_ops.errors import BadInputError, NoSuchSnapshotError
from iceberg_ops.spec.snapshots import MAIN_BRANCH, SnapshotRef
from iceberg_ops.spec.table_metadata import TableMetadata

_MOST_OF_REF = {"min_snapshots_to_keep": INT_MAX, "max_snapshot_age_ms": LONG_MAX, "max_ref_age_ms": LONG_MAX}
"""The limits of the format: Java cannot read a table with a greater number."""


def check_ref(state: TableMetadata, name: str, ref: SnapshotRef) -> None:
    """Raises NoSuchSnapshotError if the ref's snapshot is not in the table, BadInputError for any other broken rule."""
    if ref.snapshot_id not in state.snapshots_by_id:
        raise NoSuchSnapshotError(f"cannot set ref {name!r} to snapshot {ref.snapshot_id}: it is not in the table")
    if ref.type not in ("branch", "tag"):
        raise BadInputError(f"ref {name!r}: type {ref.type!r} must be 'branch' or 'tag'")
    if name == MAIN_BRANCH and not ref.is_branch:
        raise BadInputError("cannot set main to a tag: it must be a branch")
    if name == MAIN_BRANCH and ref.max_ref_age_ms is not None:
        raise BadInputError("ref 'main': max-ref-age-ms cannot be set, because main never expires")
    if not ref.is_branch and (ref.min_snapshots_to_keep is not None or ref.max_snapshot_age_ms is not None):
        raise BadInputError(f"tag {name!r}: min-snapshots-to-keep and max-snapshot-age-ms are for branches only")
    for key, most in _MOST_OF_REF.items():
        if (number := getattr(ref, key)) is not None and not (type(number) is int and 0 < number <= most):
            named = key.replace("_", "-")
            raise BadInputError(f"ref {name!r}: {named} {number!r} must be above 0 and at most {most}, and a whole number")
