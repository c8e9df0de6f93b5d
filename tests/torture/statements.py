"""Writers that find rows and change them: deletes, updates and merges in both modes, and the row jobs of lane local."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.config.job_spec import MergeClause, RowChange, Source
from iceberg_ops.config.row_options import Isolation
from iceberg_ops.data.writing.row_deletes import write_row_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.expressions.predicates import eq
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.table.table import Table
from tests.torture.acts import Act
from tests.torture.making import new_data, parquet_of
from tests.torture.reading import Place
from tests.torture.rows import KIND, REGIONS, Model, Row, holds, minus, without
from tests.torture.running import act_of, job
from tests.torture.stepping import Writer
from tests.torture.world import World

ISOLATIONS: tuple[Isolation, ...] = ("serializable", "snapshot")
EVERY_ROW = {"isolation-level": "serializable"}
"""With ``snapshot`` isolation rows may be added that a statement does not see, and two merges may insert one key."""


@dataclass
class Found:
    """What a statement found on one snapshot: rows to change by data file and all live rows of those files."""

    table: Table
    head: Snapshot
    changed: list[tuple[FileScanTask, dict[int, Row]]]
    kept: list[Row]
    before: Model

    @property
    def rows(self) -> list[Row]:
        return [row for _, rows in self.changed for row in rows.values()]

    @property
    def files(self) -> list[DataFile]:
        return [task.data_file for task, _ in self.changed]

    @property
    def region(self) -> str | None:
        """The only region of the statement's rows; None: all regions."""
        regions = {row.region for row in self.rows}
        return next(iter(regions)) if len(regions) == 1 else None

    def looked_at(self, rows: Model) -> list[Row]:
        return [row for row in rows if self.region in (None, row.region)]


Pick = Callable[[list[FileScanTask]], list[FileScanTask]]


def find(world: World, w: Writer, pick: Pick) -> Found | None:
    """One or two rows each of the picked files, unless some are of former columns. Files come from the package's planner, rows from
    the world's own reading."""
    table = world.load(w)
    watched = world.of(table)
    head = table.metadata.current_snapshot if table.metadata.ref(w.branch) is None else table.metadata.branch_head(w.branch)
    if head is None or watched.doubled:
        return None
    try:
        tasks = plan(table, Scan(snapshot_id=head.snapshot_id)).tasks
    except IcebergOpsError as e:
        world.count("errors", type(e).__name__)
        if head.snapshot_id in watched.snapshots and not world.shape.raises:
            raise AssertionError(f"a retained snapshot cannot be planned: {e!r}") from e
        return None
    if head.snapshot_id not in watched.snapshots:
        return None
    changed: list[tuple[FileScanTask, dict[int, Row]]] = []
    kept: list[Row] = []
    by_file: dict[str, list[Place]] = {}
    for p in watched.places(watched.snapshots[head.snapshot_id]):
        by_file.setdefault(p.file.path, []).append(p)
    for task in pick(tasks):
        rows = {p.position: p.row for p in by_file.get(task.file_path, ())}
        if rows:
            hit = world.random.sample(sorted(rows), min(len(rows), world.random.randint(1, 2)))
            changed.append((task, {p: rows[p] for p in hit}))
            kept += [row for position, row in rows.items() if position not in hit]
    if not changed or not watched.fit([*kept, *(r for _, rows in changed for r in rows.values())]):
        return None
    return Found(table, head, changed, kept, watched.seen[head.snapshot_id].rows)


def some_files(world: World, tasks: list[FileScanTask]) -> list[FileScanTask]:
    """Up to four files, often of those that deletes apply to already."""
    known = [task for task in tasks if task.deletes]
    tasks = known if known and world.random.random() < 0.4 else tasks
    return world.random.sample(tasks, min(len(tasks), world.random.randint(1, 4)))


def change(world: World, w: Writer, *, update: bool, merge: bool = False, pick: Pick | None = None) -> None:
    """``merge``: rows are inserted too, and under ``serializable`` no row may have been added that it should have seen."""
    if (found := find(world, w, pick or partial(some_files, world))) is None:
        return
    new = [r._replace(version=r.version + 1) for r in found.rows] if update else []
    if merge:
        world.made += 1
        new.append(Row(found.region or "eu", world.made * 10, 0))
    isolation = world.random.choice(ISOLATIONS)
    copies = found.table.metadata.format_version < 2 or (pick is None and world.random.random() < 0.3)
    act = act_of(world, w, "overwrite" if copies else "delta")
    common: dict[str, Any] = {
        "isolation": isolation,
        "starting_snapshot_id": found.head.snapshot_id,
        "conflict_filter": None if found.region is None else eq("region", found.region),
        "run_key": act.key,
        "branch": w.branch,
    }

    def effect(model: Model) -> Model:
        if new or copies:
            assert holds(model, found.rows), "a row that was changed meanwhile was changed again"
        if copies:
            assert holds(model, found.kept), "a row that was deleted meanwhile came back"
        if isolation == "serializable":
            assert holds(found.before, found.looked_at(model)), "rows were there that the statement did not see"
        return (*minus(model, found.rows), *new)

    w.effect = effect
    (by_copying if copies else by_position)(world, w, found, new, common, act)


def by_copying(world: World, w: Writer, found: Found, new: list[Row], common: dict[str, Any], act: Act) -> None:
    rows = [*found.kept, *new]
    added = new_data(world, found.table, rows) if rows else ()
    world.commit(w, found.table, OverwriteFiles(added=added, removed=tuple(found.files), **common), act, added)


def by_position(world: World, w: Writer, found: Found, new: list[Row], common: dict[str, Any], act: Act) -> None:
    context = WriteContext.for_table(found.table.metadata)
    positions = [(task, np.array(sorted(rows), np.int64)) for task, rows in found.changed]
    try:
        written = write_row_deletes(world.stepped, context, positions, operation_id=world.name("deletes"))
    except IcebergOpsError as e:
        world.count("errors", type(e).__name__)
        return
    added = new_data(world, found.table, new) if new else ()
    operation = RowDelta(
        added_deletes=written.added,
        removed_deletes=written.replaced,
        added_data=added,
        referenced_data_files=tuple(f.file_path for f in found.files),
        merges_vectors=world.random.random() < 0.5,
        **common,
    )
    world.commit(w, found.table, operation, act, [*written.added, *added])


def delete(world: World, w: Writer) -> None:
    change(world, w, update=False)


def update(world: World, w: Writer) -> None:
    change(world, w, update=True)


def merge(world: World, w: Writer) -> None:
    change(world, w, update=world.random.random() < 0.7, merge=True)


# jobs


def rows_known(world: World, w: Writer) -> list[Row]:
    table = world.table(w)
    return [] if table is None else table.rows(w.branch)


def delete_job(world: World, w: Writer) -> None:
    """DELETE FROM as a user runs it: re-evaluated after each conflict, by position or by copying, vectors united with others'."""
    if not world.shape.columns_come_back and world.random.random() < 0.3:
        delete_kind(world, w)
        return
    known = rows_known(world, w)
    chosen = world.random.sample(known, min(len(known), world.random.randint(1, 3)))
    if not chosen:
        return
    where = " OR ".join(f"(region = '{r.region}' AND id = {r.id} AND data = '{r.version}')" for r in chosen)
    w.effect, w.keeps_ids = lambda model: without(model, chosen), True
    job(world, w, "delete", some_isolation(world), where=where, change=some_mode(world))


def delete_kind(world: World, w: Writer) -> None:
    """By the column whose values paths have to escape."""
    known = rows_known(world, w)
    text = world.random.choice([r.text for r in known] or [None])
    where = f"{KIND} = {text}"
    if not isinstance(text, int):
        where = f"{KIND} IS NULL" if text is None else f"""{KIND} = '{text.replace("'", "''")}'"""
    w.effect, w.keeps_ids = lambda model: tuple(r for r in model if r.text != text), True
    job(world, w, "delete", EVERY_ROW, where=where, change=some_mode(world))


def update_job(world: World, w: Writer) -> None:
    """UPDATE as a user runs it without Spark, on the rows' version at the commit."""
    known = rows_known(world, w)
    keys = {r.key for r in world.random.sample(known, min(len(known), world.random.randint(1, 3)))}
    if not keys:
        return
    world.made += 1
    version = 1000 * world.made
    where = " OR ".join(f"(region = '{region}' AND id = {i})" for region, i in sorted(keys, key=str))
    w.becomes, w.keeps_ids = lambda row: row._replace(version=version) if row.key in keys else row, True
    w.effect = lambda model: tuple(map(w.becomes, model))
    job(world, w, "update", EVERY_ROW, where=where, change=some_mode(world, set={"data": f"'{version}'"}))


def merge_job(world: World, w: Writer) -> None:
    """MERGE without Spark: matching rows are changed or deleted, the others inserted, in the state at the commit."""
    known = rows_known(world, w)
    world.made += 1
    version, region = 1000 * world.made, world.random.choice(REGIONS)
    hit = {r.key for r in world.random.sample(known, min(len(known), world.random.randint(1, 3)))}
    rows = [*(Row(*key, version) for key in sorted(hit, key=str)), Row(region, world.made * 10, version)]
    keys, deletes = {r.key for r in rows}, world.random.random() < 0.3
    matched = MergeClause(when="matched", action="delete")
    if not deletes:
        matched = MergeClause(when="matched", action="update", assignments={"data": "source.data"})
    every = {name: f"source.{name}" for name in ("id", "data", "region")}
    clauses = [matched, MergeClause(when="not-matched", action="insert", assignments=every)]
    change = some_mode(world, on="target.region = source.region AND target.id = source.id", clauses=clauses)
    w.becomes, w.keeps_ids = lambda row: row._replace(version=version) if row.key in keys else row, True

    def effect(model: Model) -> Model:
        there = {r.key for r in model}
        kept = tuple(r for r in model if r.key not in keys) if deletes else tuple(map(w.becomes, model))
        return (*kept, *(r for r in rows if r.key not in there))

    w.effect = effect
    job(world, w, "merge", EVERY_ROW, source=source(world, rows), change=change)


def upsert_job(world: World, w: Writer, *, columns: str | None = None, hits: int | None = None) -> None:
    """Rows replace all older rows with their key, in any partition, without reading them."""
    known = rows_known(world, w)
    world.made += 1
    hit = {r.key for r in world.random.sample(known, min(len(known), world.random.randint(0, 2) if hits is None else hits))}
    rows = [*(Row(*key, 1000 * world.made) for key in sorted(hit, key=str)), Row(world.random.choice(REGIONS), world.made * 10, 0)]
    columns = columns or world.random.choice(["region,id", "id"])
    keys = {r.key if columns == "region,id" else r.id for r in rows}
    if columns == "id" and len(keys) < len(rows):
        return

    def effect(model: Model) -> Model:
        return (*(r for r in model if (r.key if columns == "region,id" else r.id) not in keys), *rows)

    w.effect = effect
    job(world, w, "upsert", {"upsert-keys": columns}, source=source(world, rows))


def source(world: World, rows: list[Row]) -> Source:
    """A file that is found on this machine and read through the table's storage."""
    path, data = world.sources / f"{world.name('source')}.parquet", parquet_of(rows)
    path.write_bytes(data)
    if world.shape.store != "disk":
        world.storage.io.write(str(path), data)
    return Source(format="parquet", paths=[str(path)])


def append_job(world: World, w: Writer) -> None:
    """With a wap id the snapshot is staged."""
    world.made += 1
    rows = [Row(region, world.made * 10 + i, 0) for i, region in enumerate(REGIONS)]
    staged = world.random.random() < world.shape.stages
    w.effect = w.beside = lambda model: (*model, *rows)
    options = {"wap-id": world.name("wap")} if staged else {}
    job(world, w, "append", options, staged=staged, source=source(world, rows))


def overwrite_job(world: World, w: Writer) -> None:
    """INSERT OVERWRITE, by the partitions of the rows or by a filter; it replaces the rows that exist at its commit."""
    region = world.random.choice(REGIONS)
    world.made += 1
    rows = [Row(region, world.made * 10 + i, 0) for i in range(2)]
    where = f"region = '{region}'" if world.random.random() < 0.5 else None

    def effect(model: Model) -> Model:
        if where is not None:
            return (*(r for r in model if r.region != region), *rows)
        table = world.looking
        return (*minus(model, table.in_partitions((f.spec_id, f.partition) for f in table.coming)), *rows)

    w.effect = effect
    job(world, w, "overwrite", some_isolation(world), where=where, source=source(world, rows))


def some_isolation(world: World) -> dict[str, str]:
    return {"isolation-level": world.random.choice(ISOLATIONS)}


def some_mode(world: World, **more: Any) -> RowChange:
    return RowChange(mode=world.random.choice(["merge-on-read", "copy-on-write"]), **more)


KINDS: dict[str, tuple[float, Callable[[World, Writer], None]]] = {
    "delete": (3, delete),
    "update": (3, update),
    "merge": (2, merge),
    "delete job": (3, delete_job),
    "update job": (2, update_job),
    "merge job": (2, merge_job),
    "upsert job": (2, upsert_job),
    "append job": (1, append_job),
    "overwrite job": (1, overwrite_job),
}
