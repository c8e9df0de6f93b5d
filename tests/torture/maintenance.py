"""Writers that change no rows: the package's own jobs as every host runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import expire as expire_snapshots
from tests.torture.rows import REGIONS
from tests.torture.running import act_of, job
from tests.torture.stepping import Writer
from tests.torture.world import World

EVERY_FILE = {"rewrite-all": "true"}


def compact(world: World, w: Writer, *, sort: bool = False, in_parts: bool = False) -> None:
    dice = world.random.random
    options = dict(EVERY_FILE)
    if sort:
        options["sort-order"] = world.random.choice(["id DESC", "zorder(id, data)"])
    if in_parts:
        options |= {"partial-progress.enabled": "true", "max-file-group-input-files": "2"}
    if dice() < 0.3:
        options["remove-dangling-deletes"] = "true"
    if dice() < 0.2:
        options["use-starting-sequence-number"] = "false"
    table = world.table(w)
    if dice() < 0.15 and table is not None:
        options["output-spec-id"] = str(world.random.choice(table.metadata["partition-specs"])["spec-id"])
    where = f"region = '{world.random.choice(REGIONS)}'" if dice() < 0.6 else None
    done = job(world, w, "rewrite_data_files", options, in_parts=in_parts, most=100 if in_parts else 2, where=where)
    if done is not None and done.metrics.get("carried-over-rounds-count", 0) > 0:
        world.count("events", "deletes carried over")


def sort(world: World, w: Writer) -> None:
    compact(world, w, sort=True)


def compact_in_parts(world: World, w: Writer) -> None:
    compact(world, w, in_parts=True, sort=world.random.random() < 0.3)


def convert_equality_deletes(world: World, w: Writer) -> None:
    job(world, w, "convert_equality_deletes")


def rewrite_position_deletes(world: World, w: Writer) -> None:
    job(world, w, "rewrite_position_delete_files", EVERY_FILE)


def rewrite_manifests(world: World, w: Writer) -> None:
    table = world.table(w)
    options = {}
    if table is not None and world.random.random() < 0.5:
        options["spec-id"] = str(world.random.choice(table.metadata["partition-specs"])["spec-id"])
    job(world, w, "rewrite_manifests", options, most=100)


def expire(world: World, w: Writer, *, keep: int | None = None, clean_metadata: bool = False) -> None:
    world.expiries += 1
    options = {"older-than": "0s", "retain-last": str(keep or world.random.randint(1, 4))}
    if clean_metadata or world.random.random() < 0.3:
        options["clean-expired-metadata"] = "true"
    if world.random.random() < 0.2:
        options["max-concurrent-deletes"] = "2"
    w.branch = "main"
    job(world, w, "expire_snapshots", options, in_parts=True, most=100)


def expire_as_called(world: World, w: Writer) -> None:
    """Expiry as programs call it: it deletes all files, only metadata, or nothing."""
    world.expiries += 1
    w.branch = "main"
    table = world.load(w)
    act = act_of(world, w, "expire_snapshots", most=100, in_parts=True)
    operation = ExpireSnapshots(
        older_than_ms=world.clock.ms, retain_last=world.random.randint(1, 3), run_key=act.key, now_ms=world.clock.ms
    )
    clean: Any = world.random.choice(["all", "metadata-only", "none"])
    world.attempt(w, act, lambda: expire_snapshots(w.catalog, table, operation, clean=clean).committed, planned=table)


def orphans(world: World, w: Writer) -> None:
    """``older-than`` in the world's time: before everything that running writers wrote, except what their leases protect."""
    others = [x for x in world.active if x is not w]
    cut = min([world.clock.ms, *(since for x in others if (since := unprotected_since(world, x)) is not None)])
    w.branch = "main"
    job(world, w, "remove_orphan_files", {"older-than": str(cut), "unsafe-allow-recent": "true"}, in_parts=True, most=100)


def unprotected_since(world: World, w: Writer) -> int | None:
    """When a writer began to write files that no lease of its own protects; None: a lease protects all it has written."""
    leased = any(world.clock.ms < until for until in w.leases.values())
    return w.committing_since if leased else w.started


def statistics(world: World, w: Writer) -> None:
    job(world, w, world.random.choice(["compute_table_stats", "compute_partition_stats"]))


KINDS: dict[str, tuple[float, Callable[[World, Writer], None]]] = {
    "compact": (3, compact),
    "compact in parts": (2, compact_in_parts),
    "sort": (1, sort),
    "convert equality deletes": (2, convert_equality_deletes),
    "rewrite position deletes": (2, rewrite_position_deletes),
    "rewrite manifests": (1, rewrite_manifests),
    "expire": (2, expire),
    "statistics": (1, statistics),
    "expire as called": (0.5, expire_as_called),
    "orphans": (1, orphans),
}
