"""A table and a plain model of the rows each branch should have.

What is in files is in ``contents``. A writer's ``effect`` is applied to its branch's model at the very step at which the table's
pointer moves, and from then on every reader has to see it. A snapshot that is leased while it is in the table keeps its files until
the lease is given back, as if it were retained. What writers do is not said here (``writers``, ``statements``, ``maintenance``).
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.operation import Committed
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.reader import scan_table
from iceberg_ops.deletion.leases import FOLDER as LEASES
from iceberg_ops.errors import CommitStateUnknownError, CorruptTableError, IcebergOpsError
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.manifests import ManifestEntry
from iceberg_ops.spec.snapshots import MAIN_BRANCH, Snapshot
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.manifests import CACHE, entries_of, manifests_of
from iceberg_ops.table.reachable import reachable_files
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, make_table
from tests.torture.clock import STEP_MS, Clock, laws, no_sleep
from tests.torture.contents import Contents, Row, write_data, write_keys
from tests.torture.stepping import SteppedCatalog, SteppedIO, Writer

Model = frozenset[Row]
REGIONS = ("eu", "us")
FOUR_DAYS_MS = 4 * 24 * 3_600_000
_STORES = iter(range(10**9))


@dataclass(frozen=True)
class Seen:
    """A snapshot when it was made: its rows, and every file its readers need."""

    rows: Model
    manifest_list: str | None
    files: frozenset[str]


@dataclass(frozen=True)
class Leased:
    """A snapshot that a job works on since ``taken_ms``, and its files."""

    snapshot_id: int
    files: frozenset[str]
    taken_ms: int


class World:
    def __init__(self, rng: random.Random, *, version: int, catalog: str, granularity: str = "partition") -> None:
        self.random = rng
        self.tick = 0
        self.clock = Clock()
        self.store = MemoryFileIO(f"torture-{next(_STORES)}", clock=self.clock.seconds)
        self.stepped = SteppedIO(self.store, self)
        self.contents = Contents(self.store)
        self.models: dict[str, Model] = {MAIN_BRANCH: frozenset()}
        self.heads: dict[str, int | None] = {MAIN_BRANCH: None}
        self.ids: dict[str, dict[Row, int | None]] = {}
        """Row ids by branch, which maintenance leaves as they are."""
        self.seen: dict[int, Seen] = {}
        self.needed: frozenset[str] = frozenset()
        self.leased: dict[str, Leased] = {}
        """By the lease's location."""
        self.location: str | None = None
        self.active: list[Writer] = []
        self.made = 0
        self.counts: dict[str, int] = {}
        """Commits by kind of writer."""
        self.refusals: dict[str, int] = {}
        self.sources = Path()
        """A folder of this machine for what row jobs read."""
        self.carried = 0
        self.expiries = 0
        self.catalog: Any
        self.reader: Any
        """The same tables, without steps."""
        if catalog == "filesystem":
            self.catalog = FileSystemCatalog("test", self.stepped, warehouse="memory://wh", sleep=no_sleep)
            self.reader = FileSystemCatalog("test", self.store, warehouse="memory://wh", sleep=no_sleep)
        else:
            self.catalog = SteppedCatalog("test", self.stepped, rng, sleep=no_sleep)
            self.reader = MemoryCatalog("test", self.store, sleep=no_sleep)
            self.reader._pointers, self.reader._namespaces = self.catalog._pointers, self.catalog._namespaces
        self.catalog.create_namespace(("ns",))
        properties = {
            "commit.manifest.min-count-to-merge": "3",
            "commit.status-check.min-wait-ms": "0",
            "write.delete.granularity": granularity,
        }
        make_table(self.catalog, version=version, partitioned=True, properties=properties)

    @contextmanager
    def laws(self) -> Iterator[None]:
        """To be entered for all that happens in this world."""
        with tempfile.TemporaryDirectory() as folder, laws(self.random, self.clock, lambda: self.stepped):
            self.sources = Path(folder)
            yield

    # files

    def name(self, what: str) -> str:
        self.made += 1
        return f"{what}{self.made}"

    def new_data(self, table: Table, rows: list[Row]) -> DataFile:
        return write_data(self.catalog.io, table, rows, self.name("rows"))

    def new_keys(self, table: Table, ids: Iterable[int], region: str) -> DataFile:
        return write_keys(self.catalog.io, table, ids, region, self.name("keys"))

    def changing(self, location: str) -> None:
        """A file goes, or is overwritten."""
        if f"/{LEASES}/" in location:
            self.leased.pop(location, None)
            return
        assert location not in self.needed, f"{location} is deleted or overwritten while a reader of a retained snapshot needs it"
        holder = next((lease for lease, leased in self.leased.items() if location in leased.files), None)
        assert holder is None, f"{location} is deleted or overwritten while {holder} protects it"

    def written(self, location: str, data: bytes) -> None:
        if f"/{LEASES}/" in location:
            snapshot_id = json.loads(data)["snapshot_id"]
            if snapshot_id in self.reader.load_table(IDENTIFIER).metadata.snapshots_by_id:
                self.leased[location] = Leased(snapshot_id, self.seen[snapshot_id].files, self.clock.ms)

    # what a reader sees

    def live(self, table: Table, snapshot: Snapshot | None) -> list[ManifestEntry]:
        return [e for m in manifests_of(table, snapshot) for e in entries_of(table, m, live_only=True)]

    def visible(self, table: Table, snapshot: Snapshot | None) -> Model:
        return frozenset(self.row_ids(table, snapshot))

    def row_ids(self, table: Table, snapshot: Snapshot | None) -> dict[Row, int | None]:
        """The rows that a reader sees, each with its id where it has one (v3)."""
        live = self.live(table, snapshot)
        found: list[tuple[Row, int | None]] = []
        for entry in live:
            assert self.store.exists(entry.data_file.file_path), f"{entry.data_file.file_path} is live and gone"
            if entry.data_file.content is FileContent.DATA:
                rows = self.contents.live_rows(entry, live)
                found += [(row, self.contents.row_id(entry, position)) for position, row in rows.items()]
        rows_and_ids = dict(found)
        assert len(found) == len(rows_and_ids), "a row is there twice"
        ids = [i for _, i in found if i is not None]
        assert len(ids) == len(set(ids)), "two rows have one row id"
        return rows_and_ids

    # the checks

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
        lost = {lease for lease, leased in self.leased.items() if leased.snapshot_id not in table.metadata.snapshots_by_id}
        unseen = [lease for lease in lost if writer is not None and self.leased[lease].taken_ms < writer.started]
        assert not unseen, f"{writer and writer.kind} expired snapshots that were leased before it began: {unseen}"
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
            found = self.row_ids(table, table.metadata.branch_head(name))
            wanted, rows = self.models[name], found.keys()
            assert rows == wanted, f"after {writer and writer.kind} on {name}: lost {wanted - rows}, came back {rows - wanted}"
            if writer is not None and (writer.keeps_ids or writer.effect is None) and name in self.ids:
                changed = [r for r, i in self.ids[name].items() if i is not None and found.get(writer.becomes(r), i) != i]
                assert not changed, f"{writer.kind} on {name} gave other row ids to {changed}"
            self.ids[name] = found
        for name in self.models.keys() - heads.keys():
            del self.models[name]
            self.ids.pop(name, None)
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
        """Every retained snapshot, from storage; and each branch as the package itself reads it."""
        CACHE.clear()
        self.contents.forget()
        table = self.reader.load_table(IDENTIFIER)
        for branch, model in self.models.items():
            assert self.visible(table, table.metadata.branch_head(branch)) == model
            if table.metadata.branch_head(branch) is not None:
                scan = Scan(ref=None if branch == MAIN_BRANCH else branch)
                found = scan_table(table, scan, columns=["region", "id", "data"]).to_pydict()
                rows = zip(found["region"], found["id"], map(int, found["data"]), strict=True)
                assert sorted(rows) == sorted(model), f"{branch} as it is scanned"
        for snapshot in table.metadata.snapshots:
            assert self.visible(table, snapshot) == self.seen[snapshot.snapshot_id].rows

    def leaked(self) -> list[str]:
        """Files that belong to nothing after one maintenance run, long after all writers ended."""
        self.clock.ms += FOUR_DAYS_MS
        self.leased.clear()
        for job, options in (("expire_snapshots", {"older-than": "1h", "retain-last": "1"}), ("remove_orphan_files", {})):
            self.run(job, self.reader, options)
            self.look(None)
        table = self.reader.load_table(IDENTIFIER)
        known = {*reachable_files(table), f"{table.location}/metadata/version-hint.text"}
        return [i.location for i in self.store.list_prefix(table.location) if i.location not in known]

    # for writers

    def load(self) -> Table:
        return self.catalog.load_table(IDENTIFIER)  # type: ignore[no-any-return]

    def run(self, name: str, catalog: Any, options: Mapping[str, str], **more: Any) -> ActionReport:
        """A job, as every host runs it."""
        config = CatalogConfig(name="test", type="memory")
        return run_job(
            JobSpec(job=name, table="test.ns.t", catalog=config, options=dict(options), **more), catalog=catalog, now=self.clock
        )

    def planned(self, table: Table, snapshot: Snapshot | None) -> list[ManifestEntry] | None:
        """What a writer plans on; None where that snapshot was expired while it read."""
        try:
            return self.live(table, snapshot)
        except CorruptTableError:
            known = self.reader.load_table(IDENTIFIER).metadata.snapshots_by_id
            assert (snapshot and snapshot.snapshot_id) not in known, "a retained snapshot can not be read"
            return None

    def commit(self, table: Table, operation: Any, files: Iterable[DataFile] = ()) -> Committed | None:
        return self.settle(lambda: commit(self.catalog, table, operation), files)  # type: ignore[no-any-return]

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
        writer = Writer(kind, lambda w: work(self, w), self.clock.ms)
        self.active.append(writer)
        return writer

    def step(self, writer: Writer) -> None:
        """One I/O step of one writer, and the look of every reader after it."""
        self._time_goes_on()
        done = writer.step()
        if done == "write":
            self.look(writer)
        self._end(writer)

    def kill(self, writer: Writer) -> None:
        self._time_goes_on()
        writer.kill()
        self._end(writer)

    def _time_goes_on(self) -> None:
        self.tick += 1
        self.clock.ms += STEP_MS

    def _end(self, writer: Writer) -> None:
        if writer.ended:
            self.active.remove(writer)
            if writer.error is not None:
                raise AssertionError(f"{writer.kind} failed: {writer.error!r}") from writer.error


def branch_heads(metadata: TableMetadata) -> dict[str, int | None]:
    found: dict[str, int | None] = {name: ref.snapshot_id for name, ref in metadata.refs.items() if ref.is_branch}
    return {MAIN_BRANCH: metadata.current_snapshot_id, **found}
