"""An interrupt of a drop or a rename reports the possible changes: none before the first change, and after it an unknown outcome or
a partial change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.errors import CommitInterruptedError, CommitStateUnknownError, IncompleteError, IncompleteInterruptedError
from iceberg_ops.io.local import LocalFileIO
from tests.builders import IDENTIFIER, data_file, live_paths, make_table, sql_catalog
from tests.catalog.test_late_uuid import without_uuid


class Interrupted(LocalFileIO):
    """Ends at the ``at``-th call (from 0) that changes something, before or after the change."""

    at, calls, after = -1, 0, False
    error: BaseException | type[BaseException] = KeyboardInterrupt

    def _step(self, change: Callable[[], Any]) -> Any:
        self.calls += 1
        if self.calls - 1 != self.at:
            return change()
        if self.after:
            change()
        raise self.error

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        self._step(lambda: super(Interrupted, self).write(location, data, overwrite=overwrite))

    def delete_many(self, locations: Any) -> Any:
        return self._step(lambda: super(Interrupted, self).delete_many(locations))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(7))
def test_a_filesystem_drop_is_done_unknown_or_has_changed_nothing(tmp_path: Path, at: int, after: bool, error: Any) -> None:
    io = Interrupted()
    catalog = FileSystemCatalog("fs", io, warehouse=f"{tmp_path}/wh", sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    table = commit(catalog, make_table(catalog), AppendFiles(added=(data_file("a"),))).table
    io.at, io.calls, io.after, io.error = at, 0, after, error
    ended = ending_of(lambda: catalog.drop_table(IDENTIFIER, purge=True))
    if isinstance(ended, CommitStateUnknownError):
        mark = f"{tmp_path}/wh/.iceberg-ops/ns/t/.dropped/{table.metadata.table_uuid}"
        assert isinstance(ended, CommitInterruptedError) is (error is KeyboardInterrupt)
        assert f"the table is dropped if there is a mark {mark}" in str(ended)
        assert catalog.table_exists(IDENTIFIER) is not Path(mark).exists()
        Path(mark).unlink(missing_ok=True)
        assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}
    elif isinstance(ended, IncompleteError):
        assert isinstance(ended, IncompleteInterruptedError) is (error is KeyboardInterrupt)
        assert "fs.ns.t is dropped, but not all of its files and folders are deleted: it was interrupted" in str(ended)
        assert not catalog.table_exists(IDENTIFIER)
    elif ended is not None:
        assert type(ended) is error
        assert at == 0, "before the mark"
        assert catalog.table_exists(IDENTIFIER)
    else:
        assert at >= io.calls


@pytest.mark.parametrize("where", ["its note", "its folders"])
@pytest.mark.parametrize("kind", ["filesystem", "sql"])
def test_an_interrupt_at_the_end_of_a_drop_says_that_the_table_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, where: str
) -> None:
    io = LocalFileIO()
    catalog = catalog_of(kind, io, tmp_path)
    table = make_table(catalog)
    data = f"{table.location}/data/a.parquet"
    io.write(data, b"x")
    commit(catalog, table, AppendFiles(added=(data_file(data),)))
    delete_many = io.delete_many

    def interrupted(locations: Any) -> Any:
        found = list(locations)
        if any("/deletions/" in location for location in found):
            raise KeyboardInterrupt
        return delete_many(found)

    def stopped(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if where == "its note":
            patched.setattr(io, "delete_many", interrupted)
        else:
            patched.setattr("iceberg_ops.io.local.os.rmdir", stopped)
        ended = ending_of(lambda: catalog.drop_table(IDENTIFIER, purge=True))
    if kind == "filesystem" or where == "its note":
        assert isinstance(ended, IncompleteInterruptedError)
        assert "ns.t is dropped, but not all of its files and folders are deleted: it was interrupted" in str(ended)
    else:
        assert ended is None, "no folder of a SQL catalog's table is removed"
    assert not catalog.table_exists(IDENTIFIER)
    assert not io.exists(data)


@pytest.mark.parametrize("kind", ["filesystem", "sql"])
def test_an_error_while_a_note_is_taken_away_does_not_hide_that_the_table_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    io = LocalFileIO()
    catalog = catalog_of(kind, io, tmp_path)
    make_table(catalog)
    delete_many = io.delete_many

    def fails(locations: Any) -> Any:
        found = list(locations)
        if any("/deletions/" in location for location in found):
            raise MemoryError
        return delete_many(found)

    monkeypatch.setattr(io, "delete_many", fails)
    catalog.drop_table(IDENTIFIER, purge=True)
    assert not catalog.table_exists(IDENTIFIER)


@pytest.mark.parametrize("happens", [False, True])
def test_a_second_interrupt_does_not_hide_that_the_outcome_of_a_drop_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: bool
) -> None:
    io = LocalFileIO()
    catalog = sql_catalog(tmp_path, io)
    catalog.create_namespace(("ns",))
    make_table(catalog)
    real = catalog._remove_pointer

    def interrupted(*arguments: Any) -> bool:
        if happens:
            real(*arguments)
        raise KeyboardInterrupt

    def once_more(_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(catalog, "_remove_pointer", interrupted)
    monkeypatch.setattr(io, "delete_many", once_more)
    with pytest.raises(CommitInterruptedError, match=r"the drop of table ns\.t got no answer: it was interrupted"):
        catalog.drop_table(IDENTIFIER, purge=True)
    assert catalog.table_exists(IDENTIFIER) is not happens


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), OSError(5, "EIO"), MemoryError()], ids=repr)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(7))
def test_the_drop_of_a_table_without_a_uuid_is_done_when_its_current_version_is_gone(
    tmp_path: Path, at: int, after: bool, error: BaseException
) -> None:
    io = Interrupted()
    catalog = FileSystemCatalog("fs", io, warehouse=f"{tmp_path}/wh", sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    table = make_table(catalog, version=1)
    without_uuid(table.metadata_location)
    last = commit(catalog, table, AppendFiles(added=(data_file("a"),))).table
    without_uuid(last.metadata_location)
    io.at, io.calls, io.after, io.error = at, 0, after, error
    ended = ending_of(lambda: catalog.drop_table(IDENTIFIER, purge=True))
    if isinstance(ended, CommitStateUnknownError):
        assert isinstance(ended, CommitInterruptedError) is isinstance(error, KeyboardInterrupt)
        assert f"it is dropped if no version file is left in {tmp_path}/wh/ns/t/metadata" in str(ended)
    elif isinstance(ended, IncompleteError) or ended is None:
        assert not catalog.table_exists(IDENTIFIER)
        return
    else:
        assert at == 0, "before the first version"
    versions = list((tmp_path / "wh/ns/t/metadata").glob("v*.metadata.json"))
    assert catalog.table_exists(IDENTIFIER) is (versions != [])
    if versions:
        assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}
        catalog.drop_table(IDENTIFIER, purge=True)
        assert not catalog.table_exists(IDENTIFIER)


def catalog_of(kind: str, io: LocalFileIO, tmp_path: Path) -> FileSystemCatalog | SqlCatalog:
    catalog: FileSystemCatalog | SqlCatalog = (
        FileSystemCatalog("fs", io, warehouse=f"{tmp_path}/wh", sleep=lambda _: None)
        if kind == "filesystem"
        else sql_catalog(tmp_path, io)
    )
    catalog.create_namespace(("ns",))
    return catalog


def ending_of(call: Callable[[], object]) -> BaseException | None:
    try:
        call()
    except BaseException as e:  # noqa: BLE001 - how it ends is looked at
        return e
    return None


@pytest.mark.parametrize("happens", [False, True])
@pytest.mark.parametrize("change", ["drop", "rename"])
def test_a_pointer_that_an_interrupt_may_have_changed_is_an_unknown_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, happens: bool
) -> None:
    catalog = sql_catalog(tmp_path)
    catalog.create_namespace(("ns",))
    make_table(catalog)
    method = "_remove_pointer" if change == "drop" else "_rename_pointer"
    real = getattr(catalog, method)

    def interrupted(*arguments: Any) -> bool:
        if happens:
            real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(catalog, method, interrupted)
    changes: dict[str, Callable[[], object]] = {
        "drop": lambda: catalog.drop_table(IDENTIFIER),
        "rename": lambda: catalog.rename_table(IDENTIFIER, ("ns", "new")),
    }
    with pytest.raises(CommitInterruptedError, match="it was interrupted by KeyboardInterrupt; it succeeded if"):
        changes[change]()
    assert catalog.table_exists(IDENTIFIER) is not happens


def test_an_interrupt_while_the_files_of_a_dropped_table_are_deleted_says_that_it_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    io = LocalFileIO()
    catalog = sql_catalog(tmp_path, io)
    catalog.create_namespace(("ns",))
    make_table(catalog)

    def interrupted(_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(io, "delete_many", interrupted)
    with pytest.raises(KeyboardInterrupt):
        catalog.drop_table(IDENTIFIER, purge=True)
    assert not catalog.table_exists(IDENTIFIER)
