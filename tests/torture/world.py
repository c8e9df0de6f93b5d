"""A table, the rows in its data files, and a plain model of the rows it should have; and the writers that change both.

Data files are told apart by path and hold no bytes: ``rows`` says what is in them. Position deletes and deletion vectors are real
files, because a rewrite carries them over. A writer's ``effect`` is applied to the model at the very step at which the table's
pointer moves, and from then on every reader has to see it.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.commit.append_files import AppendFiles
from iceberg_ops.commit.carry_over import RowMap, commit_carrying_over
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.expiry import expire, resume_expiry
from iceberg_ops.commit.operation import Committed
from iceberg_ops.commit.refs import RollBack
from iceberg_ops.commit.rewrite_files import RewriteFiles
from iceberg_ops.commit.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.row_delta import RowDelta
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.data.row_deletes import write_row_deletes
from iceberg_ops.data.write_context import WriteContext
from iceberg_ops.errors import CommitStateUnknownError, CorruptTableError, IcebergOpsError
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask
from iceberg_ops.serde.deletion_vector import deserialize
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.manifests import ManifestEntry
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.table.manifests import CACHE, entries_of, manifests_of
from iceberg_ops.table.reachable import reachable_files
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, equality_deletes, make_table
from tests.torture.stepping import SteppedCatalog, SteppedIO, Writer

Row = tuple[str, int, int]
"""(region, id, version of that id)."""
Model = frozenset[Row]
REGIONS = ("eu", "us")
THREE_DAYS_MS = 3 * 24 * 3_600_000
_STORES = iter(range(10**9))


@dataclass(frozen=True)
class Seen:
    """A snapshot when it was made: its rows, and every file its readers need."""

    rows: Model
    manifest_list: str | None
    files: frozenset[str]


class World:
    def __init__(self, rng: random.Random, *, version: int, catalog: str, granularity: str = "partition") -> None:
        self.random = rng
        self.version = version
        self.tick = 0
        self.store = MemoryFileIO(f"torture-{next(_STORES)}", clock=lambda: self.tick)
        stepped = SteppedIO(self.store, self._deleting)
        self.catalog: Any
        self.reader: Any
        """The same tables, without steps."""
        if catalog == "filesystem":
            self.catalog = FileSystemCatalog("test", stepped, warehouse="memory://wh", sleep=_no_sleep)
            self.reader = FileSystemCatalog("test", self.store, warehouse="memory://wh", sleep=_no_sleep)
        else:
            self.catalog = SteppedCatalog("test", stepped, sleep=_no_sleep)
            self.reader = MemoryCatalog("test", self.store, sleep=_no_sleep)
            self.reader._pointers, self.reader._namespaces = self.catalog._pointers, self.catalog._namespaces
        self.catalog.create_namespace(("ns",))
        properties = {"commit.manifest.min-count-to-merge": "3", "write.delete.granularity": granularity}
        self.folder = make_table(self.catalog, version=version, partitioned=True, properties=properties).location
        self.rows: dict[str, list[Row]] = {}
        self.keys: dict[str, frozenset[int]] = {}
        self.positions: dict[tuple[str, int | None], dict[str, set[int]]] = {}
        self.model: Model = frozenset()
        self.seen: dict[int, Seen] = {}
        self.needed: frozenset[str] = frozenset()
        self.location: str | None = None
        self.current: int | None = None
        self.active: list[Writer] = []
        self.made = 0
        self.counts: dict[str, int] = {}
        """Commits by kind of writer."""
        self.refusals: dict[str, int] = {}
        self.carried = 0
        self.expiries = 0

    # files

    def path(self, suffix: str) -> str:
        self.made += 1
        return f"{self.folder}/data/{self.made}.{suffix}"

    def new_data(self, rows: list[Row], region: str) -> DataFile:
        path = self.path("parquet")
        self.rows[path] = rows
        self.catalog.io.write(path, b"x")
        return data_file(path, rows=len(rows), partition=(region,))

    def new_keys(self, ids: frozenset[int], region: str) -> DataFile:
        path = self.path("equality")
        self.keys[path] = ids
        self.catalog.io.write(path, b"x")
        return equality_deletes(path, rows=len(ids), partition=(region,))

    # what a reader sees

    def live(self, table: Table, snapshot: Snapshot | None) -> list[ManifestEntry]:
        return [e for m in manifests_of(table, snapshot) for e in entries_of(table, m, live_only=True)]

    def positions_in(self, file: DataFile) -> dict[str, set[int]]:
        key = (file.file_path, file.content_offset)
        if key not in self.positions:
            data = self.store.read(file.file_path)
            found: dict[str, set[int]] = {}
            if file.is_deletion_vector:
                start = file.content_offset or 0
                found[file.referenced_data_file or ""] = set(deserialize(data[start : start + (file.content_size_in_bytes or 0)]))
            else:
                columns = pq.read_table(io.BytesIO(data), columns=["file_path", "pos"]).to_pydict()
                for path, position in zip(columns["file_path"], columns["pos"], strict=True):
                    found.setdefault(path, set()).add(position)
            self.positions[key] = found
        return self.positions[key]

    def deleted(self, entry: ManifestEntry, live: list[ManifestEntry]) -> set[int]:
        f, number = entry.data_file, entry.sequence_number or 0
        gone: set[int] = set()
        for other in live:
            d, since = other.data_file, other.sequence_number or 0
            if d.content is FileContent.POSITION_DELETES and since >= number:
                gone |= self.positions_in(d).get(f.file_path, set())
            elif d.content is FileContent.EQUALITY_DELETES and since > number and d.partition == f.partition:
                gone |= {i for i, row in enumerate(self.rows[f.file_path]) if row[1] in self.keys[d.file_path]}
        return gone

    def visible(self, table: Table, snapshot: Snapshot | None) -> Model:
        live = self.live(table, snapshot)
        found: list[Row] = []
        for entry in live:
            assert self.store.exists(entry.data_file.file_path), f"{entry.data_file.file_path} is live and gone"
            if entry.data_file.content is FileContent.DATA:
                gone = self.deleted(entry, live)
                found += [row for i, row in enumerate(self.rows[entry.data_file.file_path]) if i not in gone]
        assert len(found) == len(set(found)), "a row is there twice"
        return frozenset(found)

    # the checks

    def _deleting(self, location: str) -> None:
        assert location not in self.needed, f"{location} is deleted while a reader of a retained snapshot needs it"

    def look(self, writer: Writer | None) -> None:
        """After a step of ``writer``: if the pointer moved, the model moves with it, and the table has to show the model."""
        location = self.reader._current_location(IDENTIFIER)
        if location == self.location:
            return
        self.location = location
        table = self.reader.load_table(IDENTIFIER)
        metadata = table.metadata
        if metadata.current_snapshot_id != self.current:
            self.current = metadata.current_snapshot_id
            if writer is not None and writer.effect is not None:
                self.model = writer.effect(self.model)
            kind = "setup" if writer is None else writer.kind
            self.counts[kind] = self.counts.get(kind, 0) + 1
            found = self.visible(table, metadata.current_snapshot)
            assert found == self.model, f"after {kind}: lost {self.model - found}, came back {found - self.model}"
        for snapshot in metadata.snapshots:
            if snapshot.snapshot_id not in self.seen:
                assert snapshot.snapshot_id == self.current
                files = frozenset(reachable_files(table, [snapshot]))
                self.seen[snapshot.snapshot_id] = Seen(self.model, snapshot.manifest_list, files)
            assert snapshot.manifest_list == self.seen[snapshot.snapshot_id].manifest_list
        retained = [self.seen[s.snapshot_id].files for s in metadata.snapshots]
        self.needed = frozenset().union(*retained) | {location or ""}
        missing = [path for path in self.needed if not self.store.exists(path)]
        assert missing == [], "files that readers of retained snapshots need are gone"

    def reread_all(self) -> None:
        """Every retained snapshot, from storage."""
        CACHE.clear()
        self.positions.clear()
        table = self.reader.load_table(IDENTIFIER)
        assert self.visible(table, table.metadata.current_snapshot) == self.model
        for snapshot in table.metadata.snapshots:
            assert self.visible(table, snapshot) == self.seen[snapshot.snapshot_id].rows

    def leaked(self) -> list[str]:
        """Files that belong to nothing after one maintenance run, all writers having ended."""
        table = self.reader.load_table(IDENTIFIER)
        expire(self.reader, table, ExpireSnapshots(older_than_ms=2**60, retain_last=1))
        resume_expiry(self.reader, table, now_ms=2**60)
        self.tick += 1
        self.remove_orphans(self.reader, cut=self.tick)
        self.look(None)
        table = self.reader.load_table(IDENTIFIER)
        known = {*reachable_files(table), f"{table.location}/metadata/version-hint.text"}
        return [i.location for i in self.store.list_prefix(table.location) if i.location not in known]

    # writers: each works through to its commit, one step at a time

    def planned(self, table: Table) -> list[ManifestEntry] | None:
        """What a writer plans on; None where that snapshot was expired while it read, which no age guard prevents here."""
        snapshot = table.metadata.current_snapshot
        try:
            return self.live(table, snapshot)
        except CorruptTableError:
            known = self.reader.load_table(IDENTIFIER).metadata.snapshots_by_id
            assert (snapshot and snapshot.snapshot_id) not in known, "a retained snapshot can not be read"
            return None

    def commit(self, table: Table, operation: Any, files: Iterable[DataFile]) -> Committed | None:
        return self.settle(lambda: commit(self.catalog, table, operation, sleep=_no_sleep), files)

    def settle(self, work: Callable[[], Any], files: Iterable[DataFile]) -> Any:
        """Who is refused, or finds the snapshot it works on expired, deletes what it wrote; only an unknown outcome keeps it."""
        try:
            return work()
        except CommitStateUnknownError:
            raise
        except IcebergOpsError as e:
            self.refusals[type(e).__name__] = self.refusals.get(type(e).__name__, 0) + 1
            if isinstance(e, CorruptTableError) and not self.expiries:
                raise
            self.catalog.io.delete_many([f.file_path for f in files])
            return None

    def append(self, w: Writer) -> None:
        region = self.random.choice(REGIONS)
        table = self.catalog.load_table(IDENTIFIER)
        self.made += 1
        rows = [(region, self.made * 10 + i, 0) for i in range(self.random.randint(1, 3))]
        f = self.new_data(rows, region)
        w.effect = lambda model: model | set(rows)
        self.twice(w, lambda: self.commit(table, AppendFiles(added=(f,), run_key=f.file_path), [f]))

    def twice(self, w: Writer, work: Callable[[], object]) -> None:
        """Sometimes the same work is submitted once more under its run key: it must not be done again."""
        if work() is not None and self.random.random() < 0.2:
            work()

    def change(self, w: Writer, *, update: bool) -> None:
        table = self.catalog.load_table(IDENTIFIER)
        live = self.planned(table) or []
        data = [e for e in live if e.data_file.content is FileContent.DATA]
        chosen: list[tuple[FileScanTask, Any]] = []
        rows: list[Row] = []
        for entry in self.random.sample(data, min(len(data), self.random.randint(1, 2))):
            f = entry.data_file
            left = sorted(set(range(len(self.rows[f.file_path]))) - self.deleted(entry, live))
            if left:
                position = self.random.choice(left)
                rows.append(self.rows[f.file_path][position])
                vectors = [e for e in live if e.data_file.referenced_data_file == f.file_path and e.data_file.is_deletion_vector]
                deletes = tuple(DeleteFile(e.data_file, e.sequence_number or 0) for e in vectors)
                chosen.append((FileScanTask(f, entry.sequence_number or 0, deletes=deletes), np.array([position], np.int64)))
        if not chosen:
            return
        self.made += 1
        deletes = write_row_deletes(self.catalog.io, WriteContext.for_table(table.metadata), chosen, operation_id=f"op{self.made}")
        new = [self.new_data([(r[0], r[1], r[2] + 1)], r[0]) for r in rows] if update else []
        operation = RowDelta(
            added_deletes=deletes.added,
            removed_deletes=deletes.replaced,
            added_data=tuple(new),
            referenced_data_files=tuple(task.file_path for task, _ in chosen),
            isolation="snapshot",
            starting_snapshot_id=table.metadata.current_snapshot_id,
            run_key=f"op{self.made}",
        )

        def effect(model: Model) -> Model:
            assert not update or set(rows) <= model, "a row that was changed meanwhile was updated"
            return (model - set(rows)) | {(r[0], r[1], r[2] + 1) for r in rows if update}

        w.effect = effect
        self.twice(w, lambda: self.commit(table, operation, [*deletes.added, *new]))

    def delete(self, w: Writer) -> None:
        self.change(w, update=False)

    def update(self, w: Writer) -> None:
        self.change(w, update=True)

    def upsert(self, w: Writer) -> None:
        region = self.random.choice(REGIONS)
        key = self.random.choice(sorted({i for r, i, _ in self.model if r == region}) or [7])
        table = self.catalog.load_table(IDENTIFIER)
        row = (region, key, 1000 * (1 + self.made))
        keys, new = self.new_keys(frozenset({key}), region), self.new_data([row], region)
        operation = RowDelta(added_deletes=(keys,), added_data=(new,), isolation=None, run_key=new.file_path)
        w.effect = lambda model: frozenset(r for r in model if r[:2] != (region, key)) | {row}
        self.twice(w, lambda: self.commit(table, operation, [keys, new]))

    def compact(self, w: Writer, *, sort: bool = False) -> None:
        table = self.catalog.load_table(IDENTIFIER)
        snapshot = table.metadata.current_snapshot
        live = self.planned(table) or []
        region = self.random.choice(REGIONS)
        data = [e for e in live if e.data_file.content is FileContent.DATA and e.data_file.partition == (region,)]
        chosen = self.random.sample(data, min(len(data), self.random.randint(1, 4)))
        if not chosen or snapshot is None:
            return
        gone = [sorted(self.deleted(e, live)) for e in chosen]
        rows = [r for e, g in zip(chosen, gone, strict=True) for i, r in enumerate(self.rows[e.data_file.file_path]) if i not in g]
        order = list(range(len(rows)))
        if sort:
            self.random.shuffle(order)
        placed = [row for _, row in sorted(zip(order, rows, strict=True))]
        added = (self.new_data(placed, region),) if rows else ()
        inputs = [(e.data_file, np.array(g, np.int64)) for e, g in zip(chosen, gone, strict=True)]
        moves = RowMap(inputs, added, np.array(order, np.int64) if sort else None)
        self.made += 1
        operation = RewriteFiles(
            removed_data=tuple(e.data_file for e in chosen),
            added_data=added,
            starting_snapshot_id=snapshot.snapshot_id,
            data_sequence_number=snapshot.sequence_number,
            run_key=f"rewrite{self.made}",
        )
        name = f"carried{self.made}"
        done = self.settle(
            lambda: commit_carrying_over(
                self.catalog,
                table,
                operation,
                lambda _: [moves],
                operation_id=name,
                committer=lambda c, t, o: commit(c, t, o, sleep=_no_sleep),
            ),
            added,
        )
        self.carried += done is not None and done.rounds > 0

    def sort(self, w: Writer) -> None:
        self.compact(w, sort=True)

    def rewrite_manifests(self, w: Writer) -> None:
        self.commit(self.catalog.load_table(IDENTIFIER), RewriteManifests(), [])

    def expire(self, w: Writer) -> None:
        self.expiries += 1
        operation = ExpireSnapshots(older_than_ms=2**60, retain_last=self.random.randint(1, 4))
        self.settle(lambda: expire(self.catalog, self.catalog.load_table(IDENTIFIER), operation), [])

    def roll_back(self, w: Writer) -> None:
        table = self.catalog.load_table(IDENTIFIER)
        ancestors = [s.snapshot_id for s in table.metadata.ancestors(table.metadata.current_snapshot_id)][1:3]
        if ancestors:
            target = self.random.choice(ancestors)
            w.effect = lambda model: self.seen[target].rows
            self.commit(table, RollBack(snapshot_id=target), [])

    def orphans(self, w: Writer) -> None:
        """The age guard, in the world's time: what is older than every running writer."""
        self.settle(lambda: self.remove_orphans(self.catalog, cut=min([w.started, *(x.started for x in self.active)])), [])

    def remove_orphans(self, catalog: Any, *, cut: int) -> None:
        job = JobSpec(job="remove_orphan_files", table="test.ns.t", catalog=CatalogConfig(name="test", type="memory"))
        run_job(job, catalog=catalog, now=lambda: cut * 1000 + THREE_DAYS_MS)

    def kinds(self) -> dict[str, tuple[int, Callable[[Writer], None]]]:
        """Name -> (weight, work)."""
        return {
            "append": (3, self.append),
            "delete": (3, self.delete),
            "update": (2, self.update),
            "upsert": (2, self.upsert),
            "compact": (3, self.compact),
            "sort": (2, self.sort),
            "rewrite manifests": (1, self.rewrite_manifests),
            "expire": (2, self.expire),
            "roll back": (1, self.roll_back),
            "orphans": (1, self.orphans),
        }

    def begin(self, kind: str | None = None) -> Writer:
        kinds = self.kinds()
        kind = kind or self.random.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
        writer = Writer(kind, kinds[kind][1], self.tick)
        self.active.append(writer)
        return writer

    def step(self, writer: Writer) -> None:
        """One I/O step of one writer, and the look of every reader after it."""
        self.tick += 1
        done = writer.step()
        if done == "write":
            self.look(writer)
        self._end(writer)

    def kill(self, writer: Writer) -> None:
        self.tick += 1
        writer.kill()
        self._end(writer)

    def _end(self, writer: Writer) -> None:
        if writer.ended:
            self.active.remove(writer)
            if writer.error is not None:
                raise AssertionError(f"{writer.kind} failed: {writer.error!r}") from writer.error


def _no_sleep(_: float) -> None:
    return None
