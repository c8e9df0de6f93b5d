"""A statement that a SQL database refused had no effect, and is not an unknown outcome."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine.cursor import CursorResult
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, InternalError, OperationalError, ProgrammingError

from iceberg_ops.catalog import sql_schema
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.catalog.sql_schema import open_engine
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.errors import CatalogUnavailableError, CommitStateUnknownError, TerminalError
from iceberg_ops.spec.updates import SetProperties
from tests.builders import IDENTIFIER, data_file, live_paths, make_table, sql_catalog
from tests.catalog.test_not_applied import changes_of, ending_of, metadata_files

Error = tuple[type[DBAPIError], dict[str, Any]]
_AS_PG8000_HAS_IT = {"S": "ERROR", "M": "Injected: the server says no"}
PASSES: dict[str, Error] = {
    "sqlite: the disk is full": (OperationalError, {"sqlite_errorcode": sqlite3.SQLITE_FULL}),
    "sqlite: its journal cannot be made": (OperationalError, {"sqlite_errorcode": sqlite3.SQLITE_CANTOPEN | 3 << 8}),
    "a server that only reads, in a failover": (InternalError, {"pgcode": "25006"}),
    "a lock that somebody else keeps": (OperationalError, {"pgcode": "55P03"}),
    "a statement that took too long": (OperationalError, {"sqlstate": "57014"}),
    "a deadlock": (OperationalError, {"sqlstate": "40P01"}),
    "the server's disk is full": (OperationalError, {"pgcode": "53100"}),
    "pg8000: others changed the row, in serializable transactions": (
        ProgrammingError,
        {"args": (_AS_PG8000_HAS_IT | {"C": "40001"},)},
    ),
}
LASTS: dict[str, Error] = {
    "a role without the right": (ProgrammingError, {"pgcode": "42501"}),
    "no such table, of a driver that knows no SQLSTATE": (ProgrammingError, {}),
    "a value that is too long": (DataError, {"sqlstate": "22001"}),
}
IN_DOUBT: dict[str, Error] = {
    "no SQLSTATE": (OperationalError, {}),
    "the connection failed": (OperationalError, {"sqlstate": "08006"}),
    "completion unknown": (OperationalError, {"sqlstate": "40003"}),
    "an administrator ended the connection": (OperationalError, {"pgcode": "57P01"}),
    "the server's own error": (InternalError, {"pgcode": "XX000"}),
    "pg8000: the server's own error": (ProgrammingError, {"args": (_AS_PG8000_HAS_IT | {"C": "XX000"},)}),
    "sqlite: a read or write failed": (OperationalError, {"sqlite_errorcode": sqlite3.SQLITE_IOERR}),
}
CHANGES = ["create", "register", "rename", "drop", "commit", "append", "create namespace"]


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    made = sql_catalog(tmp_path, sleep=lambda _: None)
    made.create_namespace(("ns",))
    return made


def failing(catalog: SqlCatalog, *errors: Error) -> list[str]:
    """From now on statements that change something meet these errors, one after the other, and the last one for ever; the
    statements."""
    met: list[str] = []

    @event.listens_for(catalog._engine, "before_cursor_execute")
    def _fail(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(("UPDATE", "DELETE", "INSERT")):
            kind, said = errors[min(len(met), len(errors) - 1)]
            met.append(statement)
            origin = Exception("Injected: the server\nsays no")
            for name, value in said.items():
                setattr(origin, name, value)
            raise kind(statement, None, origin)

    return met


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("error", PASSES)
def test_what_the_server_refuses_for_now_did_not_happen(tmp_path: Path, catalog: SqlCatalog, name: str, error: str) -> None:
    change = changes_of(catalog)[name]
    before = metadata_files(tmp_path)
    failing(catalog, PASSES[error])
    ended = ending_of(change)
    assert isinstance(ended, CatalogUnavailableError)
    assert "Injected: the server says no" in str(ended)
    assert metadata_files(tmp_path) == before
    assert catalog.list_tables(("ns",)) == [IDENTIFIER]


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("error", LASTS)
def test_what_the_server_refuses_for_a_lasting_reason_is_not_tried_again(
    tmp_path: Path, catalog: SqlCatalog, name: str, error: str
) -> None:
    change = changes_of(catalog)[name]
    before = metadata_files(tmp_path)
    met = failing(catalog, LASTS[error])
    ended = ending_of(change)
    assert isinstance(ended, TerminalError)
    assert "Injected: the server says no; nothing was changed" in str(ended)
    assert len(met) == 1
    assert metadata_files(tmp_path) == before
    assert catalog.list_tables(("ns",)) == [IDENTIFIER]


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("error", IN_DOUBT)
def test_what_the_server_does_not_know_itself_is_unknown(catalog: SqlCatalog, name: str, error: str) -> None:
    change = changes_of(catalog)[name]
    failing(catalog, IN_DOUBT[error])
    assert isinstance(ending_of(change), CommitStateUnknownError)


@pytest.mark.parametrize("name", ["rename", "drop", "commit"])
@pytest.mark.parametrize("later", [PASSES["a deadlock"], LASTS["a role without the right"]], ids=["passes", "lasts"])
def test_a_lost_answer_before_a_refusal_stays_in_doubt(catalog: SqlCatalog, name: str, later: Error) -> None:
    """The first try may have happened, whatever is said of the others."""
    change = changes_of(catalog)[name]
    failing(catalog, IN_DOUBT["the connection failed"], later)
    assert isinstance(ending_of(change), CommitStateUnknownError)


@pytest.mark.parametrize("error", LASTS)
def test_a_look_that_the_server_refuses_says_so(catalog: SqlCatalog, error: str) -> None:
    make_table(catalog)

    @event.listens_for(catalog._engine, "before_cursor_execute")
    def _fail(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        kind, said = LASTS[error]
        origin = Exception("Injected")
        for name, value in said.items():
            setattr(origin, name, value)
        raise kind(statement, None, origin)

    for look in (lambda: catalog.load_table(IDENTIFIER), lambda: catalog.list_tables(("ns",)), catalog.list_namespaces):
        with pytest.raises(TerminalError, match="catalog c: Injected"):
            look()


def test_a_database_that_is_really_full_refuses(tmp_path: Path, catalog: SqlCatalog) -> None:
    pages = sqlite3.connect(tmp_path / "c.db").execute("PRAGMA page_count").fetchone()[0]

    @event.listens_for(catalog._engine, "connect")
    def _limit(connection: Any, _record: Any) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    def fill() -> None:
        for number in range(1000):
            catalog.create_namespace((f"n{number}",), {"comment": "x" * 900})

    with pytest.raises(CatalogUnavailableError, match="database or disk is full"):
        fill()


# the two tables


def test_a_role_that_may_not_create_tables_works_on_those_that_are_there(tmp_path: Path, catalog: SqlCatalog) -> None:
    table = make_table(catalog)
    engine = open_engine(f"sqlite:///{tmp_path}/c.db")

    @event.listens_for(engine, "before_cursor_execute")
    def _forbid(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        assert "CREATE" not in statement.upper()

    assert sql_schema.create_missing_tables(engine)
    assert catalog.load_table(IDENTIFIER).metadata == table.metadata


@pytest.mark.parametrize("kind", [IntegrityError, ProgrammingError, OperationalError])
@pytest.mark.parametrize("which", ["iceberg_tables", "iceberg_namespace_properties"])
def test_another_process_may_create_the_tables_at_the_same_time(tmp_path: Path, kind: type[DBAPIError], which: str) -> None:
    """Postgres refuses the slower of two CREATE TABLE IF NOT EXISTS: one of its internal names is taken by then."""
    engine, other = (open_engine(f"sqlite:///{tmp_path}/c.db") for _ in range(2))

    @event.listens_for(engine, "before_cursor_execute")
    def _lose(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if f"CREATE TABLE IF NOT EXISTS {which}" in statement:
            sql_schema.create_missing_tables(other)
            raise kind(statement, None, Exception("duplicate key value violates unique constraint"))

    assert sql_schema.create_missing_tables(engine)


def test_a_role_that_may_not_create_tables_says_so_where_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = open_engine

    def limited(uri: str) -> Any:
        engine = real(uri)

        @event.listens_for(engine, "before_cursor_execute")
        def _forbid(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if "CREATE TABLE" in statement:
                raise ProgrammingError(statement, None, Exception("permission denied for schema public"))

        return engine

    monkeypatch.setattr("iceberg_ops.catalog.sql.open_engine", limited)
    with pytest.raises(TerminalError, match="catalog c: permission denied for schema public"):
        sql_catalog(tmp_path)


def test_what_was_refused_once_and_taken_at_the_next_try_is_done_once(catalog: SqlCatalog) -> None:
    table = make_table(catalog)
    errors = iter([PASSES["a deadlock"]])

    @event.listens_for(catalog._engine, "before_cursor_execute")
    def _fail(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("UPDATE") and (error := next(errors, None)) is not None:
            origin = Exception("deadlock detected")
            origin.sqlstate = error[1]["sqlstate"]  # type: ignore[attr-defined]
            raise error[0](statement, None, origin)

    assert commit(catalog, table, AppendFiles(added=(data_file("a"),))).attempts == 1
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}


def test_a_driver_that_does_not_say_how_many_rows_it_changed_loses_no_table(
    catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The DBAPI permits a negative number. The change was made, and its metadata file must stay."""
    table, new = make_table(catalog), (*IDENTIFIER[:-1], "new")
    monkeypatch.setattr(CursorResult, "rowcount", property(lambda _: -1))
    commit(catalog, table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}
    with pytest.raises(CatalogUnavailableError, match="does not say whether it made a change"):
        catalog._swap_pointer(IDENTIFIER, table.metadata_location, "another")
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}
    catalog.rename_table(IDENTIFIER, new)
    assert live_paths(catalog.load_table(new)) == {"a"}
    catalog.drop_table(new)
    assert catalog.list_tables(IDENTIFIER[:-1]) == []


def test_such_a_driver_whose_database_is_gone_after_a_change_loses_no_table(
    catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the look after the change reaches no database does not say that the change was not made."""
    table = make_table(catalog)
    monkeypatch.setattr(CursorResult, "rowcount", property(lambda _: -1))
    is_changed: list[str] = []

    @event.listens_for(catalog._engine, "after_cursor_execute")
    def _note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        is_changed.extend([statement] if statement.startswith("UPDATE") else [])

    @event.listens_for(catalog._engine, "do_connect")
    def _refuse(*_: Any) -> None:
        if is_changed:
            raise sqlite3.OperationalError("no connection")

    with pytest.raises(CommitStateUnknownError, match="could not be looked up"):
        catalog.commit_table(table, [], [SetProperties({"a": "b"})])
    is_changed.clear()
    assert catalog.load_table(IDENTIFIER).properties["a"] == "b"


def test_such_a_driver_purges_no_table_that_was_renamed_meanwhile(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is gone, as after a drop: the table has another one, and has been written since."""
    table, new = make_table(catalog), (*IDENTIFIER[:-1], "new")
    commit(catalog, table, AppendFiles(added=(data_file("a"),)))
    monkeypatch.setattr(CursorResult, "rowcount", property(lambda _: -1))

    @event.listens_for(catalog._engine, "before_cursor_execute")
    def _rename(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("DELETE") and catalog.table_exists(IDENTIFIER):
            renamed = catalog.rename_table(IDENTIFIER, new)
            catalog.commit_table(renamed, [], [SetProperties({"a": "b"})])

    with pytest.raises(CommitStateUnknownError, match="does not say whether it made a change"):
        catalog.drop_table(IDENTIFIER, purge=True)
    assert catalog.load_table(new).properties["a"] == "b"
    event.remove(catalog._engine, "before_cursor_execute", _rename)
    catalog.drop_table(new, purge=True)
    assert catalog.list_tables(IDENTIFIER[:-1]) == []


def test_such_a_driver_drops_one_of_the_names_of_a_metadata_folder(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another engine registered the table twice, or several tables have one ``write.metadata.path``: this is no rename."""
    second = (*IDENTIFIER[:-1], "second")
    catalog._insert_pointer(second, make_table(catalog).metadata_location)
    monkeypatch.setattr(CursorResult, "rowcount", property(lambda _: -1))
    catalog.drop_table(second)
    assert catalog.list_tables(IDENTIFIER[:-1]) == [IDENTIFIER]
    catalog.drop_table(IDENTIFIER, purge=True)
    assert catalog.list_tables(IDENTIFIER[:-1]) == []
