"""Writers that advance one I/O step at a time, in an order that one seed decides.

Each writer is a greenlet: at every storage call and at every read or swap of the catalog's pointer it switches to the scheduler,
which selects the next writer. So a seed is a schedule, and a failure can be replayed. At each such boundary, before and after the
call takes effect, a writer may die or receive an exception (``faults``); at calls that are not I/O it may receive one too, but does
not switch.
"""

from __future__ import annotations

import errno
import io
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, BinaryIO, Protocol, cast

import greenlet

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.errors import CatalogUnavailableError
from iceberg_ops.io.file_io import DeleteFailure, FileInfo
from iceberg_ops.io.load import IO_IMPL
from iceberg_ops.table.table import Table

STORE = "torture"
"""``io-impl`` of the world's storage in memory. A world on disk uses the real file system, because the package resolves links
there; a world in HDFS keeps its name, by which the package reads Hadoop's settings."""
WAITING = "lock"
"""The boundary at which a writer waits for another one in the same process."""
AFTER_EFFECT = frozenset(
    {"wrote", "wrote metadata", "moved", "deleted", "swapped", "staged", "validated", "prepared", "loaded", "told"}
)
"""Boundaries at which a call has taken effect that is not answered yet."""
CARRIED_OVER = ("name", "branch", "catalog", "effect", "beside", "keeps_ids", "becomes")
"""What a writer that does another one's work again has from it."""
_WRITERS: dict[greenlet.greenlet, Writer] = {}


class Died(BaseException):
    """A writer's process ended here. Not an ``Exception``, so that no error handler of the package catches it."""


class Meets(Protocol):
    """The fault of a writer at a boundary: raises, or does nothing."""

    def __call__(self, writer: Writer, boundary: str) -> None: ...


class Writer:
    """``work`` as a coroutine of its own; ``step`` advances it to its next I/O boundary."""

    def __init__(self, kind: str, work: Callable[[Writer], None], now: Callable[[], int]) -> None:
        self.kind, self.work, self.now, self.started = kind, work, now, now()
        self.label = kind
        """Its kind and a number, which identify it in the printed steps."""
        self.branch = "main"
        self.name = "t"
        """The table it works on, by the name that it has when it is loaded."""
        self.catalog: Any = None
        """The catalog as this writer is configured with it."""
        self.effect: Callable[[Any], Any] | None = None
        """What its commit does to the model of its branch."""
        self.beside: Callable[[Any], Any] | None = None
        """The rows of a snapshot it makes that is not a branch's head, from those of that snapshot's parent."""
        self.keeps_ids = False
        """Rows that it does not change keep their row ids, as they do if it has no effect."""
        self.becomes: Callable[[Any], Any] = lambda row: row
        """What a row that keeps its row id looks like afterwards."""
        self.unknowing = False
        """If it is of another engine: its manifest lists may not know the numbers of earlier manifests."""
        self.act: Any = None
        """The work that it is about to commit (``acts``)."""
        self.loads: list[Table] = []
        """The tables it loaded in this attempt."""
        self.leases: dict[str, int] = {}
        """The leases it took and has not released, and when they expire, whatever others did to them."""
        self.committing_since: int | None = None
        """When it began to write the files of its commit, if no lease protects them."""
        self.embeds = False
        """Its snapshots of v1 tables have no manifest list (another engine)."""
        self.meets: Meets | None = None
        self.raised: list[BaseException] = []
        """The exceptions raised in it so far."""
        self.misled: BaseException | None = None
        """The last one by which its catalog said that a swap did not happen which did: against the catalog's contract."""
        self.points = 0
        """Boundaries passed, those without I/O among them."""
        self.at = "start"
        self.ended = False
        self.killed = False
        self.error: BaseException | None = None
        self._thread = greenlet.greenlet(self._run)

    def step(self) -> str:
        """One I/O step; what it was."""
        done = self.at
        _WRITERS[self._thread] = self
        self._thread.parent = greenlet.getcurrent()
        self._thread.switch()
        return done

    def kill(self) -> None:
        """End it here; none of its clean-up runs."""
        self.meets = None
        self.killed = True
        while self._thread and not self._thread.dead:
            self._thread.parent = greenlet.getcurrent()
            self._thread.throw(Died)
        self.ended = True

    def reach(self, boundary: str) -> None:
        self.at = boundary
        assert self._thread.parent is not None
        self._thread.parent.switch()

    def pass_by(self, boundary: str) -> None:
        self.points += 1
        if boundary == "prepare" and self.committing_since is None:
            self.committing_since = self.now()
        if self.meets is not None:
            self.meets(self, boundary)

    def _run(self) -> None:
        try:
            self.work(self)
        except Died:
            pass
        except BaseException as e:  # noqa: BLE001 - the scheduler looks at it
            if not self.killed:  # Nobody receives the error of its end.
                self.error = e
        finally:
            _WRITERS.pop(self._thread, None)
            self.ended = True


def running() -> Writer | None:
    """The writer whose step this is."""
    return _WRITERS.get(greenlet.getcurrent())


def boundary(name: str) -> None:
    """Switch to the scheduler, if a writer is running; after that a fault may occur in it."""
    if (writer := running()) is not None:
        writer.reach(name)
        writer.pass_by(name)


def call_out(name: str) -> None:
    """A call that is not I/O: no other writer continues, but an error may be raised here."""
    if (writer := running()) is not None:
        writer.pass_by(name)


class Watcher(Protocol):
    """Is called for each file that is about to be deleted or overwritten, and for each that was written."""

    def changing(self, location: str) -> None: ...
    def written(self, location: str, data: bytes) -> None: ...


class SteppedIO:
    """Storage where every call is a step; after a write or a deletion there is a second step, in which its writer may die."""

    def __init__(self, inner: Any, watcher: Watcher) -> None:
        self.inner, self.watcher = inner, watcher

    @property
    def properties(self) -> Mapping[str, str]:
        known = self.inner.properties
        return known if known[IO_IMPL] in ("local", "hdfs") else {**known, IO_IMPL: STORE}

    def read(self, location: str) -> bytes:
        boundary("read")
        return self.inner.read(location)  # type: ignore[no-any-return]

    def open_input(self, location: str) -> BinaryIO:
        boundary("read")
        return self.inner.open_input(location)  # type: ignore[no-any-return]

    def is_far(self, location: str) -> bool:
        return hasattr(self.inner, "is_far") and self.inner.is_far(location)

    def open_far(self, location: str, size: int) -> Callable[[], BinaryIO]:
        content = self.read(location)
        return lambda: io.BytesIO(content)

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        boundary("write")
        if overwrite:
            self.watcher.changing(location)
        self.inner.write(location, data, overwrite=overwrite)
        self.watcher.written(location, data)
        boundary("wrote metadata" if location.endswith(".metadata.json") else "wrote")

    def open_output(self, location: str) -> BinaryIO:
        boundary("read")
        if self.inner.exists(location):
            raise FileExistsError(errno.EEXIST, "file exists", location)
        return cast(BinaryIO, _SteppedOutput(self, location))

    def exists(self, location: str) -> bool:
        boundary("read")
        return self.inner.exists(location)  # type: ignore[no-any-return]

    def length(self, location: str) -> int:
        boundary("read")
        return self.inner.length(location)  # type: ignore[no-any-return]

    def delete(self, location: str) -> None:
        boundary("delete")
        self.watcher.changing(location)
        self.inner.delete(location)
        boundary("deleted")

    def delete_many(self, locations: Iterable[str]) -> list[DeleteFailure]:
        failures = []
        for location in locations:
            try:
                self.delete(location)
            except (OSError, CatalogUnavailableError) as e:
                failures.append(DeleteFailure(location, str(e)))
        return failures

    def list_prefix(self, prefix: str) -> Iterator[FileInfo]:
        boundary("read")
        yield from list(self.inner.list_prefix(prefix))

    def local_path(self, location: str) -> str | None:
        return None


class _SteppedOutput(io.BytesIO):
    """Becomes a file when it is closed; an exception or a forgotten ``close`` leaves none."""

    def __init__(self, owner: SteppedIO, location: str) -> None:
        super().__init__()
        self._owner, self._location = owner, location

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._owner.write(self._location, data)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            super().close()

    def __del__(self) -> None:
        super().close()


class SteppedCatalog(MemoryCatalog):
    """A catalog that reads and swaps its pointer in steps; between a swap and its answer the writer may die, or the answer may be
    lost."""

    def __init__(self, name: str, io: Any, rng: random.Random, **options: Any) -> None:
        super().__init__(name, io, **options)
        self.random = rng
        self.unanswered = 0.0
        """How many swaps get no answer; half of these happen."""

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        return _noted(super().load_table(identifier))

    def commit_table(self, *args: Any, **more: Any) -> Table:
        call_out("swap")
        done = super().commit_table(*args, **more)
        call_out("swapped")
        return done

    def _current_location(self, identifier: tuple[str, ...]) -> str | None:
        boundary("pointer")
        return super()._current_location(identifier)

    def _swap_pointer(self, identifier: tuple[str, ...], expected: str, new: str) -> bool:
        boundary("write")
        if (dice := self.random.random()) < self.unanswered / 2:
            raise CatalogUnavailableError("nobody answers; nothing happened")
        found = super()._swap_pointer(identifier, expected, new)
        boundary("moved")
        if dice < self.unanswered:
            raise CatalogUnavailableError("the answer is lost")
        return found

    def _rename_pointer(self, old: tuple[str, ...], new: tuple[str, ...], expected: str) -> bool:
        boundary("write")
        renamed = super()._rename_pointer(old, new, expected)
        boundary("wrote")
        return renamed


class SteppedFolders(FileSystemCatalog):
    """Its steps are those of its storage."""

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        return _noted(super().load_table(identifier))

    def commit_table(self, *args: Any, **more: Any) -> Table:
        call_out("swap")
        done = super().commit_table(*args, **more)
        call_out("swapped")
        return done


def _noted(table: Table) -> Table:
    if (writer := running()) is not None:
        writer.loads.append(table)
        writer.pass_by("loaded")
    return table
