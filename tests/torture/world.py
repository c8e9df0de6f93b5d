"""Tables, a catalog and a store, writers that take turns on them, and the checks of every reader after each step.

``drawing`` draws the parts of a world; each table (``watched``) defines the expected rows of its branches, and ``acts`` whether
reports are true. The writers are in ``writers``, ``statements``, ``maintenance``, ``evolution``, ``foreign``, ``replacement`` and
``naming``."""

from __future__ import annotations

import gzip
import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.config.report import ActionReport
from iceberg_ops.deletion.leases import FOLDER as LEASES
from iceberg_ops.errors import (
    CommitStateUnknownError,
    CorruptTableError,
    IcebergOpsError,
    IncompleteError,
    InternalError,
    NoSuchTableError,
)
from iceberg_ops.io.load import IO_IMPL
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.table.table import Table
from tests.torture.acts import Act, Acts
from tests.torture.clock import STEP_MS, Clock, forget_files, laws
from tests.torture.drawing import Shape
from tests.torture.faults import KILLED, comes_from
from tests.torture.making import make_world_table
from tests.torture.reading import Files
from tests.torture.rows import Row
from tests.torture.stepping import CARRIED_OVER, Died, SteppedCatalog, SteppedFolders, SteppedIO, Writer, running
from tests.torture.storage import PERCENT, STORES, Storage
from tests.torture.watched import Watched

MOST_ATTEMPTS = 3
_RESTORED = (
    "acts",
    "leased",
    "pointers",
    "versions",
    "active",
    "violations",
    "story",
    "again",
    "late",
    "imported",
    "foreign",
    "miscounted",
    "made",
    "tick",
    "expiries",
)
_VERSION = re.compile(r"(.*)/metadata/v(\d+)(?:\.gz)?\.metadata\.json")


@dataclass(frozen=True)
class Leased:
    """A snapshot on which a job holds a lease since ``taken_ms``, and its files (by identity)."""

    uuid: str
    snapshot_id: int
    files: frozenset[str]
    taken_ms: int
    expires_ms: int


class World:
    def __init__(self, rng: random.Random, shape: Shape) -> None:
        self.random, self.shape = rng, shape
        self.names = random.Random(rng.random())
        """Generated names come from here, so that their number does not change the schedule."""
        self.tick = 0
        self.clock = Clock()
        self.storage: Storage = STORES[shape.store](self.clock)  # type: ignore[call-arg]
        self.stepped = SteppedIO(self.storage.io, self)
        self.files = Files(self.storage.io.read, self.storage.identity)
        self.tables: dict[str, Watched] = {}
        """By uuid."""
        self.looking: Watched
        """The table that is being checked; effects of writers read it."""
        self.acts = Acts()
        self.leased: dict[str, Leased] = {}
        """By the lease's identity."""
        self.pointers: dict[str, str] = {}
        """Location of the metadata of each table name at the last check."""
        self.versions: dict[str, tuple[int, str]] = {}
        """The newest version's number and file, by the identity of a table's folder (file-system catalog)."""
        self.active: list[Writer] = []
        self.violations: list[AssertionError] = []
        """Violations found while product code was running: it may catch the exception."""
        self.made = 0
        self.counts: dict[str, Counter[str]] = {}
        """Counts of what was seen, by topic."""
        self.story: list[str] = []
        """The changes of writers, in order."""
        self.again: list[tuple[Writer, Callable[[World, Writer], None]]] = []
        """Work to start a second time while its first run (the writer) is still running."""
        self.late: list[tuple[Any, Callable[[World, Writer], None]]] = []
        """Finished work to submit once more, later."""
        self.expiries = 0
        self.persistent = False
        """Callers retry whenever they may, and submit finished work once more."""
        self.sources = Path()
        """A local folder for the sources of row jobs."""
        self.imported: list[tuple[str, dict[str, Row]]] = []
        """Folders that were imported, with the row of each of their files."""
        self.foreign: dict[str, Table] = {}
        """The tables as the other engine's job loaded them at its start, by uuid."""
        self.miscounted: set[str] = set()
        """Manifests of which another engine's list counts removed files that they do not enter."""
        self.catalogs = self._open_catalogs()
        for name in shape.names:
            self.count("worlds", name)

    def _open_catalogs(self) -> list[Any]:
        """The catalog, and the same catalog with other writers' configurations."""
        warehouse = self.storage.warehouse
        if self.shape.catalog == "pointer":
            spelled = warehouse if self.shape.spelled in ("link", PERCENT) else self.storage.spell(warehouse, self.shape.spelled)
            catalog = SteppedCatalog("test", self.stepped, self.random, warehouse=spelled, sleep=no_sleep)
            catalog.unanswered = self.shape.unanswered
            return [catalog]
        spellings = [warehouse, *(self.storage.spell(warehouse, alias) for alias in self.shape.aliases)]
        return [SteppedFolders("test", self.stepped, warehouse=spelled, sleep=no_sleep) for spelled in spellings]

    @contextmanager
    def laws(self) -> Iterator[None]:
        """The context in which this world runs; entered once. Its tables are created then."""
        within = laws(
            self.names,
            self.clock,
            lambda: self.stepped,
            impl=self.stepped.properties[IO_IMPL],
            ledger=self.shape.ledger,
            rolled=self.shape.rolled,
            uuids_differ=self.shape.uuids_differ,
        )
        with tempfile.TemporaryDirectory() as folder, within:
            self.sources = Path(folder)
            self.catalogs[0].create_namespace(("ns",))
            for number in range(self.shape.tables):
                make_world_table(self, "tu"[number])
            self.look(None)
            try:
                yield
            finally:
                self.end()
                self.storage.close()

    def end(self) -> None:
        """End all writers: an unfinished one would continue when it is garbage-collected."""
        while self.active:
            self.active.pop().kill()

    def saved(self) -> Callable[[], None]:
        """Returns a function that restores the present state (worlds in memory, without running writers)."""
        assert self.shape.store != "disk"
        assert not self.active
        files = dict(self.storage.io._store.files)
        pointers = dict(getattr(self.catalogs[0], "_pointers", {}))
        plain = {n: copy(getattr(self, n)) for n in _RESTORED}
        tables, read, moment, dice = (
            {u: t.copy() for u, t in self.tables.items()},
            self.files.copy(),
            self.clock.ms,
            self.random.getstate(),
        )

        def restore() -> None:
            self.storage.io._store.files = dict(files)
            if hasattr(self.catalogs[0], "_pointers"):
                self.catalogs[0]._pointers = dict(pointers)
            for name, value in plain.items():
                setattr(self, name, copy(value))
            self.tables = {u: t.copy() for u, t in tables.items()}
            self.files = read.copy()
            self.clock.ms = moment
            self.random.setstate(dice)
            forget_files()

        return restore

    def count(self, topic: str, what: str) -> None:
        self.counts.setdefault(topic, Counter())[what] += 1

    def met(self, fault: str, boundary: str) -> None:
        """A fault occurred in a writer at a boundary."""
        self.count("faults", fault)
        self.count("boundaries", boundary)

    def seen(self, *sights: str) -> None:
        """Each is counted once in a world."""
        known = self.counts.setdefault("sights", Counter())
        known.update(what for what in set(sights) if what not in known)

    def name(self, what: str) -> str:
        self.made += 1
        return f"{what}{self.made}"

    def tell(self, what: str) -> None:
        writer = running()
        self.story.append(f"{self.tick:5} {writer.label if writer else '-':30} {what}")

    # called by storage

    def changing(self, location: str) -> None:
        """A file is about to be deleted or overwritten."""
        place = self.storage.identity(location)
        self.tell(f"delete {location}")
        if f"/{LEASES}/" in location:
            self.leased.pop(place, None)
            if (writer := running()) is not None:
                writer.leases.pop(place, None)
            return
        for table in self.tables.values():
            if place in table.needed:
                self.violate(f"{location} is deleted or overwritten while a reader of a retained snapshot needs it")
        for lease, leased in self.leased.items():
            if place in leased.files and self.clock.ms < leased.expires_ms:
                self.violate(f"{location} is deleted or overwritten while {lease} protects it")

    def violate(self, what: str) -> None:
        """Records the violation and raises it, because product code may catch the exception."""
        writer = running()
        self.violations.append(AssertionError(f"{writer.kind if writer else 'the end'}: {what}"))
        raise self.violations[-1]

    def written(self, location: str, data: bytes) -> None:
        self.storage.written(location)
        self.tell(f"write {location}")
        place = self.storage.identity(location)
        if f"/{LEASES}/" in location:
            self._lease(place, json.loads(data))
        elif (found := _VERSION.fullmatch(place)) and int(found[2]) > self.versions.get(found[1], (0, ""))[0]:
            self.versions[found[1]] = int(found[2]), location

    def _lease(self, place: str, lease: Mapping[str, Any]) -> None:
        if (writer := running()) is not None:
            writer.leases[place] = lease["expires_at_ms"]
        snapshot_id = lease["snapshot_id"]
        for table in self.tables.values():
            if snapshot_id in table.snapshots:
                files = table.seen[snapshot_id].files
                self.leased[place] = Leased(table.uuid, snapshot_id, files, self.clock.ms, lease["expires_at_ms"])

    # the checks of every reader

    def where(self) -> dict[str, str]:
        """Location of the current metadata by table name."""
        if self.shape.catalog == "pointer":
            return {name[-1]: location for name, location in self.catalogs[0]._pointers.items()}
        return {folder.rpartition("/")[2]: location for folder, (_, location) in self.versions.items()}

    def look(self, writer: Writer | None) -> None:
        """After a step of ``writer``: for each changed table, update the models and check that it shows their rows."""
        pointers = self.where()
        if pointers == self.pointers:
            return
        changed = [location for name, location in pointers.items() if self.pointers.get(name) != location]
        self.pointers = pointers
        for location in changed:
            metadata = json.loads(plain(self.storage.io.read(location)))
            uuid = self.key(metadata.get("table-uuid", ""))
            table = self.tables.setdefault(uuid, Watched(self, uuid))
            if table.location != location:
                planned = self.key_of(writer.loads[0]) if writer is not None and writer.loads else table.uuid
                assert planned == table.uuid, f"{writer and writer.kind} was planned on one table and changed another"
                self.story.append(f"{self.tick:5} {writer.label if writer else '-':30} COMMIT {location}")
                before = frozenset(table.snapshots)
                table.moved(location, metadata, writer)
                self._check_leases(table, before - table.snapshots.keys(), writer)

    def _check_leases(self, table: Watched, expired: Collection[int], writer: Writer | None) -> None:
        lost = [
            lease
            for lease, leased in self.leased.items()
            if leased.uuid == table.uuid and leased.snapshot_id in expired and self.clock.ms < leased.expires_ms
        ]
        if writer is not None and writer.kind == "foreign expiry":  # It knows no leases, and deletes no file.
            for lease in lost:
                del self.leased[lease]
            return
        unseen = [lease for lease in lost if writer is not None and self.leased[lease].taken_ms < writer.started]
        assert not unseen, f"{writer and writer.kind} expired snapshots that were leased before it began: {unseen}"

    # for writers

    def load(self, w: Writer) -> Table:
        return w.catalog.load_table(("ns", w.name))  # type: ignore[no-any-return]

    def table(self, w: Writer) -> Watched | None:
        """The table that has the writer's name now."""
        location = self.pointers.get(w.name)
        return next((t for t in self.tables.values() if t.location == location), None)

    def of(self, table: Table) -> Watched:
        return self.tables[self.key_of(table)]

    def key_of(self, table: Table) -> str:
        return self.key(table.metadata.table_uuid)

    def key(self, uuid: str) -> str:
        """The key that distinguishes the tables of this world. If a table gets its uuid late, it is the only table."""
        return "the only one" if self.has_late_uuid else uuid.lower()

    @property
    def has_late_uuid(self) -> bool:
        return self.shape.uuids_differ and self.shape.version == 1 and self.shape.tables == 1

    def run(self, w: Writer, name: str, options: Mapping[str, str], **more: Any) -> ActionReport:
        """A job, as every host runs it."""
        config = CatalogConfig(name="test", type="memory")
        spec = JobSpec(job=name, table=f"test.ns.{w.name}", catalog=config, options=dict(options), **more)
        return run_job(spec, catalog=w.catalog, now=self.clock)

    def commit(self, w: Writer, table: Table, operation: Any, act: Act, files: Iterable[DataFile] = ()) -> Any:
        """Commit an operation; sometimes the same work is submitted once more under its run key."""
        written = list(files)
        done = self.attempt(w, act, lambda: commit(w.catalog, table, operation), written, planned=table)

        def again(_: World, who: Writer) -> None:
            if self._are_there(written):
                self.attempt(who, act, lambda: commit(who.catalog, table, operation), planned=table)

        if done is not None and act.key is not None and not act.staged:
            self.submit_late(w, again)
        if (
            done is not None
            and act.key is not None
            and self.once_more()
            and self._are_there(written)
            and not (act.staged and self._is_expiring())
        ):
            self.attempt(w, act, lambda: commit(w.catalog, table, operation), planned=table)
        return done

    def submit_late(self, w: Writer, work: Callable[[World, Writer], None]) -> None:
        """Some finished work is submitted once more after others have done theirs, by a caller that knows what ``w`` knew."""
        if random.Random(f"late {w.label} {self.tick}").random() < self.shape.submits_late:
            self.late.append((SimpleNamespace(**{name: getattr(w, name) for name in CARRIED_OVER}), work))

    def _are_there(self, files: Iterable[DataFile]) -> bool:
        """An expiry may have removed an unpublished snapshot and its files: a host that runs the job again writes new ones."""
        return all(self.storage.io.exists(self.storage.identity(f.file_path)) for f in files)

    def _is_expiring(self) -> bool:
        """Whether the files of an unpublished snapshot may be about to be deleted."""
        return any(other.kind.startswith("expire") for other in self.active)

    def once_more(self) -> bool:
        """Whether finished work is submitted again."""
        return self.persistent or self.random.random() < 0.2

    def attempt(
        self, w: Writer, act: Act, work: Callable[[], Any], files: Iterable[DataFile] = (), *, planned: Table | None = None
    ) -> Any:
        """The result of ``work``; None if it was refused, or its outcome is unknown. Work without an answer is retried under its
        key, as hosts do; a refused writer deletes the files that it wrote."""
        for attempt in range(1, MOST_ATTEMPTS + 1):
            w.act, w.loads, w.committing_since = act, [] if planned is None else [planned], None
            begun, raised = len(act.changes), len(w.raised)
            error: BaseException
            try:
                found = work()
            except (Died, AssertionError):
                raise
            except IcebergOpsError as e:
                error = e
            except BaseException as e:
                if not comes_from(e, w.raised):
                    raise AssertionError(f"{w.kind} failed: {e!r}") from e
                error = e
            else:
                self.acts.check_done(self, act, w.loads, found)
                return found
            finally:
                w.committing_since = None
            met = w.raised[raised:]
            if w.misled in met[:-1]:
                act.in_doubt = True  # Another exception came before the writer could look again.
            else:
                self._ended(act, error, act.changes[begun:], comes_from(error, met))
            again = act.key is not None and (self.persistent or self.random.random() < 0.5)
            if not (act.in_doubt or comes_from(error, w.raised[raised:])) or attempt == MOST_ATTEMPTS or not again:
                break
            if not self._are_there(files) or (act.staged and self._is_expiring()):
                break
        w.act = None
        if not act.in_doubt:
            self.stepped.delete_many([f.file_path for f in files])
        return None

    def _ended(self, act: Act, error: BaseException, changes: list[Any], was_met: bool) -> None:
        """What an error states about the outcome must be true."""
        self.count("errors", type(error).__name__)
        if not isinstance(error, IcebergOpsError) or isinstance(error, CommitStateUnknownError):
            act.in_doubt = True
            return
        if isinstance(error, IncompleteError):
            assert act.in_parts or changes, f"{act.family} is reported as done in part, and nothing was: {error!r}"
            act.in_doubt = True  # What is committed stays, and the job is to be run again.
            return
        assert act.in_parts or not changes, f"{act.family} is reported as refused, and was committed: {error!r}"
        if error.code == CorruptTableError.code and not self.expiries and not was_met:
            raise error
        if isinstance(error, InternalError) and not was_met and "injected" not in str(error):
            raise AssertionError(f"{act.family} failed: {error!r}") from error

    # the scheduler

    def begin(self, kind: str, work: Callable[[World, Writer], None]) -> Writer:
        writer = Writer(kind, partial(self._work, work), self.clock)
        writer.unknowing = self.shape.unknowing
        writer.catalog = self.random.choice(self.catalogs)
        self.active.append(writer)
        self.count("writers", kind)
        writer.label = f"{kind} #{self.counts['writers'].total()}"
        return writer

    def _work(self, work: Callable[[World, Writer], None], writer: Writer) -> None:
        try:
            work(self, writer)
        except NoSuchTableError as e:
            if self.shape.tables < 2:
                raise
            self.count("errors", type(e).__name__)

    def step(self, writer: Writer) -> None:
        """One I/O step of one writer, and the checks of every reader after it."""
        self._time_goes_on()
        done = writer.step()
        if done == "write":
            self.look(writer)
        if self.violations:
            raise self.violations[0]
        self._end(writer)

    def finish(self, writer: Writer) -> None:
        while not writer.ended:
            self.step(writer)

    def kill(self, writer: Writer) -> None:
        self._time_goes_on()
        self.count("faults", KILLED)
        writer.kill()
        self._end(writer)

    def _time_goes_on(self) -> None:
        self.tick += 1
        self.clock.ms += STEP_MS

    def _end(self, writer: Writer) -> None:
        if writer.ended:
            self.active.remove(writer)
            if writer.error is not None and not comes_from(writer.error, writer.raised):
                raise AssertionError(f"{writer.kind} failed: {writer.error!r}") from writer.error


def plain(data: bytes) -> bytes:
    """Without the compression that a metadata file may have."""
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def no_sleep(_: float) -> None:
    return None
