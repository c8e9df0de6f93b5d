"""An exception of each kind at every boundary of every kind of writer, and the process continues.

A writer works alone on a table with every feature; at its k-th step of I/O, or call out of the committer, one exception is raised,
before the call takes effect or after. Its report must be true: work that is reported as refused is not in the table, work that is
reported as done is. Then its caller retries under the same run key, and the work is in the table once; all readers see the model's
rows throughout, and after one clean-up no unreferenced file is left. The suite takes a few steps of each writer; ``make torture``
takes all, with each kind of exception."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator

import pytest

from tests.torture import writers
from tests.torture.faults import EXCEPTIONS
from tests.torture.staging import SHAPES, Case, Stage

EVERY_STEP = "ICEBERG_OPS_TORTURE" in os.environ
SAMPLED = 3


@pytest.fixture(scope="module", params=list(SHAPES))
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    found = Stage(request.param)
    yield found
    found.close()


@pytest.mark.parametrize("kind", sorted(writers.KINDS))
def test_whatever_is_raised_wherever_what_is_reported_is_true_and_a_retry_finishes_it_once(
    stage: Stage, kind: str, record_property: Callable[[str, object], None]
) -> None:
    if kind not in writers.kinds_in(stage.world):
        return
    points = stage.play(Case(stage.shape, kind)).points
    every = [Case(stage.shape, kind, raises=name, after=at) for at in range(points) for name in EXCEPTIONS]
    wrong = []
    for case in every if EVERY_STEP else random.Random(kind).sample(every, min(SAMPLED, len(every))):
        try:
            stage.check(case)
        except AssertionError as e:
            wrong.append(str(e))
    record_property("torture", stage.counted())
    assert not wrong, f"{len(wrong)} of {len(every)}:\n" + "\n".join(wrong[:20])


@pytest.mark.parametrize("kind", ["compact", "delete", "delete job"])
def test_a_far_store_that_once_gives_no_answer_costs_no_commit_a_manifest(kind: str) -> None:
    """A refused write that was taken for done gave a table without one of its manifests."""
    stage = Stage("far")
    try:
        points = range(stage.play(Case(stage.shape, kind)).points)
        for at in points if EVERY_STEP else random.Random(kind).sample(points, SAMPLED):
            stage.check(Case(stage.shape, kind, raises="unavailable", after=at))
    finally:
        stage.close()
