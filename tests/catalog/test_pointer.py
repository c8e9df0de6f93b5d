"""A pointer that is moved without an answer: whether it moved is asked again, found in the metadata log, or unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.errors import AlreadyExistsError, CatalogUnavailableError, CommitStateUnknownError, TerminalError
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.spec.updates import SetProperties
from tests.builders import IDENTIFIER, data_file, live_paths, make_table


class Unsure(MemoryCatalog):
    """The next ``losses`` swaps happen (or not), and the store does not answer; ``then`` is what someone else does next."""

    losses = 0
    happens = True
    then: Any = None

    def _swap_pointer(self, identifier: tuple[str, ...], expected: str, new: str) -> bool:
        if self.losses:
            self.losses -= 1
            if self.happens:
                super()._swap_pointer(identifier, expected, new)
            if self.then is not None:
                self.then, then = None, self.then
                then()
            raise CatalogUnavailableError("Injected: no answer")
        return super()._swap_pointer(identifier, expected, new)


def unsure(losses: int, *, happens: bool) -> tuple[Unsure, Any]:
    catalog = Unsure("c", MemoryFileIO(f"unsure-{losses}-{happens}-{id(object())}"), sleep=lambda _: None)
    if ("ns",) not in catalog.list_namespaces():
        catalog.create_namespace(("ns",))
    table = make_table(catalog)
    catalog.losses, catalog.happens = losses, happens
    return catalog, table


@pytest.mark.parametrize("happens", [True, False])
def test_a_swap_without_answer_is_asked_for_again_and_happens_once(happens: bool) -> None:
    catalog, table = unsure(1, happens=happens)
    done = commit(catalog, table, AppendFiles(added=(data_file("a"),)))
    assert done.attempts == 1
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}


@pytest.mark.parametrize("happens", [True, False])
def test_the_catalog_itself_finds_out_what_an_unanswered_swap_did(happens: bool) -> None:
    catalog, table = unsure(1, happens=happens)
    assert catalog.commit_table(table, [], [SetProperties({"a": "1"})]).properties["a"] == "1"
    assert catalog.load_table(IDENTIFIER).properties["a"] == "1"


def test_a_swap_without_answer_that_others_built_on_is_found_in_the_metadata_log() -> None:
    catalog, table = unsure(1, happens=True)
    catalog.then = lambda: catalog.commit_table(catalog.load_table(IDENTIFIER), [], [SetProperties({"other": "1"})])
    done = commit(catalog, table, AppendFiles(added=(data_file("a"),)))
    assert done.attempts == 1
    now = catalog.load_table(IDENTIFIER)
    assert live_paths(now) == {"a"}
    assert now.properties["other"] == "1"


def test_a_store_that_never_answers_leaves_the_outcome_unknown_and_all_files_in_place() -> None:
    catalog, table = unsure(100, happens=False)
    with pytest.raises(CommitStateUnknownError, match="got no answer"):
        catalog.commit_table(table, [], [SetProperties({"a": "1"})])
    assert len([i for i in catalog.io.list_prefix(table.location) if i.location.endswith("metadata.json")]) == 2


class Refusing(MemoryCatalog):
    """The next change happens, and gets no answer; then the store refuses ``refusals`` requests for a reason that has nothing to do
    with it: the token has run out, say."""

    losses = 0
    refusals = 0

    def _asked_once(self, change: Any, *arguments: Any) -> Any:
        self._refuse()
        done = change(*arguments)
        if self.losses:
            self.losses -= 1
            raise CatalogUnavailableError("Injected: no answer")
        return done

    def _refuse(self) -> None:
        if self.refusals and not self.losses:
            self.refusals -= 1
            raise TerminalError("Injected: 401")

    def _current_location(self, identifier: tuple[str, ...]) -> str | None:
        self._refuse()
        return super()._current_location(identifier)

    def _insert_pointer(self, identifier: tuple[str, ...], location: str) -> None:
        self._asked_once(super()._insert_pointer, identifier, location)

    def _swap_pointer(self, identifier: tuple[str, ...], expected: str, new: str) -> bool:
        return bool(self._asked_once(super()._swap_pointer, identifier, expected, new))

    def _rename_pointer(self, old: tuple[str, ...], new: tuple[str, ...], expected: str) -> bool:
        return bool(self._asked_once(super()._rename_pointer, old, new, expected))

    def _remove_pointer(self, identifier: tuple[str, ...], expected: str) -> bool:
        return bool(self._asked_once(super()._remove_pointer, identifier, expected))


@pytest.fixture
def refusing() -> Refusing:
    catalog = Refusing("c", MemoryFileIO(f"refusing-{id(object())}"), sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    return catalog


@pytest.mark.parametrize("refusals", [1, 2])
def test_a_refusal_after_a_swap_without_answer_does_not_say_that_it_did_not_happen(refusing: Refusing, refusals: int) -> None:
    """Who believes it commits a second time."""
    table = make_table(refusing)
    refusing.losses, refusing.refusals = 1, refusals
    done = commit(refusing, table, AppendFiles(added=(data_file("a"),)), just_loaded=True, sleep=lambda _: None)
    assert done.attempts == 1
    now = refusing.load_table(IDENTIFIER)
    assert live_paths(now) == {"a"}
    assert refusing.io.exists(now.metadata_location)


@pytest.mark.parametrize("what", ["create", "drop", "rename"])
def test_a_refusal_after_another_change_without_answer_leaves_it_unknown(refusing: Refusing, what: str) -> None:
    if what != "create":
        make_table(refusing)
    refusing.losses, refusing.refusals = 1, 9
    changes: dict[str, Callable[[], object]] = {
        "create": lambda: make_table(refusing),
        "drop": lambda: refusing.drop_table(IDENTIFIER),
        "rename": lambda: refusing.rename_table(IDENTIFIER, ("ns", "new")),
    }
    with pytest.raises(CommitStateUnknownError):
        changes[what]()
    refusing.refusals = 0
    expected = {"create": [IDENTIFIER], "drop": [], "rename": [("ns", "new")]}
    assert refusing.list_tables(("ns",)) == expected[what]
    if what == "create":
        assert live_paths(refusing.load_table(IDENTIFIER)) == set()


def test_a_table_that_is_there_already_keeps_its_metadata_where_the_catalog_cannot_be_asked(refusing: Refusing) -> None:
    """A store that tried the creation twice by itself says so of its own table."""

    class Twice(Refusing):
        def _insert_pointer(self, identifier: tuple[str, ...], location: str) -> None:
            super()._insert_pointer(identifier, location)
            self.refusals = 1
            super(Refusing, self)._insert_pointer(identifier, location)

    twice = Twice("c", refusing.io, sleep=lambda _: None)
    twice.create_namespace(("ns",))
    with pytest.raises(AlreadyExistsError):
        make_table(twice)
    assert live_paths(twice.load_table(IDENTIFIER)) == set()
