"""Drops, renames and changes of namespaces without an answer: they are done, or the outcome is unknown, but never "nothing was
changed"."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.errors import AlreadyExistsError, CommitFailedError, CommitStateUnknownError, NoSuchTableError
from iceberg_ops.io.local import LocalFileIO
from tests.builders import IDENTIFIER, data_file, live_paths, make_table, sql_catalog

NEW = ("ns", "new")
AFTER, BEFORE = "after_cursor_execute", "before_cursor_execute"
MANY = 100


class Lossy(SqlCatalog):
    """``lose`` makes the next statements that begin so happen (AFTER), or not (BEFORE), and loses their answers; ``then`` is what
    somebody else does next."""

    def lose(self, beginning: str, when: str, times: int = 1, then: Callable[[], object] = lambda: None) -> None:
        left = [times]

        @event.listens_for(self._engine, when)
        def _lose(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if left[0] and statement.startswith(beginning):
                left[0] -= 1
                then()
                raise OperationalError(statement, None, Exception("Injected: the server closed the connection"))


@pytest.fixture
def catalog(tmp_path: Path) -> Lossy:
    made = Lossy("c", f"sqlite:///{tmp_path}/c.db", LocalFileIO(), warehouse=f"{tmp_path}/wh", sleep=lambda _: None)
    made.create_namespace(("ns",), {"owner": "me"})
    return made


@pytest.fixture
def others(tmp_path: Path, catalog: Lossy) -> SqlCatalog:
    return sql_catalog(tmp_path)


def with_file(catalog: SqlCatalog) -> tuple[Any, Path]:
    table = make_table(catalog)
    path = f"{table.location}/data/a.parquet"
    table.io.write(path, b"PAR1")
    return commit(catalog, table, AppendFiles(added=(data_file(path),))).table, Path(path)


def test_a_drop_that_did_not_happen_is_done_at_the_second_try(catalog: Lossy) -> None:
    _, path = with_file(catalog)
    catalog.lose("DELETE FROM iceberg_tables", BEFORE)
    catalog.drop_table(IDENTIFIER, purge=True)
    assert not catalog.table_exists(IDENTIFIER)
    assert not path.exists()


@pytest.mark.parametrize("purge", [True, False])
def test_a_drop_whose_answer_is_lost_is_an_unknown_outcome_that_says_how_to_go_on(catalog: Lossy, purge: bool) -> None:
    table, path = with_file(catalog)
    catalog.lose("DELETE FROM iceberg_tables", AFTER)
    with pytest.raises(CommitStateUnknownError, match=f"no answer: .* register {table.metadata_location} "):
        catalog.drop_table(IDENTIFIER, purge=purge)
    assert path.exists()
    catalog.register_table(IDENTIFIER, table.metadata_location)
    catalog.drop_table(IDENTIFIER, purge=True)
    assert not path.exists()


def test_a_drop_that_never_gets_an_answer_is_an_unknown_outcome(catalog: Lossy) -> None:
    with_file(catalog)
    catalog.lose("DELETE FROM iceberg_tables", BEFORE, MANY)
    with pytest.raises(CommitStateUnknownError):
        catalog.drop_table(IDENTIFIER, purge=True)
    assert catalog.table_exists(IDENTIFIER)


def test_a_drop_without_answer_did_not_happen_where_the_table_moved_on(catalog: Lossy, others: SqlCatalog) -> None:
    table, path = with_file(catalog)
    catalog.lose("DELETE FROM iceberg_tables", BEFORE, then=lambda: commit(others, table, UpdateProperties(updates={"a": "1"})))
    with pytest.raises(CommitFailedError, match="changed while it was being dropped"):
        catalog.drop_table(IDENTIFIER, purge=True)
    assert path.exists()


def make_once(catalog: SqlCatalog) -> None:
    if not catalog.table_exists(IDENTIFIER):
        make_table(catalog)


def test_a_new_table_of_the_name_does_not_show_that_a_drop_did_not_happen(
    catalog: Lossy, others: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, path = with_file(catalog)
    monkeypatch.setattr(catalog, "_sleep", lambda _: make_once(others))
    catalog.lose("DELETE FROM iceberg_tables", AFTER)
    with pytest.raises(CommitStateUnknownError):
        catalog.drop_table(IDENTIFIER, purge=True)
    assert others.table_exists(IDENTIFIER)
    assert path.exists()


@pytest.mark.parametrize("when", [AFTER, BEFORE])
def test_a_rename_whose_answer_is_lost_is_done(catalog: Lossy, when: str) -> None:
    table, _ = with_file(catalog)
    catalog.lose("UPDATE iceberg_tables", when)
    assert catalog.rename_table(IDENTIFIER, NEW).metadata == table.metadata
    assert catalog.list_tables(("ns",)) == [NEW]


def test_a_rename_whose_answer_is_lost_does_not_rename_the_next_table_of_the_name(
    catalog: Lossy, others: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _ = with_file(catalog)
    monkeypatch.setattr(catalog, "_sleep", lambda _: make_once(others))
    catalog.lose("UPDATE iceberg_tables", AFTER)
    assert catalog.rename_table(IDENTIFIER, NEW).metadata == table.metadata
    assert live_paths(others.load_table(IDENTIFIER)) == set()
    assert live_paths(others.load_table(NEW)) == live_paths(table)


def test_a_rename_that_never_gets_an_answer_is_an_unknown_outcome(catalog: Lossy) -> None:
    with_file(catalog)
    catalog.lose("UPDATE iceberg_tables", BEFORE, MANY)
    with pytest.raises(CommitStateUnknownError, match=r"renaming table ns\.t to ns\.new got no answer"):
        catalog.rename_table(IDENTIFIER, NEW)


def test_a_rename_that_a_commit_comes_before_begins_again(
    catalog: Lossy, others: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _ = with_file(catalog)
    rename, left = catalog._rename_pointer, [2]

    def after_a_commit(*names: Any) -> bool:
        if left[0]:
            left[0] -= 1
            commit(others, table, UpdateProperties(updates={"n": str(left[0])}))
        return rename(*names)

    monkeypatch.setattr(catalog, "_rename_pointer", after_a_commit)
    assert catalog.rename_table(IDENTIFIER, NEW).properties["n"] == "0"
    assert catalog.load_table(NEW).properties["n"] == "0"


def test_a_rename_is_refused_where_the_old_name_is_gone_or_the_new_one_is_taken(
    catalog: Lossy, others: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _ = with_file(catalog)
    rename = catalog._rename_pointer

    def meanwhile(work: Callable[[], object]) -> None:
        def renames(*names: Any) -> bool:
            work()
            return rename(*names)

        monkeypatch.setattr(catalog, "_rename_pointer", renames)

    meanwhile(lambda: others._insert_pointer(NEW, table.metadata_location))
    with pytest.raises(AlreadyExistsError):
        catalog.rename_table(IDENTIFIER, NEW)
    others.drop_table(NEW)
    meanwhile(lambda: others.drop_table(IDENTIFIER))
    with pytest.raises(NoSuchTableError):
        catalog.rename_table(IDENTIFIER, NEW)


@pytest.mark.parametrize("when", [AFTER, BEFORE])
def test_a_registration_whose_answer_is_lost_is_looked_for(catalog: Lossy, when: str) -> None:
    table, _ = with_file(catalog)
    catalog.drop_table(IDENTIFIER)
    catalog.lose("INSERT INTO iceberg_tables", when)
    if when == AFTER:
        assert catalog.register_table(IDENTIFIER, table.metadata_location).metadata == table.metadata
    else:
        with pytest.raises(CommitStateUnknownError, match=r"registering table ns\.t got no answer"):
            catalog.register_table(IDENTIFIER, table.metadata_location)


def test_namespaces_whose_change_got_no_answer_are_looked_for(catalog: Lossy) -> None:
    catalog.lose("INSERT INTO iceberg_namespace_properties", AFTER)
    catalog.create_namespace(("made",), {"a": "1"})
    assert catalog.namespace_properties(("made",)) == {"a": "1"}
    catalog.lose("DELETE FROM iceberg_namespace_properties", AFTER)
    catalog.drop_namespace(("made",))
    assert ("made",) not in catalog.list_namespaces()


def test_a_change_of_a_namespace_that_did_not_happen_yet_is_an_unknown_outcome(catalog: Lossy) -> None:
    catalog.lose("INSERT INTO iceberg_namespace_properties", BEFORE)
    with pytest.raises(CommitStateUnknownError, match="the creation of namespace made got no answer"):
        catalog.create_namespace(("made",))
    catalog.create_namespace(("made",))
    catalog.lose("DELETE FROM iceberg_namespace_properties", BEFORE)
    with pytest.raises(CommitStateUnknownError, match="the drop of namespace made got no answer"):
        catalog.drop_namespace(("made",))
