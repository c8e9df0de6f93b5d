"""Changes that a SQL database certainly did not make, because it is locked or cannot be reached: the error is definite, not an
unknown outcome."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from iceberg_ops.catalog import sql_schema
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.errors import CatalogUnavailableError, CommitStateUnknownError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.updates import SetProperties
from tests.builders import IDENTIFIER, data_file, live_paths, make_table

NEW = ("ns", "new")
POINTERS = {
    "create": "_insert_pointer",
    "register": "_insert_pointer",
    "rename": "_rename_pointer",
    "drop": "_remove_pointer",
    "commit": "_swap_pointer",
}


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqlCatalog:
    monkeypatch.setattr(sql_schema, "BUSY_TIMEOUT_SECONDS", 0)
    (tmp_path / "db").mkdir()
    made = SqlCatalog("c", f"sqlite:///{tmp_path}/db/c.db", LocalFileIO(), warehouse=f"{tmp_path}/wh", sleep=lambda _: None)
    made.create_namespace(("ns",))
    return made


def changes_of(catalog: SqlCatalog) -> dict[str, Callable[[], object]]:
    """Each with a table to be changed; the one to register is in no catalog."""
    table = make_table(catalog)
    unnamed = make_table(catalog, identifier=("ns", "unnamed"))
    catalog.drop_table(("ns", "unnamed"))
    return {
        "create": lambda: make_table(catalog, identifier=NEW),
        "register": lambda: catalog.register_table(NEW, unnamed.metadata_location),
        "rename": lambda: catalog.rename_table(IDENTIFIER, NEW),
        "drop": lambda: catalog.drop_table(IDENTIFIER),
        "commit": lambda: catalog.commit_table(table, [], [SetProperties({"a": "1"})]),
        "append": lambda: commit(
            catalog, table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None, clock=count(0, 1000.0).__next__
        ),
        "create namespace": lambda: catalog.create_namespace(("more",)),
        "drop namespace": lambda: catalog.drop_namespace(("more",)),
    }


def metadata_files(folder: Path) -> set[Path]:
    return set(folder.rglob("*.metadata.json"))


def ending_of(change: Callable[[], object]) -> BaseException:
    with pytest.raises(Exception) as ended:  # noqa: PT011 - whichever it is, is looked at by the caller
        change()
    return ended.value


@pytest.mark.parametrize("name", ["create", "register", "rename", "drop", "commit", "append", "create namespace"])
def test_a_change_that_the_locked_database_refuses_did_not_happen(tmp_path: Path, catalog: SqlCatalog, name: str) -> None:
    change = changes_of(catalog)[name]
    before = metadata_files(tmp_path)
    with closing(sqlite3.connect(tmp_path / "db" / "c.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        ended = ending_of(change)
        other.execute("ROLLBACK")
    assert isinstance(ended, CatalogUnavailableError)
    assert "database is locked" in str(ended)
    assert catalog.list_tables(("ns",)) == [IDENTIFIER]
    assert catalog.load_table(IDENTIFIER).metadata.snapshots == ()
    assert metadata_files(tmp_path) == before
    change()


@pytest.mark.parametrize("name", POINTERS)
def test_a_change_for_which_nobody_reached_the_database_did_not_happen(
    tmp_path: Path, catalog: SqlCatalog, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = changes_of(catalog)[name]
    before = metadata_files(tmp_path)
    real = getattr(catalog, POINTERS[name])

    def unreached(*arguments: Any) -> Any:
        (tmp_path / "db").rename(tmp_path / "away")
        try:
            return real(*arguments)
        finally:
            (tmp_path / "away").rename(tmp_path / "db")

    with monkeypatch.context() as patched:
        patched.setattr(catalog, POINTERS[name], unreached)
        ended = ending_of(change)
    assert isinstance(ended, CatalogUnavailableError)
    assert "unable to open database file" in str(ended)
    assert catalog.list_tables(("ns",)) == [IDENTIFIER]
    assert metadata_files(tmp_path) == before
    change()


@pytest.mark.parametrize("name", ["commit", "rename", "drop"])
def test_a_lost_answer_before_or_after_a_refusal_stays_in_doubt(
    catalog: SqlCatalog, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first try may have happened, whatever is said of the others."""
    change = changes_of(catalog)[name]
    tries = iter(["lost", "locked", "locked", "locked"])
    locked = closing(sqlite3.connect(tmp_path / "db" / "c.db", isolation_level=None))

    @event.listens_for(catalog._engine, "before_cursor_execute")
    def _lose(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(("UPDATE", "DELETE")) and next(tries) == "lost":
            other.execute("BEGIN IMMEDIATE")
            raise OperationalError(statement, None, Exception("Injected: the server closed the connection"))

    with locked as other:
        ended = ending_of(change)
        other.execute("ROLLBACK")
    assert isinstance(ended, CommitStateUnknownError)


def test_what_is_refused_once_and_taken_at_the_next_try_is_done_once(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = make_table(catalog)
    other = sqlite3.connect(tmp_path / "db" / "c.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    def let_go(_: float) -> None:
        if other.in_transaction:
            other.execute("ROLLBACK")

    catalog._sleep = let_go
    done = commit(catalog, table, AppendFiles(added=(data_file("a"),)))
    other.close()
    assert done.attempts == 1
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}
