"""A small world in which writers create, change and drop tables of one name, and switch at every storage step.

The catalog is the filesystem one, in which a table is its folder and a version is a file name: the next table meets the files that
the previous one left. Writers may die at any step. In some worlds another engine creates tables: it ignores marks of drops, and
begins at version 1. In some, versions spell their table's uuid in upper and in lower case, and in some the table's folder is
copied, and the copy dropped. Commits only set a property, so that a world takes milliseconds.

Checked after every step: a dropped table is not back, a table that was created and not dropped exists, and acknowledged commits are
in it. In the end the current version is lost, and that is noticed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any

import greenlet

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.versions import HINT, TableVersions, parse_version
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.errors import CorruptTableError, IcebergOpsError, NoSuchTableError
from iceberg_ops.io.file_io import DeleteFailure, FileInfo
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, make_table
from tests.torture.spelled_uuids import uuids_in_both_cases

_STORES = itertools.count()
COPY = ("ns", "copy")
PROPERTIES = {"commit.retry.num-retries": "3", "commit.status-check.num-retries": "1"}
MOST_STEPS = 3_000


class Died(BaseException):
    """A writer's process ended here."""


class Turns(MemoryFileIO):
    """Before every call another writer may have a turn."""

    def read(self, location: str) -> bytes:
        _turn()
        return super().read(location)

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        _turn()
        super().write(location, data, overwrite=overwrite)
        if isinstance(writer := greenlet.getcurrent(), Writer):
            writer.wrote = location

    def exists(self, location: str) -> bool:
        _turn()
        return super().exists(location)

    def delete(self, location: str) -> None:
        _turn()
        super().delete(location)

    def delete_many(self, locations: Any) -> list[DeleteFailure]:
        for location in locations:
            self.delete(location)
        return []

    def list_prefix(self, prefix: str) -> Iterator[FileInfo]:
        _turn()
        yield from list(super().list_prefix(prefix))


class KnowsNoMarks(FileSystemCatalog):
    """Another engine. It creates a table if there is neither a version nor a hint."""

    def _versions(self, identifier: tuple[str, ...]) -> TableVersions:
        found = super()._versions(identifier)
        return TableVersions(found.io, found.folder, f"{found.folder}/no-marks")

    def table_exists(self, identifier: tuple[str, ...]) -> bool:
        return super().table_exists(identifier) or self._versions(identifier).hint() is not None


def _turn() -> None:
    writer = greenlet.getcurrent()
    if isinstance(writer, Writer):
        if writer.killed:
            raise Died
        assert writer.parent is not None
        writer.parent.switch()
        if writer.killed:
            raise Died


class Writer(greenlet.greenlet):
    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(self._run)
        self.work, self.killed, self.wrote = work, False, ""

    def _run(self) -> None:
        with suppress(IcebergOpsError, FileNotFoundError, Died):  # Refused, or too late: the table shows whether that is true.
            self.work()

    def kill(self) -> None:
        self.killed = True
        while self and not self.dead:
            self.parent = greenlet.getcurrent()
            self.switch()


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        store = f"names made again {next(_STORES)}"
        self.storage = MemoryFileIO(store)
        self.foreign = self.random.random() < 0.5
        self.copied = random.Random(f"copied {seed}").random() < 0.25
        self.plain, self.ours, self.others = (
            kind("fs", io, warehouse="memory://wh", sleep=lambda _: None)
            for kind, io in (
                (FileSystemCatalog, self.storage),
                (FileSystemCatalog, Turns(store)),
                (KnowsNoMarks, Turns(store)),
            )
        )
        self.plain.create_namespace(("ns",))
        self.names = itertools.count()
        self.acknowledged: dict[str, set[str]] = {}
        """By the uuid of a table that was made."""
        self.gone: set[str] = set()
        """Tables that were marked as dropped, and whose drop has ended."""

        self.leftover = ""
        if self.foreign and self.random.random() < 0.4:
            self._leave_a_version()

    def _leave_a_version(self) -> None:
        """A table was dropped, another engine made one of its name, and a late writer of the first has just created the next
        version of the second."""
        table = make_table(self.plain, properties=PROPERTIES)
        for n in range(3):
            table = commit(self.plain, table, UpdateProperties(updates={"n": str(n)})).table
        late = self.storage.read(table.metadata_location)
        self.plain.drop_table(IDENTIFIER, purge=True)
        self.gone.add(uuid_of(table))
        table = make_table(KnowsNoMarks("fs", self.storage, warehouse="memory://wh"), properties=PROPERTIES)
        for n in range(3):
            table = commit(self.plain, table, UpdateProperties(updates={"n": str(n)})).table
        self.acknowledged[uuid_of(table)] = set()
        self.leftover = f"{self._folder}/v5.metadata.json"
        self.storage.write(self.leftover, late)

    # writers

    def takes_away(self) -> None:
        """The late writer finds that its table was dropped."""
        self.ours.io.read(self.leftover)
        self.ours.io.delete(self.leftover)

    def creates(self) -> None:
        self._creates(self.ours)

    def creates_abroad(self) -> None:
        self._creates(self.others)

    def _creates(self, catalog: FileSystemCatalog) -> None:
        table = make_table(catalog, properties=PROPERTIES)
        self.acknowledged.setdefault(uuid_of(table), set())

    def commits(self) -> None:
        table = self.ours.load_table(IDENTIFIER)
        for _ in range(self.random.randint(1, 3)):
            key = f"p{next(self.names)}"
            table = commit(self.ours, table, UpdateProperties(updates={key: "1"}), sleep=lambda _: None, clock=lambda: 0.0).table
            self.acknowledged.setdefault(uuid_of(table), set()).add(key)

    def drops(self) -> None:
        before = self._dropped()
        self.ours.drop_table(IDENTIFIER, purge=True)
        self.gone |= self._dropped() - before

    def copies(self) -> None:
        """Somebody copies the table's folder, file by file."""
        for info in list(self.storage.list_prefix(f"{self.plain._root}/ns/t")):
            place = info.location.replace("/ns/t/", "/ns/copy/")
            self.ours.io.write(place, self.ours.io.read(info.location), overwrite=True)

    def drops_the_copy(self) -> None:
        self.ours.drop_table(COPY, purge=True)

    # the checks of every reader

    def look(self) -> None:
        found = self._found()
        if found is None:
            lost = self.acknowledged.keys() - self._dropped()
            assert not lost, "a table that was made is not there"
            return
        uuid, keys = found
        assert uuid not in self.gone, "a dropped table is back"
        assert self.acknowledged.get(uuid, set()) <= keys, "an acknowledged commit is lost"

    def _dropped(self) -> set[str]:
        return {uuid.lower() for uuid in self.plain.dropped_tables(IDENTIFIER)}

    def _found(self) -> tuple[str, set[str]] | None:
        """Uuid and properties of the table."""
        try:
            table = self.plain.load_table(IDENTIFIER)
        except NoSuchTableError:
            return None
        except CorruptTableError as e:
            return self._without_hint(e)
        return uuid_of(table), set(table.properties)

    def _without_hint(self, error: CorruptTableError) -> tuple[str, set[str]] | None:
        """The same if a late writer's hint hides the table, because its versions are below those of a dropped one: for ever if
        another engine created it there, else until its creation moves it above."""
        made = {uuid for uuid in self.plain._versions(IDENTIFIER).owners().values() if uuid in self.acknowledged} - self.gone
        assert HINT in str(error)
        assert self.foreign or not made, f"the table looks damaged: {error}"
        if not made:
            return None
        self.storage.delete(f"{self._folder}/{HINT}")
        return self._found()

    @property
    def _folder(self) -> str:
        return f"{self.plain._root}/ns/t/metadata"

    def loses_the_current_version(self) -> None:
        if (found := self._found()) is None:
            return
        table = self.plain.load_table(IDENTIFIER)
        self.storage.write(f"{self._folder}/{HINT}", str(parse_version(table.metadata_location)).encode(), overwrite=True)
        self.storage.delete(table.metadata_location)
        try:
            now = self.plain.load_table(IDENTIFIER)
        except (CorruptTableError, NoSuchTableError):
            return
        raise AssertionError(f"the current version of {found[0]} is lost, and {now.metadata_location} is served")


def uuid_of(table: Table) -> str:
    return table.metadata.table_uuid.lower()


def play(seed: int) -> None:
    """Raises AssertionError."""
    is_spelled = random.Random(f"spelled {seed}").random() < 0.3
    with uuids_in_both_cases() if is_spelled else nullcontext():
        _play(World(seed))


def _play(world: World) -> None:
    dice = world.random
    kinds = {world.creates: 3, world.commits: 5, world.drops: 2, world.creates_abroad: 2 if world.foreign else 0}
    if world.copied:
        kinds |= {world.copies: 2, world.drops_the_copy: 2}
    waiting = dice.choices(list(kinds), list(kinds.values()), k=14)
    active = [Writer(work) for work in ((world.takes_away, world.commits, world.commits) if world.leftover else ())]
    for _ in range(MOST_STEPS):
        if waiting and len(active) < 4 and dice.random() < 0.2:
            active.append(Writer(waiting.pop()))
        if not (active or waiting):
            break
        if not active:
            continue
        writer = dice.choice(active)
        for _ in range(dice.choice([1, 2, 5, 40])):
            if not writer.dead:
                writer.parent = greenlet.getcurrent()
                writer.switch()
                world.look()
            if parse_version(writer.wrote) is not None:
                break
        leaves_a_version, writer.wrote = parse_version(writer.wrote) is not None, ""
        if dice.random() < (0.2 if leaves_a_version else 0.01):
            writer.kill()
            world.look()
        active = [writer for writer in active if not writer.dead]
    for writer in active:
        writer.kill()
    world.look()
    world.loses_the_current_version()
