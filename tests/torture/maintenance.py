"""Writers that change no rows: compactions, rewrites of deletes and manifests, expiry, orphan removal, refs, schema, upgrades."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from iceberg_ops.commit.carry_over import RowMap, commit_carrying_over
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.expiry import expire as expire_and_delete
from iceberg_ops.commit.metadata_updates import UpdateSchema, UpgradeFormatVersion
from iceberg_ops.commit.refs import FastForward, RemoveRef, RollBack, SetRef
from iceberg_ops.commit.rewrite_files import RewriteFiles
from iceberg_ops.commit.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.row_delta import RowDelta
from iceberg_ops.data.row_deletes import RowDeletes, write_row_deletes
from iceberg_ops.data.write_context import WriteContext
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.manifests import ManifestEntry
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import MAIN_BRANCH, Snapshot
from iceberg_ops.spec.types import LONG, NestedField
from iceberg_ops.table.leases import Lease, acquire_lease, release_lease
from iceberg_ops.table.table import Table
from tests.torture.stepping import Writer
from tests.torture.world import REGIONS, World, no_sleep

FOR_EVER = 2**62
Found = tuple[FileScanTask, Any]


@contextmanager
def leased(world: World, w: Writer, name: str) -> Iterator[tuple[Table, Snapshot | None, list[ManifestEntry]]]:
    """The table under a lease, if it could be had before the snapshot went; what a job plans on."""
    table = world.load()
    snapshot = table.metadata.branch_head(w.branch)
    if snapshot is not None:
        acquire_lease(table, Lease(holder=name, snapshot_id=snapshot.snapshot_id, expires_at_ms=FOR_EVER, marks=(name,)))
    held = snapshot is not None and snapshot.snapshot_id in world.load().metadata.snapshots_by_id
    yield table, snapshot, world.planned(table, snapshot, leased=held) or []
    release_lease(table, name)


def compact(world: World, w: Writer, *, sort: bool = False) -> None:
    name = world.name("rewrite")
    with leased(world, w, name) as (table, snapshot, live):
        region = world.random.choice(REGIONS)
        data = [e for e in live if e.data_file.content is FileContent.DATA and e.data_file.partition == (region,)]
        chosen = world.random.sample(data, min(len(data), world.random.randint(1, 4)))
        if chosen and snapshot is not None:
            rewrite(world, w, table, snapshot, chosen, live, name, sort=sort)


def rewrite(
    world: World,
    w: Writer,
    table: Table,
    snapshot: Snapshot,
    chosen: list[ManifestEntry],
    live: list[ManifestEntry],
    name: str,
    *,
    sort: bool,
) -> None:
    gone = [sorted(world.deleted(e, live)) for e in chosen]
    rows = [r for e, g in zip(chosen, gone, strict=True) for i, r in enumerate(world.rows[e.data_file.file_path]) if i not in g]
    order = list(range(len(rows)))
    if sort:
        world.random.shuffle(order)
    placed = [row for _, row in sorted(zip(order, rows, strict=True))]
    added = (world.new_data(placed, chosen[0].data_file.partition[0]),) if rows else ()
    inputs = [(e.data_file, np.array(g, np.int64)) for e, g in zip(chosen, gone, strict=True)]
    moves = RowMap(inputs, added, np.array(order, np.int64) if sort else None)
    operation = RewriteFiles(
        removed_data=tuple(e.data_file for e in chosen),
        added_data=added,
        starting_snapshot_id=snapshot.snapshot_id,
        data_sequence_number=snapshot.sequence_number,
        run_key=name,
        branch=w.branch,
    )
    done = world.settle(
        lambda: commit_carrying_over(
            world.catalog,
            table,
            operation,
            lambda _: [moves],
            operation_id=f"{name}-carried",
            committer=lambda c, t, o: commit(c, t, o, sleep=no_sleep),
        ),
        added,
    )
    world.carried += done is not None and done.rounds > 0


def sort(world: World, w: Writer) -> None:
    compact(world, w, sort=True)


def _written(world: World, table: Table, found: list[Found], name: str) -> RowDeletes | None:
    context = WriteContext.for_table(table.metadata)
    return world.settle(  # type: ignore[no-any-return]
        lambda: write_row_deletes(world.catalog.io, context, found, operation_id=name), []
    )


def convert_equality_deletes(world: World, w: Writer) -> None:
    """As the action does it: the equality deletes of a partition become deletes by position."""
    name = world.name("convert")
    with leased(world, w, name) as (table, snapshot, live):
        every_key = [e for e in live if e.data_file.content is FileContent.EQUALITY_DELETES]
        if not every_key or snapshot is None:
            return
        partition = world.random.choice(every_key).data_file.partition
        here = [e for e in live if e.data_file.partition == partition]
        keys = [e for e in every_key if e.data_file.partition == partition]
        found: list[Found] = []
        concerned: list[str] = []
        for entry in here:
            f = entry.data_file
            if f.content is not FileContent.DATA:
                continue
            mine = [k for k in keys if (k.sequence_number or 0) > (entry.sequence_number or 0)]
            positions = set().union(*(world.matching(f, k.data_file) for k in mine))
            if mine:
                concerned.append(f.file_path)
            if positions:
                task = FileScanTask(f, entry.sequence_number or 0, deletes=world.position_deletes_of(entry, live))
                found.append((task, np.array(sorted(positions), np.int64)))
        if (written := _written(world, table, found, name)) is None:
            return
        operation = RowDelta(
            added_deletes=written.added,
            removed_deletes=(*(k.data_file for k in keys), *written.replaced),
            referenced_data_files=tuple(concerned),
            isolation=None,
            starting_snapshot_id=snapshot.snapshot_id,
            run_key=name,
            branch=w.branch,
        )
        world.twice(table, operation, written.added)


def rewrite_position_deletes(world: World, w: Writer) -> None:
    """As the action does it: the position deletes of a partition are put together, dangling ones dropped."""
    name = world.name("positions")
    with leased(world, w, name) as (table, snapshot, live):
        files = [e for e in live if e.data_file.content is FileContent.POSITION_DELETES and not e.data_file.is_deletion_vector]
        if not files or snapshot is None:
            return
        partition = world.random.choice(files).data_file.partition
        here = [e for e in live if e.data_file.partition == partition]
        old = [e for e in files if e.data_file.partition == partition]
        found: list[Found] = []
        for entry in here:
            f = entry.data_file
            if f.content is FileContent.DATA:
                mine = world.position_deletes_of(entry, old)
                positions = set().union(*(world.positions_in(d.data_file).get(f.file_path, set()) for d in mine))
                if positions:
                    every = world.position_deletes_of(entry, live)
                    task = FileScanTask(f, entry.sequence_number or 0, deletes=every)
                    found.append((task, np.array(sorted(positions), np.int64)))
        if (written := _written(world, table, found, name)) is None:
            return
        operation = RewriteFiles(
            removed_deletes=_distinct(*(e.data_file for e in old), *written.replaced),
            added_deletes=written.added,
            delete_sequence_number=max(e.sequence_number or 0 for e in old),
            starting_snapshot_id=snapshot.snapshot_id,
            run_key=name,
            branch=w.branch,
        )
        world.twice(table, operation, written.added)


def _distinct(*files: DataFile) -> tuple[DataFile, ...]:
    return tuple({(f.file_path, f.content_offset): f for f in files}.values())


def rewrite_manifests(world: World, w: Writer) -> None:
    world.twice(world.load(), RewriteManifests(run_key=world.name("manifests"), branch=w.branch))


def expire(world: World, w: Writer) -> None:
    world.expiries += 1
    operation = ExpireSnapshots(older_than_ms=2**60, retain_last=world.random.randint(1, 4))
    world.settle(lambda: expire_and_delete(world.catalog, world.load(), operation), [])


def orphans(world: World, w: Writer) -> None:
    """The age guard, in the world's time: what is older than every running writer."""
    cut = min([w.started, *(x.started for x in world.active)])
    world.settle(lambda: world.remove_orphans(world.catalog, cut=cut), [])


def roll_back(world: World, w: Writer) -> None:
    table = world.load()
    head = table.metadata.branch_head(w.branch)
    ancestors = [s.snapshot_id for s in table.metadata.ancestors(None if head is None else head.snapshot_id)][1:3]
    if ancestors:
        target = world.random.choice(ancestors)
        w.effect = lambda model: world.seen[target].rows
        world.twice(table, RollBack(snapshot_id=target, branch=w.branch, run_key=world.name("back")))


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
    else:
        operation = RemoveRef(ref=world.random.choice(["audit", "noon", "night"]))
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
    world.commit(world.load(), UpgradeFormatVersion(format_version=3))


KINDS: dict[str, tuple[int, Callable[[World, Writer], None]]] = {
    "compact": (3, compact),
    "sort": (2, sort),
    "convert equality deletes": (2, convert_equality_deletes),
    "rewrite position deletes": (2, rewrite_position_deletes),
    "rewrite manifests": (1, rewrite_manifests),
    "expire": (2, expire),
    "orphans": (1, orphans),
    "roll back": (2, roll_back),
    "branch or tag": (2, branch_or_tag),
    "fast-forward": (1, fast_forward),
    "evolve": (1, evolve),
    "upgrade": (1, upgrade),
}
