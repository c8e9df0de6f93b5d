"""A table, the rows in its data files, and a plain model of the rows each branch should have.

Data files are told apart by path and hold no bytes: ``rows`` says what is in them. Position deletes and deletion vectors are real
files, because a rewrite carries them over. A writer's ``effect`` is applied to its branch's model at the very step at which the
table's pointer moves, and from then on every reader has to see it. What writers do is not said here (``writers``).
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.expiry import expire, resume_expiry
from iceberg_ops.commit.operation import Committed
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.errors import CommitStateUnknownError, CorruptTableError, IcebergOpsError
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.scan.delete_index import scoped_path
from iceberg_ops.scan.tasks import DeleteFile
from iceberg_ops.serde.deletion_vector import deserialize
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.manifests import ManifestEntry
from iceberg_ops.spec.snapshots import MAIN_BRANCH, Snapshot
from iceberg_ops.spec.table_metadata import TableMetadata
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
        self.tick = 0
        self.store = MemoryFileIO(f"torture-{next(_STORES)}", clock=lambda: self.tick)
        stepped = SteppedIO(self.store, self._changing)
        self.rows: dict[str, list[Row]] = {}
        self.keys: dict[str, frozenset[int]] = {}
        self.positions: dict[tuple[str, int | None], dict[str, set[int]]] = {}
        self.models: dict[str, Model] = {MAIN_BRANCH: frozenset()}
        self.heads: dict[str, int | None] = {MAIN_BRANCH: None}
        self.seen: dict[int, Seen] = {}
        self.needed: frozenset[str] = frozenset()
        self.location: str | None = None
        self.active: list[Writer] = []
        self.made = 0
        self.counts: dict[str, int] = {}
        """Commits by kind of writer."""
        self.refusals: dict[str, int] = {}
        self.carried = 0
        self.expiries = 0
        self.catalog: Any
        self.reader: Any
        """The same tables, without steps."""
        if catalog == "filesystem":
            self.catalog = FileSystemCatalog("test", stepped, warehouse="memory://wh", sleep=no_sleep)
            self.reader = FileSystemCatalog("test", self.store, warehouse="memory://wh", sleep=no_sleep)
        else:
            self.catalog = SteppedCatalog("test", stepped, rng, sleep=no_sleep)
            self.reader = MemoryCatalog("test", self.store, sleep=no_sleep)
            self.reader._pointers, self.reader._namespaces = self.catalog._pointers, self.catalog._namespaces
        self.catalog.create_namespace(("ns",))
        properties = {
            "commit.manifest.min-count-to-merge": "3",
            "commit.status-check.min-wait-ms": "0",
            "write.delete.granularity": granularity,
        }
        self.folder = make_table(self.catalog, version=version, partitioned=True, properties=properties).location

    # files

    def name(self, what: str) -> str:
        self.made += 1
        return f"{what}{self.made}"

    def new_data(self, rows: list[Row], region: str) -> DataFile:
        path = f"{self.folder}/data/{self.name('')}.parquet"
        self.rows[path] = rows
        self.catalog.io.write(path, b"x")
        return data_file(path, rows=len(rows), partition=(region,))

    def new_keys(self, ids: frozenset[int], region: str) -> DataFile:
        path = f"{self.folder}/data/{self.name('')}.equality"
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

    def position_deletes_of(self, entry: ManifestEntry, live: list[ManifestEntry]) -> tuple[DeleteFile, ...]:
        """The vector of a data file, or else the position deletes that may apply to it."""
        f, number = entry.data_file, entry.sequence_number or 0
        found = [
            e
            for e in live
            if e.data_file.content is FileContent.POSITION_DELETES
            and (e.sequence_number or 0) >= number
            and e.data_file.partition == f.partition
            and (scoped_path(e.data_file) or f.file_path) == f.file_path
        ]
        vectors = [e for e in found if e.data_file.is_deletion_vector]
        assert len(vectors) < 2, f"{f.file_path} has two deletion vectors"
        return tuple(DeleteFile(e.data_file, e.sequence_number or 0) for e in vectors or found)

    def deleted(self, entry: ManifestEntry, live: list[ManifestEntry]) -> set[int]:
        """Positions of a data file that deletes of either kind remove."""
        f, number = entry.data_file, entry.sequence_number or 0
        gone: set[int] = set()
        for delete in self.position_deletes_of(entry, live):
            gone |= self.positions_in(delete.data_file).get(f.file_path, set())
        for other in live:
            d = other.data_file
            if d.content is FileContent.EQUALITY_DELETES and (other.sequence_number or 0) > number and d.partition == f.partition:
                gone |= self.matching(f, d)
        return gone

    def matching(self, file: DataFile, keys: DataFile) -> set[int]:
        return {i for i, row in enumerate(self.rows[file.file_path]) if row[1] in self.keys[keys.file_path]}

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

    def _changing(self, location: str) -> None:
        assert location not in self.needed, f"{location} is deleted or overwritten while a reader of a retained snapshot needs it"

    def look(self, writer: Writer | None) -> None:
        """After a step of ``writer``: if the pointer moved, the models move with it, and the table has to show the models."""
        location = self.reader._current_location(IDENTIFIER)
        if location == self.location:
            return
        self.location = location
        table = self.reader.load_table(IDENTIFIER)
        if self._heads_moved(table, writer):
            kind = "setup" if writer is None else writer.kind
            self.counts[kind] = self.counts.get(kind, 0) + 1
        for snapshot in table.metadata.snapshots:
            if snapshot.snapshot_id not in self.seen:
                self._first_seen(table, snapshot, writer)
            assert snapshot.manifest_list == self.seen[snapshot.snapshot_id].manifest_list
        retained = [self.seen[s.snapshot_id].files for s in table.metadata.snapshots]
        self.needed = frozenset().union(*retained) | {location or ""}
        missing = [path for path in self.needed if not self.store.exists(path)]
        assert missing == [], "files that readers of retained snapshots need are gone"

    def _heads_moved(self, table: Table, writer: Writer | None) -> bool:
        heads = branch_heads(table.metadata)
        moved = [name for name, head in heads.items() if self.heads.get(name) != head]
        for name in moved:
            assert writer is None or writer.branch == name, f"{writer.kind} on {writer.branch} moved {name}"
            model = self.models[name] if name in self.models else self._rows_it_began_with(table, heads[name])
            self.models[name] = model if writer is None or writer.effect is None else writer.effect(model)
            found = self.visible(table, table.metadata.branch_head(name))
            wanted = self.models[name]
            assert found == wanted, f"after {writer and writer.kind} on {name}: lost {wanted - found}, came back {found - wanted}"
        for name in self.models.keys() - heads.keys():
            del self.models[name]
        self.heads = heads
        return bool(moved)

    def _rows_it_began_with(self, table: Table, head: int | None) -> Model:
        """A branch that a commit made builds on what was known then."""
        line = table.metadata.ancestors(head)
        return next((self.seen[s.snapshot_id].rows for s in line if s.snapshot_id in self.seen), frozenset())

    def _first_seen(self, table: Table, snapshot: Snapshot, writer: Writer | None) -> None:
        """A new snapshot is the head of the writer's branch, or one that no branch leads to yet."""
        branch = next((name for name, head in self.heads.items() if head == snapshot.snapshot_id), None)
        if branch is not None:
            rows = self.models[branch]
        else:
            assert writer is not None
            assert writer.beside is not None, f"{writer.kind} left a snapshot beside its branch"
            rows = writer.beside(self.seen[snapshot.parent_snapshot_id or 0].rows)
            assert self.visible(table, snapshot) == rows
        self.seen[snapshot.snapshot_id] = Seen(rows, snapshot.manifest_list, frozenset(reachable_files(table, [snapshot])))

    def reread_all(self) -> None:
        """Every retained snapshot, from storage."""
        CACHE.clear()
        self.positions.clear()
        table = self.reader.load_table(IDENTIFIER)
        for branch, model in self.models.items():
            assert self.visible(table, table.metadata.branch_head(branch)) == model
        for snapshot in table.metadata.snapshots:
            assert self.visible(table, snapshot) == self.seen[snapshot.snapshot_id].rows

    def leaked(self) -> list[str]:
        """Files that belong to nothing after one maintenance run, long after all writers ended."""
        table = self.reader.load_table(IDENTIFIER)
        for info in self.store.list_prefix(f"{table.location}/metadata/iceberg-ops/leases"):
            lease = json.loads(self.store.read(info.location))
            self.store.write(info.location, json.dumps({**lease, "expires_at_ms": 0}).encode(), overwrite=True)
        expire(self.reader, table, ExpireSnapshots(older_than_ms=2**60, retain_last=1))
        resume_expiry(self.reader, table, now_ms=2**60)
        self.tick += 1
        self.remove_orphans(self.reader, cut=self.tick)
        self.look(None)
        table = self.reader.load_table(IDENTIFIER)
        known = {*reachable_files(table), f"{table.location}/metadata/version-hint.text"}
        return [i.location for i in self.store.list_prefix(table.location) if i.location not in known]

    def remove_orphans(self, catalog: Any, *, cut: int) -> None:
        job = JobSpec(job="remove_orphan_files", table="test.ns.t", catalog=CatalogConfig(name="test", type="memory"))
        run_job(job, catalog=catalog, now=lambda: cut * 1000 + THREE_DAYS_MS)

    # for writers

    def load(self) -> Table:
        return self.catalog.load_table(IDENTIFIER)  # type: ignore[no-any-return]

    def planned(self, table: Table, snapshot: Snapshot | None, *, leased: bool = False) -> list[ManifestEntry] | None:
        """What a writer plans on; None where that snapshot was expired while it read, which only a lease prevents."""
        try:
            return self.live(table, snapshot)
        except CorruptTableError:
            assert not leased, "a leased snapshot can not be read"
            known = self.reader.load_table(IDENTIFIER).metadata.snapshots_by_id
            assert (snapshot and snapshot.snapshot_id) not in known, "a retained snapshot can not be read"
            return None

    def commit(self, table: Table, operation: Any, files: Iterable[DataFile] = ()) -> Committed | None:
        return self.settle(lambda: commit(self.catalog, table, operation, sleep=no_sleep), files)  # type: ignore[no-any-return]

    def twice(self, table: Table, operation: Any, files: Iterable[DataFile] = ()) -> None:
        """Sometimes the same work is submitted once more under its run key: it must not be done again."""
        if self.commit(table, operation, files) is not None and self.random.random() < 0.2:
            self.commit(table, operation, ())

    def settle(self, work: Callable[[], Any], files: Iterable[DataFile]) -> Any:
        """Who is refused, or finds the snapshot it works on expired, deletes what it wrote; only an unknown outcome keeps it."""
        try:
            return work()
        except IcebergOpsError as e:
            self.refusals[type(e).__name__] = self.refusals.get(type(e).__name__, 0) + 1
            if isinstance(e, CommitStateUnknownError):
                return None
            if isinstance(e, CorruptTableError) and not self.expiries:
                raise
            self.catalog.io.delete_many([f.file_path for f in files])
            return None

    # the scheduler

    def begin(self, kind: str, work: Callable[[World, Writer], None]) -> Writer:
        writer = Writer(kind, lambda w: work(self, w), self.tick)
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


def branch_heads(metadata: TableMetadata) -> dict[str, int | None]:
    found: dict[str, int | None] = {name: ref.snapshot_id for name, ref in metadata.refs.items() if ref.is_branch}
    return {MAIN_BRANCH: metadata.current_snapshot_id, **found}


def no_sleep(_: float) -> None:
    return None
