"""A filesystem catalog in which another process does all its work between any two storage steps of one call, and in which the call
dies there: drops, creations and commits in every order leave one table or none, and no acknowledged commit is lost."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.errors import IcebergOpsError, NoSuchTableError
from iceberg_ops.io.file_io import FileInfo
from iceberg_ops.io.memory import MemoryFileIO
from tests.builders import IDENTIFIER, data_file, live_paths, make_table


class Died(BaseException):
    """The process ends here."""


class EveryStep(MemoryFileIO):
    """Before its ``at``-th call (from 0) another process works; after it the process dies, if ``dies``."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.calls, self.at, self.dies = 0, -1, False
        self.meanwhile: Callable[[], object] = lambda: None

    def arm(self, at: int, meanwhile: Callable[[], object], *, dies: bool) -> None:
        self.calls, self.at, self.meanwhile, self.dies = 0, at, meanwhile, dies

    def _step(self, call: Callable[[], Any]) -> Any:
        self.calls += 1
        if self.calls - 1 != self.at:
            return call()
        self.meanwhile()
        found = call()
        if self.dies:
            raise Died
        return found

    def read(self, location: str) -> bytes:
        return self._step(lambda: super(EveryStep, self).read(location))  # type: ignore[no-any-return]

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        self._step(lambda: super(EveryStep, self).write(location, data, overwrite=overwrite))

    def exists(self, location: str) -> bool:
        return self._step(lambda: super(EveryStep, self).exists(location))  # type: ignore[no-any-return]

    def delete(self, location: str) -> None:
        self._step(lambda: super(EveryStep, self).delete(location))

    def list_prefix(self, prefix: str) -> Iterator[FileInfo]:
        yield from self._step(lambda: list(super(EveryStep, self).list_prefix(prefix)))


_WORLDS = itertools.count()


class World:
    """The table has rows ``a`` and ``b``; ``mine`` steps, ``others`` works at once."""

    def __init__(self) -> None:
        name = f"every step {next(_WORLDS)}"
        self.io, self.storage = EveryStep(name), MemoryFileIO(name)
        self.mine, self.others = (
            FileSystemCatalog("fs", io, warehouse="memory://wh", sleep=lambda _: None) for io in (self.io, self.storage)
        )
        self.others.create_namespace(("ns",))
        self.first = self.append(self.others, make_table(self.others), "a", "b")
        self.acknowledged = {self.first.metadata.table_uuid: {"a", "b"}}
        self.dropped: set[str] = set()

    def append(self, catalog: Any, table: Any, *paths: str) -> Any:
        for path in paths:
            table = commit(catalog, table, AppendFiles(added=(data_file(path),)), sleep=lambda _: None).table
        return table

    def commits(self, catalog: Any, path: str) -> None:
        done = self.append(catalog, self.first, path)
        self.acknowledged.setdefault(done.metadata.table_uuid, set()).add(path)

    def drops(self, catalog: Any) -> None:
        uuid = catalog.load_table(IDENTIFIER).metadata.table_uuid
        catalog.drop_table(IDENTIFIER, purge=True)
        self.dropped.add(uuid)

    def creates(self, catalog: Any, path: str) -> None:
        table = make_table(catalog)
        self.acknowledged[table.metadata.table_uuid] = set()
        self.append(catalog, table, path)
        self.acknowledged[table.metadata.table_uuid] = {path}

    def forgets(self) -> None:
        """Another engine drops the table: it deletes the folder, and leaves no mark."""
        for info in self.storage.list_prefix(self.first.location):
            self.storage.delete(info.location)

    def check(self, *, forgotten: bool, died_dropping: bool) -> None:
        try:
            now = self.others.load_table(IDENTIFIER)
        except NoSuchTableError:
            assert self.dropped or forgotten or died_dropping
            now = None
        if now is not None:
            uuid = now.metadata.table_uuid
            assert uuid not in self.dropped, "a dropped table is back"
            assert not (forgotten and uuid == self.first.metadata.table_uuid), "a dropped table is back"
            assert self.acknowledged.get(uuid, set()) <= live_paths(now)
            self.append(self.others, now, "afterwards")
            self.others.drop_table(IDENTIFIER, purge=True)
        assert not self.others.table_exists(IDENTIFIER)
        self.append(self.others, make_table(self.others), "last")
        assert live_paths(self.others.load_table(IDENTIFIER)) == {"last"}


MINE: dict[str, Callable[[World], object]] = {
    "commits": lambda w: w.commits(w.mine, "mine"),
    "drops and creates": lambda w: (w.drops(w.mine), w.creates(w.mine, "mine")),
}
OTHERS: dict[str, Callable[[World], object]] = {
    "commit": lambda w: w.commits(w.others, "other"),
    "commit often": lambda w: [w.commits(w.others, f"other {n}") for n in range(3)],
    "drop": lambda w: w.drops(w.others),
    "drop and create": lambda w: (w.drops(w.others), w.creates(w.others, "new")),
    "drop and create and commit often": lambda w: (w.drops(w.others), w.creates(w.others, "new"), _more(w)),
    "forget": lambda w: w.forgets(),
    "forget and create": lambda w: (w.forgets(), w.creates(w.others, "new")),
}


def _more(world: World) -> None:
    table = world.others.load_table(IDENTIFIER)
    world.append(world.others, table, *(f"new {n}" for n in range(4)))


def _played(mine: str, others: str, *, dies: bool) -> Iterator[tuple[int, World]]:
    """One world for each step of ``mine``."""
    for at in itertools.count():
        world = World()

        def meanwhile(world: World = world) -> None:
            with suppress(IcebergOpsError, FileNotFoundError):  # Others may come too late for what they want.
                OTHERS[others](world)

        world.io.arm(at, meanwhile, dies=dies)
        with suppress(IcebergOpsError, FileNotFoundError, Died):
            MINE[mine](world)
        finished = world.io.calls <= at
        world.io.arm(-1, lambda: None, dies=False)
        if finished:
            return
        yield at, world


CASES = [(mine, others, dies) for mine in MINE for others in OTHERS for dies in (False, True) if not (dies and "forget" in others)]
"""Not a writer that dies right after it created a version of a table that another engine dropped: only a mark helps there."""


@pytest.mark.parametrize(("mine", "others", "dies"), CASES)
def test_whatever_others_do_between_any_two_steps(mine: str, others: str, dies: bool) -> None:
    steps = 0
    for at, world in _played(mine, others, dies=dies):
        steps += 1
        try:
            world.check(forgotten="forget" in others, died_dropping=dies and "drop" in mine)
        except (AssertionError, IcebergOpsError) as e:
            raise AssertionError(f"{mine}, others {others}, at step {at}: {e!r}") from e
    assert steps > 5
