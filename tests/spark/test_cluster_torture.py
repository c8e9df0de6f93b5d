"""Jobs on a cluster of two workers while tasks die, slow down and return as zombies, executors are lost, sources give different
rows each time and sessions have unusual settings: rows match a plain model, each key is there once, no file is missing and none
left over.

The suite runs a few rounds; ``make torture`` runs more, with speculation too, and prints what was drawn. ``ICEBERG_OPS_SEED``
selects another sequence.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster import SPECULATION, TORTURE, Cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LONG = "ICEBERG_OPS_TORTURE" in os.environ
SEED = int(os.environ.get("ICEBERG_OPS_SEED", "1"))
ROUNDS = 60 if LONG else 6
WAYS = {"without twins": ("", ()), "with twins": (",twins=yes", SPECULATION)}
EVALUATIONS = ",only=evaluations"
FIXES = ("names", "staging", "evaluating again", "own sessions", "leftovers")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()


def played(cluster: Cluster, folder: Path, way: str, rounds: int, only: str = "") -> Any:
    more, settings = WAYS[way]
    case = f"seed={SEED},rounds={rounds}{more}{only}"
    return cluster.run(folder, case, *TORTURE, *settings, driver_name="cluster_torture.py", timeout=60 * rounds + 600)


@pytest.mark.parametrize("way", WAYS if LONG else ["without twins"])
def test_whatever_happens_to_tasks_and_executors_rows_are_right(
    cluster: Cluster, tmp_path: Path, way: str, record_property: Callable[[str, object], None]
) -> None:
    answer = played(cluster, tmp_path, way, ROUNDS)
    record_property("cluster torture", json.dumps(answer["drawn"]))
    assert answer["wrong"] == []
    if LONG:
        drawn = [(f"{topic}: {name}", n) for topic in ("jobs", "faults that struck") for name, n in answer["drawn"][topic].items()]
        assert [name for name, n in drawn if not n] == [], "never drawn"


if LONG:

    def test_of_a_source_that_gives_other_rows_each_time_one_evaluation_counts(cluster: Cluster, tmp_path: Path) -> None:
        assert played(cluster, tmp_path, "without twins", 24, EVALUATIONS)["wrong"] == []

    @pytest.mark.parametrize("fix", FIXES)
    def test_the_rounds_find_what_goes_wrong_without(cluster: Cluster, tmp_path: Path, fix: str) -> None:
        only = EVALUATIONS if fix == "evaluating again" else ""
        assert played(cluster, tmp_path, "without twins", 24, f",without={fix}{only}")["wrong"] != []
