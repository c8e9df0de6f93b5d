"""Writers planned on older states of the table and committed in any order, against a plain model of rows.

Every writer plans on its state of the table, then others commit, also in the middle of its own commit. After every step every
reader of every retained snapshot sees exactly the rows that the model had then; in the end no file is leaked and no live file is
gone. A failing seed is in the test's name.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import expire
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.protocol.operation import Committed
from iceberg_ops.errors import ValidationError
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.manifests import ManifestEntry
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.reachable import reachable_files
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, deletion_vector, equality_deletes, make_catalog, make_table, position_deletes
from tests.catalog.wrappers import Meddles

Row = tuple[int, int]
"""(id, version of that id)."""


class World:
    """A table, the rows in its files, and the model."""

    def __init__(self, seed: int, version: int) -> None:
        self.random = random.Random(seed)
        self.version = version
        self.catalog = make_catalog()
        self.table = make_table(
            self.catalog, version=version, partitioned=True, properties={"commit.manifest.min-count-to-merge": "3"}
        )
        self.rows: dict[str, list[Row]] = {}
        self.positions: dict[str, tuple[str, frozenset[int]]] = {}
        self.keys: dict[str, frozenset[int]] = {}
        self.model: dict[str, set[Row]] = {"eu": set(), "us": set()}
        self.seen: dict[int, frozenset[Row]] = {}
        self.made = 0

    # files

    def new_path(self, suffix: str) -> str:
        self.made += 1
        path = f"{self.table.location}/data/{self.made}.{suffix}"
        self.catalog.io.write(path, b"x")
        return path

    def new_data(self, rows: list[Row], region: str) -> DataFile:
        path = self.new_path("parquet")
        self.rows[path] = rows
        return data_file(path, rows=len(rows), partition=(region,))

    def new_positions(self, of: DataFile, positions: frozenset[int]) -> DataFile:
        path = self.new_path("puffin" if self.version == 3 else "deletes")
        self.positions[path] = (of.file_path, positions)
        if self.version == 3:
            return deletion_vector(path, of.file_path, rows=len(positions), partition=of.partition)
        if self.random.random() < 0.5:
            return position_deletes(path, of.file_path, rows=len(positions), partition=of.partition)
        return position_deletes(path, rows=len(positions), partition=of.partition)

    def new_keys(self, ids: frozenset[int], region: str) -> DataFile:
        path = self.new_path("equality")
        self.keys[path] = ids
        return equality_deletes(path, rows=len(ids), partition=(region,))

    # reading

    def live(self, table: Table, snapshot: Snapshot | None) -> list[ManifestEntry]:
        return [e for m in manifests_of(table, snapshot) for e in entries_of(table, m, live_only=True)]

    def deleted(self, entry: ManifestEntry, live: list[ManifestEntry]) -> set[int]:
        f, number = entry.data_file, entry.sequence_number or 0
        gone: set[int] = set()
        for other in live:
            d, since = other.data_file, other.sequence_number or 0
            if d.content is FileContent.POSITION_DELETES and since >= number:
                path, positions = self.positions[d.file_path]
                gone |= positions if path == f.file_path else set()
            elif d.content is FileContent.EQUALITY_DELETES and since > number and d.partition == f.partition:
                gone |= {i for i, row in enumerate(self.rows[f.file_path]) if row[0] in self.keys[d.file_path]}
        return gone

    def visible(self, table: Table, snapshot: Snapshot | None) -> frozenset[Row]:
        live = self.live(table, snapshot)
        found: list[Row] = []
        for entry in live:
            assert self.catalog.io.exists(entry.data_file.file_path), "a live file was deleted"
            if entry.data_file.content is FileContent.DATA:
                gone = self.deleted(entry, live)
                found += [row for i, row in enumerate(self.rows[entry.data_file.file_path]) if i not in gone]
        assert len(found) == len(set(found)), "a row is there twice"
        return frozenset(found)

    def check(self) -> None:
        table = self.catalog.load_table(IDENTIFIER)
        now = frozenset(row for rows in self.model.values() for row in rows)
        assert self.visible(table, table.metadata.current_snapshot) == now
        if table.metadata.current_snapshot_id is not None:
            self.seen[table.metadata.current_snapshot_id] = now

    def check_history(self) -> None:
        table = self.catalog.load_table(IDENTIFIER)
        for snapshot in table.metadata.snapshots:
            if snapshot.snapshot_id in self.seen:
                assert self.visible(table, snapshot) == self.seen[snapshot.snapshot_id]

    # writers: each plans now and gives back what commits later

    def commit(self, catalog: Any, table: Table, operation: Any, files: list[DataFile]) -> Committed | None:
        """A conflict deletes the files that were written for nothing."""
        try:
            return commit(catalog, table, operation, sleep=lambda _: None)
        except ValidationError:
            self.catalog.io.delete_many([f.file_path for f in files])
            return None

    def append(self) -> Callable[[Any], None]:
        region = self.random.choice(["eu", "us"])
        rows = [(self.made * 10 + i, 0) for i in range(self.random.randint(1, 3))]
        table, f = self.catalog.load_table(IDENTIFIER), self.new_data(rows, region)

        def finish(catalog: Any) -> None:
            if self.commit(catalog, table, AppendFiles(added=(f,)), [f]):
                self.model[region] |= set(rows)

        return finish

    def change(self, *, update: bool) -> Callable[[Any], None] | None:
        table = self.catalog.load_table(IDENTIFIER)
        live = self.live(table, table.metadata.current_snapshot)
        data = [e for e in live if e.data_file.content is FileContent.DATA]
        if not data:
            return None
        entry = self.random.choice(data)
        f = entry.data_file
        left = sorted(set(range(len(self.rows[f.file_path]))) - self.deleted(entry, live))
        if not left:
            return None
        position, region = self.random.choice(left), f.partition[0]
        row = self.rows[f.file_path][position]
        positions, old = frozenset({position}), ()
        if self.version == 3:
            old = tuple(e.data_file for e in live if e.data_file.referenced_data_file == f.file_path)
            positions |= frozenset().union(*(self.positions[d.file_path][1] for d in old))
        delete = self.new_positions(f, positions)
        new = self.new_data([(row[0], row[1] + 1)], region) if update else None
        operation = RowDelta(
            added_deletes=(delete,),
            removed_deletes=old,
            added_data=(new,) if new else (),
            referenced_data_files=(f.file_path,),
            isolation="snapshot",
            starting_snapshot_id=table.metadata.current_snapshot_id,
        )

        def finish(catalog: Any) -> None:
            if self.commit(catalog, table, operation, [delete, *((new,) if new else ())]):
                if update:
                    assert row in self.model[region], "a row that was changed meanwhile was updated"
                    self.model[region].add((row[0], row[1] + 1))
                self.model[region].discard(row)

        return finish

    def upsert(self) -> Callable[[Any], None]:
        region = self.random.choice(["eu", "us"])
        ids = sorted({i for i, _ in self.model[region]}) or [7]
        key, number = self.random.choice(ids), 1000 * (1 + self.made)
        table = self.catalog.load_table(IDENTIFIER)
        delete, new = self.new_keys(frozenset({key}), region), self.new_data([(key, number)], region)
        operation = RowDelta(added_deletes=(delete,), added_data=(new,), isolation=None)

        def finish(catalog: Any) -> None:
            if self.commit(catalog, table, operation, [delete, new]):
                self.model[region] = {r for r in self.model[region] if r[0] != key} | {(key, number)}

        return finish

    def compact(self) -> Callable[[Any], None] | None:
        table = self.catalog.load_table(IDENTIFIER)
        snapshot = table.metadata.current_snapshot
        live = self.live(table, snapshot)
        region = self.random.choice(["eu", "us"])
        data = [e for e in live if e.data_file.content is FileContent.DATA and e.data_file.partition == (region,)]
        chosen = self.random.sample(data, min(len(data), self.random.randint(1, 4)))
        if not chosen or snapshot is None:
            return None
        rows = [row for e in chosen for i, row in enumerate(self.rows[e.data_file.file_path]) if i not in self.deleted(e, live)]
        added = (self.new_data(rows, region),) if rows else ()
        operation = RewriteFiles(
            removed_data=tuple(e.data_file for e in chosen),
            added_data=added,
            starting_snapshot_id=snapshot.snapshot_id,
            data_sequence_number=snapshot.sequence_number if self.random.random() < 0.5 else None,
        )
        return lambda catalog: void(self.commit(catalog, table, operation, list(added)))

    def rewrite_manifests(self) -> Callable[[Any], None]:
        table = self.catalog.load_table(IDENTIFIER)
        return lambda catalog: void(self.commit(catalog, table, RewriteManifests(), []))

    def expire(self) -> Callable[[Any], None]:
        keep = self.random.randint(1, 4)
        return lambda catalog: void(
            expire(self.catalog, self.catalog.load_table(IDENTIFIER), ExpireSnapshots(older_than_ms=2**60, retain_last=keep))
        )

    def plan(self) -> Callable[[Any], None] | None:
        kinds = (self.append, self.append, lambda: self.change(update=False), lambda: self.change(update=True), self.upsert)
        return self.random.choice([*kinds, self.compact, self.compact, self.rewrite_manifests, self.expire])()


def void(_: object) -> None:
    return None


def play(seed: int, version: int, steps: int = 24) -> None:
    world = World(seed, version)
    waiting: list[Callable[[Any], None]] = []
    for _ in range(steps):
        if (planned := world.plan()) is not None:
            waiting.append(planned)
        while waiting and (len(waiting) > 4 or world.random.random() < 0.5):
            chosen = waiting.pop(world.random.randrange(len(waiting)))
            others = [waiting.pop(0)] if waiting and world.random.random() < 0.4 else []
            meddling = Meddles(world.catalog, *(lambda o=o: o(world.catalog) for o in others))  # type: ignore[misc]
            chosen(meddling)
            for untold in meddling.others:
                untold()
            world.check()
            world.check_history()
    for left in waiting:
        left(world.catalog)
        world.check()
    world.expire()(world.catalog)
    world.check_history()
    table = world.catalog.load_table(IDENTIFIER)
    known = set(reachable_files(table))
    leaked = [i.location for i in world.catalog.io.list_prefix(table.location) if i.location not in known]
    assert [p for p in leaked if not p.endswith("metadata.json")] == []


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("seed", range(int(os.environ.get("ICEBERG_OPS_TORTURE", "12"))))
def test_every_reader_sees_the_models_rows(seed: int, version: int) -> None:
    play(seed, version)
