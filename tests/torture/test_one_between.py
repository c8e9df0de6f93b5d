"""One writer is interrupted at every step of I/O, and another does all its work before the first continues.

Most concurrency faults need only this: one switch at the wrong moment, sometimes an exception after it. So this test is systematic,
while ``test_interleaved_steps`` draws. The suite takes a few cases, ``make torture`` every step of every kind of writer with some
others, and every step with an exception of some kind."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator

import pytest

from tests.torture import writers
from tests.torture.faults import EXCEPTIONS
from tests.torture.staging import SHAPES, Case, Stage

EVERY_STEP = "ICEBERG_OPS_TORTURE" in os.environ
OTHERS = 2 if EVERY_STEP else 1
SAMPLED = 1


@pytest.fixture(scope="module", params=list(SHAPES))
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    found = Stage(request.param)
    yield found
    found.close()


@pytest.mark.parametrize("kind", sorted(writers.KINDS))
def test_another_may_do_all_its_work_at_any_step(stage: Stage, kind: str, record_property: Callable[[str, object], None]) -> None:
    if kind not in writers.kinds_in(stage.world):
        return
    wrong, cases = [], list(cases_of(stage, kind))
    for case in cases:
        try:
            stage.check(case)
        except AssertionError as e:
            wrong.append(str(e))
    record_property("torture", stage.counted())
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:20])


def cases_of(stage: Stage, kind: str) -> Iterator[Case]:
    """Some others at each step, one of them followed by an exception."""
    rng, others = random.Random(kind), writers.kinds_in(stage.world)
    steps = stage.steps_of(kind)
    for at in range(steps) if EVERY_STEP else sorted(rng.sample(range(steps), min(SAMPLED, steps))):
        for _ in range(OTHERS):
            between = tuple(rng.choices(list(others), list(others.values()), k=rng.choice([1, 1, 2])))
            yield Case(stage.shape, kind, rng.randrange(100), at, between)
        raises, again = rng.choice(list(EXCEPTIONS)), (rng.choice(list(EXCEPTIONS)), rng.randrange(6))
        yield Case(stage.shape, kind, 0, at, between, raises, 0, rng.choice([None, again]))
