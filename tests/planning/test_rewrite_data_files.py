"""Which files a rewrite selects, how it groups them, why it leaves the others, and that it converges."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.config.options import rewrite_data_files_options
from iceberg_ops.planning.output_sizes import expected_output_files, output_target_size, write_max_file_size
from iceberg_ops.planning.rewrite_data_files import MergedBytes
from iceberg_ops.scan.tasks import FileScanTask
from tests.builders import position_deletes
from tests.planning.planning_cases import MIB, grouped, metadata, paths, task

SIZES = rewrite_data_files_options({"target-file-size-bytes": str(64 * MIB)}, {}).sizes


@pytest.mark.parametrize(
    ("mib", "files"),
    [(1, 1), (63, 1), (64, 1), (70, 1), (71, 2), (111, 2), (113, 2), (128, 2), (128 + 12, 2), (128 + 14, 3), (176.1, 3), (640, 10)],
)
def test_expected_output_files_follow_the_reference(mib: float, files: int) -> None:
    assert expected_output_files(round(mib * MIB), SIZES) == files


def test_a_writer_rolls_between_the_target_and_the_write_maximum() -> None:
    for mib in (1, 64, 100, 140, 1000):
        assert 64 * MIB <= output_target_size(mib * MIB, SIZES) <= write_max_file_size(SIZES)


def test_small_files_of_a_partition_make_a_group() -> None:
    groups, skipped = grouped([task(f"f{i}", 10) for i in range(6)])
    assert [(paths(g), g.expected_output_files, g.partition_path, g.group_id) for g in groups] == [
        ([f"f{i}" for i in range(6)], 1, "region=a", "g0001")
    ]
    assert skipped == ()
    assert "6 files outside" in groups[0].reason


def test_partitions_are_never_mixed() -> None:
    groups, _ = grouped([task(f"{r}{i}", 10, region=r) for i in range(5) for r in "ab"])
    assert [(g.partition, g.input_files) for g in groups] == [(("a",), 5), (("b",), 5)]


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ([64], "are within"),
        ([10], "only candidate of its partition"),
        ([10, 10, 10], "fewer than min-input-files 5"),
        ([47, 47], "rewriting it changes nothing: 2 files in, 2 of"),
    ],
)
def test_files_that_are_left_alone_have_a_reason(sizes: list[int], reason: str) -> None:
    groups, skipped = grouped([task(f"f{i}", mib) for i, mib in enumerate(sizes)])
    assert groups == ()
    assert len(skipped) == len(sizes)
    assert all(reason in s.reason for s in skipped)


def test_few_files_are_worth_it_when_they_fill_more_than_one_output() -> None:
    groups, _ = grouped([task(f"f{i}", 30) for i in range(3)])
    assert [(g.input_files, g.expected_output_files) for g in groups] == [(3, 2)]


def test_a_large_file_is_split_alone() -> None:
    groups, _ = grouped([task("big", 200), task("right", 64)])
    assert [(paths(g), g.expected_output_files) for g in groups] == [(["big"], 3)]


def test_deletes_make_a_candidate_of_a_file_of_the_right_size() -> None:
    many = position_deletes("/t/d1", "/t/f.parquet", rows=300)
    few = position_deletes("/t/d2", "/t/g.parquet", rows=299)
    groups, skipped = grouped([task("f", 64, deletes=(many,)), task("g", 64, deletes=(few,))])
    assert [paths(g) for g in groups] == [["f"]]
    assert "1 delete files are below the thresholds" in skipped[0].reason
    assert [paths(g) for g in grouped([task("g", 64, deletes=(few,))], {"delete-file-threshold": "1"})[0]] == [["g"]]


def test_deletes_of_a_whole_partition_are_shared_out_over_its_files() -> None:
    shared = position_deletes("/t/d", rows=700)
    groups, _ = grouped([task("f", 64, deletes=(shared,)), task("g", 64, deletes=(shared,))])
    assert [paths(g) for g in groups] == [["f", "g"]]


def test_rewrite_all_takes_everything() -> None:
    groups, skipped = grouped([task("f", 64), task("g", 64, region="b")], {"rewrite-all": "true"})
    assert ([paths(g) for g in groups], skipped) == ([["f"], ["g"]], ())


def test_groups_are_cut_at_the_most_bytes_and_files_they_may_hold() -> None:
    tasks = [task(f"f{i}", 10) for i in range(12)]
    by_bytes, _ = grouped(tasks, {"max-file-group-size-bytes": str(60 * MIB)})
    by_files, _ = grouped(tasks, {"max-file-group-input-files": "5", "min-input-files": "2"})
    assert [g.input_files for g in by_bytes] == [6, 6]
    assert [g.input_files for g in by_files] == [5, 5, 2]


@pytest.mark.parametrize(
    ("order", "regions"),
    [("none", "abc"), ("bytes-asc", "bca"), ("bytes-desc", "acb"), ("files-asc", "cab"), ("files-desc", "bac")],
)
def test_groups_come_in_the_order_asked_for(order: str, regions: str) -> None:
    tasks = [task(f"a{i}", 10, region="a") for i in range(6)]
    tasks += [task(f"b{i}", 1, region="b") for i in range(7)]
    tasks += [task(f"c{i}", 9, region="c") for i in range(5)]
    groups, _ = grouped(tasks, {"rewrite-job-order": order})
    assert "".join(str(g.partition[0]) for g in groups if g.partition) == regions


def test_the_best_groups_come_first_under_a_limit_of_files() -> None:
    tasks = [task(f"a{i}", 1, region="a") for i in range(5)] + [task(f"b{i}", 10, region="b") for i in range(6)]
    groups, skipped = grouped(tasks, {"rewrite-job-order": "bytes-desc", "max-files-to-rewrite": "8"})
    assert [(g.partition, g.input_files) for g in groups] == [(("b",), 6), (("a",), 2)]
    assert [s.reason for s in skipped] == ["max-files-to-rewrite 8 is reached"] * 3


def test_files_of_an_old_spec_move_where_an_output_spec_is_asked_for() -> None:
    from iceberg_ops.spec.partitioning import PartitionSpec

    table = metadata(partition_specs=(*metadata().partition_specs, PartitionSpec(1)), default_spec_id=1)
    tasks = [task("old", 64), task("old2", 64, region="b")]
    assert grouped(tasks, table=table)[0] == ()
    (group,) = grouped(tasks, {"output-spec-id": "1"}, table)[0]
    assert (group.partition, group.output_spec_id, group.input_files) == (None, 1, 2)


def test_sort_picks_files_that_overlap_on_the_key_whatever_their_size() -> None:
    tasks = [task(f"f{i}", 64, ids=(i, 100 + i)) for i in range(4)]
    (group,) = grouped(tasks, {"strategy": "sort"})[0]
    assert (group.input_files, group.strategy) == (4, "sort")
    assert "overlapping on the sort key" in group.reason
    assert grouped(tasks)[0] == ()


@pytest.mark.parametrize("factor", ["1e308", "1e-300"])
def test_any_compression_factor_gives_a_plan(factor: str) -> None:
    """A product beyond all numbers was an internal error."""
    tasks = [task(f"f{i}", 64, ids=(i, 100 + i)) for i in range(4)]
    (group,) = grouped(tasks, {"strategy": "sort", "compression-factor": factor})[0]
    assert 0 <= group.estimated_bytes <= 2**63


def test_sort_leaves_a_clustered_partition_alone_even_where_one_key_fills_several_files() -> None:
    tasks = [task(f"f{i}", 64, ids=ids) for i, ids in enumerate([(0, 10), (10, 10), (10, 10), (10, 20), (20, 30)])]
    assert grouped(tasks, {"strategy": "sort"})[0] == ()


def _outputs(tasks: list[FileScanTask], generation: int, merged: MergedBytes | None = None) -> list[FileScanTask]:
    groups, _ = grouped(tasks, merged_bytes=merged)
    gone = {t.file_path for g in groups for t in g.tasks}
    kept = [t for t in tasks if t.file_path not in gone]
    for g in groups:
        size = g.estimated_bytes / g.expected_output_files / MIB
        kept += [task(f"{generation}-{g.group_id}-{i}", size) for i in range(g.expected_output_files)]
    return kept


@given(st.lists(st.floats(0.01, 400), max_size=30))
def test_planning_again_and_again_comes_to_rest(sizes: list[float]) -> None:
    tasks = [task(f"f{i}", mib) for i, mib in enumerate(sizes)]
    for generation in range(4):
        tasks = _outputs(tasks, generation)
    assert grouped(tasks)[0] == ()


@given(st.lists(st.tuples(st.floats(0.01, 400), st.sampled_from("ab")), max_size=30))
def test_every_file_is_in_one_group_or_skipped_with_a_reason(files: list[tuple[float, str]]) -> None:
    tasks = [task(f"f{i}", mib, region=region) for i, (mib, region) in enumerate(files)]
    groups, skipped = grouped(tasks)
    seen = [t.file_path for g in groups for t in g.tasks] + [s.file_path for s in skipped]
    assert sorted(seen) == sorted(t.file_path for t in tasks)
    assert all(s.reason for s in skipped)


def test_a_group_is_planned_by_what_its_files_become_and_only_where_that_can_matter() -> None:
    asked: list[int] = []

    def merged(tasks: Sequence[FileScanTask]) -> int:
        asked.append(len(tasks))
        return round(sum(t.data_bytes for t in tasks) * 0.8)

    many = [task(f"f{i}", 8, region="a") for i in range(20)]
    few = [task(f"g{i}", 1, region="b") for i in range(6)]
    found = {g.partition_path: g for g in grouped([*many, *few], merged_bytes=merged)[0]}
    assert asked == [20]
    large, small = found["region=a"], found["region=b"]
    assert (large.input_bytes, large.estimated_bytes, large.expected_output_files) == (160 * MIB, 128 * MIB, 2)
    assert grouped(many)[0][0].expected_output_files == 3
    assert (small.estimated_bytes, small.expected_output_files) == (small.input_bytes, 1)


@given(st.lists(st.floats(0.01, 400), max_size=30), st.floats(0.2, 1))
def test_planning_comes_to_rest_where_small_files_shrink(sizes: list[float], share: float) -> None:
    def merged(tasks: Sequence[FileScanTask]) -> int:
        return sum(t.data_bytes if t.data_bytes > 8 * MIB else round(t.data_bytes * share) for t in tasks)

    tasks = [task(f"f{i}", mib) for i, mib in enumerate(sizes)]
    for generation in range(6):
        tasks = _outputs(tasks, generation, merged)
    assert grouped(tasks, merged_bytes=merged)[0] == ()
