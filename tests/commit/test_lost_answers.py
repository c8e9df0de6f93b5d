"""A swap without an answer: where and for how long the committer checks its outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties, UpgradeFormatVersion
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.commit.protocol.retry import LONGEST_WAIT_MS, RetryPolicy
from iceberg_ops.errors import BadInputError, CommitStateUnknownError, OptionError, UnsupportedError, ValidationError
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
    """The first commit happens or not, its answer is lost, and then another table has the name."""

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


class LosesTheAnswerThen(LosesTheAnswer):
    """Somebody else works right after the commit whose answer is lost."""

    def __init__(self, inner: Any, then: Operation | None) -> None:
        super().__init__(inner)
        self.then = then

    def commit_table(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        try:
            return super().commit_table(table, requirements, updates)
        finally:
            then, self.then = self.then, None
            if then is not None:
                commit(self.inner, self.inner.load_table(IDENTIFIER), then)


@pytest.mark.parametrize("then", [None, UpgradeFormatVersion(format_version=3)], ids=["nobody else", "another upgrades further"])
@pytest.mark.parametrize(
    "operation",
    [
        UpgradeFormatVersion(format_version=2),
        UpdateProperties(updates={"format-version": "2"}),
        UpdateProperties(updates={"format-version": "2", "owner": "me"}),
    ],
    ids=["upgrade", "property", "property with others"],
)
def test_a_new_format_version_whose_answer_is_lost_is_found_in_the_table(operation: Operation, then: Operation | None) -> None:
    catalog = make_catalog()
    table = make_table(catalog, version=1)
    done = commit(LosesTheAnswerThen(catalog, then), table, operation, sleep=lambda _: None)
    assert done.attempts == 1
    assert done.table.metadata.format_version == (2 if then is None else 3)


@pytest.mark.parametrize("version", ["1", "9", "x", "²", "9" * 5000])
def test_a_format_version_that_the_table_cannot_get_is_refused(version: str) -> None:
    catalog = make_catalog()
    table = make_table(catalog, version=2)
    with pytest.raises((BadInputError, UnsupportedError)):
        commit(catalog, table, UpdateProperties(updates={"format-version": version}))


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


@pytest.mark.parametrize("policy", [RetryPolicy.of, RetryPolicy.of_status_checks])
def test_waits_beyond_what_a_system_can_sleep_are_cut(policy: Callable[[Mapping[str, str]], RetryPolicy]) -> None:
    kinds, waits = ("commit.retry", "commit.status-check"), ("min-wait-ms", "max-wait-ms", "total-timeout-ms")
    found = policy({f"{kind}.{name}": str(2**63 - 1) for kind in kinds for name in waits})
    assert found.wait_seconds(1, 0.0, lambda: 1.0) == pytest.approx(LONGEST_WAIT_MS / 1000)
    with pytest.raises(OptionError, match="must be a whole number"):
        policy({f"{kind}.min-wait-ms": str(2**63) for kind in kinds})
