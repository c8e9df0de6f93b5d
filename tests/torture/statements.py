"""Writers that find rows and change them: deletes, updates and merges in both modes, the row jobs of this lane, and imports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.commit.operation import Isolation
from iceberg_ops.commit.overwrite_files import OverwriteFiles
from iceberg_ops.commit.row_delta import RowDelta
from iceberg_ops.config.job_spec import MergeClause, RowChange, Source
from iceberg_ops.data.row_deletes import write_row_deletes
from iceberg_ops.data.write_context import WriteContext
from iceberg_ops.expressions.predicates import eq
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.table.table import Table
from tests.torture.contents import Row, batch_of
from tests.torture.maintenance import job
from tests.torture.stepping import Writer
from tests.torture.world import REGIONS, Model, World

ISOLATIONS: tuple[Isolation, ...] = ("serializable", "snapshot")
EVERY_ROW = {"isolation-level": "serializable"}
"""With ``snapshot`` rows may come that an update does not see, and two merges may insert one key."""


@dataclass
class Found:
    """What a statement found on one snapshot: rows to change by data file, all live rows of those files, and the region's."""

    table: Table
    head: Snapshot
    region: str
    changed: list[tuple[FileScanTask, dict[int, Row]]]
    kept: list[Row]
    before: frozenset[Row]

    @property
    def rows(self) -> list[Row]:
        return [row for _, rows in self.changed for row in rows.values()]

    @property
    def files(self) -> list[DataFile]:
        return [task.data_file for task, _ in self.changed]


def find(world: World, w: Writer) -> Found | None:
    """One or two rows of up to three files of a region."""
    table, region = world.load(), world.random.choice(REGIONS)
    head = table.metadata.branch_head(w.branch)
    live = world.planned(table, head) or []
    data = [e for e in live if e.data_file.content is FileContent.DATA and e.data_file.partition == (region,)]
    changed: list[tuple[FileScanTask, dict[int, Row]]] = []
    kept: list[Row] = []
    for entry in world.random.sample(data, min(len(data), world.random.randint(1, 3))):
        rows = world.contents.live_rows(entry, live)
        if rows:
            hit = world.random.sample(sorted(rows), min(len(rows), world.random.randint(1, 2)))
            deletes = world.contents.position_deletes_of(entry, live)
            changed.append((FileScanTask(entry.data_file, entry.sequence_number or 0, deletes=deletes), {p: rows[p] for p in hit}))
            kept += [row for position, row in rows.items() if position not in hit]
    if not changed or head is None:
        return None
    before = frozenset(row for e in data for row in world.contents.live_rows(e, live).values())
    return Found(table, head, region, changed, kept, before)


def change(world: World, w: Writer, *, update: bool, merge: bool = False) -> None:
    """``merge``: rows come besides, and under ``serializable`` none of the region may have come that it did not see."""
    if (found := find(world, w)) is None:
        return
    new = [(r[0], r[1], r[2] + 1) for r in found.rows] if update else []
    if merge:
        world.made += 1
        new.append((found.region, world.made * 10, 0))
    isolation = world.random.choice(ISOLATIONS)
    copies = found.table.metadata.format_version < 2 or world.random.random() < 0.3
    common: dict[str, Any] = {
        "isolation": isolation,
        "starting_snapshot_id": found.head.snapshot_id,
        "conflict_filter": eq("region", found.region),
        "run_key": world.name("statement"),
        "branch": w.branch,
    }

    def effect(model: Model) -> Model:
        if new or copies:
            assert set(found.rows) <= model, "a row that was changed meanwhile was changed again"
        if copies:
            assert set(found.kept) <= model, "a row that was deleted meanwhile came back"
        if isolation == "serializable":
            assert {r for r in model if r[0] == found.region} <= found.before, "rows were there that the statement did not see"
        return (model - set(found.rows)) | set(new)

    w.effect = effect
    (by_copying if copies else by_position)(world, found, new, common)


def by_copying(world: World, found: Found, new: list[Row], common: dict[str, Any]) -> None:
    rows = [*found.kept, *new]
    added = (world.new_data(found.table, rows),) if rows else ()
    world.twice(found.table, OverwriteFiles(added=added, removed=tuple(found.files), **common), added)


def by_position(world: World, found: Found, new: list[Row], common: dict[str, Any]) -> None:
    context = WriteContext.for_table(found.table.metadata)
    positions = [(task, np.array(sorted(rows), np.int64)) for task, rows in found.changed]
    written = world.settle(
        lambda: write_row_deletes(world.catalog.io, context, positions, operation_id=world.name("deletes")), []
    )  # fmt: skip
    if written is None:
        return
    added = (world.new_data(found.table, new),) if new else ()
    operation = RowDelta(
        added_deletes=written.added,
        removed_deletes=written.replaced,
        added_data=added,
        referenced_data_files=tuple(f.file_path for f in found.files),
        merges_vectors=world.random.random() < 0.5,
        **common,
    )
    world.twice(found.table, operation, [*written.added, *added])


def delete(world: World, w: Writer) -> None:
    change(world, w, update=False)


def update(world: World, w: Writer) -> None:
    change(world, w, update=True)


def merge(world: World, w: Writer) -> None:
    change(world, w, update=world.random.random() < 0.7, merge=True)


def delete_job(world: World, w: Writer) -> None:
    """DELETE FROM as a user runs it: evaluated anew after each conflict, by position or by copying, vectors united with others'."""
    known = rows_known(world, w)
    chosen = world.random.sample(known, min(len(known), world.random.randint(1, 3)))
    if not chosen:
        return
    where = " OR ".join(f"(region = '{r}' AND id = {i} AND data = '{v}')" for r, i, v in chosen)
    w.effect, w.keeps_ids = lambda model: model - set(chosen), True
    job(world, w, "delete", some_isolation(world), where=where, change=some_mode(world), branch=w.branch)


def update_job(world: World, w: Writer) -> None:
    """UPDATE as a user runs it without Spark; whatever version the rows have by then."""
    known = rows_known(world, w)
    keys = {r[:2] for r in world.random.sample(known, min(len(known), world.random.randint(1, 3)))}
    if not keys:
        return
    world.made += 1
    version = 1000 * world.made
    where = " OR ".join(f"(region = '{region}' AND id = {i})" for region, i in sorted(keys))
    w.becomes, w.keeps_ids = lambda row: (*row[:2], version) if row[:2] in keys else row, True
    w.effect = lambda model: frozenset(map(w.becomes, model))
    job(
        world,
        w,
        "update",
        EVERY_ROW,
        where=where,
        change=some_mode(world, set={"data": f"'{version}'"}),
        branch=w.branch,
    )


def merge_job(world: World, w: Writer) -> None:
    """MERGE without Spark: rows that are known are changed or deleted, the others come, all as it is at the commit."""
    known = rows_known(world, w)
    world.made += 1
    version, region = 1000 * world.made, world.random.choice(REGIONS)
    hit = world.random.sample(known, min(len(known), world.random.randint(1, 3)))
    rows = [*((r[0], r[1], version) for r in hit), (region, world.made * 10, version)]
    keys, deletes = {r[:2] for r in rows}, world.random.random() < 0.3
    matched = MergeClause(when="matched", action="delete")
    if not deletes:
        matched = MergeClause(when="matched", action="update", assignments={"data": "source.data"})
    every = {name: f"source.{name}" for name in ("id", "data", "region")}
    clauses = [matched, MergeClause(when="not-matched", action="insert", assignments=every)]
    change = some_mode(world, on="target.region = source.region AND target.id = source.id", clauses=clauses)

    def effect(model: Model) -> Model:
        there = {r[:2] for r in model}
        return frozenset(r for r in model if r[:2] not in keys) | {r for r in rows if not (deletes and r[:2] in there)}

    w.effect, w.keeps_ids = effect, True
    w.becomes = lambda row: (*row[:2], version) if row[:2] in keys else row
    job(world, w, "merge", EVERY_ROW, source=source(world, rows), change=change, branch=w.branch)


def upsert_job(world: World, w: Writer) -> None:
    """Rows take the place of those of the same key that are older than the commit, unseen."""
    known = rows_known(world, w)
    world.made += 1
    hit = world.random.sample(known, min(len(known), world.random.randint(0, 2)))
    rows = [*((r[0], r[1], 1000 * world.made) for r in hit), (world.random.choice(REGIONS), world.made * 10, 0)]
    keys = {r[:2] for r in rows}
    w.effect = lambda model: frozenset(r for r in model if r[:2] not in keys) | set(rows)
    job(world, w, "upsert", {"upsert-keys": "region,id"}, source=source(world, rows), branch=w.branch)


def rows_known(world: World, w: Writer) -> list[Row]:
    return sorted(world.models.get(w.branch, frozenset()))


def some_isolation(world: World) -> dict[str, str]:
    return {"isolation-level": world.random.choice(ISOLATIONS)}


def some_mode(world: World, **more: Any) -> RowChange:
    return RowChange(mode=world.random.choice(["merge-on-read", "copy-on-write"]), **more)


def source(world: World, rows: list[Row]) -> Source:
    """A file that is found on this machine and read through the table's storage."""
    path, data = world.sources / f"{world.name('source')}.parquet", parquet_of(rows)
    path.write_bytes(data)
    world.store.write(str(path), data)
    return Source(format="parquet", paths=[str(path)])


def append_job(world: World, w: Writer) -> None:
    world.made += 1
    rows = [(region, world.made * 10 + i, 0) for i, region in enumerate(REGIONS)]
    w.effect = lambda model: model | set(rows)
    job(world, w, "append", source=source(world, rows), branch=w.branch)


def overwrite_job(world: World, w: Writer) -> None:
    """INSERT OVERWRITE, by the partitions of the rows or by a filter; what was there at its commit is replaced."""
    region = world.random.choice(REGIONS)
    world.made += 1
    rows = [(region, world.made * 10 + i, 0) for i in range(2)]
    where = f"region = '{region}'" if world.random.random() < 0.5 else None
    w.effect = lambda model: frozenset(r for r in model if r[0] != region) | set(rows)
    job(world, w, "overwrite", some_isolation(world), where=where, source=source(world, rows), branch=w.branch)


def parquet_of(rows: list[Row]) -> bytes:
    """A file as others write it: without field ids."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([batch_of(rows)]), sink)
    return bytes(sink.getvalue())


def import_files(world: World, w: Writer) -> None:
    """Files of another writer, without field ids, in folders by region."""
    folder, region = f"memory://wh/{world.name('import')}", world.random.choice(REGIONS)
    world.made += 1
    rows = [(region, world.made * 10 + i, 0) for i in range(3)]
    for number, part in enumerate((rows[:1], rows[1:])):
        world.store.write(f"{folder}/region={region}/{number}.parquet", parquet_of(part))
    w.effect = lambda model: model | set(rows)
    job(world, w, "add_files", {"source-path": folder}, branch=w.branch)


KINDS: dict[str, tuple[int, Callable[[World, Writer], None]]] = {
    "delete": (3, delete),
    "update": (3, update),
    "merge": (2, merge),
    "delete job": (3, delete_job),
    "update job": (2, update_job),
    "merge job": (2, merge_job),
    "upsert job": (1, upsert_job),
    "append job": (1, append_job),
    "overwrite job": (1, overwrite_job),
    "import": (1, import_files),
}
