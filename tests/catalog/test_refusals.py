"""A failure before anything is published is a definite refusal: nothing was committed, and no file is left behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.errors import CatalogUnavailableError, IcebergOpsError, TerminalError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.memory import MemoryFileIO
from tests.builders import IDENTIFIER, data_file, live_paths, make_table


class Faulty:
    """Metadata files cannot be written, or not be read, while ``error`` is set; ``left`` files are written all the same."""

    error: Exception | None = None
    reading = False
    written = False

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        if self.error is not None and not self.reading and location.endswith(".metadata.json"):
            if self.written:
                super().write(location, data, overwrite=overwrite)  # type: ignore[misc]
            raise self.error
        super().write(location, data, overwrite=overwrite)  # type: ignore[misc]

    def read(self, location: str) -> bytes:
        if self.error is not None and self.reading and location.endswith(".metadata.json"):
            raise self.error
        return super().read(location)  # type: ignore[misc, no-any-return]


class FaultyMemory(Faulty, MemoryFileIO):
    pass


class FaultyLocal(Faulty, LocalFileIO):
    pass


@pytest.fixture(params=["memory", "sql", "filesystem"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    warehouse = str(tmp_path / "wh")
    made: Any
    if request.param == "memory":
        made = MemoryCatalog("c", FaultyMemory(f"faulty-{tmp_path}"), sleep=lambda _: None)
    elif request.param == "sql":
        made = SqlCatalog("c", f"sqlite:///{tmp_path}/c.db", FaultyLocal(), warehouse=warehouse, sleep=lambda _: None)
    else:
        made = FileSystemCatalog("c", FaultyLocal(), warehouse=warehouse, sleep=lambda _: None)
    made.create_namespace(("ns",))
    return made


def append(catalog: Any, table: Any) -> None:
    commit(catalog, table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)


def files(catalog: Any, table: Any) -> set[str]:
    return {info.location for info in catalog.io.list_prefix(table.location)}


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EPERM], ids=errno.errorcode.get)
def test_a_metadata_file_that_the_store_does_not_take_is_refused_for_good(catalog: Any, code: int) -> None:
    table = make_table(catalog)
    before = files(catalog, table)
    catalog.io.error = OSError(code, os.strerror(code))
    with pytest.raises(TerminalError, match=r"could not be (written|created): .*; nothing was committed"):
        append(catalog, table)
    catalog.io.error = None
    assert files(catalog, table) == before
    assert live_paths(catalog.load_table(IDENTIFIER)) == set()


def test_a_metadata_file_that_the_store_does_not_take_for_now_is_tried_again(catalog: Any) -> None:
    table = make_table(catalog, properties={"commit.retry.num-retries": "2"})
    before = files(catalog, table)
    catalog.io.error = CatalogUnavailableError("Injected: the disk is full")
    catalog.io.error.__cause__ = OSError(errno.ENOSPC, "no space")
    with pytest.raises(CatalogUnavailableError):
        append(catalog, table)
    catalog.io.error = None
    assert files(catalog, table) == before
    append(catalog, catalog.load_table(IDENTIFIER))
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}


def test_a_failed_write_that_left_a_file_leaves_none_in_the_end(tmp_path: Path) -> None:
    catalog: Any = MemoryCatalog("c", FaultyMemory(f"left-{tmp_path}"), sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    table = make_table(catalog)
    before = files(catalog, table)
    catalog.io.error, catalog.io.written = OSError(errno.EACCES, "denied"), True
    with pytest.raises(TerminalError):
        append(catalog, table)
    assert files(catalog, table) == before
    with pytest.raises(TerminalError):
        make_table(catalog, identifier=("ns", "other"))
    assert not catalog.table_exists(("ns", "other"))


def test_metadata_that_can_not_be_read_before_the_swap_is_a_refusal(catalog: Any) -> None:
    table = make_table(catalog)
    append(catalog, table)
    catalog.io.error, catalog.io.reading = PermissionError(errno.EACCES, "denied"), True
    with pytest.raises(IcebergOpsError) as e:
        catalog.commit_table(table, [], [])
    assert isinstance(e.value, TerminalError)
