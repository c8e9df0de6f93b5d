"""Writers that change rows through operations of the commit package, and the table of all kinds. Each advances to its commit one
I/O step at a time."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.replace_partitions import ReplacePartitions
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.expressions.predicates import eq
from iceberg_ops.table.table import Table
from tests.torture import (
    evolution,
    foreign,
    foreign_removals,
    foreign_snapshots,
    imports,
    maintenance,
    moving,
    naming,
    refs,
    replacement,
    statements,
)
from tests.torture.drawing import THEMES
from tests.torture.faults import some_exception
from tests.torture.making import held, new_data, new_keys, some_rows
from tests.torture.rows import KIND, REGIONS, Model, Row, holds, minus, normal
from tests.torture.running import act_of
from tests.torture.stepping import CARRIED_OVER, Writer
from tests.torture.watched import MAIN, branch_heads
from tests.torture.world import World

Work = Callable[[World, Writer], None]


def append(world: World, w: Writer) -> None:
    table = world.load(w)
    rows = some_rows(world, table)
    files = new_data(world, table, rows)
    w.effect = lambda model: (*model, *rows)
    act = act_of(world, w, "append")
    merge = world.random.random() < 0.7
    world.commit(w, table, AppendFiles(added=files, merge=merge, run_key=act.key, branch=w.branch), act, files)


def several(world: World, w: Writer) -> None:
    """Two appends and a property in one transaction, at times with the first append's manifest rewritten in between; the first
    append's snapshot is never a branch's head."""
    table = world.load(w)
    first, second = some_rows(world, table), some_rows(world, table)
    files = [new_data(world, table, first), new_data(world, table, second)]
    act = act_of(world, w, "transaction")
    operations = (
        AppendFiles(added=files[0], branch=w.branch),
        UpdateProperties(updates={"last": world.name("several")}),
        *((RewriteManifests(branch=w.branch),) if world.random.random() < 0.5 else ()),
        AppendFiles(added=files[1], branch=w.branch),
    )
    w.effect = lambda model: (*model, *first, *second)
    w.beside = lambda model: model if holds(model, first) else (*model, *first)
    world.commit(w, table, Transaction(operations=operations, run_key=act.key, branch=w.branch), act, [*files[0], *files[1]])


def upsert(world: World, w: Writer) -> None:
    """Equality deletes in the table's spec, and the rows that replace the deleted ones."""
    table = world.load(w)
    rows = replacing(world, w, table)
    columns = world.random.choice([["id"], ["region", "id"], ["id", KIND]])
    try:
        keys = new_keys(world, table, rows, columns, table.metadata.default_spec_id)
    except IcebergOpsError as e:
        world.count("errors", type(e).__name__)
        return
    new = new_data(world, table, rows)
    act = act_of(world, w, "delta")
    watched = world.of(table)
    w.effect = lambda model: keys.replaced(watched, rows)
    operation = RowDelta(
        added_deletes=keys.files,
        added_data=new,
        isolation=None,
        run_key=act.key,
        branch=w.branch,
        starting_snapshot_id=world.random.choice([None, head_id(table, w.branch)]),
    )
    world.commit(w, table, operation, act, [*keys.files, *new])


def replacing(world: World, w: Writer, table: Table) -> list[Row]:
    """New rows, some of them with the region, id and kind of existing rows."""
    rows = some_rows(world, table, world.random.randint(1, 2))
    known = world.of(table).rows(w.branch)
    version = 1000 * (1 + world.made)
    taken = world.random.sample(known, min(len(known), len(rows)))
    kind = table.schema.find(KIND)
    for i, old in enumerate(taken):
        rows[i] = Row(old.region, old.id, version + i, held(kind, old.text))
    return rows


def head_id(table: Table, branch: str) -> int | None:
    """The snapshot a commit to the branch builds on, as its caller sees it."""
    metadata = table.metadata
    head = metadata.current_snapshot if metadata.ref(branch) is None else metadata.branch_head(branch)
    return None if head is None else head.snapshot_id


def replace_partition(world: World, w: Writer) -> None:
    """A dynamic partition overwrite, or the same by filter: it must not remove rows that it did not see."""
    table, region = world.load(w), world.random.choice(REGIONS)
    head = head_id(table, w.branch)
    watched = world.of(table)
    if head not in watched.seen:
        return
    seen = watched.seen[head].rows
    rows = some_rows(world, table, region=region)
    files = new_data(world, table, rows)
    act = act_of(world, w, "overwrite")
    common: dict[str, Any] = {"added": files, "starting_snapshot_id": head, "run_key": act.key, "branch": w.branch}
    by_filter = world.random.random() < 0.5
    operation = OverwriteFiles(overwrite_filter=eq("region", region), **common) if by_filter else ReplacePartitions(**common)

    def effect(model: Model) -> Model:
        gone = (
            [r for r in model if r.region == region]
            if by_filter
            else watched.in_partitions((f.spec_id, f.partition) for f in files)
        )
        assert holds(seen, gone), "rows that came or changed meanwhile were overwritten"
        return (*minus(model, gone), *rows)

    w.effect = effect
    world.commit(w, table, operation, act, files)


def drop_partition(world: World, w: Writer) -> None:
    region = world.random.choice(REGIONS)
    w.effect = lambda model: tuple(r for r in model if r.region != region)
    act = act_of(world, w, "delete")
    world.commit(w, world.load(w), DeleteFiles(filter=eq("region", region), run_key=act.key, branch=w.branch), act)


def stage_and_publish(world: World, w: Writer) -> None:
    """Write-audit-publish: a staged append or partition overwrite, which no branch shows until it is published; some are never
    published."""
    table = world.load(w)
    watched = world.of(table)
    rows = some_rows(world, table)
    files = new_data(world, table, rows)
    head = head_id(table, w.branch)
    replaces = world.random.random() < 0.3 and head is not None
    act = act_of(world, w, "overwrite" if replaces else "append", staged=True)
    wap_id = world.name("wap")
    common: dict[str, Any] = {
        "added": files, "staged": True, "summary": {"wap.id": wap_id}, "run_key": act.key, "branch": w.branch
    }  # fmt: skip
    staged = ReplacePartitions(starting_snapshot_id=head, **common) if replaces else AppendFiles(**common)
    seen: list[Row] = []
    whole: list[Row] = []

    def beside(model: Model) -> Model:
        whole[:] = model
        seen[:] = watched.in_partitions((f.spec_id, f.partition) for f in files) if replaces else []
        return (*minus(model, seen), *rows)

    def effect(model: Model) -> Model:
        if (head := branch_heads(watched.metadata).get(w.branch)) in watched.seen:  # The branch is moved to the staged snapshot.
            return watched.seen[head].rows
        there = watched.in_partitions((f.spec_id, f.partition) for f in files) if replaces else []
        # A rewrite may have brought rows of files of another spec into the partitions: these stay.
        assert holds(whole, there), "a pick replaces partitions to which rows came meanwhile"
        return (*minus(model, seen), *rows)

    w.beside = beside
    if world.commit(w, table, staged, act, files) is None or world.random.random() < 0.3:
        return
    w.effect = effect
    publishing = act_of(world, w, "cherrypick_snapshot", of=act)
    world.commit(w, world.load(w), CherryPick(wap_id=wap_id, run_key=publishing.key, branch=w.branch), publishing)


def pick(world: World, w: Writer) -> None:
    """Cherry-pick any snapshot to the branch by its id: an append or a dynamic overwrite again, or a fast-forward."""
    snapshots = world.of(world.load(w)).snapshots
    if snapshots:
        pick_that(world, w, world.random.choice(list(snapshots)))


def pick_that(world: World, w: Writer, snapshot_id: int, key: str | None = None) -> None:
    table = world.load(w)
    watched = world.of(table)
    picked = watched.snapshots.get(snapshot_id)
    if picked is None:
        return
    parent = watched.seen.get(picked.get("parent-snapshot-id") or 0)
    before = () if parent is None else normal(parent.rows, watched.kind_id)
    after = [p.row for p in watched.places(picked)]
    came, gone = minus(after, before), minus(before, after)

    def effect(model: Model) -> Model:
        if branch_heads(watched.metadata).get(w.branch) == snapshot_id:
            return watched.seen[snapshot_id].rows
        assert watched.doubled or not any(holds(model, [row]) for row in came), "what is there already was picked again"
        return (*minus(model, gone), *came)

    w.effect = effect
    act = act_of(world, w, "cherrypick_snapshot")
    act.key = key or act.key
    operation = CherryPick(snapshot_id=snapshot_id, run_key=act.key, branch=w.branch)
    world.commit(w, table, operation, act)


def pick_everywhere(world: World, w: Writer) -> None:
    """One staged snapshot, picked to several branches and again to the same; where it stands on the branch's head, a pick is a
    fast-forward. The second pick to a branch does nothing, or is refused."""
    staged = [i for i, s in world.of(world.load(w)).snapshots.items() if "wap.id" in s.get("summary", {})]
    dice = random.Random(f"picks {w.label} {world.tick}")
    if not staged:
        table = world.load(w)
        rows = some_rows(world, table)
        files = new_data(world, table, rows)
        w.beside = lambda model: (*model, *rows)
        act = act_of(world, w, "append", staged=True)
        summary = {"wap.id": world.name("wap")}
        operation = AppendFiles(added=files, staged=True, summary=summary, run_key=act.key, branch=w.branch)
        done = world.commit(w, table, operation, act, files)
        if done is None or done.snapshot is None:
            return
        staged = [done.snapshot.snapshot_id]
    picked = dice.choice(staged)
    others = [name for name in world.of(world.load(w)).models if name != w.branch]
    for branch in (w.branch, *dice.sample(others, min(len(others), 1)), w.branch):
        w.branch = branch
        pick_that(world, w, picked)


KINDS: dict[str, tuple[float, Work]] = {
    "append": (3, append),
    "several": (1, several),
    "upsert": (3, upsert),
    "replace partition": (1, replace_partition),
    "drop partition": (1, drop_partition),
    "stage and publish": (2, stage_and_publish),
    "pick": (1, pick),
    "pick everywhere": (1, pick_everywhere),
    **statements.KINDS,
    **maintenance.KINDS,
    **refs.KINDS,
    **evolution.KINDS,
    **foreign.KINDS,
    **foreign_removals.KINDS,
    **imports.KINDS,
    **naming.KINDS,
    **replacement.KINDS,
    **foreign_snapshots.KINDS,
    **moving.KINDS,
    **moving.CODECS,
}
"""Name -> (weight, work)."""
BRANCHES = (MAIN, MAIN, MAIN, "audit", "made on the fly")
NEEDS: dict[str, Callable[[World], bool]] = {
    **dict.fromkeys(evolution.OF_SPECS, lambda world: world.shape.evolves),
    **dict.fromkeys(evolution.OF_COLUMNS, lambda world: world.shape.columns_come_back),
    **dict.fromkeys((*foreign.KINDS, *foreign_removals.KINDS), lambda world: world.shape.foreign),
    **dict.fromkeys(imports.KINDS, lambda world: world.shape.imports),
    **dict.fromkeys(naming.KINDS, lambda world: world.shape.tables > 1),
    **dict.fromkeys(replacement.KINDS, lambda world: world.shape.replaced),
    **dict.fromkeys(foreign_snapshots.KINDS, lambda world: world.shape.more_foreign),
    **dict.fromkeys(moving.KINDS, lambda world: world.shape.moves),
    **dict.fromkeys(moving.CODECS, lambda world: world.shape.codecs),
}
"""Kinds that only some worlds have."""


def kinds_in(world: World) -> dict[str, float]:
    """The kinds of writers in this world, with their weights; those of the world's theme have a greater weight."""
    return {
        kind: 2 * weight if kind in NEEDS else weight
        for kind, (weight, _) in KINDS.items()
        if kind not in NEEDS or NEEDS[kind](world)
    }


def begin(world: World, kind: str | None = None, branch: str | None = None, name: str | None = None) -> Writer:
    if kind is None:
        weights = THEMES[world.shape.theme][1]
        if weights and world.shape.lodger:
            weights = {**weights, "orphans": 4}
        if weights and world.shape.replaced:
            weights = {**weights, **{kind: weight for kind, (weight, _) in replacement.KINDS.items()}}
        weights = {kind: weight for kind, weight in weights.items() if kind not in NEEDS or NEEDS[kind](world)} or kinds_in(world)
        kind = world.random.choices(list(weights), list(weights.values()))[0]
    writer = world.begin(kind, KINDS[kind][1])
    writer.name = name or world.random.choice("ttt" + "tu"[: world.shape.tables])
    table = world.table(writer)
    chosen = branch or world.random.choice(BRANCHES)
    writer.branch = chosen if table is None or chosen in table.models or world.random.random() < 0.5 else MAIN
    writer.embeds = world.shape.embedded and random.Random(f"embeds {writer.label}").random() < 0.6
    if world.shape.raises and world.random.random() < 0.4:
        writer.meets = some_exception(world.random, world.met, *world.shape.faults)
    return writer


def begin_again(world: World, first: Any, work: Work) -> Writer:
    """Start the same work again while its first run is still running."""
    writer = world.begin("the same again", work)
    for name in CARRIED_OVER:
        setattr(writer, name, getattr(first, name))
    return writer
