"""A filesystem catalog whose store fails at any step, with any error: its reports agree with the table."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.errors import (
    AlreadyExistsError,
    CatalogUnavailableError,
    CommitStateUnknownError,
    CorruptTableError,
    IcebergOpsError,
    MachineLimitError,
)
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.updates import SetProperties
from tests.builders import IDENTIFIER, data_file, make_table

ERRORS = [
    MachineLimitError("Injected: open files"),
    CatalogUnavailableError("Injected: no answer"),
    CorruptTableError("Injected: half a file"),
    OSError(errno.EIO, "Injected"),
    OSError(errno.EMFILE, "Injected"),
    MemoryError("Injected"),
]
ALWAYS = 1000


class Fails(LocalFileIO):
    """Calls on locations that hold ``at`` fail: ``times`` of them, after the first ``skip``; writes happen with ``after``."""

    def __init__(self) -> None:
        super().__init__()
        self.at, self.error, self.times, self.skip, self.after = "", Exception(), 0, 0, False

    def fail(self, at: str, error: Exception, times: int = 1, *, skip: int = 0, after: bool = False) -> None:
        self.at, self.error, self.times, self.skip, self.after = at, error, times, skip, after

    def _step(self, location: str) -> None:
        if self.at not in location or not self.times:
            return
        if self.skip:
            self.skip -= 1
            return
        self.times -= 1
        raise self.error

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        if self.after:
            super().write(location, data, overwrite=overwrite)
            self._step(location)
        else:
            self._step(location)
            super().write(location, data, overwrite=overwrite)

    def read(self, location: str) -> bytes:
        self._step(location)
        return super().read(location)

    def exists(self, location: str) -> bool:
        self._step(location)
        return super().exists(location)

    def list_names(self, location: str) -> list[str]:
        self._step(location)
        return super().list_names(location)


@pytest.fixture
def io() -> Fails:
    return Fails()


@pytest.fixture
def catalog(tmp_path: Path, io: Fails) -> FileSystemCatalog:
    catalog = FileSystemCatalog("fs", io, warehouse=f"{tmp_path}/wh", sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    return catalog


def snapshots(catalog: FileSystemCatalog) -> int:
    return len(catalog.load_table(IDENTIFIER).metadata.snapshots)


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("skip", range(3))
@pytest.mark.parametrize("times", [1, ALWAYS])
def test_a_commit_is_done_though_its_hint_cannot_be_written(
    catalog: FileSystemCatalog, io: Fails, error: Exception, times: int, skip: int
) -> None:
    table = make_table(catalog)
    io.fail("version-hint.text", error, times, skip=skip)
    try:
        commit(catalog, table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
        reported = 1
    except CommitStateUnknownError:
        reported = None
    except (IcebergOpsError, MemoryError):
        reported = 0
    io.times = 0
    assert reported in (snapshots(catalog), None)


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("at", ["version-hint.text", "v1.metadata.json"])
@pytest.mark.parametrize("after", [True, False])
def test_a_table_that_is_reported_as_not_made_is_not_there(
    catalog: FileSystemCatalog, io: Fails, error: Exception, at: str, after: bool
) -> None:
    io.fail(at, error, ALWAYS, after=after)
    try:
        make_table(catalog)
        reported = True
    except (IcebergOpsError, MemoryError) as e:
        reported = None if isinstance(e, CommitStateUnknownError) else False
    io.times = 0
    assert reported in (catalog.table_exists(IDENTIFIER), None)


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("first", [OSError(errno.EIO, "Injected"), CatalogUnavailableError("Injected")], ids=["EIO", "no answer"])
def test_a_refusal_after_a_create_without_answer_is_no_refusal_of_the_commit(
    catalog: FileSystemCatalog, io: Fails, monkeypatch: pytest.MonkeyPatch, first: Exception, error: Exception
) -> None:
    table, write, steps = make_table(catalog), io.write, [first, *[error] * ALWAYS]

    def fails(location: str, data: bytes, *, overwrite: bool = False) -> None:
        if not location.endswith("v2.metadata.json"):
            write(location, data, overwrite=overwrite)
            return
        if len(steps) == ALWAYS + 1:
            write(location, data, overwrite=overwrite)
        raise steps.pop(0)

    monkeypatch.setattr(io, "write", fails)
    with pytest.raises(CommitStateUnknownError):
        catalog.commit_table(table, (), (SetProperties({"a": "1"}),))
    assert os.path.exists(f"{table.location}/metadata/v2.metadata.json")


def test_a_create_that_ran_out_of_open_files_is_refused_as_what_it_is(catalog: FileSystemCatalog, io: Fails) -> None:
    io.fail("v1.metadata.json", MachineLimitError("Injected: open files"))
    with pytest.raises(MachineLimitError, match="nothing was committed"):
        make_table(catalog)
    make_table(catalog)
    with pytest.raises(AlreadyExistsError):
        make_table(catalog)


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("times", [1, ALWAYS])
@pytest.mark.parametrize("step", range(12))
@pytest.mark.parametrize("after", [True, False])
def test_a_drop_is_done_or_unknown_or_did_not_begin(
    catalog: FileSystemCatalog, io: Fails, error: Exception, times: int, step: int, after: bool
) -> None:
    table = make_table(catalog)
    path = f"{table.location}/data/a.parquet"
    io.write(path, b"x")
    commit(catalog, table, AppendFiles(added=(data_file(path),)))
    io.fail("/ns/t", error, times, skip=step, after=after)
    try:
        catalog.drop_table(IDENTIFIER, purge=True)
        reported: bool | None = True
    except (IcebergOpsError, OSError, MemoryError) as e:
        reported = None if isinstance(e, CommitStateUnknownError) else False
    io.times = 0
    there = catalog.table_exists(IDENTIFIER)
    assert reported in (not there, None)
    if there:
        assert os.path.exists(path)
    elif reported and not isinstance(error, CorruptTableError):
        assert not os.path.exists(path)


@pytest.mark.parametrize("when", ["its answer", "what comes after it"])
def test_a_drop_without_answer_says_how_to_go_on(catalog: FileSystemCatalog, io: Fails, when: str) -> None:
    table = make_table(catalog)
    path = f"{table.location}/data/a.parquet"
    io.write(path, b"x")
    commit(catalog, table, AppendFiles(added=(data_file(path),)))
    io.fail("/.dropped/", CatalogUnavailableError("Injected"), ALWAYS, after=True, skip=0 if when == "its answer" else 1)
    io.at = f"/.dropped/{table.metadata.table_uuid}"
    with pytest.raises(CommitStateUnknownError, match="delete the mark") as e:
        catalog.drop_table(IDENTIFIER, purge=True)
    io.times = 0
    mark = str(e.value).split("there is a mark ")[1].split(". No file")[0]
    assert not catalog.table_exists(IDENTIFIER)
    os.unlink(mark)
    catalog.drop_table(IDENTIFIER, purge=True)
    assert not os.path.exists(path)


def test_a_drop_whose_version_files_cannot_be_deleted_is_done(
    catalog: FileSystemCatalog, io: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(catalog)

    def fails(_: object) -> NoReturn:
        raise MachineLimitError("Injected: open files")

    monkeypatch.setattr(io, "delete_many", fails)
    catalog.drop_table(IDENTIFIER, purge=True)
    assert not catalog.table_exists(IDENTIFIER)
    assert os.path.exists(table.metadata_location)
