"""Refuses to promote a date column to timestamp_ns where live rows hold a date that no timestamp_ns can hold.

The format allows the promotion, and then every scan of the column fails: in this package, in Iceberg Java, and for good, because no
type goes back. Dates that stand for "never" (9999-12-31) are such dates. The bounds of live files tell; a file without bounds is
not read. Only branches are checked: a tag is read with its own schema. Files that were written before the promotion and are
committed or published after it are checked then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from iceberg_ops.errors import CorruptTableError, SchemaError
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.requirements import TableRequirement, same_heads
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import DATE, TIMESTAMP_NS
from iceberg_ops.spec.values import from_bytes
from iceberg_ops.table.former_columns import live_entries_of
from iceberg_ops.table.manifests import manifests_of
from iceberg_ops.table.table import Table

_LAST_DAY = 106_751
"""The last whole day of a timestamp_ns, 2262-04-11, and with a minus the first one, 1677-09-22."""


def no_dates_beyond_nanoseconds(table: Table, schema: Schema) -> tuple[TableRequirement, ...]:
    """The requirements for ``schema`` to replace the current one: no branch was moved or created since its files were looked at.
    Empty if the change promotes no date to timestamp_ns: then no file is read. Raises SchemaError, CorruptTableError."""
    dates = _promoted(table.schema, schema)
    if not dates:
        return ()
    branches = {name: ref.snapshot_id for name, ref in table.metadata.refs.items() if ref.is_branch}
    for branch, file in _live_files(table, branches):
        for field_id in dates:
            if _is_beyond(file, field_id):
                raise SchemaError(
                    f"cannot change the type of column {table.schema.names_by_id[field_id]!r}: date to timestamp_ns: file "
                    f"{file.file_path}, live in branch {branch!r}, has a date outside 1677-09-22 to 2262-04-11, which no "
                    f"timestamp_ns can hold, and no scan of the column would succeed: promote it to timestamp, or first change "
                    f"these rows and run rewrite_data_files"
                )
    return same_heads(table.metadata)


def date_beyond_nanoseconds(now: Schema, written: Schema, files: Iterable[DataFile]) -> str | None:
    """A date of ``files`` of schema ``written`` that its column cannot hold any more, and which column; None if there is none."""
    dates = _promoted(written, now)
    for file, field_id in ((f, i) for f in files for i in dates):
        if _is_beyond(file, field_id):
            return (
                f"column {now.names_by_id[field_id]!r} (field {field_id}) is of type timestamp_ns, and cannot hold a date outside "
                f"1677-09-22 to 2262-04-11 of {file.file_path}, which was written when it was of type date"
            )
    return None


def _promoted(before: Schema, after: Schema) -> list[int]:
    """Date columns, by id, that are timestamp_ns afterwards."""
    then = after.fields_by_id
    return [i for i, f in before.fields_by_id.items() if f.type == DATE and i in then and then[i].type == TIMESTAMP_NS]


def _live_files(table: Table, branches: dict[str, int]) -> Iterator[tuple[str, DataFile]]:
    seen: set[str] = set()
    for branch, head in branches.items():
        snapshot = table.metadata.snapshot(head)
        for manifest in manifests_of(table, snapshot):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                yield from ((branch, entry.data_file) for entry in live_entries_of(table, snapshot, manifest))


def _is_beyond(file: DataFile, field_id: int) -> bool:
    """Whether a bound is such a date; an unreadable one tells nothing."""
    bounds = [
        bounds_by_id[field_id]
        for bounds_by_id in (file.lower_bounds, file.upper_bounds)
        if bounds_by_id and field_id in bounds_by_id
    ]
    try:
        return any(abs(from_bytes(DATE, bound)) > _LAST_DAY for bound in bounds)
    except CorruptTableError:
        return False
