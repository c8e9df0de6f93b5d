"""A file that is live twice (because a folder was imported twice, for example) has its rows twice: any job that replaces files or
deletes rows by position keeps both copies, or refuses, and never confuses them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.local.delete_rows import DeleteRows
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.actions.workers.runner import GroupFailure
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateSpec, UpgradeFormatVersion
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.replace_partitions import ReplacePartitions
from iceberg_ops.config.job_spec import RowChange
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.errors import UnsupportedError, ValidationError
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.transforms import bucket
from iceberg_ops.table.integrity import IntegrityCheck
from tests.actions.lake import Lake, make_lake, numbered

VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])
DELETES = pytest.mark.parametrize("version", [2, 3])


def add_again(lake: Lake, files: Sequence[FileScanTask] | None = None, **changes: Any) -> None:
    """A second entry of each live file, or of ``files``."""
    tasks = lake.tasks() if files is None else files
    added = tuple(replace(task.data_file, first_row_id=None, **changes) for task in tasks)
    commit(lake.catalog, lake.table, AppendFiles(added=added, merge=False))


def imported_twice(version: int, files: int = 3, **properties: str) -> Lake:
    """``files`` files of five rows, each live twice."""
    lake = make_lake(version=version, properties=properties)
    lake.append(*(numbered(10 * i, 5) for i in range(files)))
    add_again(lake)
    return lake


def first_id(task: FileScanTask) -> int:
    return int.from_bytes((task.data_file.lower_bounds or {})[1], "little")


def entries(lake: Lake) -> Counter[int]:
    """How many files are live once, twice and so on."""
    return Counter(Counter(task.file_path for task in lake.tasks()).values())


def upgrade(lake: Lake) -> None:
    commit(lake.catalog, lake.table, UpgradeFormatVersion(format_version=3))


def wrong_totals(lake: Lake) -> list[str]:
    return [str(f) for f in IntegrityCheck(lake.table).findings() if f.rule == "summary-totals"]


REWRITES: dict[str, dict[str, str]] = {
    "one group": {},
    "a limit of three files": {"max_files_to_rewrite": "3"},
    "groups of three files": {"max_file_group_input_files": "3"},
    "groups of one file": {"max_file_group_input_files": "1"},
    "groups of few bytes": {"max_file_group_size_bytes": "1500"},
    "many works": {"target_file_size_bytes": "1000"},
    "several commits": {"max_file_group_input_files": "3", "partial-progress.enabled": "true"},
    "sorted": {"sort_order": "id DESC"},
    "along a curve": {"sort_order": "zorder(id, data)"},
}


@VERSIONS
@pytest.mark.parametrize("options", REWRITES.values(), ids=list(REWRITES))
def test_a_rewrite_keeps_every_copy_of_the_rows(version: int, options: dict[str, str]) -> None:
    lake = imported_twice(version)
    rows = lake.rows()
    report = lake.run("rewrite_data_files", rewrite_all=True, **options)
    assert report.status == "committed"
    assert (lake.rows(), len(rows)) == (rows, 30)
    assert wrong_totals(lake) == []
    left = 2 if "max_files_to_rewrite" in options else 0
    assert entries(lake)[2] == left, "a file goes with all its entries, or with none"


@DELETES
@pytest.mark.parametrize("how", ["position", "equality"])
def test_a_rewrite_applies_to_each_copy_its_own_deletes(version: int, how: str) -> None:
    lake = make_lake(version=version)
    lake.append(numbered(0, 5), numbered(10, 5))
    if how == "position":
        lake.delete_positions(*((task, [0, 2]) for task in lake.tasks()))
    else:
        lake.delete_ids(0, 2, 10)
    add_again(lake)
    rows = lake.rows()
    assert lake.run("rewrite_data_files", rewrite_all=True).status == "committed"
    assert (lake.rows(), entries(lake)[2]) == (rows, 0)


def test_a_file_that_is_due_takes_its_other_entry_along() -> None:
    lake = imported_twice(2, files=1)
    lake.delete_positions((lake.tasks()[0], [1]))
    rows = lake.rows()
    report = lake.run("rewrite_data_files", delete_file_threshold=1)
    assert (report.status, report.groups[0].input_files, lake.rows()) == ("committed", 2, rows)


def test_a_file_that_is_live_in_two_partitions_is_left_alone() -> None:
    lake = make_lake(partitioned=True)
    lake.append(numbered(0, 5, "a"), numbered(10, 5, "a"))
    add_again(lake, lake.tasks()[:1], partition=("b",))
    rows = lake.rows()
    (both,) = [path for path, n in Counter(task.file_path for task in lake.tasks()).items() if n == 2]
    report = lake.run("rewrite_data_files", rewrite_all=True)
    assert (report.status, lake.rows()) == ("committed", rows)
    assert [s.file_path for s in report.skipped if "live 2 times, in different partitions" in s.reason] == [both, both]


class _Interrupted(LocalRunner):
    """Does what others do once the first work is read."""

    def __init__(self, meanwhile: Any) -> None:
        super().__init__(workers=1)
        self._meanwhile = meanwhile

    def limited(self, works_at_a_time: int) -> LocalRunner:
        return self

    def run(self, works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
        for n, answer in enumerate(super().run(works)):
            if n == 0 and self._meanwhile is not None:
                meanwhile, self._meanwhile = self._meanwhile, None
                meanwhile()
            yield answer


@DELETES
def test_a_delete_that_comes_while_both_copies_are_rewritten_is_in_force_in_both(version: int) -> None:
    lake = make_lake(version=version)
    lake.append(numbered(0, 5), numbered(10, 5))
    lake.delete_positions((lake.tasks()[0], [0]))
    add_again(lake)
    ten = next(task for task in lake.tasks() if first_id(task) == 10)
    wanted = [row for row in lake.rows() if row[0] != 13]
    runner = _Interrupted(lambda: lake.delete_positions((ten, [3])))
    report = lake.run("rewrite_data_files", rewrite_all=True, runner=runner)
    assert (report.status, lake.rows()) == ("committed", wanted)
    assert report.metrics["re-planned-groups-count"] == 1


@VERSIONS
def test_a_second_import_while_a_file_is_rewritten_keeps_its_rows(version: int) -> None:
    lake = make_lake(version=version)
    lake.append(numbered(0, 5), numbered(10, 5))
    zero = [task for task in lake.tasks() if first_id(task) == 0]
    report = lake.run("rewrite_data_files", rewrite_all=True, runner=_Interrupted(lambda: add_again(lake, zero)))
    assert report.status == "committed"
    assert [row[0] for row in lake.rows()] == sorted([*range(5), *range(5), *range(10, 15)])
    assert entries(lake)[2] == 0


def change(lake: Lake, job: str, mode: str, where: str, **more: Any) -> None:
    spec = structs.replace(lake.job(job), where=where, change=RowChange(mode=mode, **more), lane="local")  # type: ignore[arg-type]
    run_job(spec, catalog=lake.catalog)


MODES = [(1, "copy-on-write"), (2, "copy-on-write"), (3, "copy-on-write"), (2, "merge-on-read"), (3, "merge-on-read")]


@pytest.mark.parametrize(("version", "mode"), MODES)
def test_a_delete_takes_the_row_of_each_copy_and_no_other(version: int, mode: str) -> None:
    lake = imported_twice(version, files=2)
    wanted = [row for row in lake.rows() if row[0] not in (2, 13)]
    change(lake, "delete", mode, "id in (2, 13)")
    assert (lake.rows(), len(wanted)) == (wanted, 16)
    assert wrong_totals(lake) == []


@pytest.mark.parametrize(("version", "mode"), MODES)
def test_an_update_changes_the_row_of_each_copy_and_no_other(version: int, mode: str) -> None:
    lake = imported_twice(version, files=2)
    wanted = [(i, "new" if i == 2 else data, region) for i, data, region in lake.rows()]
    change(lake, "update", mode, "id = 2", set={"data": "'new'"})
    assert lake.rows() == wanted


@pytest.mark.parametrize(("version", "mode"), [m for m in MODES if m[0] > 1])
@pytest.mark.parametrize("gone", [[0], [2], [0, 1, 2, 3]])
@pytest.mark.parametrize("how", ["position", "equality"])
def test_a_delete_reaches_only_its_rows_where_the_copies_have_deletes_of_their_own(
    version: int, mode: str, gone: list[int], how: str
) -> None:
    """The first entry has lost rows that the second still has."""
    lake = make_lake(version=version)
    lake.append(numbered(0, 5))
    if how == "position":
        lake.delete_positions((lake.tasks()[0], gone))
    else:
        lake.delete_ids(*gone)
    add_again(lake)
    before = lake.rows()
    wanted = [row for row in before if row[0] != 2]
    if version == 3 and mode == "merge-on-read":
        with pytest.raises(UnsupportedError, match="live 2 times with different deletes"):
            change(lake, "delete", mode, "id = 2")
        assert lake.rows() == before
        lake.run("rewrite_data_files", rewrite_all=True)
    change(lake, "delete", mode, "id = 2")
    assert lake.rows() == wanted


@DELETES
def test_equality_deletes_of_one_copy_alone_are_not_converted(version: int) -> None:
    lake = make_lake(version=version)
    lake.append(numbered(0, 5), numbered(10, 5), numbered(20, 5))
    lake.delete_ids(1, 2)
    add_again(lake, [task for task in lake.tasks() if first_id(task) == 0])
    rows = lake.rows()
    report = lake.run("convert_equality_deletes")
    assert (report.status, lake.rows()) == ("nothing-to-do", rows)
    assert "live several times" in report.skipped[0].reason
    lake.run("rewrite_data_files", rewrite_all=True)
    assert lake.rows() == rows


@DELETES
def test_equality_deletes_of_both_copies_are_converted_once(version: int) -> None:
    lake = imported_twice(version)
    lake.delete_ids(1, 12)
    rows = lake.rows()
    report = lake.run("convert_equality_deletes")
    assert (report.status, lake.rows(), len(rows)) == ("committed", rows, 26)
    assert not any(d.is_equality for task in lake.tasks() for d in task.deletes)


@DELETES
def test_position_deletes_of_one_copy_alone_are_not_rewritten(version: int) -> None:
    lake = make_lake(version=2, properties={"write.delete.granularity": "partition"})
    lake.append(numbered(0, 5), numbered(10, 5))
    lake.delete_positions(*((task, [0]) for task in lake.tasks()))
    lake.delete_positions(*((task, [1]) for task in lake.tasks()))
    add_again(lake, lake.tasks()[:1])
    lake.append(numbered(20, 5))
    lake.delete_positions((next(t for t in lake.tasks() if not t.deletes and t.sequence_number > 4), [2]))
    if version == 3:
        upgrade(lake)
    rows = lake.rows()
    report = lake.run("rewrite_position_delete_files", rewrite_all=True)
    assert lake.rows() == rows
    assert sum("live several times" in s.reason for s in report.skipped) == 2


@DELETES
def test_position_deletes_of_both_copies_are_rewritten(version: int) -> None:
    lake = imported_twice(2, files=2, **{"write.delete.granularity": "partition"})
    for i in range(3):
        lake.delete_positions(*((task, [i]) for task in {t.file_path: t for t in lake.tasks()}.values()))
    if version == 3:
        upgrade(lake)
    rows = lake.rows()
    report = lake.run("rewrite_position_delete_files", rewrite_all=True)
    assert (report.status, lake.rows(), len(rows)) == ("committed", rows, 8)


@DELETES
@pytest.mark.parametrize("granularity", ["file", "partition"])
@pytest.mark.parametrize("job", ["delete", "update"])
def test_rows_of_a_file_live_in_two_partitions_change_in_both_or_the_job_is_refused(
    version: int, granularity: str, job: str
) -> None:
    lake = make_lake(version=version, partitioned=True, properties={"write.delete.granularity": granularity})
    lake.append(numbered(1, 3, "a"))
    add_again(lake, partition=("b",))
    before = lake.rows()
    changes = {"set": {"data": "'new'"}} if job == "update" else {}
    with pytest.raises(UnsupportedError, match="live 2 times, in different partitions"):
        change(lake, job, "merge-on-read", "id = 1", **changes)
    assert lake.rows() == before
    change(lake, job, "copy-on-write", "id = 1", **changes)
    assert len(before) == 6
    assert [row[1] for row in lake.rows() if row[0] == 1] == (["new", "new"] if job == "update" else [])
    assert [row for row in lake.rows() if row[0] > 1] == [row for row in before if row[0] > 1]


@DELETES
def test_a_global_equality_delete_of_a_file_live_in_two_partitions_is_not_converted(version: int) -> None:
    lake = make_lake(version=version)
    evolution = SpecEvolution.of_table(lake.table.metadata).add_field("region")
    commit(lake.catalog, lake.table, UpdateSpec(spec=evolution.apply()))
    lake.append(numbered(1, 5, "a"))
    add_again(lake, partition=("b",))
    lake.delete_ids(2)
    rows = lake.rows()
    report = lake.run("convert_equality_deletes")
    assert (report.status, lake.rows(), len(rows)) == ("nothing-to-do", rows, 8)
    assert "live several times" in report.skipped[0].reason


def imported_again_at_the_swap(lake: Lake) -> None:
    """Someone adds the live files a second time, right before the next commit is swapped in."""
    files, swap = lake.tasks(), lake.catalog.commit_table

    def commit_table(*args: Any, **fields: Any) -> Any:
        lake.catalog.commit_table = swap  # type: ignore[method-assign]
        add_again(lake, files)
        return swap(*args, **fields)

    lake.catalog.commit_table = commit_table  # type: ignore[method-assign]


@DELETES
def test_a_conversion_keeps_the_rows_of_a_file_that_is_imported_again_meanwhile(version: int) -> None:
    lake = make_lake(version=version)
    lake.append(numbered(1, 5))
    lake.delete_ids(2)
    imported_again_at_the_swap(lake)
    with pytest.raises(ValidationError, match="was added again concurrently"):
        lake.run("convert_equality_deletes")
    assert [row[0] for row in lake.rows()] == [1, 1, 2, 3, 3, 4, 4, 5, 5]


@DELETES
@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_an_update_changes_the_rows_of_a_file_that_is_imported_again_meanwhile(version: int, isolation: str, mode: str) -> None:
    lake = make_lake(version=version, properties={"write.update.isolation-level": isolation})
    lake.append(numbered(1, 5))
    imported_again_at_the_swap(lake)
    change(lake, "update", mode, "id = 2", set={"data": "'new'"})
    assert [(i, data == "new") for i, data, _ in lake.rows()] == [(i, i == 2) for i in range(1, 6) for _ in range(2)]


NEW = (900, "new", "b")


def _by_metadata(lake: Lake) -> None:
    lake.run("delete", where="region = 'b'")


def _by_overwrite(lake: Lake) -> None:
    start = lake.table.metadata.current_snapshot_id
    commit(lake.catalog, lake.table, ReplacePartitions(added=lake.written([NEW]), starting_snapshot_id=start))


def _by_filter(lake: Lake) -> None:
    start = lake.table.metadata.current_snapshot_id
    commit(lake.catalog, lake.table, OverwriteFiles(overwrite_filter=parse_where("region = 'b'"), starting_snapshot_id=start))


@DELETES
@pytest.mark.parametrize("files", [1, 40], ids=["by entries", "by columns"])
@pytest.mark.parametrize("remove", [_by_metadata, _by_overwrite, _by_filter])
@pytest.mark.parametrize("again", ["another partition", "another spec"])
def test_a_partition_that_goes_leaves_the_deletes_of_a_file_that_stays_live_in_another(
    version: int, files: int, remove: Callable[[Lake], None], again: str
) -> None:
    """The delete manifest spans partitions a to c, so it is read where b goes."""
    lake = make_lake(version=version, partitioned=True)
    lake.append(*(numbered(10 * i, 5, "a") for i in range(files)), numbered(800, 5, "c"))
    DeleteRows(where="id in (1, 801)", granularity="file").run(lake.catalog, lake.table)
    if again == "another spec":
        evolution = SpecEvolution.of_table(lake.table.metadata).add_field("id", bucket(4))
        commit(lake.catalog, lake.table, UpdateSpec(spec=evolution.apply()))
    in_b = lake.written([NEW])[0]
    a = [task for task in lake.tasks() if task.data_file.partition == ("a",)]
    before = lake.rows()
    add_again(lake, a, spec_id=in_b.spec_id, partition=in_b.partition, lower_bounds={}, upper_bounds={})
    assert len(lake.rows()) == len(before) + 5 * files
    remove(lake)
    assert [row for row in lake.rows() if row[0] < 900] == before
    assert not wrong_totals(lake)
