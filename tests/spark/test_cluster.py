"""Jobs on a standalone cluster of two workers: executors know the shared storage and the archive of the packages, nothing else.

Tasks that fail after they wrote, and twins that Spark starts of slow ones, leave neither rows twice nor files behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.cluster import SPECULATION, Cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()


def test_append_merge_and_compaction_run_on_executors_that_have_only_the_archive(cluster: Cluster, tmp_path: Path) -> None:
    answer = cluster.run(tmp_path, "jobs")
    assert answer["statuses"] == ["committed"] * 6
    assert all("packages.zip" in place for place in answer["places"]), answer["places"]
    expected = [[i, "a" if i < 900 else "m"] for i in range(2100)]
    assert answer["rows"] == expected
    assert (answer["leaked"], answer["missing"]) == ([], [])


@pytest.mark.parametrize("case", ["fail", "fail-direct"])
def test_a_task_that_dies_after_it_wrote_leaves_no_row_twice_and_no_file(cluster: Cluster, tmp_path: Path, case: str) -> None:
    answer = cluster.run(tmp_path, case)
    assert answer["statuses"] == ["committed"]
    assert answer["rows"] == [[i, "a"] for i in range(2000)]
    assert (answer["leaked"], answer["missing"]) == ([], [])


@pytest.mark.parametrize("case", ["twin", "half", "twin-direct", "half-direct", "late-direct"])
def test_a_speculative_twin_leaves_no_row_twice_and_no_file(cluster: Cluster, tmp_path: Path, case: str) -> None:
    answer = cluster.run(tmp_path, case, *SPECULATION)
    assert {"0-0", "0-1"} <= set(answer["attempts"]), "the task ran twice"
    assert answer["statuses"] == ["committed"]
    assert answer["rows"] == [[i, "a"] for i in range(2000)]
    assert (answer["leaked"], answer["missing"]) == ([], [])
