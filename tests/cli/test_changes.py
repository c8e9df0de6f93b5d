"""``scan --changes-from/--changes-to``: rows added and removed between two snapshots."""

from __future__ import annotations

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.table.table import Table
from tests.cli.conftest import Cli, lake
from tests.data.files import batch_of

T = "lake.ns.t"


def write(table: Table, *rows: tuple[int, str]) -> tuple[DataFile, ...]:
    writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=f"op-{rows[0]}")
    writer.write(batch_of(table.schema, rows))
    return tuple(writer.close())


@pytest.fixture
def ids(cli: Cli) -> list[int]:
    """Two rows appended, then one of them overwritten."""
    assert cli("create", T, "id bigint NOT NULL, name string").code == 0
    catalog = lake()
    table = catalog.load_table(("ns", "t"))
    first = write(table, (1, "a"), (2, "b"))
    table = commit(catalog, table, AppendFiles(added=first)).table
    head = table.metadata.current_snapshot_id
    change = OverwriteFiles(added=write(table, (1, "c"), (2, "b")), removed=first, starting_snapshot_id=head)
    table = commit(catalog, table, change).table
    return [s.snapshot_id for s in table.metadata.snapshots]


def test_changes_are_rows_with_what_became_of_them(cli: Cli, ids: list[int]) -> None:
    ran = cli("scan", T, "--changes-from", str(ids[0]))
    assert (ran.code, ran.rows) == (
        0,
        [
            {"id": 1, "name": "a", "_change_type": "DELETE", "_change_ordinal": 0, "_commit_snapshot_id": ids[1]},
            {"id": 1, "name": "c", "_change_type": "INSERT", "_change_ordinal": 0, "_commit_snapshot_id": ids[1]},
        ],
    )
    csv = cli("scan", T, "--changes-to", str(ids[0]), "--format", "csv", "--columns", "name", "--where", "id = 2")
    assert csv.out == f"name,_change_type,_change_ordinal,_commit_snapshot_id\nb,INSERT,0,{ids[0]}\n"
    assert len(cli("scan", T, "--changes-to", str(ids[1])).rows) == 4
    assert cli("scan", T, "--changes-to", str(ids[1]), "--limit", "1").rows[0]["id"] == 1
    assert len(cli("scan", T, "--limit", str(2**63)).rows) == 2


def test_a_column_is_shown_once_whatever_its_case(cli: Cli, ids: list[int]) -> None:
    ran = cli("scan", T, "--columns", "ID,id")
    assert (ran.code, ran.out) == (1, "")
    assert "column 'id' is chosen twice" in ran.err


@pytest.mark.parametrize("name", ["_change_type", "_change_ordinal", "_commit_snapshot_id"])
def test_what_only_changes_have_is_refused_of_rows_even_where_there_are_none(cli: Cli, name: str) -> None:
    assert cli("create", T, "id bigint").code == 0
    ran = cli("scan", T, "--columns", f"id,{name}")
    assert (ran.code, ran.out) == (1, "")
    assert f"metadata column {name} in a scan" in ran.err


def test_a_range_of_a_table_without_snapshots_is_named(cli: Cli) -> None:
    assert cli("create", T, "id bigint").code == 0
    assert cli("scan", T, "--changes-from", "7").err.endswith("has no snapshot 7: it has no snapshot yet\n")


def test_a_range_and_another_choice_of_snapshot_exclude_each_other(cli: Cli, ids: list[int]) -> None:
    ran = cli("scan", T, "--changes-from", str(ids[0]), "--ref", "main")
    assert (ran.code, ran.out) == (1, "")
    assert "--changes-from and --changes-to choose the snapshots" in ran.err
    assert "is not an ancestor" in cli("scan", T, "--changes-from", "7").err
    assert "7" in cli("scan", T, "--changes-to", "7").err
