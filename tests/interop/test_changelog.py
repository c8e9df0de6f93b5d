"""Changelogs of this package and of Iceberg Java: the same rows with the same kind, ordinal and snapshot, if Java supports them at
all."""

from __future__ import annotations

import pyarrow as pa
import pytest

from iceberg_ops.data.rewriting.changelog import changelog_batches
from tests.interop.lake import JavaError, Lake, Rows, texts
from tests.interop.test_we_read_java import create, modes

pytestmark = [pytest.mark.oracle, pytest.mark.java]


def ours(lake: Lake, start: int | None = None, end: int | None = None) -> Rows:
    return texts(pa.Table.from_batches(changelog_batches(lake.table, start, end)))


def theirs(lake: Lake, options: str = "") -> Rows:
    view = f"changes_{lake.name}"
    lake.run_java(f"CALL lake.system.create_changelog_view(table => '{{N}}', changelog_view => '{view}'{options})")
    return texts(lake.java.rows(f"SELECT * FROM {view}"))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_copy_on_write_and_compaction(lake: Lake, version: int) -> None:
    create(lake, version, **modes("copy-on-write"))
    lake.run_java("INSERT INTO {T} SELECT id, 'x', 'y' FROM range(5)")
    lake.append([(7, "x", None), (8, None, "z")])
    lake.run_java(
        "DELETE FROM {T} WHERE id < 2",
        "CALL lake.system.rewrite_data_files(table => '{N}', options => map('rewrite-all', 'true'))",
        "UPDATE {T} SET data = 'u' WHERE id IN (3, 8)",
        "MERGE INTO {T} t USING (SELECT id FROM range(4, 12, 3)) s ON t.id = s.id WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT (id, data, part) VALUES (s.id, 'new', 'p')",
    )
    lake.maintain("rewrite_data_files", rewrite_all="true")
    lake.agree(4)
    assert ours(lake) == theirs(lake)
    ids = [s.snapshot_id for s in lake.table.metadata.snapshots]
    options = f", options => map('start-snapshot-id', '{ids[1]}', 'end-snapshot-id', '{ids[4]}')"
    assert ours(lake, ids[1], ids[4]) == theirs(lake, options)


def test_java_has_no_changelog_of_merge_on_read_and_this_one_has(lake: Lake) -> None:
    create(lake, 2, **modes("merge-on-read"))
    lake.run_java("INSERT INTO {T} SELECT id, 'x', 'y' FROM range(3)", "DELETE FROM {T} WHERE id = 1")
    with pytest.raises(JavaError, match="Delete files are currently not supported in changelog scans"):
        theirs(lake)
    last = lake.table.metadata.current_snapshot_id
    removed = {"id": 1, "data": "x", "part": "y", "_change_type": "DELETE", "_change_ordinal": 1, "_commit_snapshot_id": last}
    assert [row for row in ours(lake) if "DELETE" in row] == [repr(removed)]
