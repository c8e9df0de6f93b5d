"""The same world, driven by Hypothesis: which writer begins, who advances how far, who dies. Hypothesis shrinks a failure to few
steps."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.torture.drawing import Shape
from tests.torture.playing import check_all, clean_up
from tests.torture.world import World
from tests.torture.writers import KINDS, begin, begin_again, kinds_in

MOST_WRITERS = 5


class Writers(RuleBasedStateMachine):
    @initialize(
        seed=st.integers(0, 2**32),
        version=st.sampled_from([1, 2, 3]),
        catalog=st.sampled_from(["pointer", "filesystem"]),
        oddities=st.lists(
            st.sampled_from(["evolves", "columns_come_back", "foreign", "rolled", "short_log", "imports", "zombies", "replaced"])
        ),
    )
    def set_up(self, seed: int, version: int, catalog: str, oddities: list[str]) -> None:
        shape = Shape(version=version, catalog=catalog, **dict.fromkeys(oddities, True))  # type: ignore[arg-type]
        self.world = World(random.Random(seed), shape)
        self.laws = self.world.laws()
        self.laws.__enter__()
        for _ in range(2):
            self.world.finish(begin(self.world, "append", "main"))

    @precondition(lambda self: len(self.world.active) < MOST_WRITERS)
    @rule(kind=st.sampled_from(sorted(KINDS)), branch=st.sampled_from(["main", "main", "audit"]))
    def begins(self, kind: str, branch: str) -> None:
        if kind in kinds_in(self.world):
            begin(self.world, kind, branch)

    @precondition(lambda self: self.world.again)
    @rule()
    def begins_again(self) -> None:
        begin_again(self.world, *self.world.again.pop())

    @precondition(lambda self: self.world.active)
    @rule(who=st.integers(0, MOST_WRITERS - 1), steps=st.integers(1, 40))
    def moves(self, who: int, steps: int) -> None:
        writer = self.world.active[who % len(self.world.active)]
        for _ in range(steps):
            if not writer.ended:
                self.world.step(writer)

    @precondition(lambda self: len(self.world.active) > 2)
    @rule(who=st.integers(0, MOST_WRITERS - 1))
    def dies(self, who: int) -> None:
        self.world.kill(self.world.active[who % len(self.world.active)])

    @invariant()
    def every_retained_snapshot_shows_its_rows(self) -> None:
        check_all(self.world, from_storage=False)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            while self.world.active:
                self.world.step(self.world.active[0])
            clean_up(self.world)
            check_all(self.world)
        finally:
            self.laws.__exit__(None, None, None)


Writers.TestCase.settings = settings(
    max_examples=15, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
TestWritersOfEveryKind = Writers.TestCase
