"""A writer of another engine that stages snapshots, picks them, compacts a file, and expires snapshots in the middle of a history.

It is correct, and its swaps succeed only on the state that it read. But what it says of a snapshot need not be so: summaries with
false counts or without an operation, operations that the spec does not know, one WAP id for two snapshots, manifest lists of a v1
table without counts. A job of this package whose snapshot it expires may fail, but must not answer wrongly."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.protocol.operation import still_there
from iceberg_ops.errors import CommitFailedError, CommitStateUnknownError, IcebergOpsError
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestFile
from iceberg_ops.spec.requirements import AssertRefSnapshotId
from iceberg_ops.spec.updates import RemoveSnapshots
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table
from tests.torture.acts import Act
from tests.torture.foreign import (
    AS_THE_SPEC_SAYS,
    MOST_SWAPS,
    Additions,
    begun_with,
    new_id,
    same_uuid,
    some_branch,
    swap_in,
    with_files,
)
from tests.torture.foreign_removals import REMOVED_FILES, one_without_deletes, without_files, written
from tests.torture.making import new_data, new_keys, some_rows
from tests.torture.rows import Model, holds, minus
from tests.torture.running import act_of
from tests.torture.statements import Found, find
from tests.torture.stepping import Writer
from tests.torture.watched import MAIN, Watched
from tests.torture.world import World

WAP_ID, SOURCE, PUBLISHED = "wap.id", "source-snapshot-id", "published-wap-id"
LIES: tuple[dict[str, str], ...] = (
    {},
    {"added-data-files": "999", "added-records": "0"},
    {"total-records": "-1", "total-data-files": "7000000000"},
    {"total-records": "many", "added-files-size": ""},
    {"deleted-data-files": "5", "removed-files-size": "1"},
)
OPERATIONS = ("append", "overwrite", "delete", "merge", None)


def dice_of(world: World, w: Writer) -> random.Random:
    """Its own random numbers, so that the schedules of existing seeds do not change."""
    return random.Random(f"{w.label} {world.tick} {world.made}")


def swapped(world: World, w: Writer, swap: Callable[[int], None]) -> None:
    """``swap`` again and again, until it is done; another error than a conflict leaves in doubt whether it is."""

    def work() -> None:
        for attempt in range(MOST_SWAPS):
            w.loads = []  # Each attempt is planned on the table that has the name then.
            try:
                swap(attempt)
            except CommitFailedError:
                continue
            except IcebergOpsError as e:
                raise CommitStateUnknownError(f"{e}") from e
            return

    world.attempt(w, Act("foreign"), work)


def foreign_stage(world: World, w: Writer, *, appended: Additions | None = None) -> None:
    """A snapshot beside main: an append (one that is ``appended`` so), an upsert or a dynamic overwrite; its summary may lie."""
    dice, w.branch = dice_of(world, w), MAIN
    old = begun_with(world, w)
    rows = some_rows(world, old)
    kind = "append" if appended else dice.choices(["append", "upsert", "overwrite"], [5, 2, 3])[0]
    operation: str | None = "append" if kind == "append" else "overwrite"
    if appended is None and dice.random() < 0.3:
        operation = dice.choice(OPERATIONS)
    shared = [i for i in (s["summary"].get(WAP_ID) for s in world.of(old).snapshots.values()) if i is not None]
    wap_id = dice.choice(shared) if shared and dice.random() < 0.15 else world.name("other")
    told = {WAP_ID: wap_id, "engine-name": "other", **dice.choice(LIES), **({} if operation is None else {"operation": operation})}
    additions = appended or Additions(in_copies=dice.random() < 0.2, without_counts=dice.random() < 0.5)

    def swap(attempt: int) -> None:
        now = world.load(w)
        if world.key_of(now) != world.key_of(old) or now.schema.struct != old.schema.struct:
            return
        if old.metadata.default_spec_id not in now.metadata.specs_by_id:
            return
        watched, head = world.of(now), now.metadata.current_snapshot
        w.committing_since = w.committing_since or w.started
        snapshot_id, found = new_id(), manifests_of(now, head)
        data = new_data(world, now, rows, old.metadata.default_spec_id)
        if kind == "upsert" and now.metadata.format_version > 1:
            keys = new_keys(world, now, rows, ["id"], old.metadata.default_spec_id)
            found = with_files(now, snapshot_id, found, data, keys.files, additions)
            w.beside = lambda model: keys.replaced(watched, rows)
        elif kind == "overwrite" and _may_lose_files(watched):
            where = {(f.spec_id, f.partition) for f in data}
            gone = _live_in(now, found, where)
            found = without_files(now, found, snapshot_id, gone, dice.choice(REMOVED_FILES))
            found = with_files(now, snapshot_id, found, data, (), additions)
            told.update({"replace-partitions": "true"})
            w.beside = lambda model: (*minus(model, watched.in_partitions(where)), *rows)
        else:
            found = with_files(now, snapshot_id, found, data, (), additions)
            w.beside = lambda model: (*model, *rows)
        swap_in(w, now, snapshot_id, found, told, attempt, staged=True, without_counts=additions.without_counts)
        world.seen("another engine's staged snapshot", *(["a summary with false counts"] if len(told) > 4 else []))

    swapped(world, w, swap)


def _may_lose_files(watched: Watched) -> bool:
    """A deletion vector would have to go with its file."""
    head = watched.head(MAIN)
    return head is not None and not any(f.is_vector for f in watched.seen[head["snapshot-id"]].layout.live)


def _live_in(table: Table, manifests: Sequence[ManifestFile], where: set[tuple[int, tuple[object, ...]]]) -> set[str]:
    """Data files of these partitions: of the whole table where a spec has no partition field."""
    everything = any(table.metadata.specs_by_id[spec_id].is_unpartitioned for spec_id, _ in where)
    data = (m for m in manifests if m.content is ManifestContent.DATA)
    files = (e.data_file for m in data for e in entries_of(table, m, live_only=True))
    return {f.file_path for f in files if everything or (f.spec_id, f.partition) in where}


def publish(world: World, w: Writer) -> None:
    """A staged snapshot of whoever, by its WAP id or its own."""
    table = world.load(w)
    watched = world.of(table)
    known = [s for s in watched.snapshots.values() if WAP_ID in s["summary"]]
    staged = [s for s in known if s["snapshot-id"] not in watched.published]
    if not known:
        return
    picked = world.random.choice(staged if staged and world.random.random() < 0.7 else known)
    same = [s for s in known if s["summary"][WAP_ID] == picked["summary"][WAP_ID]]
    by_wap_id = len(same) == 1 and world.random.random() < 0.5
    came, gone = changed_rows(watched, picked)

    def effect(model: Model) -> Model:
        if watched.heads.get(w.branch) == picked["snapshot-id"]:
            return watched.seen[picked["snapshot-id"]].rows
        assert watched.doubled or not any(holds(model, [row]) for row in came), "what is published already was published again"
        return (*minus(model, gone), *came)

    w.effect = effect
    act = act_of(world, w, "cherrypick_snapshot")
    what: dict[str, Any] = {"wap_id": picked["summary"][WAP_ID]} if by_wap_id else {"snapshot_id": picked["snapshot-id"]}
    world.commit(w, table, CherryPick(run_key=act.key, branch=w.branch, **what), act)


def changed_rows(watched: Watched, picked: Mapping[str, Any]) -> tuple[Model, Model]:
    """Rows that came with a snapshot, and rows that went; its parent may have expired."""
    parent = watched.seen.get(picked.get("parent-snapshot-id") or 0)
    before = () if parent is None else parent.rows
    after = [p.row for p in watched.places(picked)]
    return minus(after, before), minus(before, after)


def foreign_pick(world: World, w: Writer) -> None:
    """As Iceberg Java picks: a staged append, of its own if there is no other, once, to main, by its entries."""
    dice, w.branch = dice_of(world, w), MAIN
    known = world.of(world.load(w)).snapshots
    if not any(WAP_ID in s["summary"] for s in known.values()):
        foreign_stage(world, w, appended=AS_THE_SPEC_SAYS)
    wanted = list(world.of(world.load(w)).snapshots)
    dice.shuffle(wanted)

    def swap(attempt: int) -> None:
        now = world.load(w)
        watched = world.of(now)
        found = next((f for i in wanted if (f := _applied(now, watched, i)) is not None), None)
        if found is None:
            return
        snapshot, files, came = found
        w.effect = lambda model: (*model, *came)
        w.committing_since = w.committing_since or w.started
        snapshot_id = new_id()
        manifests = [*written(now, snapshot_id, files), *manifests_of(now, now.metadata.current_snapshot)]
        told = {"operation": "append", SOURCE: str(snapshot["snapshot-id"]), PUBLISHED: snapshot["summary"][WAP_ID]}
        swap_in(w, now, snapshot_id, manifests, told, attempt, more=still_there(snapshot["snapshot-id"]))
        world.seen("a snapshot that another engine picked")

    swapped(world, w, swap)


def _applied(table: Table, watched: Watched, snapshot_id: int) -> tuple[Mapping[str, Any], list[DataFile], Model] | None:
    """A staged append that is not in main's history, nor its files in main, with the files that its own entries add."""
    picked, metadata = watched.snapshots.get(snapshot_id), table.metadata
    if picked is None or picked["summary"].get("operation") != "append" or WAP_ID not in picked["summary"]:
        return None
    line = [
        watched.snapshots[s.snapshot_id]
        for s in metadata.ancestors(metadata.current_snapshot_id)
        if s.snapshot_id in watched.snapshots
    ]
    known = {
        i
        for s in line
        for i in (str(s["snapshot-id"]), s["summary"].get(SOURCE), s["summary"].get(WAP_ID), s["summary"].get(PUBLISHED))
    }
    if known & {str(snapshot_id), picked["summary"][WAP_ID]}:
        return None
    own = [m for m in manifests_of(table, metadata.snapshots_by_id[snapshot_id]) if m.added_snapshot_id == snapshot_id]
    if any(m.content is ManifestContent.DELETES for m in own) or metadata.schema_of(metadata.snapshot(snapshot_id)) != table.schema:
        return None
    files = [replace(e.data_file, first_row_id=None) for m in own for e in entries_of(table, m) if e.status is EntryStatus.ADDED]
    there = Counter(f.path for s in line[:1] for f in watched.seen[s["snapshot-id"]].layout.live)
    came, gone = changed_rows(watched, picked)
    if gone or len(came) != sum(f.record_count for f in files) or any(f.file_path in there for f in files) or not watched.fit(came):
        return None
    return picked, files, came


def foreign_compact(world: World, w: Writer) -> None:
    """One file is written again, with all its rows."""
    dice, w.branch = dice_of(world, w), some_branch(world, w)
    told = {"operation": dice.choice(["replace", "replace", "overwrite"]), "engine-name": "other", **dice.choice(LIES)}
    removed = dice.choice(REMOVED_FILES)
    w.effect = lambda model: model

    def swap(attempt: int) -> None:
        found = find(world, w, partial(one_without_deletes, world))
        if found is None or w.branch not in (MAIN, *found.table.metadata.refs):
            return
        _rewrite(world, w, found, told, removed, attempt)
        world.seen("a file that another engine compacted")

    swapped(world, w, swap)


def _rewrite(world: World, w: Writer, found: Found, told: Mapping[str, str], removed: str, attempt: int) -> None:
    table, (gone,) = found.table, found.files
    w.committing_since = w.committing_since or w.started
    snapshot_id, rows = new_id(), [*found.kept, *found.rows]
    manifests = without_files(table, manifests_of(table, found.head), snapshot_id, {gone.file_path}, removed)
    manifests = [*written(table, snapshot_id, new_data(world, table, rows)), *manifests]
    swap_in(w, table, snapshot_id, manifests, told, attempt)


def foreign_expiry(world: World, w: Writer) -> None:
    """Of snapshots that no ref names, some go, also from the middle of the history; no file goes."""
    dice, w.branch = dice_of(world, w), MAIN
    world.expiries += 1

    def swap(attempt: int) -> None:
        now = world.load(w)
        kept = {now.metadata.current_snapshot_id, *(ref.snapshot_id for ref in now.metadata.refs.values())}
        known = [s.snapshot_id for s in now.metadata.snapshots if s.snapshot_id not in kept]
        if dice.random() < 0.8:  # What is staged stays.
            line = {s.snapshot_id for s in now.metadata.ancestors(now.metadata.current_snapshot_id)}
            known = [i for i in known if i in line]
        if not known:
            return
        gone = known[: dice.randint(1, len(known))] if dice.random() < 0.6 else dice.sample(known, 1)
        heads = [AssertRefSnapshotId(name, ref.snapshot_id) for name, ref in now.metadata.refs.items()]
        w.catalog.commit_table(now, (*same_uuid(now), *heads), (RemoveSnapshots(tuple(gone)),))
        world.seen("snapshots that another engine expired")

    swapped(world, w, swap)


KINDS: dict[str, tuple[float, Callable[[World, Writer], None]]] = {
    "foreign stage": (2, foreign_stage),
    "foreign pick": (2, foreign_pick),
    "foreign compact": (2, foreign_compact),
    "foreign expiry": (1, foreign_expiry),
    "publish": (2, publish),
}
