"""Schedules told step by step, for faults that need a particular moment or something that no writer does (a file that is lost).

Each scene fails with AssertionError where the fault is there. They are as short as they can be made.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from iceberg_ops.errors import IcebergOpsError
from tests.torture import foreign, refs, writers
from tests.torture.acts import Act
from tests.torture.drawing import Shape
from tests.torture.evolution import kind_comes_or_goes
from tests.torture.faults import Exceptions
from tests.torture.maintenance import expire
from tests.torture.playing import check_all, check_as_package, clean_up
from tests.torture.stepping import Writer
from tests.torture.watched import MAIN
from tests.torture.world import World


@contextmanager
def a_world(shape: Shape, *set_up: str) -> Iterator[World]:
    """A table after those writers, one after the other."""
    world = World(random.Random(1), shape)
    with world.laws():
        for catalog in world.catalogs:
            catalog.unanswered = 0
        for kind in set_up:
            finish(world, kind)
        yield world


def begin(world: World, kind: str, branch: str = MAIN) -> Writer:
    writer = writers.begin(world, kind, branch, "t")
    writer.meets = None
    return writer


def finish(world: World, kind: str, branch: str = MAIN) -> None:
    world.finish(begin(world, kind, branch))


def after_the_swap(world: World, writer: Writer) -> None:
    """Up to the moment at which the writer's commit is in the table and nobody has told it so."""
    (before,) = (t.location for t in world.tables.values())
    while not writer.ended and world.tables[next(iter(world.tables))].location == before:
        world.step(writer)


def a_lost_version_is_an_error() -> None:
    """The current metadata file of a table in a folder is lost, while the hint still names it."""
    with a_world(Shape(catalog="filesystem"), "append", "append") as world:
        (table,) = world.tables.values()
        assert table.location is not None
        world.storage.io.delete(table.location)
        act, seen = Act("append"), len(table.metadata["snapshots"])
        writer = world.begin("after the loss", lambda w, who: w.attempt(who, act, lambda: w.load(who)))
        with suppress(IcebergOpsError):
            try:
                world.finish(writer)
            except AssertionError as e:
                raise e.__cause__ or e from None
        loaded = len(writer.loads[-1].metadata.snapshots) if writer.loads else seen
        assert loaded == seen, f"a table of {seen} snapshots is served as one of {loaded}"


def a_commit_is_found_again_under_two_others() -> None:
    """A table that keeps one previous version: two commits come between the version's creation and the look whether it counts."""
    with a_world(Shape(version=2, catalog="filesystem", short_log=True, keyless=True), "append") as world:
        first = begin(world, "append")
        after_the_swap(world, first)
        finish(world, "append")
        finish(world, "append")
        world.finish(first)
        clean_up(world)
        check_all(world)


def a_lost_answer_under_another_commit_is_looked_up_or_in_doubt() -> None:
    """A swap is done, its answer is lost, another commits on top, and the metadata that would tell can not be read."""
    for again in range(6):
        with a_world(Shape(version=2, keyless=True), "append") as world:
            first = begin(world, "append")
            after_the_swap(world, first)
            finish(world, "append")
            first.meets = Exceptions("unavailable", 0, then=Exceptions("unavailable", again))
            world.finish(first)
            clean_up(world)
            check_all(world)


def a_cherry_pick_without_a_key_that_did_happen_stays() -> None:
    """As above, for a pick: its first attempt is reported as refused and was done, and its second finds the snapshot picked."""
    for shape in (Shape(version=2, catalog="filesystem", short_log=True, keyless=True), Shape(version=2, keyless=True)):
        for again in range(4):
            with a_world(shape, "append", "append") as world:
                world.finish(world.begin("branch", lambda w, who: refs.make_branch(w, who, "audit")))
                finish(world, "append", "audit")
                (table,) = world.tables.values()
                picked = table.heads["audit"] or 0
                first = world.begin("pick", partial(writers.pick_that, snapshot_id=picked))
                after_the_swap(world, first)
                finish(world, "append")
                finish(world, "append")
                first.meets = Exceptions("unavailable", again)
                world.finish(first)
                clean_up(world)
                check_all(world)


def a_rollback_is_not_done_again_after_its_key_left_the_ledger() -> None:
    """A key that was entered a moment ago stays while an expiry enters the keys of many old snapshots."""
    with a_world(Shape(version=2, short_ledger=True), *["append"] * 12) as world:
        world.persistent = True
        back = begin(world, "roll back")
        after_the_swap(world, back)
        for kind in ("append", "expire", "append"):
            finish(world, kind)
        world.finish(back)
        check_all(world)


def a_dropped_key_column_keeps_its_schema() -> None:
    """Metadata is cleaned while an equality delete on a column that was dropped is live."""
    with a_world(Shape(version=2, columns_come_back=True, foreign=True, layout="none"), "append", "append") as world:
        upsert = world.begin("foreign upsert", lambda w, who: foreign.foreign_upsert(w, who, ["id", "kind"]))
        world.finish(upsert)
        world.finish(world.begin("drop", kind_comes_or_goes))
        finish(world, "append")
        clean = world.begin("clean", lambda w, who: expire(w, who, keep=1, clean_metadata=True))
        world.finish(clean)
        check_all(world)
        check_as_package(world)


SCENES: dict[str, Callable[[], None]] = {
    scene.__name__: scene
    for scene in (
        a_lost_version_is_an_error,
        a_commit_is_found_again_under_two_others,
        a_lost_answer_under_another_commit_is_looked_up_or_in_doubt,
        a_cherry_pick_without_a_key_that_did_happen_stays,
        a_rollback_is_not_done_again_after_its_key_left_the_ledger,
        a_dropped_key_column_keeps_its_schema,
    )
}
