"""Deletion of many files: each fails alone, threads are limited, and an interrupt hides no file that is gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from iceberg_ops.deletion.bulk import delete_files, recorded
from iceberg_ops.io.file_io import DeleteFailure, FileIO
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.machine_limits import MOST_THREADS


@pytest.mark.parametrize("most_at_once", [None, 1, 2])
def test_a_location_of_another_store_fails_alone(tmp_path: Path, most_at_once: int | None) -> None:
    (tmp_path / "a").write_bytes(b"x")
    failures = delete_files(LocalFileIO(), ["s3://bucket/b", f"{tmp_path}/a"], most_at_once)
    assert [f.location for f in failures] == ["s3://bucket/b"]
    assert not (tmp_path / "a").exists()


def test_a_large_number_of_deletes_at_a_time_starts_no_more_threads_than_systems_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended in the middle with an internal error, where the system started no thread any more."""
    files = [tmp_path / str(n) for n in range(2 * MOST_THREADS)]
    for path in files:
        path.touch()
    others = threading.active_count()
    all_there = threading.Barrier(MOST_THREADS, timeout=30)
    start, delete = threading.Thread.start, LocalFileIO.delete

    def limited(thread: threading.Thread) -> None:
        if threading.active_count() - others >= MOST_THREADS:
            raise RuntimeError("can't start new thread")
        start(thread)

    def deleted(io: LocalFileIO, location: str) -> None:
        all_there.wait()
        delete(io, location)

    monkeypatch.setattr(threading.Thread, "start", limited)
    monkeypatch.setattr(LocalFileIO, "delete", deleted)
    assert delete_files(LocalFileIO(), [str(path) for path in files], 1_000_000) == []
    assert not any(path.exists() for path in files)


class Stops(list[DeleteFailure]):
    """Interrupts the code that reads the failures."""

    def __iter__(self) -> Iterator[DeleteFailure]:
        raise KeyboardInterrupt


@pytest.mark.parametrize("late", [True, False])
def test_an_interrupt_during_a_deletion_or_right_after_it_hides_no_file_that_is_gone(tmp_path: Path, late: bool) -> None:
    paths = [str(tmp_path / name) for name in "abc"]
    for path in paths:
        Path(path).write_bytes(b"x")
    told: list[tuple[list[str], bool]] = []

    def delete(io: FileIO, locations: Sequence[str]) -> list[DeleteFailure]:
        io.delete(locations[0])
        if not late:
            raise KeyboardInterrupt
        return Stops(io.delete_many(locations))

    with pytest.raises(KeyboardInterrupt):
        recorded(delete, lambda gone, in_doubt: told.append((list(gone), in_doubt)))(LocalFileIO(), paths)
    assert told == [(paths if late else paths[:1], False)]
