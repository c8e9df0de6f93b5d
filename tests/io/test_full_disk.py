"""A write to a full disk is refused as retryable, and leaves no file on the disk."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest

from iceberg_ops.errors import CatalogUnavailableError
from iceberg_ops.io.local import LocalFileIO, _AtomicOutput

ROOM = 1_500_000


class _Full(io.RawIOBase):
    """A file on a disk with room for ``ROOM`` bytes."""

    def __init__(self, path: str) -> None:
        self._number, self._written = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY), 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        written = memoryview(data).nbytes  # type: ignore[arg-type]
        if self._written + written > ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._written += written
        return os.write(self._number, data)  # type: ignore[arg-type]

    def close(self) -> None:
        if not self.closed:
            os.close(self._number)
        super().close()


@pytest.fixture(autouse=True)
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iceberg_ops.io.local._create", lambda path: io.BufferedWriter(_Full(path), 1 << 20))


@pytest.mark.parametrize("piece", [1_000, 1 << 20, 3 * ROOM])
def test_a_file_that_finds_the_disk_full_is_refused_and_leaves_nothing(tmp_path: Path, piece: int) -> None:
    def write() -> None:
        with LocalFileIO().open_output(f"{tmp_path}/f") as output:
            for _ in range(2 * ROOM // piece + 1):
                output.write(b"x" * piece)

    with pytest.raises(CatalogUnavailableError, match=r"/f: No space left on device"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_finds_the_disk_full_at_its_end_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    output = LocalFileIO().open_output(f"{tmp_path}/f")
    output.write(b"x" * (1 << 20))
    output.write(b"x" * 500_000)
    with pytest.raises(CatalogUnavailableError, match=r"/f: No space left on device"):
        output.close()
    assert list(tmp_path.iterdir()) == []


def test_an_output_whose_making_was_interrupted_has_nothing_to_discard() -> None:
    _AtomicOutput.__new__(_AtomicOutput).discard()
