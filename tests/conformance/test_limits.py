"""The limits of this package, each refused by name: the second part of docs/conformance.md."""

from __future__ import annotations

import pytest

from iceberg_ops.data.writing.delete_files import write_equality_deletes, write_position_deletes
from iceberg_ops.data.writing.row_deletes import write_row_deletes
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from tests.builders import data_file
from tests.data.files import new_io, read, write, write_context

SCHEMA = Schema.of(NestedField(1, "id", LONG, True))


def test_orc_files_are_read_and_not_written() -> None:
    """ORC-01, ORC-02"""
    context = write_context(SCHEMA, properties={"write.format.default": "orc"})
    with pytest.raises(UnsupportedError, match="not supported: writing ORC files"):
        write(context, new_io(), [(1,)])
    context = write_context(SCHEMA, version=2, properties={"write.delete.format.default": "orc"})
    with pytest.raises(UnsupportedError, match="not supported: ORC delete files"):
        write_position_deletes(new_io(), context, {data_file("/a"): [1]}, operation_id="d")


@pytest.mark.parametrize("column", ["_change_type", "_change_ordinal", "_commit_snapshot_id"])
def test_changelog_columns_are_no_columns_of_a_scan(column: str) -> None:
    """RESID-09, RESID-10, RESID-11"""
    store = new_io()
    files = write(write_context(SCHEMA), store, [(1,)])
    with pytest.raises(UnsupportedError, match=f"not supported: metadata column {column} in a scan"):
        read(files, SCHEMA, store, columns=[column])


def test_a_v1_table_takes_no_row_level_deletes() -> None:
    """COMMIT-12"""
    context = write_context(SCHEMA, version=1)
    with pytest.raises(UnsupportedError, match="not supported: merge-on-read on a v1 table"):
        write_row_deletes(new_io(), context, [], operation_id="d")
    with pytest.raises(UnsupportedError, match="not supported: equality deletes in a v1 table"):
        write_equality_deletes(new_io(), context, (1,), [], operation_id="d")
