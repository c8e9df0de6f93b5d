"""Writers that change rows, and the table of all kinds. Each works through to its commit, one I/O step at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iceberg_ops.commit.append_files import AppendFiles
from iceberg_ops.commit.cherry_pick import CherryPick
from iceberg_ops.commit.delete_files import DeleteFiles
from iceberg_ops.commit.metadata_updates import UpdateProperties
from iceberg_ops.commit.overwrite_files import OverwriteFiles
from iceberg_ops.commit.replace_partitions import ReplacePartitions
from iceberg_ops.commit.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.row_delta import RowDelta
from iceberg_ops.commit.transaction import Transaction
from iceberg_ops.expressions.predicates import eq
from iceberg_ops.spec.snapshots import MAIN_BRANCH
from tests.torture import maintenance, statements
from tests.torture.contents import Row
from tests.torture.stepping import Writer
from tests.torture.world import REGIONS, Model, World

Work = Callable[[World, Writer], None]


def some_rows(world: World, region: str) -> list[Row]:
    world.made += 1
    return [(region, world.made * 10 + i, 0) for i in range(world.random.randint(1, 3))]


def append(world: World, w: Writer) -> None:
    region, table = world.random.choice(REGIONS), world.load()
    rows = some_rows(world, region)
    f = world.new_data(table, rows)
    w.effect = lambda model: model | set(rows)
    world.twice(table, AppendFiles(added=(f,), merge=world.random.random() < 0.7, run_key=f.file_path, branch=w.branch), [f])


def several(world: World, w: Writer) -> None:
    """Two appends and a property in one transaction, at times with the first append's manifest rewritten in between; the first
    append's snapshot is never a branch's head."""
    region, table = world.random.choice(REGIONS), world.load()
    first, second = some_rows(world, region), some_rows(world, region)
    files = [world.new_data(table, first), world.new_data(table, second)]
    key = files[0].file_path
    operations = (
        AppendFiles(added=(files[0],), branch=w.branch),
        UpdateProperties(updates={"last": key}),
        *((RewriteManifests(branch=w.branch),) if world.random.random() < 0.5 else ()),
        AppendFiles(added=(files[1],), branch=w.branch, run_key=key),
    )
    w.effect = lambda model: model | {*first, *second}
    w.beside = lambda model: model | set(first)
    world.twice(table, Transaction(operations=operations, run_key=key), files)


def upsert(world: World, w: Writer) -> None:
    region = world.random.choice(REGIONS)
    known = world.models.get(w.branch, world.models[MAIN_BRANCH])
    key = world.random.choice(sorted({i for r, i, _ in known if r == region}) or [7])
    table = world.load()
    row = (region, key, 1000 * (1 + world.made))
    keys = world.settle(lambda: world.new_keys(table, [key], region), [])
    if keys is None:
        return
    new = world.new_data(table, [row])
    operation = RowDelta(added_deletes=(keys,), added_data=(new,), isolation=None, run_key=new.file_path, branch=w.branch)
    w.effect = lambda model: frozenset(r for r in model if r[:2] != (region, key)) | {row}
    world.twice(table, operation, [keys, new])


def replace_partition(world: World, w: Writer) -> None:
    """A dynamic partition overwrite, or the same by filter: nobody's rows that it did not see may go with it."""
    region, table = world.random.choice(REGIONS), world.load()
    head = table.metadata.branch_head(w.branch)
    if head is None:
        return
    before = {r for r in world.seen[head.snapshot_id].rows if r[0] == region}
    rows = some_rows(world, region)
    f = world.new_data(table, rows)
    common: dict[str, Any] = {
        "added": (f,), "starting_snapshot_id": head.snapshot_id, "run_key": f.file_path, "branch": w.branch
    }  # fmt: skip
    by_filter = world.random.random() < 0.5
    operation = OverwriteFiles(overwrite_filter=eq("region", region), **common) if by_filter else ReplacePartitions(**common)

    def effect(model: Model) -> Model:
        assert {r for r in model if r[0] == region} == before, "rows that came, went or changed meanwhile were overwritten"
        return frozenset(r for r in model if r[0] != region) | set(rows)

    w.effect = effect
    world.twice(table, operation, [f])


def drop_partition(world: World, w: Writer) -> None:
    region = world.random.choice(REGIONS)
    w.effect = lambda model: frozenset(r for r in model if r[0] != region)
    world.twice(world.load(), DeleteFiles(filter=eq("region", region), run_key=world.name("drop"), branch=w.branch))


def stage_and_publish(world: World, w: Writer) -> None:
    """Write-audit-publish: a staged append or partition overwrite, which no branch shows until it is picked."""
    region, table = world.random.choice(REGIONS), world.load()
    rows = some_rows(world, region)
    f = world.new_data(table, rows)
    replaces, head = world.random.random() < 0.3, table.metadata.branch_head(w.branch)
    common: dict[str, Any] = {
        "added": (f,), "staged": True, "summary": {"wap.id": f.file_path}, "run_key": f.file_path, "branch": w.branch
    }  # fmt: skip
    replaces = replaces and head is not None
    if replaces and head is not None:
        staged: Any = ReplacePartitions(starting_snapshot_id=head.snapshot_id, **common)
    else:
        staged = AppendFiles(**common)
    before: set[Row] = set()

    def beside(model: Model) -> Model:
        before.update(r for r in model if replaces and r[0] == region)
        return (model - before) | set(rows)

    def effect(model: Model) -> Model:
        gone = {r for r in model if replaces and r[0] == region}
        assert gone <= before, "rows that came meanwhile were overwritten by a pick"
        return (model - gone) | set(rows)

    w.beside = beside
    if world.commit(table, staged, [f]) is None:
        return
    w.effect = effect
    world.twice(world.load(), CherryPick(wap_id=f.file_path, run_key=f"{f.file_path}/published", branch=w.branch))


KINDS: dict[str, tuple[int, Work]] = {
    "append": (3, append),
    "several": (1, several),
    "upsert": (4, upsert),
    "replace partition": (1, replace_partition),
    "drop partition": (1, drop_partition),
    "stage and publish": (2, stage_and_publish),
    **statements.KINDS,
    **maintenance.KINDS,
}
"""Name -> (weight, work)."""
BRANCHES = (MAIN_BRANCH, MAIN_BRANCH, MAIN_BRANCH, "audit")


def begin(world: World, kind: str | None = None, branch: str | None = None) -> Writer:
    kind = kind or world.random.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
    writer = world.begin(kind, KINDS[kind][1])
    chosen = branch or world.random.choice(BRANCHES)
    writer.branch = chosen if chosen in world.models or world.random.random() < 0.5 else MAIN_BRANCH
    return writer
