"""A world with every feature, which is the start of every case of an exhaustive test.

A case is named by its content: a kind of writer, the dice it draws its details with, and the events at its boundaries. So a failed
case can be run again alone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from tests.torture import evolution, refs, writers
from tests.torture.counted import added_up
from tests.torture.drawing import Shape
from tests.torture.faults import Exceptions
from tests.torture.playing import check_all, check_as_package, clean_up
from tests.torture.stepping import WAITING, Writer
from tests.torture.watched import MAIN
from tests.torture.world import World

EVERYTHING: dict[str, Any] = {"evolves": True, "columns_come_back": True, "foreign": True, "more_foreign": True, "imports": True}
SHAPES = {
    "v2 in folders": Shape(version=2, catalog="filesystem", **EVERYTHING),
    "v3 by pointer": Shape(version=3, tables=2, moves=True, **EVERYTHING),
    "v3 in folders, short log": Shape(version=3, catalog="filesystem", rolled=True, short_log=True, imports=True),
    "v2 by pointer, short log": Shape(version=2, short_log=True, layout="truncate", **EVERYTHING),
    "v2 in folders, no keys": Shape(version=2, catalog="filesystem", keyless=True, rolled=True, imports=True),
    "v3 by pointer, no keys": Shape(version=3, keyless=True, tables=2, rolled=True, imports=True),
    "v1 by pointer": Shape(version=1, layout="kind", imports=True, foreign=True, more_foreign=True, moves=True),
}
FAR = Shape(version=2, store="s3", layout="truncate", **EVERYTHING)
"""A store far away: manifests are read ahead and written behind."""
SET_UP = ("append", "append", "append", "foreign upsert", "upsert", "delete", "update")
AFTER_EVOLUTION = ("append", "upsert", "statistics", "several", "foreign stage")


@dataclass(frozen=True)
class Case:
    """``at``: the number of I/O steps of the writer before the writer ``between`` does all its work (empty: no other writer).
    ``after``: the number of boundaries after that before ``raises`` is raised (None: no exception)."""

    shape: str
    kind: str
    dice: int = 0
    at: int = 0
    between: tuple[str, ...] = ()
    raises: str | None = None
    after: int = 0
    again: tuple[str, int] | None = None
    """A second exception, and how many boundaries later."""


class Stage:
    def __init__(self, shape: str) -> None:
        self.shape = shape
        drawn = {**SHAPES, "far": FAR}[shape]
        self.world = World(random.Random(drawn.version), drawn)
        self.laws = self.world.laws()
        self.laws.__enter__()
        for catalog in self.world.catalogs:
            catalog.unanswered = 0
        self._all(SET_UP)
        if self.world.shape.evolves:
            self.world.finish(self.world.begin("set up", evolution.bucket_too))
        self._all(AFTER_EVOLUTION)
        for work in (branch, writers.stage_and_publish):
            self.world.finish(self.world.begin("set up", work))
        self.restore = self.world.saved()
        self._looked_at: set[int] = set()
        """States of storage and catalog that were checked without error."""

    def close(self) -> None:
        self.laws.__exit__(None, None, None)

    def play(self, case: Case) -> Writer:
        """Play a case from the prepared state, until every writer has ended and every reader has checked."""
        world = self.world
        world.names.seed(f"{case.kind} {case.dice}")
        self.restore()
        world.random.seed(f"{case.kind} {case.dice}")
        world.persistent = True
        writer = self._begin(case.kind)
        for _ in range(case.at):
            if not writer.ended:
                world.step(writer)
        for kind in case.between:
            other = self._begin(kind)
            while not other.ended:
                world.step(writer if other.at == WAITING and not writer.ended else other)
        if case.raises is not None:
            then = None if case.again is None else Exceptions(case.again[0], case.again[1], world.met)
            writer.meets = Exceptions(case.raises, case.after, world.met, then)
        while world.active:
            world.step(world.active[0])
        return writer

    def steps_of(self, kind: str) -> int:
        """Steps of I/O that the writer takes when nothing happens."""
        self.restore()
        before = self.world.tick
        self.play(Case(self.shape, kind))
        return self.world.tick - before

    def check(self, case: Case) -> Writer:
        """Play it, clean up, and check everything; a state that was checked before is not checked again. Raises AssertionError."""
        try:
            writer = self.play(case)
            if (state := self._state()) not in self._looked_at:
                self._look()
                self._looked_at.add(state)
        except Exception as e:
            self.world.end()
            raise AssertionError(f"{case}: {e}") from e
        return writer

    def counted(self) -> str:
        """What was drawn since the last call."""
        found, self.world.counts = self.world.counts, {}
        return added_up([found])

    def _state(self) -> int:
        files = frozenset((location, data) for location, (data, _) in self.world.storage.io._store.files.items())
        return hash((files, frozenset(self.world.where().items())))

    def _look(self) -> None:
        self.world.count("events", "cleaned up")
        check_all(self.world, from_storage=False)
        clean_up(self.world)
        check_all(self.world, from_storage=False)
        check_as_package(self.world, rows=False)

    def _all(self, kinds: tuple[str, ...]) -> None:
        for kind in kinds:
            if kind in writers.kinds_in(self.world):
                self.world.finish(writers.begin(self.world, kind, MAIN, "t"))

    def _begin(self, kind: str) -> Writer:
        writer = writers.begin(self.world, kind, MAIN, "t")
        writer.meets = None
        return writer


def branch(world: World, w: Writer) -> None:
    """Branch audit at main's parent, so that it has something to catch up with, and a tag."""
    refs.make_branch(world, w, "audit")
