"""Runs a seed from the first table to the last clean-up."""

from __future__ import annotations

import random
from functools import partial

from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import FormerColumnsError, IcebergOpsError
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.schema import Schema
from iceberg_ops.table.integrity import IntegrityCheck
from iceberg_ops.table.manifests import CACHE
from iceberg_ops.table.reachable import reachable_files, recorded_locations
from iceberg_ops.table.table import Table
from tests.torture import naming
from tests.torture.acts import Act
from tests.torture.drawing import Shape, draw
from tests.torture.reading import fits
from tests.torture.rows import KIND, Model, Row, difference
from tests.torture.staying import Facts, may_stay
from tests.torture.stepping import SteppedCatalog, Writer
from tests.torture.watched import MAIN, Watched
from tests.torture.world import World
from tests.torture.writers import NEEDS, begin, begin_again

FOUR_DAYS_MS = 4 * 24 * 3_600_000
PAST_LEASES_MS = 3 * 3_600_000
LAST_JOBS: tuple[tuple[str, dict[str, str]], ...] = (
    ("expire_snapshots", {"older-than": "1h", "retain-last": "1"}),
    ("remove_orphan_files", {}),
)
FIRST = ("append", "append", "upsert", "delete", "branch or tag")


def play(seed: int, shape: Shape | None = None, *, tells: bool = False) -> World:
    """``tells``: print the steps of a failure."""
    rng = random.Random(seed)
    world = World(rng, draw(rng) if shape is None else shape)
    with world.laws():
        try:
            set_up(world)
            run(world)
            check_all(world)
            clean_up(world)
            check_all(world)
            check_as_package(world)
        except BaseException:
            if tells:
                print(shape or world.shape, *world.story, sep="\n")
            raise
    return world


def set_up(world: World) -> None:
    """Some rows in each table, and some work of the world's theme, before writers run concurrently."""
    for number in range(world.shape.tables):
        odd = [k for k, is_here in NEEDS.items() if k not in naming.KINDS and is_here(world)]
        later = [*world.random.choices(FIRST, k=3), *world.random.choices(odd, k=world.random.choice([0, 1, 2, 3]) if odd else 0)]
        world.random.shuffle(later)
        for kind in ("append", "append", *later):
            first = begin(world, kind, MAIN, "tu"[number])
            first.meets = None
            world.finish(first)


def run(world: World) -> None:
    rng = world.random
    late = random.Random(f"late {world.tick}")
    left, most = rng.randint(5, 11), rng.randint(2, 6)
    while left or world.active or world.again or world.late:
        if world.late and (not world.active or late.random() < 0.02):
            world.again.append(world.late.pop(0))
        while world.again:
            begin_again(world, *world.again.pop())
        while left and len(world.active) < most:
            begin(world)
            left -= 1
        writer = rng.choice(world.active)
        dice = rng.random()
        if dice < 0.004:
            world.kill(writer)
            continue
        if dice > 0.997 and world.shape.zombies and not any(w.kind == "orphans" for w in world.active):
            world.clock.ms += PAST_LEASES_MS
            world.count("events", "time past all leases")
        for _ in range(rng.choice([1, 1, 2, 5, 20])):
            if not writer.ended:
                world.step(writer)


# at the end


def check_all(world: World, *, from_storage: bool = True) -> None:
    """Every retained snapshot of every table shows its rows, and all files that readers need are there. Not ``from_storage``:
    cached contents of immutable files are used."""
    if from_storage:
        world.files.forget()
    for table in world.tables.values():
        missing = [f for f in table.needed if not world.storage.io.exists(f)]
        assert not missing, f"files that readers of retained snapshots need are gone: {missing}"
        table.reread()


def check_as_package(world: World, *, rows: bool = True) -> None:
    """The package's own check finds every file, and the package reads the same ``rows``."""
    CACHE.clear()
    for table in world.tables.values():
        try:
            loaded = load(world, table)
            if rows:
                _read_by_package(loaded, table)
            found = IntegrityCheck(loaded).findings()
        except IcebergOpsError as e:
            raise AssertionError(f"the package cannot read the table: {e!r}") from e
        known = [f for f in found if f.rule == "manifest-counts" and f.location in world.miscounted]
        broken = [f for f in found if f.severity == "error" and f not in known and not (table.doubled and f.rule == "live-once")]
        assert not broken, f"the package's own check: {broken}"


def _read_by_package(loaded: Table, table: Watched) -> None:
    for branch, model in table.models.items():
        if loaded.metadata.branch_head(branch) is not None:
            readable = branch == MAIN or (table.fit(model) and all(row.kind for row in model))
            _compare_scan(loaded, loaded.schema, Scan(ref=None if branch == MAIN else branch), model, readable=readable)
    for snapshot_id in table.snapshots if len({type_of_kind(s) for s in loaded.metadata.schemas}) > 1 else ():
        schema = loaded.metadata.schema_of(loaded.metadata.snapshots_by_id[snapshot_id])
        kind, seen = schema.find(KIND), table.seen[snapshot_id]
        if seen.kind_id == (None if kind is None else kind.field_id):
            readable = all(row.kind and fits(table.metadata, schema.schema_id, row) for row in seen.rows)
            _compare_scan(loaded, schema, Scan(snapshot_id=snapshot_id), seen.rows, readable=readable)


def type_of_kind(schema: Schema) -> object:
    return None if (kind := schema.find(KIND)) is None else kind.type


def _compare_scan(loaded: Table, schema: Schema, scan: Scan, model: Model, *, readable: bool) -> None:
    """Not ``readable``: some rows may have former columns, nulls among them; then the package must raise its error for that."""
    kind = schema.find(KIND)
    columns = ["region", "id", "data", *([] if kind is None else [KIND])]
    try:
        found = scan_table(loaded, scan, columns=columns).to_pydict()
    except FormerColumnsError:
        if readable:
            raise
        return
    kinds = [None] * len(found["id"]) if kind is None else [None if t is None else (kind.field_id, t) for t in found[KIND]]
    rows = [Row(*r) for r in zip(found["region"], found["id"], map(int, found["data"]), kinds, strict=True)]
    assert not (wrong := difference(model, rows)), f"{scan} as the package scans it: {wrong}"


def load(world: World, table: Watched) -> Table:
    """As the package reads it, without steps."""
    (name,) = (name for name, location in world.pointers.items() if location == table.location)
    return world.catalogs[0].load_table(("ns", name))  # type: ignore[no-any-return]


def clean_up(world: World) -> None:
    """One expiry and one orphan removal of each table, long after all writers ended: every file that is left is needed, or stays
    for a reason that is known and true (``staying``)."""
    world.leased.clear()
    for catalog in world.catalogs:
        if isinstance(catalog, SteppedCatalog):
            catalog.unanswered = 0  # All swaps are answered now; otherwise an expiry may correctly end with an unknown outcome.
    for table in list(world.tables.values()):
        name = load(world, table).identifier[-1]
        reports: list[ActionReport] = []
        for job, options in LAST_JOBS:
            world.clock.ms += FOUR_DAYS_MS
            act = Act(job, most=2, in_parts=True)
            last = world.begin(f"the last {job}", partial(_last, act=act, options=options, reports=reports))
            last.name = name
            world.finish(last)
        loaded, identity = load(world, table), world.storage.identity
        known = {identity(f) for f in (*reachable_files(loaded), f"{loaded.location}/metadata/version-hint.text")}
        known |= {f for other in world.tables.values() for f in other.needed}
        left = [f for f in map(identity, world.storage.below(loaded.location)) if f not in known]
        said = [kept for kept in reports[-1].skipped if identity(kept.file_path) in left]
        facts = facts_of(world, loaded)
        wrong = {f: [s.reason for s in said if identity(s.file_path) == f] for f in left if not may_stay(f, said, facts)}
        assert not wrong, f"files that belong to nothing, and the reasons that the clean-up gave: {wrong}"


def facts_of(world: World, loaded: Table) -> Facts:
    """What the reasons of a report about this table are compared with."""
    identity = world.storage.identity
    others = {}
    for name, location in world.pointers.items():
        (other,) = (t for t in world.tables.values() if t.location == location)
        if other is not world.of(loaded):
            paths = [other.metadata["properties"].get(p) for p in ("write.data.path", "write.metadata.path")]
            folders = map(identity, filter(None, (*other.locations, *paths)))
            others[f"test.ns.{name}"] = other.needed.union(folders)
    return Facts(frozenset(map(identity, recorded_locations(loaded))), others, identity)


def _last(world: World, w: Writer, *, act: Act, options: dict[str, str], reports: list[ActionReport]) -> None:
    report = world.attempt(w, act, lambda: world.run(w, act.family, options))
    assert report is not None, f"the last {act.family} was refused, where nothing is in its way"
    reports.append(report)
