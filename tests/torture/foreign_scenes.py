"""Schedules written step by step, as in ``scenes``: another engine records its commits in other ways than the spec requires."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from iceberg_ops.scan.tasks import FileScanTask
from tests.torture.drawing import Shape
from tests.torture.foreign import Additions, foreign_upsert
from tests.torture.foreign_removals import AS_THE_SPEC_SAYS, IN_A_COPY, LEFT_OUT, UNDER_THE_ADDER, Habits, foreign_delete
from tests.torture.foreign_snapshots import foreign_stage, publish
from tests.torture.playing import check_all
from tests.torture.scenes import a_world, do
from tests.torture.statements import change
from tests.torture.world import World
from tests.torture.writers import append


def _meets_a_foreign_delete(world: World, habits: Habits, *, update: bool) -> None:
    """A statement changes rows of a file in which another engine deletes one by copying, before the statement commits."""

    def only_file(tasks: list[FileScanTask]) -> list[FileScanTask]:
        return tasks[:1]

    first = world.begin("statement", partial(change, update=update, pick=only_file))
    while not any("deletes" in line for line in world.story):
        world.step(first)
    do(world, "foreign delete", partial(foreign_delete, habits=habits, pick=only_file))
    world.finish(first)
    check_all(world)


def an_update_meets_a_removal_under_the_adders_id() -> None:
    with a_world(Shape(version=2, layout="none", foreign=True), "append") as world:
        _meets_a_foreign_delete(world, Habits(removed=UNDER_THE_ADDER), update=True)


def an_update_meets_a_removal_that_is_not_entered() -> None:
    with a_world(Shape(version=2, layout="none", foreign=True), "append") as world:
        _meets_a_foreign_delete(world, Habits(removed=LEFT_OUT), update=True)


def a_delete_meets_a_delete_that_adds_a_file() -> None:
    habits = Habits(removed=AS_THE_SPEC_SAYS, operation="delete")
    with a_world(Shape(version=2, layout="none", foreign=True), "append") as world:
        _meets_a_foreign_delete(world, habits, update=False)


def an_update_meets_a_removal_in_a_copy_of_an_older_manifest() -> None:
    with a_world(Shape(version=2, layout="none", foreign=True), "append") as world:
        _meets_a_foreign_delete(world, Habits(removed=IN_A_COPY), update=True)


def _an_update_meets_a_foreign_upsert(additions: Additions) -> None:
    """A statement changes rows by position while another engine upserts rows of the same file, whose table has deletes already."""
    upsert = partial(foreign_upsert, columns=["id"], additions=additions)
    for dice in range(4):
        with a_world(Shape(version=2, layout="none", foreign=True), "append") as world:
            world.random.seed(dice)
            do(world, "foreign upsert", upsert)
            first = world.begin("statement", partial(change, update=True, pick=lambda tasks: tasks))
            while not any("deletes" in line and first.label in line for line in world.story):
                world.step(first)
            do(world, "foreign upsert", upsert)
            world.finish(first)
            check_all(world)


def an_update_meets_deletes_in_a_copy_of_an_older_manifest() -> None:
    _an_update_meets_a_foreign_upsert(Additions(in_copies=True))


def an_update_meets_deletes_in_an_append() -> None:
    _an_update_meets_a_foreign_upsert(Additions(operation="append"))


def _staged_by_another(*, in_copies: bool, published: int) -> None:
    """What another engine stages is published, after something else came to main."""
    with a_world(Shape(version=2, layout="none", foreign=True, more_foreign=True), "append") as world:
        do(world, "foreign stage", partial(foreign_stage, appended=Additions(in_copies=in_copies)))
        for _ in range(published):
            do(world, "append", append)
            do(world, "publish", publish)
        check_all(world)


def a_pick_of_files_in_a_copy_of_an_older_manifest() -> None:
    _staged_by_another(in_copies=True, published=1)


def another_engines_snapshot_is_published_once() -> None:
    _staged_by_another(in_copies=False, published=2)


SCENES: dict[str, Callable[[], None]] = {
    scene.__name__: scene
    for scene in (
        an_update_meets_a_removal_under_the_adders_id,
        an_update_meets_a_removal_that_is_not_entered,
        an_update_meets_a_removal_in_a_copy_of_an_older_manifest,
        a_delete_meets_a_delete_that_adds_a_file,
        an_update_meets_deletes_in_a_copy_of_an_older_manifest,
        an_update_meets_deletes_in_an_append,
        a_pick_of_files_in_a_copy_of_an_older_manifest,
        another_engines_snapshot_is_published_once,
    )
}
