"""A sort of a partition that is larger than one file group comes to rest: its groups are sorted apart."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.planning_cases import MIB, grouped, paths, task

ROWS = 4
"""Rows of a file of 64 MiB."""


def runs_until_rest(files: list[list[int]], files_of_a_group: int, *, most: int) -> list[list[int]] | None:
    """The keys of each file once nothing is planned any more; None where work is left after ``most`` runs."""
    options = {"strategy": "sort", "max-file-group-size-bytes": str(files_of_a_group * 64 * MIB), "max-overlap-depth": "1"}
    for _ in range(most):
        named = {str(i): keys for i, keys in enumerate(files)}
        groups, _ = grouped([task(name, 64, ids=(min(keys), max(keys))) for name, keys in named.items()], options)
        if not groups:
            return files
        for group in groups:
            assert group.input_files <= files_of_a_group
            rows = sorted(key for name in paths(group) for key in named.pop(name))
            named |= {f"{group.group_id}-{i}": rows[i : i + ROWS] for i in range(0, len(rows), ROWS)}
        files = list(named.values())
    return None


def test_groups_whose_files_overlap_each_other_are_mixed_by_key() -> None:
    files = [[i, i + 100, i + 200, i + 300] for i in range(8)]
    rested = runs_until_rest(files, 4, most=4)
    assert rested is not None
    assert sorted(key for keys in rested for key in keys) == sorted(key for keys in files for key in keys)


@given(
    st.lists(st.lists(st.integers(0, 40), min_size=ROWS, max_size=ROWS), min_size=2, max_size=14),
    st.integers(2, 6),
)
@settings(max_examples=150, deadline=None)
def test_a_sort_in_several_groups_rests_whatever_the_keys(files: list[list[int]], files_of_a_group: int) -> None:
    assert runs_until_rest([sorted(keys) for keys in files], files_of_a_group, most=12) is not None


def test_files_that_overlap_none_of_their_own_group_are_left_alone_with_a_reason() -> None:
    tasks = [task(name, 64, ids=ids) for name, ids in (("a", (60, 80)), ("b", (0, 200)), ("c", (90, 100)), ("d", (1, 200)))]
    groups, skipped = grouped(tasks, {"strategy": "sort", "max-file-group-size-bytes": str(128 * MIB), "max-overlap-depth": "1"})
    assert [paths(group) for group in groups] == [["b", "d"]]
    reason = "it overlaps files of other groups only: sorting its group again clusters nothing"
    assert [(s.file_path, s.reason) for s in skipped] == [("/t/a.parquet", reason), ("/t/c.parquet", reason)]
