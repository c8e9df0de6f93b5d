"""A swap without an answer: where it is looked for, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from iceberg_ops.commit.append_files import AppendFiles
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.metadata_updates import UpdateProperties
from iceberg_ops.commit.operation import Operation
from iceberg_ops.errors import CommitStateUnknownError, ValidationError
from iceberg_ops.spec.requirements import TableRequirement
from iceberg_ops.spec.updates import TableUpdate
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, live_paths, make_catalog, make_table
from tests.catalog.wrappers import LosesTheAnswer, Meddles, Wrapped

OTHER = ("ns", "u")


def swap_names(catalog: Any) -> None:
    for old, new in ((IDENTIFIER, ("ns", "x")), (OTHER, IDENTIFIER), (("ns", "x"), OTHER)):
        catalog.rename_table(old, new)


class LosesTheAnswerAndTheName(Wrapped):
    """The first commit happens or not, nobody is told, and then another table has the name."""

    def __init__(self, inner: Any, *, happens: bool) -> None:
        super().__init__(inner)
        self.happens, self.done = happens, False

    def commit_table(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        assert not self.done, "swapped again"
        self.done = True
        if self.happens:
            self.inner.commit_table(table, requirements, updates)
        swap_names(self.inner)
        raise CommitStateUnknownError("Injected: no answer")


@pytest.mark.parametrize("happens", [True, False])
@pytest.mark.parametrize(
    "operation",
    [
        AppendFiles(added=(data_file("mine"),)),
        AppendFiles(added=(data_file("mine"),), run_key="k"),
        UpdateProperties(updates={"owner": "me"}),
        UpdateProperties(updates={"owner": "me"}, run_key="k"),
    ],
    ids=["append", "append with a key", "properties", "properties with a key"],
)
def test_a_lost_answer_is_not_looked_for_in_another_table_of_the_name(operation: Operation, happens: bool) -> None:
    """The other table has the property, a snapshot with the sequence number, and the run key."""
    catalog = make_catalog()
    table, other = make_table(catalog), make_table(catalog, identifier=OTHER)
    other = commit(catalog, other, AppendFiles(added=(data_file("other"),), run_key="k")).table
    commit(catalog, other, UpdateProperties(updates={"owner": "me"}, run_key="k"))
    uuid = table.metadata.table_uuid
    with pytest.raises(CommitStateUnknownError, match=f"the table of uuid {uuid}; nothing was deleted") as unknown:
        commit(LosesTheAnswerAndTheName(catalog, happens=happens), table, operation, sleep=lambda _: None)
    assert "is not the one this work was planned on" in str(unknown.value)
    mine = catalog.load_table(OTHER)
    assert (live_paths(mine) == {"mine"} or mine.properties.get("owner") == "me") is happens


def test_a_run_key_that_another_table_of_the_name_has_is_not_taken_for_done() -> None:
    catalog = make_catalog()
    table, other = make_table(catalog), make_table(catalog, identifier=OTHER)
    append = AppendFiles(added=(data_file("a"),), run_key="k")
    commit(catalog, other, append)
    swap_names(catalog)
    with pytest.raises(ValidationError, match="is not the one this work was planned on"):
        commit(catalog, table, append)


def test_a_run_key_is_not_looked_for_in_a_table_that_takes_the_name_between_two_looks() -> None:
    catalog = make_catalog()
    table, other = make_table(catalog), make_table(catalog, identifier=OTHER)
    append = AppendFiles(added=(data_file("a"),), run_key="k")
    commit(catalog, other, append)
    with pytest.raises(ValidationError, match="is not the one this work was planned on"):
        commit(Meddles(catalog, lambda: swap_names(catalog)), table, append, sleep=lambda _: None)
    assert live_paths(catalog.load_table(OTHER)) == set()


@pytest.mark.parametrize(
    ("properties", "waits"),
    [
        ({}, [1, 2, 4]),
        ({"num-retries": "0"}, []),
        ({"num-retries": "9"}, [1, 2, 4, 8, 16, 32, 60, 60, 60]),
        ({"num-retries": "5", "min-wait-ms": "10", "max-wait-ms": "25"}, [0.01, 0.02, 0.025, 0.025, 0.025]),
        ({"num-retries": "5000", "total-timeout-ms": "10000"}, [1, 2, 4, 8]),
    ],
)
def test_an_unanswered_swap_is_looked_for_as_long_as_the_table_says(properties: dict[str, str], waits: list[float]) -> None:
    catalog = make_catalog()
    table = make_table(catalog, properties={f"commit.status-check.{k}": v for k, v in properties.items()})
    slept: list[float] = []
    with pytest.raises(CommitStateUnknownError, match=f"after {len(waits) + 1} checks"):
        _wait_for_an_answer(catalog, table, slept)
    assert slept == pytest.approx(waits)


def test_any_number_of_looks_takes_half_an_hour_at_most() -> None:
    catalog = make_catalog()
    slept: list[float] = []
    with pytest.raises(CommitStateUnknownError):
        _wait_for_an_answer(catalog, make_table(catalog, properties={"commit.status-check.num-retries": "2000000000"}), slept)
    assert 1800 <= sum(slept) <= 1860
    assert max(slept) == 60


def _wait_for_an_answer(catalog: Any, table: Table, slept: list[float]) -> None:
    losing = LosesTheAnswer(catalog, happens=False)
    commit(losing, table, AppendFiles(added=(data_file("a"),)), sleep=slept.append, clock=lambda: sum(slept))
