"""A small world in which one table has a twin: a second catalog that registers it and continues to commit, or a copy in another
folder, which exchanges its name with the table while writers run.

Writers of either take turns at every step of storage and at every look at or swap of a pointer; some die, some get no answer. Files
are names only, and jobs are run as every host runs them.

Held: no job deletes a file that its own line of the table needs, nor one that the copy needs; once a second catalog has made two
commits, and no more were made since than a metadata log holds, expiry, orphan removal and purge are refused in the other one; they
are not refused on its account where it has tried none. What is reported as done is in the line that it was reported for, and what
is reported as refused is in none."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.errors import CommitStateUnknownError, CorruptTableError, IcebergOpsError, UnsupportedError
from iceberg_ops.io.load import IO_IMPL
from iceberg_ops.table.metadata_files import read_metadata
from iceberg_ops.table.reachable import reachable_files
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, live_paths, make_table
from tests.torture.clock import STEP_MS, Clock, laws
from tests.torture.stepping import SteppedCatalog, SteppedFolders, SteppedIO, Writer, running
from tests.torture.storage import InMemory

COPY = ("ns", "c")
MOST_STEPS = 4_000
GOES_ON = "another catalog has the table too"
Key = tuple[int, str]
"""Number of a catalog, and location of the table: together they identify one line of the table."""


@dataclass
class Line:
    """One line of history of the table, as one catalog or one copy continues it. ``commits``: since it became separate.
    ``damaged``: a file that it needed was deleted when nothing showed that this line exists."""

    table: Table
    needed: frozenset[str]
    commits: int = 0
    damaged: bool = False
    added: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    """Files that a writer wanted to remove from it."""


class Worker(Writer):
    """A writer on the table ``place`` in catalog ``number``."""

    number: int
    place: tuple[str, ...]


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = Clock()
        self.storage = InMemory(self.clock)
        self.stepped = SteppedIO(self.storage.io, self)
        self.has_copy = self.random.random() < 0.35
        self.is_folders = not self.has_copy and self.random.random() < 0.3
        self.catalogs: list[Any] = [self._catalog(SteppedFolders, "test") if self.is_folders else self._pointers("test")]
        self.catalogs.append(self._pointers("other"))
        self.log_size = self.random.choice([1, 2, 4, 100])
        self.lines: dict[Key, Line] = {}
        self.tried: set[int] = set()
        """Numbers of the catalogs in which somebody tried to commit."""
        self.pointers: list[dict[tuple[str, ...], str]] = [{}, {}]
        self.active: list[Worker] = []
        self.refused: set[str] = set()
        self.violations: list[str] = []
        self.story: list[str] = []
        self.made = 0

    def _catalog(self, kind: Any, name: str, *more: Any) -> Any:
        return kind(name, self.stepped, *more, warehouse=self.storage.warehouse, sleep=lambda _: None, clock=self.clock)

    def _pointers(self, name: str) -> Any:
        found = self._catalog(SteppedCatalog, name, random.Random(self.random.random()))
        found.unanswered = 0.1
        return found

    def tell(self, what: str) -> None:
        writer = running()
        self.story.append(f"{self.clock.ms} {writer.label if writer else '-':20} {what}")

    # called by storage

    def changing(self, location: str) -> None:
        self.tell(f"delete {location}")
        for key, line in self.lines.items():
            if location in line.needed and isinstance(writer := running(), Worker):
                if key[0] == writer.number or self.has_copy:
                    self.violations.append(f"{writer.label} deletes {location}, which {key} needs")
                line.damaged, line.needed = True, frozenset()

    def written(self, location: str, data: bytes) -> None:
        self.tell(f"write {location}")

    # the checks of every reader

    def look(self) -> None:
        for number, catalog in enumerate(self.catalogs):
            now = self._where(catalog)
            for name, location in now.items():
                if self.pointers[number].get(name) != location:
                    self._moved(number, (catalog.name, *name), location)
            at = {location.rpartition("/metadata/")[0] for location in now.values()}
            for key in [key for key in self.lines if key[0] == number and key[1] not in at]:
                del self.lines[key]  # It is dropped.
            self.pointers[number] = now

    def _where(self, catalog: Any) -> dict[tuple[str, ...], str]:
        if isinstance(catalog, SteppedFolders):
            try:
                location = catalog._current_location(IDENTIFIER)
            except CorruptTableError:  # The second catalog, to which nothing shows that this one continues, deleted the version.
                assert self.tried >= {1}
                return self.pointers[0]
            return {} if location is None else {IDENTIFIER: location}
        return dict(catalog._pointers)

    def _moved(self, number: int, name: tuple[str, ...], location: str) -> None:
        table = Table(name, read_metadata(self.storage.io, location), location, self.storage.io)
        key = (number, table.location)
        known = self.lines.get(key)
        if known is None:
            try:
                self.lines[key] = Line(table, self._needed(table))
            except CorruptTableError:  # The first catalog has expired what was about to be registered.
                assert number == 1
                self.lines[key] = Line(table, frozenset(), damaged=True)
            for line in self.lines.values():
                line.commits = 0
        elif known.table.metadata_location != location:
            self.tell(f"COMMIT {key} {location}")
            self.tried.add(number)
            known.table, known.commits = table, known.commits + 1
            known.needed = frozenset() if known.damaged else self._needed(table)

    def _needed(self, table: Table) -> frozenset[str]:
        reached = reachable_files(table)
        return frozenset((*reached.data, *reached.manifests, *reached.manifest_lists, table.metadata_location))

    # writers

    def load(self, w: Worker) -> Table:
        return w.catalog.load_table(w.place)  # type: ignore[no-any-return]

    def begin(self, work: Callable[[Worker], None]) -> Worker:
        writer = Worker(work.__name__, work, self.clock)  # type: ignore[arg-type]
        writer.number = 1 if self.pointers[1] and self.random.random() < 0.4 else 0
        writer.catalog = self.catalogs[writer.number]
        writer.place = COPY if self.has_copy and self.random.random() < 0.4 else IDENTIFIER
        self.made += 1
        writer.label = f"{writer.kind} #{self.made} in {writer.number} on {writer.place[-1]}"
        self.active.append(writer)
        return writer

    def _commit(self, w: Worker, table: Table, operation: Any, *, adds: str = "", takes: str = "") -> None:
        self.tried.add(w.number)
        if (line := self.lines.get((w.number, table.location))) is not None:
            line.taken.add(takes)
        try:
            done = commit(w.catalog, table, operation)
        except CommitStateUnknownError:
            self.tell("unknown")
        except IcebergOpsError as e:
            self.tell(f"refused {e!r}")
            self.refused.add(adds)
        else:
            self.tell(f"done {done.table.metadata_location}")
            self.look()
            if (now := self.lines.get((w.number, done.table.location))) is not None:
                now.added.add(adds)

    def append(self, w: Worker) -> None:
        table = self.load(w)
        self.made += 1
        place = f"{table.location}/data/{self.made}"
        self.stepped.write(place, b"x")
        self._commit(w, table, AppendFiles(added=(data_file(place),), merge=self.random.random() < 0.5), adds=place)

    def take_out(self, w: Worker) -> None:
        table = self.load(w)
        if known := sorted(live_paths(table)):
            place = self.random.choice(known)
            self._commit(w, table, DeleteFiles(paths=(place,)), takes=place)

    def change(self, w: Worker) -> None:
        self.made += 1
        self._commit(w, self.load(w), UpdateProperties(updates={"p": str(self.made)}))

    def expire(self, w: Worker) -> None:
        self.tried.add(w.number)
        self._destroys(w, lambda: self._job(w, "expire_snapshots", {"older-than": "0s", "retain-last": "1"}))

    def orphans(self, w: Worker) -> None:
        cut = min([self.clock.ms, *(x.started for x in self.active if x is not w)])
        options = {"older-than": str(cut), "unsafe-allow-recent": "true"}
        self._destroys(w, lambda: self._job(w, "remove_orphan_files", options))

    def purge(self, w: Worker) -> None:
        self.tried.add(w.number)
        self._destroys(w, lambda: w.catalog.drop_table(w.place, purge=True))

    def _job(self, w: Worker, name: str, options: dict[str, str]) -> None:
        config = CatalogConfig(name=w.catalog.name, type="memory")
        spec = JobSpec(job=name, table=".".join((w.catalog.name, *w.place)), catalog=config, options=options)
        run_job(spec, catalog=w.catalog, now=self.clock)

    def _destroys(self, w: Worker, work: Callable[[], Any]) -> None:
        shown = self._shown(w)
        try:
            work()
        except IcebergOpsError as e:
            self.tell(f"ended by {e!r}")
            if isinstance(e, UnsupportedError) and GOES_ON in str(e) and self.tried <= {w.number}:
                self.violations.append(f"{w.label} is refused, and there is no second catalog: {e}")
            return
        self.tell("done")
        if both := shown & self._shown(w):
            self.violations.append(f"{w.label} was not refused, and {both} goes on")

    def _shown(self, w: Worker) -> set[Key]:
        """Lines of the other catalog that have continued, as their folder shows."""
        own = next((line.table for key, line in self.lines.items() if key[0] == w.number), None)
        if own is None or self.has_copy:
            return set()
        log = [entry.timestamp_ms for entry in own.metadata.metadata_log]
        since = min([*log, own.metadata.last_updated_ms])
        return {
            key
            for key, line in self.lines.items()
            if key[0] != w.number and line.commits > 1 and not line.damaged and line.table.metadata.last_updated_ms > since
        }

    def register(self, w: Worker) -> None:
        table = self.catalogs[0].load_table(IDENTIFIER)
        self.catalogs[1].register_table(IDENTIFIER, table.metadata_location)

    def leave(self, w: Worker) -> None:
        """The second catalog gives the table back."""
        self.catalogs[1].drop_table(IDENTIFIER)

    def exchange(self, w: Worker) -> None:
        swapped = ("ns", "swapped")
        for old, new in ((IDENTIFIER, swapped), (COPY, IDENTIFIER), (swapped, COPY)):
            w.catalog.rename_table(old, new)

    # the world

    def set_up(self) -> None:
        for catalog in self.catalogs:
            catalog.create_namespace(("ns",))
        make_table(
            self.catalogs[0],
            properties={
                "write.metadata.previous-versions-max": str(self.log_size),
                "write.metadata.delete-after-commit.enabled": self.random.choice(["true", "false"]),
                "commit.status-check.min-wait-ms": "0",
                "commit.status-check.num-retries": "2",
            },
        )
        self.look()
        for work in self.random.choices([self.append, self.take_out, self.change], k=self.random.randint(1, 5)):
            self.finish(self.begin(work))
        if self.has_copy:
            self._copy()

    def _copy(self) -> None:
        """As Spark's rewrite_table_path does it, of a version without snapshots."""
        table, io = self.catalogs[0].load_table(IDENTIFIER), self.storage.io
        copied = f"{table.location[: -len(IDENTIFIER[-1])]}{COPY[-1]}"
        nothing = {"snapshots": [], "current-snapshot-id": -1, "refs": {}, "snapshot-log": []}
        for info in list(io.list_prefix(f"{table.location}/metadata")):
            data = io.read(info.location)
            if info.location.endswith(".metadata.json"):
                data = json.dumps(json.loads(data.decode().replace(table.location, copied)) | nothing).encode()
            io.write(info.location.replace(table.location, copied), data)
        self.catalogs[0]._pointers[COPY] = table.metadata_location.replace(table.location, copied)
        self.look()

    def finish(self, writer: Worker) -> None:
        while not writer.ended:
            self.step(writer)

    def step(self, writer: Worker) -> None:
        self.clock.ms += STEP_MS
        writer.step()
        self.look()
        self._end(writer)

    def kill(self, writer: Worker) -> None:
        self.tell(f"{writer.label} dies")
        writer.kill()
        self._end(writer)

    def _end(self, writer: Worker) -> None:
        assert not self.violations, self.violations[0]
        if writer.ended:
            self.active.remove(writer)
            if writer.error is not None and not isinstance(writer.error, IcebergOpsError):
                raise AssertionError(f"{writer.label} failed: {writer.error!r}") from writer.error

    def run(self) -> None:
        kinds: dict[Callable[[Worker], None], float] = {
            self.append: 4, self.take_out: 2, self.change: 2, self.expire: 2, self.orphans: 1.5, self.purge: 0.1
        }  # fmt: skip
        kinds |= {self.exchange: 2} if self.has_copy else {self.register: 2, self.leave: 0.2}
        left = self.random.randint(10, 30)
        for _ in range(MOST_STEPS):
            if left and len(self.active) < 3 and (not self.active or self.random.random() < 0.1):
                self.begin(self.random.choices(list(kinds), list(kinds.values()))[0])
                left -= 1
            if not self.active:
                break
            writer = self.random.choice(self.active)
            for _ in range(self.random.choice([1, 2, 5, 40])):
                if not writer.ended:
                    self.step(writer)
            if not writer.ended and self.random.random() < 0.01:
                self.kill(writer)
        while self.active:
            self.kill(self.active[0])
        self.look()

    def check(self) -> None:
        here: set[str] = set()
        for line in self.lines.values():
            if line.damaged:
                continue
            live = live_paths(line.table)
            here |= live
            missing = [location for location in line.needed if not self.storage.io.exists(location)]
            assert not missing, f"files of {line.table.name} are gone: {missing}"
            lost = line.added - line.taken - live - {""}
            assert not lost, f"acknowledged files are not in {line.table.name}: {lost}"
        assert not (twice := self.refused & here), f"reported as refused, and there: {twice}"


def play(seed: int, *, tells: bool = False) -> World:
    """Raises AssertionError. ``tells``: print the steps of a failure."""
    world = World(seed)
    names = random.Random(seed)
    with laws(names, world.clock, lambda: world.stepped, impl=world.stepped.properties[IO_IMPL]):
        try:
            world.set_up()
            world.run()
            world.check()
        except BaseException:
            if tells:
                print(*world.story, sep="\n")
            raise
        finally:
            for writer in list(world.active):
                writer.kill()
            world.storage.close()
    return world
