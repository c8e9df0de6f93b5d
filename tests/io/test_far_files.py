"""Reading ahead and writing behind in a store in which each request takes a round trip."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import pytest

from iceberg_ops.errors import CatalogUnavailableError
from iceberg_ops.io.far_files import AT_ONCE, WAITING_BYTES, bytes_ahead, for_samples, inputs_ahead, writes_behind
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.mapped import MappedFileIO
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.io.read_only import ReadOnlyFileIO
from iceberg_ops.io.wrapped import WrappedFileIO


class Far(WrappedFileIO):
    """Counts requests, and those under way; ``together``: each waits until so many are."""

    def __init__(self, inner: FileIO, together: int = 0) -> None:
        super().__init__(inner)
        self.asked: Counter[str] = Counter()
        self.sizes: dict[str, int] = {}
        self._barrier = threading.Barrier(together) if together else None

    def is_far(self, location: str) -> bool:
        return True

    def read(self, location: str) -> bytes:
        self._ask(location)
        return super().read(location)

    def open_input(self, location: str) -> BinaryIO:
        return self.open_far(location, 0)()

    def open_far(self, location: str, size: int) -> Callable[[], BinaryIO]:
        self._ask(location)
        self.sizes[location] = size
        content = super().read(location)
        return lambda: BytesIO(content)

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        self._ask(location)
        super().write(location, data, overwrite=overwrite)

    def _ask(self, location: str) -> None:
        self.asked[location] += 1
        if self._barrier is not None:
            self._barrier.wait(20)


@pytest.fixture
def memory(request: pytest.FixtureRequest) -> MemoryFileIO:
    return MemoryFileIO(request.node.nodeid)


def filled(io: FileIO, count: int) -> dict[str, int]:
    files = {f"memory://b/{n}": len(str(n)) for n in range(count)}
    for n, location in enumerate(files):
        io.write(location, str(n).encode())
    return files


def test_files_are_asked_for_together_and_each_once(memory: MemoryFileIO) -> None:
    files = filled(memory, 40)
    far = Far(memory, together=4)
    with bytes_ahead(far, files) as near:
        assert [near.read(location) for location in files] == [str(n).encode() for n in range(40)]
    assert set(far.asked.values()) == {1}


def test_no_more_than_a_few_wait_to_be_read(memory: MemoryFileIO) -> None:
    far, files = Far(memory), filled(memory, 100)
    with bytes_ahead(far, files) as near:
        near.read("memory://b/0")
    assert len(far.asked) <= AT_ONCE + 1


def test_large_files_are_not_all_held_at_once(memory: MemoryFileIO) -> None:
    far, files = Far(memory), filled(memory, 20)
    with bytes_ahead(far, dict.fromkeys(files, WAITING_BYTES // 2)) as near:
        near.read("memory://b/0")
    assert len(far.asked) <= 3


def test_an_error_is_raised_where_its_file_is_read_and_the_file_is_asked_for_again(memory: MemoryFileIO) -> None:
    far, files = Far(memory), filled(memory, 5)
    memory.delete("memory://b/3")
    with bytes_ahead(far, files) as near:
        assert near.read("memory://b/2") == b"2"
        with pytest.raises(FileNotFoundError):
            near.read("memory://b/3")
        memory.write("memory://b/3", b"back")
        assert near.read("memory://b/3") == b"back"
        assert near.read("memory://b/2") == b"2"
        assert near.read("memory://b/4") == b"4"
        with pytest.raises(FileNotFoundError):
            near.read("memory://b/not-told")


def test_files_that_nobody_reads_do_not_stop_the_others(memory: MemoryFileIO) -> None:
    files = filled(memory, 4 * AT_ONCE)
    far = Far(memory)
    order = list(files)
    with bytes_ahead(far, files) as near:
        for location in order[AT_ONCE + 2 : 3 * AT_ONCE]:
            near.read(location)
    assert set(far.asked.values()) == {1}
    assert order[3 * AT_ONCE + 5] in far.asked


def test_a_sampled_file_is_asked_for_once(memory: MemoryFileIO) -> None:
    far, files = Far(memory), filled(memory, 10)
    with inputs_ahead(far, files, whole=1) as near:
        sample = for_samples(near)
        assert [sample.open_input(f"memory://b/{n}").read() for n in (0, 4, 8)] == [b"0", b"4", b"8"]
        assert [near.open_input(location).read() for location in files] == [str(n).encode() for n in range(10)]
    assert set(far.asked.values()) == {1}
    assert for_samples(memory) is memory


def test_small_files_are_asked_for_as_a_whole_and_large_ones_by_their_end(memory: MemoryFileIO) -> None:
    far, files = Far(memory), filled(memory, 12)
    with inputs_ahead(far, files, whole=1) as near:
        for location in files:
            near.open_input(location)
    assert far.sizes == {location: 1 if size == 1 else 0 for location, size in files.items()}


def test_files_are_written_together_and_all_are_there_at_the_end(memory: MemoryFileIO) -> None:
    with writes_behind(Far(memory, together=4), "memory://b") as near:
        for n in range(8):
            near.write(f"memory://b/{n}", str(n).encode())
    assert [memory.read(f"memory://b/{n}") for n in range(8)] == [str(n).encode() for n in range(8)]


def test_a_write_that_fails_is_an_error_of_the_whole(memory: MemoryFileIO) -> None:
    class Fails(Far):
        def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
            if location.endswith("3"):
                raise CatalogUnavailableError("no answer")
            super().write(location, data, overwrite=overwrite)

    def write_all() -> None:
        with writes_behind(Fails(memory), "memory://b") as near:
            for n in range(8):
                near.write(f"memory://b/{n}", b"")

    with pytest.raises(CatalogUnavailableError, match="no answer"):
        write_all()
    assert sum(1 for _ in memory.list_prefix("memory://b")) == 7


def test_an_error_of_the_work_waits_for_what_is_being_written(memory: MemoryFileIO) -> None:
    def write_and_fail() -> None:
        with writes_behind(Far(memory, together=2), "memory://b") as near:
            near.write("memory://b/1", b"1")
            near.write("memory://b/2", b"2")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert memory.exists("memory://b/1")
    assert memory.exists("memory://b/2")


def test_where_files_are_near_nothing_changes(memory: MemoryFileIO) -> None:
    files = filled(memory, 3)
    with bytes_ahead(memory, files) as a, inputs_ahead(memory, files) as b, writes_behind(memory, "memory://b") as c:
        assert a is b is c is memory


@pytest.mark.parametrize("first", ["near", "far"])
def test_of_files_some_of_which_are_near_the_others_are_asked_for_ahead(memory: MemoryFileIO, tmp_path: Path, first: str) -> None:
    class Both(Far):
        def is_far(self, location: str) -> bool:
            return location.startswith("memory:")

        def read(self, location: str) -> bytes:
            return super().read(location) if self.is_far(location) else Path(location).read_bytes()

        def open_input(self, location: str) -> BinaryIO:
            return super().open_input(location) if self.is_far(location) else open(location, "rb")

        def open_far(self, location: str, size: int) -> Callable[[], BinaryIO]:
            assert self.is_far(location)
            return super().open_far(location, size)

    (tmp_path / "near").write_bytes(b"near")
    near_ones, far_ones = {str(tmp_path / "near"): 4}, filled(memory, 8)
    files = {**near_ones, **far_ones} if first == "near" else {**far_ones, **near_ones}
    both = Both(memory, together=4)
    with bytes_ahead(both, files) as io:
        assert sorted(map(io.read, files)) == [b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"near"]
    with inputs_ahead(both, files) as io:
        assert sorted(io.open_input(location).read() for location in files)[-1] == b"near"
    assert set(both.asked.values()) == {2}


@pytest.mark.parametrize("wrap", [ReadOnlyFileIO, lambda io: MappedFileIO(io, [("s3://x", "memory://b")])])
def test_a_wrapper_is_as_far_as_its_store(memory: MemoryFileIO, wrap: Callable[[FileIO], FileIO]) -> None:
    files = filled(memory, 8)
    far = Far(memory, together=4)
    with bytes_ahead(wrap(far), files) as near:
        assert b"".join(map(near.read, files)) == b"01234567"
    with inputs_ahead(wrap(far), files) as near:
        assert b"".join(near.open_input(location).read() for location in files) == b"01234567"
    with bytes_ahead(wrap(memory), files) as near:
        assert not hasattr(near, "_window")
