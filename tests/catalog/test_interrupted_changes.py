"""An interrupt, or a lack of memory, while a table is created, registered, renamed or committed to directly: the interrupt is
passed on unchanged only if nothing was tried; after that the outcome is unknown, and the message explains how to find out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.errors import CommitInterruptedError, CommitStateUnknownError, IcebergOpsError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.updates import SetProperties
from tests.builders import IDENTIFIER, data_file, make_table, sql_catalog
from tests.catalog.test_interrupted_drops import Interrupted, catalog_of, ending_of

NEW = ("ns", "new")
PROPERTIES = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}


def set_property(catalog: Any) -> object:
    return catalog.commit_table(catalog.load_table(IDENTIFIER), (), (SetProperties({"a": "b"}),))


CHANGES: dict[str, tuple[Callable[[Any], object], Callable[[Any], bool], str]] = {
    "create": (lambda c: make_table(c, identifier=NEW), lambda c: c.table_exists(NEW), "creating table ns.new"),
    "commit": (set_property, lambda c: "a" in c.load_table(IDENTIFIER).properties, "a commit to table ns.t"),
}
ERRORS = pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])


@ERRORS
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["filesystem", "sql"])
def test_a_change_that_happened_is_never_a_bare_interrupt(
    tmp_path: Path, kind: str, change: str, at: int, after: bool, error: Any
) -> None:
    io = Interrupted()
    catalog = catalog_of(kind, io, tmp_path)
    table = make_table(catalog, properties=PROPERTIES)
    for n in range(3):
        table = commit(catalog, table, UpdateProperties(updates={"n": str(n)})).table
    do, happened, named = CHANGES[change]
    io.at, io.calls, io.after, io.error = at, 0, after, error
    ended = ending_of(lambda: do(catalog))
    if isinstance(ended, CommitStateUnknownError):
        assert isinstance(ended, CommitInterruptedError) is (error is KeyboardInterrupt)
        assert str(ended).startswith((f"{named} got no answer", "the outcome of creating"))
    elif ended is None:
        assert happened(catalog)
    else:
        assert not happened(catalog)


def interrupting(tmp_path: Path, at: str, *, after: bool, error: Any) -> tuple[SqlCatalog, Callable[[], None]]:
    """A catalog, and what makes its next change of a pointer by ``at`` end in ``error``."""
    catalog = sql_catalog(tmp_path)
    catalog.create_namespace(("ns",))
    real = getattr(catalog, at)

    def interrupted(*arguments: Any) -> Any:
        if after:
            real(*arguments)
        raise error

    return catalog, lambda: setattr(catalog, at, interrupted)


@ERRORS
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("change", ["create", "register", "rename", "commit"])
def test_an_interrupt_of_a_change_of_a_pointer_leaves_an_unknown_outcome(
    tmp_path: Path, change: str, after: bool, error: Any
) -> None:
    at = {"create": "_insert_pointer", "register": "_insert_pointer", "rename": "_rename_pointer", "commit": "_swap_pointer"}[
        change
    ]
    catalog, strikes = interrupting(tmp_path, at, after=after, error=error)
    table = make_table(catalog)
    changes: dict[str, tuple[Callable[[], object], Callable[[], bool]]] = {
        "create": (lambda: make_table(catalog, identifier=NEW), lambda: catalog.table_exists(NEW)),
        "register": (lambda: catalog.register_table(NEW, table.metadata_location), lambda: catalog.table_exists(NEW)),
        "rename": (lambda: catalog.rename_table(IDENTIFIER, NEW), lambda: catalog.table_exists(NEW)),
        "commit": (lambda: set_property(catalog), lambda: "a" in catalog.load_table(IDENTIFIER).properties),
    }
    if change == "register":
        catalog.drop_table(IDENTIFIER)
    do, happened = changes[change]
    strikes()
    ended = ending_of(do)
    assert isinstance(ended, CommitStateUnknownError)
    assert isinstance(ended, CommitInterruptedError) is (error is KeyboardInterrupt)
    assert (
        f"got no answer: {'MemoryError' if error is MemoryError else f'it was interrupted by {error.__name__}'}; it succeeded if"
        in (str(ended))
    )
    assert happened() is after


@ERRORS
@pytest.mark.parametrize("change", ["create", "drop"])
def test_an_interrupt_of_a_change_of_a_namespace_leaves_an_unknown_outcome(tmp_path: Path, change: str, error: Any) -> None:
    catalog = sql_catalog(tmp_path)
    if change == "drop":
        catalog.create_namespace(("more",))

    @event.listens_for(catalog._engine, "after_cursor_execute")
    def _interrupt(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not statement.startswith("SELECT"):
            raise error

    ended = ending_of(lambda: (catalog.create_namespace if change == "create" else catalog.drop_namespace)(("more",)))
    assert isinstance(ended, CommitStateUnknownError)
    assert isinstance(ended, CommitInterruptedError) is (error is KeyboardInterrupt)
    assert f"the {'creation' if change == 'create' else 'drop'} of namespace more got no answer" in str(ended)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_nobody_waits_for_status_checks_after_an_interrupt_that_the_catalog_reports(tmp_path: Path, error: Any) -> None:
    catalog, strikes = interrupting(tmp_path, "_swap_pointer", after=True, error=error)
    table = make_table(catalog)
    strikes()

    def never(_: float) -> None:
        raise AssertionError("waited")

    ended = ending_of(lambda: commit(catalog, table, AppendFiles(added=(data_file("a"),)), sleep=never))
    assert isinstance(ended, CommitStateUnknownError)
    assert isinstance(ended, KeyboardInterrupt) is (error is KeyboardInterrupt)
    assert f"was interrupted by {error.__name__}: it was committed: snapshot" in str(ended)


def test_an_interrupt_at_the_very_end_of_a_commit_says_that_it_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = catalog_of("sql", LocalFileIO(), tmp_path)
    table = make_table(catalog)

    def interrupted(*_: Any, **__: Any) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr("iceberg_ops.commit.loop.committer.Committed", interrupted)
    with pytest.raises(CommitInterruptedError, match="it was committed: snapshot"):
        commit(catalog, table, AppendFiles(added=(data_file("a"),)))


def test_a_refusal_stays_a_refusal(tmp_path: Path) -> None:
    catalog = catalog_of("sql", LocalFileIO(), tmp_path)
    make_table(catalog)
    ended = ending_of(lambda: make_table(catalog))
    assert isinstance(ended, IcebergOpsError)
    assert not isinstance(ended, CommitStateUnknownError)
