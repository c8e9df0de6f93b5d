"""Rewriting data files end to end: rows stay, files become fewer, deletes are removed, and reports describe the result."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from iceberg_ops.actions.workers.local_runner import LocalRunner, attempt
from iceberg_ops.actions.workers.runner import GroupFailure
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.refs import RollBack, SetRef
from iceberg_ops.config.document import from_json
from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.errors import (
    CommitStateUnknownError,
    CorruptTableError,
    NoSuchSnapshotError,
    OptionError,
    ValidationError,
    VerificationError,
)
from iceberg_ops.scan.planning import Scan
from iceberg_ops.table.reachable import reachable_files
from tests.actions.lake import Lake, make_lake, numbered
from tests.catalog.wrappers import Meddles


def small_files(lake: Lake, *, files: int = 6, region: str = "a", start: int = 0) -> None:
    lake.append(*(numbered(start + 100 * i, 100, region) for i in range(files)))


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("partitioned", [False, True])
def test_small_files_become_one_per_partition_and_rows_stay(version: int, partitioned: bool) -> None:
    lake = make_lake(version=version, partitioned=partitioned)
    for region in "ab":
        small_files(lake, region=region, start=0 if region == "a" else 1000)
    rows = lake.rows()
    report = lake.run("rewrite_data_files")
    assert report.status == "committed"
    assert lake.rows() == rows
    assert len(lake.tasks()) == (2 if partitioned else 1)
    assert report.metrics["rewritten-data-files-count"] == 12
    assert report.metrics["added-data-files-count"] == len(lake.tasks())
    assert report.before is not None
    assert report.after is not None
    assert (report.before.data_files, report.after.data_files) == (12, len(lake.tasks()))
    assert all(group.certificate is not None and group.status == "committed" for group in report.groups)
    assert sum(group.certificate.rows_out for group in report.groups if group.certificate) == 1200


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_are_applied_and_their_files_removed_in_the_same_commit(version: int) -> None:
    lake = make_lake(version=version)
    small_files(lake)
    first, second = lake.tasks()[:2]
    lake.delete_positions((first, [0, 5]), (second, [99]))
    lake.delete_ids(250, 251)
    rows = lake.rows()
    assert len(rows) == 595
    report = lake.run("rewrite_data_files")
    assert lake.rows() == rows
    assert report.after is not None
    assert report.after.delete_files == 0
    assert report.metrics["deleted-rows-applied"] == 5
    assert report.metrics["removed-delete-files-count"] == (2 if version == 2 else 3)


def test_a_delete_that_applies_to_other_files_too_stays() -> None:
    lake = make_lake(partitioned=True)
    small_files(lake, region="a")
    lake.append(numbered(1000, 10, "b"))
    lake.delete_ids(3, partition=("a",))
    lake.delete_ids(1003, partition=("b",))
    report = lake.run("rewrite_data_files")
    assert report.metrics["removed-delete-files-count"] == 1
    assert len(lake.rows()) == 608


def test_new_files_keep_the_starting_sequence_number_so_that_later_equality_deletes_apply() -> None:
    lake = make_lake()
    small_files(lake)
    start = lake.table.metadata.last_sequence_number
    lake.run("rewrite_data_files")
    assert [task.sequence_number for task in lake.tasks()] == [start]


def test_the_second_run_finds_nothing_to_do() -> None:
    lake = make_lake()
    small_files(lake)
    assert lake.run("rewrite_data_files").status == "committed"
    again = lake.run("rewrite_data_files")
    assert (again.status, again.snapshot_ids) == ("nothing-to-do", [])
    assert again.skipped[0].reason == "it is the only candidate of its partition"


def test_a_dry_run_plans_and_writes_nothing() -> None:
    lake = make_lake()
    small_files(lake)
    before = lake.paths()
    report = lake.run("rewrite_data_files", dry_run=True)
    assert (report.status, report.metrics["planned-input-files-count"]) == ("planned", 6)
    assert [group.status for group in report.groups] == ["planned"]
    assert lake.paths() == before


def test_the_plan_id_names_the_plan() -> None:
    lake = make_lake()
    small_files(lake)
    first, second = (lake.run("rewrite_data_files", dry_run=True).plan_id for _ in range(2))
    assert first == second
    done = lake.run("rewrite_data_files")
    assert done.plan_id == first
    head = lake.table.metadata.current_snapshot
    assert head is not None
    assert head.summary["iceberg-ops.plan-id"] == first
    assert head.summary["iceberg-ops.action"] == "rewrite_data_files"
    assert head.summary["iceberg-ops.run-key"] == done.run_key


def test_the_same_run_key_is_done_once() -> None:
    lake = make_lake()
    small_files(lake)
    first = lake.run("rewrite_data_files", run_key="nightly-1")
    small_files(lake, start=5000)
    again = lake.run("rewrite_data_files", run_key="nightly-1")
    assert (again.status, again.snapshot_ids) == ("already-committed", first.snapshot_ids)
    assert len(lake.tasks()) == 7


def test_a_where_picks_files_and_keeps_all_their_rows_and_deletes() -> None:
    lake = make_lake(partitioned=True)
    small_files(lake, region="a")
    small_files(lake, region="b", start=1000)
    lake.delete_positions((lake.tasks()[0], [1]))
    rows = lake.rows()
    report = lake.run("rewrite_data_files", where="region = 'a' and id < 300", min_input_files=2)
    assert lake.rows() == rows
    assert report.metrics["rewritten-data-files-count"] == 3
    assert {s.reason for s in report.skipped} == {"no row can match WHERE"}


def test_sorting_orders_rows_and_makes_ranges_disjoint() -> None:
    lake = make_lake()
    for i in range(5):
        lake.append([(id_, None, "a") for id_ in range(i, 500, 5)])
    report = lake.run("rewrite_data_files", sort_order="id DESC NULLS LAST", rewrite_all=True)
    assert report.status == "committed"
    assert scan_table(lake.table)["id"].to_pylist() == list(range(499, -1, -1))


@pytest.mark.parametrize("curve", ["zorder", "hilbert"])
def test_z_order_keeps_rows(curve: str) -> None:
    lake = make_lake()
    small_files(lake)
    rows = lake.rows()
    assert lake.run("rewrite_data_files", sort_order=f"{curve}(id, data)").status == "committed"
    assert lake.rows() == rows


def test_a_branch_is_rewritten_without_touching_main() -> None:
    lake = make_lake()
    small_files(lake)
    main = lake.table.metadata.current_snapshot_id
    assert main is not None
    commit(lake.catalog, lake.table, SetRef(ref="audit", snapshot_id=main))
    report = lake.run("rewrite_data_files", branch="audit")
    assert (report.status, report.branch) == ("committed", "audit")
    metadata = lake.table.metadata
    assert (metadata.current_snapshot_id, metadata.refs["audit"].snapshot_id) == (main, report.snapshot_ids[0])
    assert lake.rows(Scan(ref="audit")) == lake.rows()


def test_a_branch_must_exist_and_be_no_tag() -> None:
    lake = make_lake()
    small_files(lake)
    with pytest.raises(NoSuchSnapshotError, match="no branch 'audit'"):
        lake.run("rewrite_data_files", branch="audit")


def test_row_ids_survive_a_rewrite_of_a_v3_table() -> None:
    lake = make_lake(version=3)
    small_files(lake)
    columns = ["id", "_row_id", "_last_updated_sequence_number"]
    before = sorted(map(tuple, zip(*(c.to_pylist() for c in scan_table(lake.table, Scan(), columns).columns), strict=True)))
    lake.run("rewrite_data_files")
    after = sorted(map(tuple, zip(*(c.to_pylist() for c in scan_table(lake.table, Scan(), columns).columns), strict=True)))
    assert after == before


class Meddling:
    """A runner during whose work something else happens to the table."""

    name = "local"

    def __init__(self, meddle, *, first: bool = False) -> None:  # type: ignore[no-untyped-def]
        self.meddle, self.first = meddle, first

    def run(self, works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
        if self.first:
            self.meddle()
        yield from LocalRunner(workers=1).run(works)
        if not self.first:
            self.meddle()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("partial", ["false", "true"])
def test_a_group_whose_rows_were_deleted_meanwhile_is_committed_with_the_deletes(version: int, partial: str) -> None:
    lake = make_lake(version=version, partitioned=True)
    small_files(lake, region="a")
    small_files(lake, region="b", start=1000)
    victim = next(t for t in lake.tasks() if t.data_file.partition == ("a",))
    lake.delete_positions((victim, [0]))
    victim = next(t for t in lake.tasks() if t.file_path == victim.file_path)
    runner = Meddling(lambda: lake.delete_positions((victim, [0, 3, 5] if version == 3 else [3, 5])), first=True)
    report = lake.run("rewrite_data_files", runner=runner, **{"partial-progress.enabled": partial})
    assert report.status == "committed"
    assert {(g.partition, g.status, g.carried_over_rows) for g in report.groups} == {
        ("region=a", "carried-over", 2), ("region=b", "committed", 0)
    }  # fmt: skip
    assert report.metrics["carried-over-deletes-count"] == 2
    assert len(lake.rows()) == 1197
    assert len(lake.tasks()) == 2
    assert all(group.certificate.rows_in == group.certificate.rows_out for group in report.groups if group.certificate)


@pytest.mark.parametrize("options", [{"where": "region = 'a'"}, {}], ids=["alone", "with another group"])
def test_a_group_that_lost_a_file_is_planned_again_without_it(options: dict[str, str]) -> None:
    lake = make_lake(partitioned=True)
    small_files(lake, region="a")
    small_files(lake, region="b", start=1000)
    victim = next(t for t in lake.tasks() if t.data_file.partition == ("a",))
    meddle = Once(lambda: commit(lake.catalog, lake.table, DeleteFiles(paths=(victim.file_path,))))
    report = lake.run("rewrite_data_files", runner=Meddling(meddle), **options)
    assert report.status == "committed"
    of_a = [(group.group_id, group.status) for group in report.groups if group.partition == "region=a"]
    assert [status for _, status in sorted(of_a)] == ["committed", "re-planned"]
    assert "planned again as again-g0001" in next(g.reason for g in report.groups if g.status == "re-planned")
    assert len(lake.rows()) == 1100
    assert sum(t.data_file.partition == ("a",) for t in lake.tasks()) == 1
    assert report.metrics["failed-data-files-count"] == 0
    assert nothing_is_orphaned(lake)


def test_when_what_was_planned_again_conflicts_too_nothing_is_committed_and_nothing_is_left() -> None:
    lake = make_lake()
    small_files(lake)

    def meddle() -> None:
        commit(lake.catalog, lake.table, DeleteFiles(paths=(lake.tasks()[0].file_path,)))

    with pytest.raises(ValidationError, match="Missing required files"):
        lake.run("rewrite_data_files", runner=Meddling(meddle))
    assert len(lake.rows()) == 400
    assert nothing_is_orphaned(lake)


def test_without_the_starting_sequence_number_deletes_are_not_carried_over_but_the_group_is_planned_again() -> None:
    lake = make_lake()
    small_files(lake)
    victim = lake.tasks()[0]
    meddle = Once(lambda: lake.delete_positions((victim, [3])))
    report = lake.run("rewrite_data_files", runner=Meddling(meddle), use_starting_sequence_number="false")
    assert [(g.group_id, g.status) for g in report.groups] == [("g0001", "re-planned"), ("again-g0001", "committed")]
    assert len(lake.rows()) == 599
    assert nothing_is_orphaned(lake)


class Once:
    """Does something the first time only."""

    def __init__(self, act) -> None:  # type: ignore[no-untyped-def]
        self.act = act

    def __call__(self) -> None:
        act, self.act = self.act, lambda: None
        act()


def nothing_is_orphaned(lake: Lake) -> bool:
    """Every data and delete file below the table is referred to by some snapshot, and no lease is left."""
    found = reachable_files(lake.table)
    known = found.data | found.deletes
    return {p for p in lake.paths() if "/data/" in p} <= known and not any("/leases/" in p for p in lake.paths())


def test_an_equality_delete_that_comes_meanwhile_still_applies() -> None:
    lake = make_lake()
    small_files(lake)
    report = lake.run("rewrite_data_files", runner=Meddling(lambda: lake.delete_ids(7)))
    assert report.status == "committed"
    assert [row[0] for row in lake.rows()] == [i for i in range(600) if i != 7]


class Failing:
    """A runner that cannot do the works of some groups."""

    name = "local"

    def __init__(self, *groups: str) -> None:
        self.groups = groups

    def run(self, works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
        for work in works:
            if work.group_id.startswith(self.groups):
                yield GroupFailure(work.group_id, "CORRUPT_TABLE", "file x is broken")
            else:
                yield attempt(work)


def test_one_failed_group_fails_the_run_and_everything_written_is_deleted() -> None:
    lake = make_lake(partitioned=True)
    small_files(lake, region="a")
    small_files(lake, region="b", start=1000)
    before = lake.paths()
    with pytest.raises(CorruptTableError, match="group g0002: file x is broken"):
        lake.run("rewrite_data_files", runner=Failing("g0002"))
    assert lake.paths() == before


def test_with_partial_progress_a_failed_group_costs_only_itself() -> None:
    lake = make_lake(partitioned=True)
    for i, region in enumerate("abc"):
        small_files(lake, region=region, start=1000 * i)
    options = {"partial-progress.enabled": "true", "partial-progress.max-commits": "3"}
    report = lake.run("rewrite_data_files", runner=Failing("g0002"), **options)
    assert report.status == "partially-committed"
    assert [group.status for group in report.groups] == ["committed", "failed", "committed"]
    assert len(report.snapshot_ids) == 2
    assert report.metrics["failed-data-files-count"] == 6
    assert len(lake.rows()) == 1800


def test_deletes_that_were_carried_over_stay_when_a_later_group_fails() -> None:
    lake = make_lake(partitioned=True)
    small_files(lake, region="a")
    small_files(lake, region="b", start=1000)

    class MeddlingAndFailing(Failing):
        def run(self, works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
            for task in lake.tasks():
                lake.delete_positions((task, [3]))
            yield from super().run(works)

    report = lake.run("rewrite_data_files", runner=MeddlingAndFailing("g0002"), **{"partial-progress.enabled": "true"})
    assert sorted(group.status for group in report.groups) == ["carried-over", "failed"]
    assert len(lake.rows()) == 1188
    assert nothing_is_orphaned(lake)


def test_partial_progress_makes_at_most_the_commits_it_may() -> None:
    lake = make_lake(partitioned=True)
    for i, region in enumerate("abcde"):
        small_files(lake, region=region, start=1000 * i)
    options = {"partial-progress.enabled": "true", "partial-progress.max-commits": "2"}
    report = lake.run("rewrite_data_files", **options)
    assert (report.status, len(report.snapshot_ids), len(lake.tasks())) == ("committed", 2, 5)
    assert len(lake.rows()) == 3000


def test_deletes_stay_where_an_earlier_part_was_rolled_back() -> None:
    """A delete file of two data files was to be removed with the second; in the meantime the first is live again."""
    lake = make_lake(version=2)
    lake.append(numbered(0, 10), numbered(100, 10))
    one, two = lake.tasks()
    lake.delete_positions((one, [0]), (two, [0]))
    start, rows = lake.table.metadata.current_snapshot_id or 0, lake.rows()
    back = RollBack(snapshot_id=start)
    catalog = Meddles(lake.catalog, lambda: None, lambda: commit(lake.catalog, lake.table, back))
    options = {"partial-progress.enabled": "true", "partial-progress.max-commits": "2"}
    report = lake.run("rewrite_data_files", catalog=catalog, rewrite_all=True, max_file_group_input_files=1, **options)
    assert (len(report.snapshot_ids), catalog.others) == (2, [])
    assert lake.rows() == rows
    assert len(rows) == 18


def test_dangling_deletes_go_on_request_even_without_other_work() -> None:
    lake = make_lake(partitioned=True)
    lake.append(numbered(0, 10, "a"))
    lake.delete_ids(5, partition=("nowhere",))
    assert lake.run("rewrite_data_files").status == "nothing-to-do"
    report = lake.run("rewrite_data_files", remove_dangling_deletes=True)
    assert (report.status, report.metrics["removed-delete-files-count"]) == ("committed", 1)
    assert report.after is not None
    assert report.after.delete_files == 0


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"sort_order": "nope"}, "not a column"),
        ({"strategy": "sort"}, "needs option sort-order"),
        ({"output_spec_id": 7}, "the table's specs are"),
        ({"sort_order": "id sideways"}, "must be column or transform"),
    ],
)
def test_options_that_do_not_fit_the_table_are_refused(options: dict[str, object], word: str) -> None:
    lake = make_lake()
    small_files(lake)
    with pytest.raises(OptionError, match=word):
        lake.run("rewrite_data_files", **options)


def test_a_corrupt_input_file_fails_by_name_and_leaves_nothing() -> None:
    lake = make_lake()
    small_files(lake)
    broken = lake.tasks()[2].file_path
    lake.table.io.write(broken, b"not parquet", overwrite=True)
    before = lake.paths()
    with pytest.raises(CorruptTableError, match=broken.rsplit("/", 1)[-1]):
        lake.run("rewrite_data_files")
    assert lake.paths() == before


class Losing:
    """A runner whose results lack a row: what a bug in a writer would look like."""

    name = "local"

    def run(self, works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
        for answer in LocalRunner(workers=1).run(works):
            assert isinstance(answer, GroupResult)
            yield replace(answer, rows_in=answer.rows_in - 1, rows_out=answer.rows_out - 1)


@pytest.mark.parametrize("partial", ["true", "false"])
def test_a_group_that_lost_a_row_is_never_committed(partial: str) -> None:
    lake = make_lake()
    small_files(lake)
    before = lake.paths()
    with pytest.raises(VerificationError, match="recorded rows minus deleted rows are 600, but rows read are 599"):
        lake.run("rewrite_data_files", runner=Losing(), **{"partial-progress.enabled": partial})
    assert lake.paths() == before


class Unsorting:
    """A runner whose files claim an order that not all of their rows were found to be in."""

    name = "local"

    def run(self, works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
        for answer in LocalRunner(workers=1).run(works):
            assert isinstance(answer, GroupResult)
            assert answer.rows_in_order == answer.rows_out == 600
            yield replace(answer, rows_in_order=answer.rows_in_order - 1)


def test_a_sort_whose_rows_are_not_all_in_order_is_never_committed() -> None:
    lake = make_lake()
    small_files(lake)
    before = lake.paths()
    with pytest.raises(VerificationError, match="rows written are 600, but rows found to be in order are 599"):
        lake.run("rewrite_data_files", runner=Unsorting(), sort_order="id DESC")
    assert lake.paths() == before
    report = lake.run("rewrite_data_files", sort_order="id DESC")
    assert [g.certificate.rows_in_order for g in report.groups if g.certificate] == [600]


class Unanswering:
    """A catalog that commits nothing and does not say so."""

    def __init__(self, lake: Lake) -> None:
        self._catalog = lake.catalog

    def commit_table(self, table: object, requirements: object, updates: object) -> None:
        raise CommitStateUnknownError("no answer")

    def __getattr__(self, name: str) -> object:
        return getattr(self._catalog, name)


def test_an_unknown_outcome_deletes_nothing_and_is_reported(tmp_path: Path) -> None:
    lake = make_lake(properties={"commit.status-check.num-retries": "0"})
    small_files(lake)
    before, report = lake.paths(), tmp_path / "report.json"
    with pytest.raises(CommitStateUnknownError):
        lake.run("rewrite_data_files", catalog=Unanswering(lake), report=str(report))  # type: ignore[arg-type]
    assert any("/data/" in path for path in lake.paths() - before)
    found = from_json(report.read_bytes(), ActionReport, "report")
    assert [(g.status, g.reason != "") for g in found.groups] == [("failed", True)]
    assert found.error is not None
    assert found.error.code == "COMMIT_STATE_UNKNOWN"
