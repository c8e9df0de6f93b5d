"""Schedules written step by step, for faults that need a particular moment or an event that no writer causes (a lost file).

Each scene fails with AssertionError if the fault is present. They are as short as possible.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from iceberg_ops.config.job_spec import RowChange
from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.scan.tasks import FileScanTask
from tests.torture import foreign, refs, writers
from tests.torture.acts import Act
from tests.torture.drawing import ALIASES, PLACES, Shape
from tests.torture.evolution import bucket_too, column_set_back, kind_comes_or_goes
from tests.torture.faults import Exceptions
from tests.torture.imports import import_files
from tests.torture.maintenance import expire
from tests.torture.naming import swap_names
from tests.torture.playing import check_all, check_as_package, clean_up
from tests.torture.rows import Row, without
from tests.torture.running import job
from tests.torture.statements import change, source, upsert_job
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
    """Run the writer until its commit is in the table, and it has no answer yet."""
    (before,) = (t.location for t in world.tables.values())
    while not writer.ended and world.tables[next(iter(world.tables))].location == before:
        world.step(writer)


def do(world: World, what: str, work: Callable[[World, Writer], None]) -> None:
    world.finish(world.begin(what, work))


def keep_one(world: World) -> None:
    """Expire all snapshots except the heads of branches."""
    do(world, "expire", partial(expire, keep=1))
    check_all(world)


def delete_from(world: World, *number: int) -> None:
    """Delete by position in those of the table's files, in the order in which they were written."""

    def pick(tasks: list[FileScanTask]) -> list[FileScanTask]:
        written = sorted(tasks, key=lambda t: (t.sequence_number, t.file_path))
        return [written[n] for n in number]

    do(world, "delete", partial(change, update=False, pick=pick))


def vectors_of_two_specs_in_one_file() -> None:
    """A delete over files of two partition specs writes one Puffin file; a later one replaces the vectors of one spec."""
    with a_world(Shape(version=3, evolves=True), "append") as world:
        do(world, "evolve", bucket_too)
        finish(world, "append")
        delete_from(world, 0, -1)
        delete_from(world, -1)
        keep_one(world)


def vectors_in_rolled_manifests() -> None:
    """One Puffin file holds the vectors of two data files, whose entries are in two manifests; one of them is replaced."""
    with a_world(Shape(version=3, layout="none", rolled=True), "append", "append") as world:
        delete_from(world, 0, 1)
        delete_from(world, 1)
        keep_one(world)


def a_folder_that_was_imported_twice() -> None:
    """The second import is rolled back and expires; the first still needs its files."""
    with a_world(Shape(version=2, imports=True)) as world:
        do(world, "import", partial(import_files, again=False, checks=False))
        do(world, "import again", partial(import_files, again=True, checks=False))
        do(world, "roll back", partial(refs.roll_back, by=1))
        keep_one(world)


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
    """A table keeps one previous version: two commits come between the creation of a version and the check whether it is
    current."""
    with a_world(Shape(version=2, catalog="filesystem", short_log=True, keyless=True), "append") as world:
        first = begin(world, "append")
        after_the_swap(world, first)
        finish(world, "append")
        finish(world, "append")
        world.finish(first)
        clean_up(world)
        check_all(world)


def a_lost_answer_under_another_commit_is_looked_up_or_in_doubt() -> None:
    """A swap succeeds, its answer is lost, another writer commits on top, and the metadata that would show this cannot be read."""
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
    """As above, for a cherry-pick: its first attempt is reported as refused but was committed, and its second finds the snapshot
    already picked."""
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
    """A key that was just added to the ledger stays while an expiry adds the keys of many old snapshots."""
    with a_world(Shape(version=2, short_ledger=True), *["append"] * 12) as world:
        world.persistent = True
        back = begin(world, "roll back")
        after_the_swap(world, back)
        for kind in ("append", "expire", "append"):
            finish(world, kind)
        world.finish(back)
        check_all(world)


def an_interrupt_right_after_a_swap_deletes_nothing() -> None:
    """A rewrite in parts has swapped, and is interrupted before it knows."""
    for kind in ("interrupt", "out of memory"):
        for later in range(3):
            with a_world(Shape(version=2, layout="none", keyless=True), "append", "append", "append") as world:
                writer = begin(world, "compact in parts")
                after_the_swap(world, writer)
                writer.meets = Exceptions(kind, later)
                world.finish(writer)
                check_all(world)


def an_error_after_the_versions_file_is_no_refusal() -> None:
    """In a file-system catalog the store fails once the new version's file is there."""
    for kind in ("I/O error", "time-out", "unavailable"):
        with a_world(Shape(version=2, catalog="filesystem", keyless=True), "append") as world:
            writer = begin(world, "append")
            after_the_swap(world, writer)
            writer.meets = Exceptions(kind, 0)
            world.finish(writer)
            clean_up(world)
            check_all(world)


def names_swapped_during_an_expiry_cost_no_table_its_files() -> None:
    for steps in range(2, 40, 2):
        with a_world(Shape(version=2, tables=2), "append", "append") as world:
            for _ in range(2):
                world.finish(writers.begin(world, "append", MAIN, "u"))
            expiry = world.begin("expire", partial(expire, keep=1))
            for _ in range(steps):
                if not expiry.ended:
                    world.step(expiry)
            do(world, "swap names", swap_names)
            world.finish(expiry)
            check_all(world)


def a_delete_on_the_old_spec_reaches_rows_that_are_compacted_meanwhile() -> None:
    """Another engine upserts in the spec it began with, while a compaction moves the rows into the new one."""
    for steps in range(10, 60, 10):
        with a_world(Shape(version=2, evolves=True, foreign=True), "append") as world:
            do(world, "foreign upsert", partial(foreign.foreign_upsert, columns=["region", "id"]))
            do(world, "evolve", bucket_too)
            compaction = world.begin("compact", compact_all)
            for _ in range(steps):
                if not compaction.ended:
                    world.step(compaction)
            do(world, "foreign upsert", partial(foreign.foreign_upsert, columns=["region", "id"]))
            world.finish(compaction)
            check_all(world)


def a_delete_by_a_dropped_column_reaches_rows_that_are_compacted_meanwhile() -> None:
    """Another engine upserts by a column that was dropped before a compaction began, so that the new files lack it."""
    upsert = partial(foreign.foreign_upsert, columns=["id", "kind"])
    for steps in range(10, 60, 10):
        with a_world(Shape(version=2, columns_come_back=True, foreign=True, layout="none"), "append", "append") as world:
            do(world, "foreign upsert", upsert)
            _while_a_dropped_column_is_not_copied(world, steps, "foreign upsert", upsert)


def values_of_a_column_that_comes_back_are_in_rows_that_are_compacted_meanwhile() -> None:
    for steps in range(10, 80, 10):
        with a_world(Shape(version=2, columns_come_back=True, layout="none"), "append", "append") as world:
            _while_a_dropped_column_is_not_copied(world, steps, "set back", column_set_back)


def _while_a_dropped_column_is_not_copied(world: World, steps: int, name: str, work: Callable[[World, Writer], None]) -> None:
    """``work`` is done when a compaction, which began after a column was dropped, has made that number of steps."""
    do(world, "drop", kind_comes_or_goes)
    compaction = world.begin("compact", compact_all)
    for _ in range(steps):
        if not compaction.ended:
            world.step(compaction)
    do(world, name, work)
    world.finish(compaction)
    check_all(world)


def an_upsert_finds_rows_that_were_moved_meanwhile() -> None:
    """The table gets another spec, and its rows are compacted into it, while an upsert is under way."""
    for dice in range(6):
        with a_world(Shape(version=2, evolves=True), "append") as world:
            world.random.seed(dice)
            upsert = world.begin("upsert", partial(upsert_job, columns="region,id"))
            while not upsert.leases:
                world.step(upsert)
            for _ in range(12):
                world.step(upsert)
            do(world, "evolve", bucket_too)
            do(world, "compact", compact_all)
            world.finish(upsert)
            check_all(world)


def an_upsert_to_a_branch_that_it_makes_finds_mains_rows() -> None:
    with a_world(Shape(version=2, evolves=True), "append", "append") as world:
        do(world, "evolve", bucket_too)
        upsert = world.begin("upsert", partial(upsert_job, columns="region,id", hits=2))
        upsert.branch = "made on the fly"
        world.finish(upsert)
        check_all(world)


def compact_all(world: World, w: Writer) -> None:
    job(world, w, "rewrite_data_files", {"rewrite-all": "true"})


def a_folder_is_imported_once_by_two_at_once() -> None:
    for steps in range(0, 30, 3):
        with a_world(Shape(version=2, imports=True), "append") as world:
            first = world.begin("import", partial(import_files, again=False, checks=True))
            while not world.imported:
                world.step(first)
            for _ in range(steps):
                if not first.ended:
                    world.step(first)
            do(world, "import again", partial(import_files, again=True, checks=True))
            world.finish(first)
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


def a_delete_under_an_appends_key_is_done() -> None:
    """Two jobs of different kinds were given one key."""
    with a_world(Shape(version=2), "append") as world:
        do(world, "append", partial(job_under, key="k", name="append"))
        do(world, "delete", partial(job_under, key="k", name="delete"))
        check_all(world)


def an_append_to_another_branch_is_done() -> None:
    with a_world(Shape(version=2), "append") as world:
        do(world, "branch", partial(refs.make_branch, name="audit"))
        do(world, "append", partial(job_under, key="k", name="append"))
        do(world, "append to audit", partial(job_under, key="k", name="append", branch="audit"))
        check_all(world)


def publishing_under_the_staging_jobs_key_publishes() -> None:
    with a_world(Shape(version=2), "append") as world:
        do(world, "stage", partial(job_under, key="k", name="append", staged=True))
        (table,) = world.tables.values()
        (staged,) = table.snapshots.keys() - {table.heads[MAIN], *(s.get("parent-snapshot-id") for s in table.snapshots.values())}
        do(world, "publish", partial(writers.pick_that, snapshot_id=staged, key="k"))
        check_all(world)


def what_was_staged_and_expired_unpublished_is_not_done() -> None:
    with a_world(Shape(version=2), "append") as world:
        do(world, "stage", partial(job_under, key="k", name="append", staged=True))
        finish(world, "append")
        keep_one(world)
        do(world, "stage again", partial(job_under, key="k", name="append", staged=True))


def job_under(world: World, w: Writer, *, key: str, name: str, branch: str = MAIN, staged: bool = False) -> None:
    """A delete of some row, or an append, under a given key."""
    w.branch = branch
    act = Act(name, key, branch, staged, is_job=True)
    table = world.table(w)
    assert table is not None
    more: dict[str, Any] = {"branch": branch, "run_key": key}
    options: dict[str, str] = {}
    if name == "delete":
        gone = table.rows(branch)[:1]
        w.effect = lambda model: without(model, gone)
        more |= {"where": f"id = {gone[0].id}", "change": RowChange(mode="copy-on-write")}
    else:
        rows = [Row("eu", 7_000, 0)]
        w.effect = w.beside = lambda model: (*model, *rows)
        options = {"wap-id": world.name("wap")} if staged else {}
        more["source"] = source(world, rows)
    before = dict(table.heads)
    done = world.attempt(w, act, lambda: world.run(w, name, options, **more))
    assert done is None or staged or table.heads != before, f"{name} is reported as {done.status}, and nothing changed"


def a_zombies_lease_outlives_its_retry() -> None:
    """A hanging job is started again under its key; the second run fails, and orphans are removed while the first run continues."""
    with a_world(Shape(version=2), "append") as world:
        zombie = world.begin("zombie", partial(job_under, key="k", name="append"))
        while not any("/data/" in line and zombie.label in line for line in world.story):
            world.step(zombie)
        retry = world.begin("retry", partial(job_under, key="k", name="append"))
        while not retry.leases:
            world.step(retry)
        retry.meets = Exceptions("bug", 0)
        world.finish(retry)
        finish(world, "orphans")
        world.finish(zombie)
        check_all(world)


def an_import_keeps_its_files_from_an_orphan_job() -> None:
    """Old files below the table are listed as orphans before their import commits, and deleted after."""
    for steps in range(0, 60, 4):
        with a_world(Shape(version=2, imports=True), "append") as world:
            folder_of = partial(import_files, again=False, checks=True, inside=True)
            first = world.begin("import", folder_of)
            while not world.imported:
                world.step(first)
            orphans = begin(world, "orphans")
            for _ in range(steps):
                if not orphans.ended:
                    world.step(orphans)
            world.finish(first)
            world.finish(orphans) if not orphans.ended else None
            check_all(world)


def files_under_another_spelling_are_no_orphans() -> None:
    """``write.data.path`` spells the table's folder in another way."""
    for store, how in PLACES:
        for catalog in ("filesystem", "pointer"):
            with a_world(Shape(version=2, catalog=catalog, store=store, spelled=how), "append", "delete") as world:
                clean_up(world)
                check_all(world)


def a_warehouse_of_another_spelling_is_the_same() -> None:
    """The jobs that clean up reach the warehouse under an alias or a link."""
    for store, how in ALIASES:
        with a_world(Shape(version=2, catalog="filesystem", store=store, aliases=(how,)), "append", "delete") as world:
            world.catalogs = world.catalogs[1:]
            clean_up(world)
            check_all(world)
            check_as_package(world)


SCENES: dict[str, Callable[[], None]] = {
    scene.__name__: scene
    for scene in (
        vectors_of_two_specs_in_one_file,
        vectors_in_rolled_manifests,
        a_folder_that_was_imported_twice,
        a_lost_version_is_an_error,
        a_delete_under_an_appends_key_is_done,
        an_append_to_another_branch_is_done,
        publishing_under_the_staging_jobs_key_publishes,
        what_was_staged_and_expired_unpublished_is_not_done,
        a_zombies_lease_outlives_its_retry,
        an_import_keeps_its_files_from_an_orphan_job,
        files_under_another_spelling_are_no_orphans,
        a_warehouse_of_another_spelling_is_the_same,
        a_commit_is_found_again_under_two_others,
        a_lost_answer_under_another_commit_is_looked_up_or_in_doubt,
        a_cherry_pick_without_a_key_that_did_happen_stays,
        a_rollback_is_not_done_again_after_its_key_left_the_ledger,
        a_dropped_key_column_keeps_its_schema,
        an_interrupt_right_after_a_swap_deletes_nothing,
        an_error_after_the_versions_file_is_no_refusal,
        names_swapped_during_an_expiry_cost_no_table_its_files,
        a_delete_on_the_old_spec_reaches_rows_that_are_compacted_meanwhile,
        a_delete_by_a_dropped_column_reaches_rows_that_are_compacted_meanwhile,
        values_of_a_column_that_comes_back_are_in_rows_that_are_compacted_meanwhile,
        an_upsert_finds_rows_that_were_moved_meanwhile,
        an_upsert_to_a_branch_that_it_makes_finds_mains_rows,
        a_folder_is_imported_once_by_two_at_once,
    )
}
