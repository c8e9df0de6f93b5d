"""A job on a table whose files would have to be ORC is refused at planning, also in a dry run: nothing is read or written."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_ops.actions.local.delete_rows import DeleteRows
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.errors import UnsupportedError
from tests.actions.lake import Lake, make_lake, numbered


def lake_with_deletes(key: str) -> Lake:
    """Small data files, position deletes twice and one equality delete, in a table that asks for ORC from now on."""
    lake = make_lake()
    lake.append(*(numbered(10 * i, 10) for i in range(6)))
    for position in (1, 2):
        lake.delete_positions(*((task, [position]) for task in lake.tasks()))
    lake.delete_ids(5)
    commit(lake.catalog, lake.table, UpdateProperties(updates={key: "orc"}))
    return lake


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("action", "key", "refused"),
    [
        ("rewrite_position_delete_files", "write.delete.format.default", "ORC delete files"),
        ("convert_equality_deletes", "write.delete.format.default", "ORC delete files"),
        ("rewrite_data_files", "write.format.default", "writing ORC files"),
    ],
)
def test_what_would_write_orc_is_refused_when_planned(action: str, key: str, refused: str, dry_run: bool) -> None:
    lake = lake_with_deletes(key)
    before = lake.paths()
    options: dict[str, Any] = {"rewrite_all": "true"} if action.startswith("rewrite") else {}
    with pytest.raises(UnsupportedError, match=f"not supported: {refused}"):
        lake.run(action, dry_run=dry_run, **options)
    assert lake.paths() == before, "not even a lease"


def test_deleting_rows_is_refused_before_they_are_looked_for() -> None:
    lake = lake_with_deletes("write.delete.format.default")
    with pytest.raises(UnsupportedError, match="not supported: ORC delete files"):
        DeleteRows(where="id = 10000").run(lake.catalog, lake.table)
