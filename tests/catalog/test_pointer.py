from __future__ import annotations

from typing import Any

import pytest

from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.errors import CatalogUnavailableError, CommitStateUnknownError
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
