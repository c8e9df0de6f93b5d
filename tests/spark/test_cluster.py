"""Jobs on a standalone cluster of two workers: executors have only the shared storage and the archive of the packages.

Tasks that fail after they wrote, and duplicate attempts that Spark starts for slow tasks, leave neither duplicate rows nor files
behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark.cluster import SPECULATION, Cluster, shipped_python

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DIES = ["fail", "fail-direct"]
HAS_A_TWIN = ["twin", "half", "twin-direct", "half-direct", "late-direct"]
Answers = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def without_twins(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """The cases that one application plays, in turn, on executors that it starts once."""
    folder = tmp_path_factory.mktemp("without-twins")
    return cluster.run(folder, ",".join(["jobs", *DIES]), *shipped_python(folder))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def with_twins(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return cluster.run(tmp_path_factory.mktemp("with-twins"), ",".join(HAS_A_TWIN), *SPECULATION)  # type: ignore[no-any-return]


def of(answers: Answers, case: str) -> dict[str, Any]:
    assert "failed" not in answers[case], answers[case]["failed"]
    return answers[case]


def test_append_merge_and_compaction_run_on_executors_that_have_only_the_archive(without_twins: Answers) -> None:
    answer = of(without_twins, "jobs")
    assert answer["statuses"] == ["committed"] * 6
    assert all("packages.zip" in place for place in answer["places"]), answer["places"]
    assert answer["pythons"] == ["shipped"], "spark.pyspark.python is the executors' interpreter"
    expected = [[i, "a" if i < 900 else "m"] for i in range(2100)]
    assert answer["rows"] == expected
    assert (answer["leaked"], answer["missing"]) == ([], [])


@pytest.mark.parametrize("case", DIES)
def test_a_task_that_dies_after_it_wrote_leaves_no_row_twice_and_no_file(without_twins: Answers, case: str) -> None:
    answer = of(without_twins, case)
    assert answer["statuses"] == ["committed"]
    assert answer["rows"] == [[i, "a"] for i in range(2000)]
    assert (answer["leaked"], answer["missing"]) == ([], [])


@pytest.mark.parametrize("case", HAS_A_TWIN)
def test_a_speculative_twin_leaves_no_row_twice_and_no_file(with_twins: Answers, case: str) -> None:
    answer = of(with_twins, case)
    assert {"0-0", "0-1"} <= set(answer["attempts"]), "the task ran twice"
    assert answer["statuses"] == ["committed"]
    assert answer["rows"] == [[i, "a"] for i in range(2000)]
    assert (answer["leaked"], answer["missing"]) == ([], [])
