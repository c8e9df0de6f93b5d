"""Many files, several at a time, where each request takes a round trip (object stores).

    with bytes_ahead(io, locations) as near:
        for location in locations:
            near.read(location)

``near`` behaves as ``io`` does, including errors. While one file is processed, the next ones are requested: a few at a time, in the
given order. A file that was not listed, or is read a second time, is requested as usual. ``writes_behind`` is the same for files
that are written. Near files (on a disk), even if others are far, are read as without this module.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import BinaryIO, Generic, TypeVar

from iceberg_ops.io.file_io import FarFiles, FileIO, is_far
from iceberg_ops.io.forks import OBJECT_STORES
from iceberg_ops.io.wrapped import WrappedFileIO

T = TypeVar("T")

AT_ONCE = 24
"""Files on their way or waiting to be read."""
WAITING_BYTES = 64 << 20
"""No further file is asked for while those on their way and waiting have more, by their recorded sizes."""


@contextmanager
def bytes_ahead(io: FileIO, files: Mapping[str, int] | Iterable[str]) -> Iterator[FileIO]:
    """Within this context ``files`` (locations, with their sizes if these are known) are read whole, by ``read``."""
    sizes = _far_ones(io, files if isinstance(files, Mapping) else dict.fromkeys(files, 0))
    if len(sizes) < 2:
        yield io
        return
    with _Window(sizes, io.read).open() as window:
        yield _BytesAhead(io, window)


@contextmanager
def inputs_ahead(io: FileIO, files: Mapping[str, int], *, whole: int = 0) -> Iterator[FileIO]:
    """Within this context ``files`` (location -> recorded size) are opened by ``open_input``. A file of up to ``whole`` bytes is
    requested as a whole, otherwise its end."""
    sizes = _far_ones(io, files)
    if not sizes:
        yield io
        return
    assert isinstance(io, FarFiles)
    far = io

    def opened(location: str) -> Callable[[], BinaryIO]:
        return far.open_far(location, size if (size := sizes[location]) <= whole else 0)

    with _Window({location: min(size, whole) for location, size in sizes.items()}, opened).open() as window:
        yield _InputsAhead(io, window)


def for_samples(io: FileIO) -> FileIO:
    """For files that are opened before their turn: the data that was requested is kept until then."""
    return _InputsAhead(io.inner, io.window, keeps=True) if isinstance(io, _InputsAhead) else io


@contextmanager
def writes_behind(io: FileIO, folder: str) -> Iterator[FileIO]:
    """Within this context ``write`` returns at once for files in ``folder``, and its end waits for all of them, also after an
    error. Raises the first error of a write, there or at a later write."""
    if not is_far(io, folder):
        yield io
        return
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="writes-behind") as threads:
        behind = _WritesBehind(io, threads)
        yield behind
        behind.wait(0)


def _far_ones(io: FileIO, files: Mapping[str, int]) -> dict[str, int]:
    """A table may have files of both kinds: it was moved from HDFS or a disk into a store, and its old files stayed."""
    return {location: size for location, size in files.items() if io.is_far(location)} if isinstance(io, FarFiles) else {}


class _Window(Generic[T]):
    """Data that was requested and not used yet. Safe to use from several threads."""

    def __init__(self, sizes: Mapping[str, int], fetch: Callable[[str], T]) -> None:
        self._sizes, self._fetch = dict(sizes), fetch
        self._order = {location: n for n, location in enumerate(sizes)}
        self._to_ask = iter(self._order)
        self._asked: dict[str, Future[T]] = {}
        self._bytes = 0
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="reads-ahead")

    @contextmanager
    def open(self) -> Iterator[_Window[T]]:
        try:
            yield self
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)  # what is still on its way changes nothing

    def knows(self, location: str) -> bool:
        """Whether the file is announced and not taken."""
        with self._lock:
            return location in self._sizes

    def take(self, location: str, *, keep: bool) -> T:
        """The result of the file's request; raises its error, and UnsupportedError in a forked process, which does not have the
        threads. ``keep``: the result can be taken again."""
        OBJECT_STORES.check()
        with self._lock:
            future = self._ask(location)
            for passed in [x for x in self._asked if self._order[x] + AT_ONCE < self._order[location]]:
                self._forget(passed)  # nobody needs it: a delete file that was read for another task, say
            self._ask_more()
        try:
            return future.result()
        finally:
            if not keep:
                with self._lock:
                    self._forget(location)
                    self._ask_more()

    def _ask(self, location: str) -> Future[T]:
        future = self._asked.get(location)
        if future is None:
            future = self._asked[location] = self._threads.submit(self._fetch, location)
            self._bytes += self._sizes.get(location, 0)
        return future

    def _ask_more(self) -> None:
        while len(self._asked) < AT_ONCE and self._bytes < WAITING_BYTES:
            location = next((x for x in self._to_ask if x in self._sizes and x not in self._asked), None)
            if location is None:
                return
            self._ask(location)

    def _forget(self, location: str) -> None:
        if self._asked.pop(location, None) is not None:
            self._bytes -= self._sizes.pop(location, 0)


class _BytesAhead(WrappedFileIO):
    def __init__(self, inner: FileIO, window: _Window[bytes]) -> None:
        super().__init__(inner)
        self._window = window

    def read(self, location: str) -> bytes:
        return self._window.take(location, keep=False) if self._window.knows(location) else self._inner.read(location)


class _InputsAhead(WrappedFileIO):
    def __init__(self, inner: FileIO, window: _Window[Callable[[], BinaryIO]], *, keeps: bool = False) -> None:
        super().__init__(inner)
        self.inner, self.window, self._keeps = inner, window, keeps

    def open_input(self, location: str) -> BinaryIO:
        return self.window.take(location, keep=self._keeps)() if self.window.knows(location) else self._inner.open_input(location)


class _WritesBehind(WrappedFileIO):
    """Reads, and writes in other threads. Not for several threads at once."""

    def __init__(self, inner: FileIO, threads: ThreadPoolExecutor) -> None:
        super().__init__(inner)
        self._threads = threads
        self._under_way: deque[tuple[int, Future[None]]] = deque()

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        OBJECT_STORES.check()
        self.wait(WAITING_BYTES)
        self._under_way.append((len(data), self._threads.submit(self._inner.write, location, data, overwrite=overwrite)))

    def wait(self, most_bytes: int) -> None:
        """Until at most that many bytes are on their way."""
        while self._under_way and (not most_bytes or sum(size for size, _ in self._under_way) > most_bytes):
            self._under_way.popleft()[1].result()
