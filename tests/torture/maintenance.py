"""Writers that change no rows: the package's own jobs as every host runs them, refs, columns, upgrades."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from iceberg_ops.commit.metadata_updates import UpdateSchema, UpgradeFormatVersion
from iceberg_ops.commit.refs import FastForward, RemoveRef, RenameBranch, RollBack, SetCurrentSnapshot, SetRef
from iceberg_ops.config.report import ActionReport
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import MAIN_BRANCH
from iceberg_ops.spec.types import LONG, NestedField
from tests.torture.stepping import Writer
from tests.torture.world import REGIONS, World

EVERY_FILE = {"rewrite-all": "true"}


def job(
    world: World, w: Writer, name: str, options: Mapping[str, str] | None = None, *, in_parts: bool = False, **more: Any
) -> ActionReport | None:
    """Run a job, sometimes twice under its run key: the second run must find the work done, unless it is one that is done
    ``in_parts``, so that a second run does what is left or has come since."""
    key = world.name(name)
    done: ActionReport | None = world.settle(lambda: world.run(name, world.catalog, options or {}, run_key=key, **more), [])
    if done is not None and done.status == "committed" and world.random.random() < 0.2:
        again = world.settle(lambda: world.run(name, world.catalog, options or {}, run_key=key, **more), [])
        assert in_parts or again is None or again.status in ("already-committed", "nothing-to-do"), f"{name} was done twice"
    return done


def compact(world: World, w: Writer, *, sort: bool = False) -> None:
    dice = world.random.random
    options = dict(EVERY_FILE)
    if sort:
        options["sort-order"] = world.random.choice(["id DESC", "zorder(id, data)"])
    if dice() < 0.3:
        options |= {"partial-progress.enabled": "true", "max-file-group-input-files": "2"}
    if dice() < 0.3:
        options["remove-dangling-deletes"] = "true"
    if dice() < 0.2:
        options["use-starting-sequence-number"] = "false"
    where = f"region = '{world.random.choice(REGIONS)}'" if dice() < 0.6 else None
    in_parts = "partial-progress.enabled" in options
    done = job(world, w, "rewrite_data_files", options, in_parts=in_parts, branch=w.branch, where=where)
    world.carried += done is not None and done.metrics.get("carried-over-rounds-count", 0) > 0


def sort(world: World, w: Writer) -> None:
    compact(world, w, sort=True)


def convert_equality_deletes(world: World, w: Writer) -> None:
    job(world, w, "convert_equality_deletes", branch=w.branch)


def rewrite_position_deletes(world: World, w: Writer) -> None:
    job(world, w, "rewrite_position_delete_files", EVERY_FILE, branch=w.branch)


def rewrite_manifests(world: World, w: Writer) -> None:
    job(world, w, "rewrite_manifests", branch=w.branch)


def expire(world: World, w: Writer) -> None:
    world.expiries += 1
    options = {"older-than": "0s", "retain-last": str(world.random.randint(1, 4))}
    job(world, w, "expire_snapshots", options, in_parts=True)


def orphans(world: World, w: Writer) -> None:
    """The age guard, in the world's time: what is older than every running writer."""
    cut = min([w.started, *(x.started for x in world.active)])
    job(world, w, "remove_orphan_files", {"older-than": str(cut), "unsafe-allow-recent": "true"}, in_parts=True)


def statistics(world: World, w: Writer) -> None:
    job(world, w, world.random.choice(["compute_table_stats", "compute_partition_stats"]), branch=w.branch)


def roll_back(world: World, w: Writer) -> None:
    table = world.load()
    head = table.metadata.branch_head(w.branch)
    ancestors = [s.snapshot_id for s in table.metadata.ancestors(None if head is None else head.snapshot_id)][1:3]
    if ancestors:
        target, key = world.random.choice(ancestors), world.name("back")
        w.effect = lambda model: world.seen[target].rows
        kind = world.random.choice([RollBack, SetCurrentSnapshot])
        world.twice(table, kind(snapshot_id=target, branch=w.branch, run_key=key))


def branch_or_tag(world: World, w: Writer) -> None:
    """A branch or tag comes, moves or goes."""
    table, w.branch = world.load(), "audit"
    snapshots = [s.snapshot_id for s in table.metadata.snapshots]
    target, dice = world.random.choice(snapshots), world.random.random()
    if dice < 0.4:
        w.effect = lambda model: world.seen[target].rows
        operation: Any = SetRef(ref="audit", snapshot_id=target, replace_existing=True)
    elif dice < 0.7:
        operation = SetRef(ref=world.random.choice(["noon", "night"]), snapshot_id=target, type="tag", replace_existing=True)
    elif dice < 0.9:
        operation = RemoveRef(ref=world.random.choice(["audit", "noon", "night"]))
    else:
        w.branch = world.name("old")
        operation = RenameBranch(old="audit", new=w.branch)
    world.commit(table, operation)


def fast_forward(world: World, w: Writer) -> None:
    """main catches up with the branch, where it may."""
    w.branch = MAIN_BRANCH
    w.effect = lambda model: world.models["audit"]
    world.commit(world.load(), FastForward(to="audit"))


def evolve(world: World, w: Writer) -> None:
    """A column more, or the one that came last gone again."""
    table = world.load()
    schema = table.schema
    if len(schema.fields) > 3 and world.random.random() < 0.5:
        fields = schema.fields[:-1]
    else:
        fields = (*schema.fields, NestedField(table.metadata.last_column_id + 1, f"c{world.made}", LONG))
    world.commit(table, UpdateSchema(schema=Schema.of(*fields)))


def upgrade(world: World, w: Writer) -> None:
    world.commit(world.load(), UpgradeFormatVersion(format_version=world.random.choice([2, 3])))


KINDS: dict[str, tuple[int, Callable[[World, Writer], None]]] = {
    "compact": (3, compact),
    "sort": (2, sort),
    "convert equality deletes": (2, convert_equality_deletes),
    "rewrite position deletes": (2, rewrite_position_deletes),
    "rewrite manifests": (1, rewrite_manifests),
    "expire": (2, expire),
    "statistics": (1, statistics),
    "orphans": (1, orphans),
    "roll back": (2, roll_back),
    "branch or tag": (2, branch_or_tag),
    "fast-forward": (1, fast_forward),
    "evolve": (1, evolve),
    "upgrade": (1, upgrade),
}
