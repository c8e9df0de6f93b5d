"""Rewriting position deletes and converting equality deletes: the same rows stay deleted, with fewer and better files."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpgradeFormatVersion
from iceberg_ops.errors import ValidationError
from iceberg_ops.spec.content_files import FileContent
from tests.actions.lake import Lake, make_lake, numbered


def many_position_deletes(lake: Lake, *, commits: int = 6) -> None:
    """Each commit deletes one row of each of two files."""
    lake.append(numbered(0, 100), numbered(100, 100))
    for i in range(commits):
        lake.delete_positions(*((task, [i]) for task in lake.tasks()))


def deletes(lake: Lake) -> list[tuple[FileContent, bool, int]]:
    found = {(d.file_path, d.data_file.content_offset): d for t in lake.tasks() for d in t.deletes}
    return sorted((d.data_file.content, d.is_deletion_vector, d.data_file.record_count) for d in found.values())


@pytest.mark.parametrize(("granularity", "files"), [("file", 2), ("partition", 1)])
def test_position_delete_files_become_fewer_and_delete_the_same_rows(granularity: str, files: int) -> None:
    lake = make_lake(properties={"write.delete.granularity": granularity})
    many_position_deletes(lake)
    rows = lake.rows()
    report = lake.run("rewrite_position_delete_files")
    assert report.status == "committed"
    assert lake.rows() == rows
    assert len(deletes(lake)) == files
    assert report.metrics["rewritten-delete-files-count"] == 6
    assert report.metrics["added-delete-files-count"] == files
    assert report.metrics["deleted-positions-count"] == 12
    assert lake.run("rewrite_position_delete_files").status == "nothing-to-do"


def test_positions_in_files_that_are_gone_are_dropped() -> None:
    lake = make_lake(properties={"write.delete.granularity": "partition"})
    many_position_deletes(lake, commits=3)
    lake.run("rewrite_data_files", where="id < 100", rewrite_all=True)
    lake.delete_positions((next(t for t in lake.tasks() if t.deletes), [50]))
    rows = lake.rows()
    report = lake.run("rewrite_position_delete_files", min_input_files=2)
    assert report.metrics["deleted-positions-count"] == 4
    assert lake.rows() == rows


def test_an_upgraded_tables_position_deletes_become_deletion_vectors() -> None:
    lake = make_lake()
    many_position_deletes(lake, commits=2)
    rows = lake.rows()
    commit(lake.catalog, lake.table, UpgradeFormatVersion(format_version=3))
    report = lake.run("rewrite_position_delete_files")
    assert report.status == "committed"
    assert lake.rows() == rows
    assert deletes(lake) == [(FileContent.POSITION_DELETES, True, 2)] * 2
    assert lake.run("rewrite_position_delete_files").status == "nothing-to-do"


def test_too_few_position_delete_files_are_left_alone_with_the_reason() -> None:
    lake = make_lake()
    many_position_deletes(lake, commits=2)
    report = lake.run("rewrite_position_delete_files")
    assert report.status == "nothing-to-do"
    assert {s.reason for s in report.skipped} == {"its partition has 2 candidates, fewer than min-input-files 5"}


def test_one_delete_file_per_data_file_is_never_rewritten_into_the_same() -> None:
    lake = make_lake()
    lake.append(*(numbered(100 * i, 100) for i in range(6)))
    for task in lake.tasks():
        lake.delete_positions((task, [1]))
    report = lake.run("rewrite_position_delete_files")
    assert report.status == "nothing-to-do"
    assert "rewriting it changes nothing" in report.skipped[0].reason


@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes_become_deletes_by_position(version: int) -> None:
    lake = make_lake(version=version)
    lake.append(numbered(0, 100), numbered(100, 100))
    lake.delete_positions((lake.tasks()[0], [3]))
    lake.delete_ids(5, 150)
    lake.append([(5, "again", "a")])
    lake.delete_ids(7)
    rows = lake.rows()
    assert len(rows) == 197
    report = lake.run("convert_equality_deletes")
    assert report.status == "committed"
    assert lake.rows() == rows
    assert {content for content, _, _ in deletes(lake)} == {FileContent.POSITION_DELETES}
    assert all(vector == (version == 3) for _, vector, _ in deletes(lake))
    assert report.metrics["deleted-positions-count"] == 3
    assert lake.run("convert_equality_deletes").status == "nothing-to-do"


def test_a_where_converts_deletes_as_a_whole_or_not_at_all() -> None:
    lake = make_lake(partitioned=True)
    lake.append(numbered(0, 10, "a"), numbered(10, 10, "b"))
    lake.delete_ids(1, partition=("a",))
    lake.delete_ids(11, partition=("b",))
    rows = lake.rows()
    report = lake.run("convert_equality_deletes", where="region = 'a'")
    assert lake.rows() == rows
    assert [s.reason for s in report.skipped] == ["it applies to no file that can match WHERE"]
    assert sorted(content for content, _, _ in deletes(lake)) == [FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES]


def test_an_equality_delete_that_applies_to_nothing_goes() -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    lake.delete_ids(3)
    lake.run("rewrite_data_files", rewrite_all=True)
    lake.delete_ids(1000)
    report = lake.run("convert_equality_deletes")
    assert report.after is not None
    assert (report.status, report.after.delete_files) == ("committed", 0)


@pytest.mark.parametrize("action", ["rewrite_position_delete_files", "convert_equality_deletes"])
def test_dry_runs_write_nothing(action: str) -> None:
    lake = make_lake()
    many_position_deletes(lake)
    lake.delete_ids(5)
    before = lake.paths()
    report = lake.run(action, dry_run=True)
    assert (report.status, [g.status for g in report.groups]) == ("planned", ["planned"])
    assert lake.paths() == before


class Interfering:
    """A catalog that lets something happen just before the first commit."""

    def __init__(self, lake: Lake, meddle) -> None:  # type: ignore[no-untyped-def]
        self._catalog, self._meddle = lake.catalog, meddle

    def commit_table(self, table, requirements: Sequence[object], updates: Sequence[object]):  # type: ignore[no-untyped-def]
        meddle, self._meddle = self._meddle, None
        if meddle is not None:
            meddle()
        return self._catalog.commit_table(table, requirements, updates)

    def __getattr__(self, name: str) -> object:
        return getattr(self._catalog, name)


def test_converting_gives_way_to_a_compaction_that_replaced_the_data() -> None:
    lake = make_lake()
    lake.append(*(numbered(100 * i, 100) for i in range(6)))
    lake.delete_ids(5)
    rows = lake.rows()
    catalog = Interfering(lake, lambda: lake.run("rewrite_data_files"))
    with pytest.raises(ValidationError):
        lake.run("convert_equality_deletes", catalog=catalog)  # type: ignore[arg-type]
    assert lake.rows() == rows
    assert [p for p in lake.paths() if p.endswith("-deletes.parquet")] == []


def test_rewriting_position_deletes_gives_way_to_a_compaction_that_removed_them() -> None:
    lake = make_lake()
    many_position_deletes(lake)
    rows = lake.rows()
    catalog = Interfering(lake, lambda: lake.run("rewrite_data_files", rewrite_all=True))
    with pytest.raises(ValidationError):
        lake.run("rewrite_position_delete_files", catalog=catalog)  # type: ignore[arg-type]
    assert lake.rows() == rows
