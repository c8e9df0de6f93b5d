"""The local file system: forms of locations, atomic creation, and files that a crash leaves."""

from __future__ import annotations

import errno
import multiprocessing
import os
import threading
from pathlib import Path

import pytest

from iceberg_ops.errors import CatalogUnavailableError, UnsupportedError
from iceberg_ops.io import local
from iceberg_ops.io.local import LocalFileIO, parse_local_path, remove_empty_folders
from iceberg_ops.io.temporary_names import is_temporary, temporary_name

LOCATIONS = {
    "/p/a": "/p/a",
    "file:/p/a": "/p/a",
    "file:///p/a": "/p/a",
    "file://localhost/p/a": "/p/a",
    "file:/p/a%20b c": "/p/a%20b c",
    "p/a": "p/a",
}


@pytest.mark.parametrize(("location", "path"), LOCATIONS.items())
def test_locations_name_paths(location: str, path: str) -> None:
    assert parse_local_path(location) == path


@pytest.mark.parametrize("location", ["s3://b/a", "hdfs://host:1/a", "file://host/a"])
def test_locations_elsewhere_are_refused(location: str) -> None:
    with pytest.raises(UnsupportedError, match=location):
        parse_local_path(location)


def test_listed_locations_keep_the_form_of_the_prefix(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    assert [f.location for f in LocalFileIO().list_prefix(f"file:{tmp_path}/")] == [f"file:{tmp_path}/a"]


def test_linked_folders_are_not_walked_into(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "loop").symlink_to(tmp_path / "t")
    (tmp_path / "t" / "a").write_bytes(b"")
    assert [Path(f.location).name for f in LocalFileIO().list_prefix(f"{tmp_path}/t")] == ["a"]


def _create(path: str, n: int, won: multiprocessing.Queue[int]) -> None:
    try:
        LocalFileIO().write(path, str(n).encode())
    except FileExistsError:
        return
    won.put(n)


def test_of_many_processes_one_creates_the_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    won = context.Queue()
    processes = [context.Process(target=_create, args=(f"{tmp_path}/v1", n, won)) for n in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    winner = won.get(timeout=10)
    assert won.empty()
    assert (tmp_path / "v1").read_bytes() == str(winner).encode()
    assert os.listdir(tmp_path) == ["v1"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
def test_without_hard_links_creation_is_still_exclusive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    io = LocalFileIO()
    io.write(f"{tmp_path}/a", b"1")
    with pytest.raises(FileExistsError):
        io.write(f"{tmp_path}/a", b"2")
    assert (tmp_path / "a").read_bytes() == b"1"
    assert os.listdir(tmp_path) == ["a"]


def test_a_failing_swap_leaves_no_reservation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EPERM, "refused")

    monkeypatch.setattr(os, "link", fail)
    monkeypatch.setattr(local, "_rename_exclusively", lambda temporary, path: False)
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(PermissionError):
        LocalFileIO().write(f"{tmp_path}/a", b"1")
    assert os.listdir(tmp_path) == []


def test_what_is_being_written_has_a_name_the_orphan_job_knows(tmp_path: Path) -> None:
    output = LocalFileIO().open_output(f"{tmp_path}/a.parquet")
    (name,) = os.listdir(tmp_path)
    assert is_temporary(f"file:{tmp_path}/{name}")
    output.close()
    assert not is_temporary("/t/a.parquet")
    assert not is_temporary("/t/.iceberg-ops-notes.txt")
    assert is_temporary(temporary_name())


@pytest.mark.parametrize(("name", "is_told"), [("00000-1-operation-00001.parquet", True), ("x" * 250, False), ("ž" * 120, False)])
def test_an_unfinished_file_tells_whose_it_is(tmp_path: Path, name: str, is_told: bool) -> None:
    output = LocalFileIO().open_output(f"{tmp_path}/{name}")
    (unfinished,) = tmp_path.iterdir()
    assert (is_temporary(str(unfinished)), name in unfinished.name) == (True, is_told)
    output.close()
    assert [found.name for found in tmp_path.iterdir()] == [name]


def test_failures_that_may_pass_are_told_from_those_that_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(*_: object) -> None:
        raise OSError(errno.ESTALE, "stale handle")

    monkeypatch.setattr(os, "stat", stale)
    with pytest.raises(CatalogUnavailableError, match=f"{tmp_path}/a: stale handle"):
        LocalFileIO().length(f"{tmp_path}/a")
    with pytest.raises(IsADirectoryError):
        LocalFileIO().read(str(tmp_path))


def test_a_file_that_can_not_be_deleted_is_reported_and_the_rest_goes(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "a").write_bytes(b"")
    failures = LocalFileIO().delete_many([f"{tmp_path}/folder", f"{tmp_path}/a", "s3://b/c"])
    assert sorted(f.location for f in failures) == sorted([f"{tmp_path}/folder", "s3://b/c"])
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.parametrize("patience_s", [-1.0, 3600.0])
def test_files_are_all_deleted_whether_the_disk_is_slow_or_fast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience_s: float
) -> None:
    monkeypatch.setattr(local, "_PATIENCE_S", patience_s)
    found = []
    unlink = os.unlink
    monkeypatch.setattr(os, "unlink", lambda path: found.append(threading.current_thread()) or unlink(path))
    for n in range(20):
        (tmp_path / f"{n}").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    failures = LocalFileIO().delete_many(f"{tmp_path}/{name}" for name in ("folder", "gone", *map(str, range(20))))
    assert [f.location for f in failures] == [f"{tmp_path}/folder"]
    assert os.listdir(tmp_path) == ["folder"]
    assert (set(found) == {threading.current_thread()}) is (patience_s > 0)


def test_an_empty_folder_name_and_a_file_as_prefix_list_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    assert list(LocalFileIO().list_prefix(f"{tmp_path}/a")) == []


def test_a_file_is_written_though_its_empty_folders_are_removed_at_that_moment(tmp_path: Path) -> None:
    """A drop ends while a job writes its first file to a new table of the name."""
    io, ended = LocalFileIO(), threading.Event()

    def cleaning() -> None:
        while not ended.is_set():
            remove_empty_folders(io, str(tmp_path / "wh"))

    cleaner = threading.Thread(target=cleaning)
    cleaner.start()
    try:
        for n in range(300):
            place = tmp_path / "wh" / "ns" / "t" / f"day={n}" / "a.parquet"
            io.write(str(place), b"x")
            assert place.read_bytes() == b"x"
            place.unlink()
    finally:
        ended.set()
        cleaner.join()
