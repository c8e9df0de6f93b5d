"""A statement is re-evaluated on the current table, as often as that may help and no more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.loop.statement import MOST_EVALUATIONS, evaluate_until_committed
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.errors import CommitFailedError, CommitStateUnknownError, IcebergOpsError, ValidationError
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, make_catalog, make_table


class World:
    """Every evaluation notes what it saw; ``others`` commit while one runs, and it then fails with ``error``."""

    def __init__(self, error: IcebergOpsError, failures: int, others: Callable[[], object] | None = None) -> None:
        self.catalog = make_catalog()
        make_table(self.catalog)
        self.error, self.failures = error, failures
        self.others = others or self.append
        self.saw: list[int | None] = []
        self.time = 0.0

    def append(self) -> None:
        commit(self.catalog, self.table, AppendFiles(added=(data_file(f"f{len(self.saw)}"),)))

    @property
    def table(self) -> Table:
        return self.catalog.load_table(IDENTIFIER)

    def evaluate(self, table: Table, number: int) -> int:
        self.saw.append(table.metadata.current_snapshot_id)
        assert number == len(self.saw)
        if number > self.failures:
            return number
        self.others()
        raise self.error

    def run(self) -> int:
        return evaluate_until_committed(self.catalog, self.table, "main", self.evaluate, clock=lambda: self.time)


def conflict() -> ValidationError:
    return ValidationError("Cannot commit", snapshot_id=7, operation="replace", file_path="f", partition="()", file_paths=("f",))


def test_each_evaluation_sees_the_commit_that_refused_the_one_before() -> None:
    world = World(conflict(), 3)
    assert world.run() == 4
    assert len(set(world.saw)) == 4
    assert world.saw[-1] == world.table.metadata.current_snapshot_id


def test_evaluations_are_bounded_and_the_last_conflict_is_told() -> None:
    world = World(conflict(), 99)
    with pytest.raises(ValidationError, match=f"Cannot commit; evaluated {MOST_EVALUATIONS} times in 0 s") as refused:
        world.run()
    assert len(world.saw) == MOST_EVALUATIONS
    found = refused.value
    assert (found.snapshot_id, found.operation, found.file_path, found.partition, found.file_paths) == (
        7,
        "replace",
        "f",
        "()",
        ("f",),
    )


def test_time_is_bounded_by_the_tables_commit_budget() -> None:
    world = World(conflict(), 99)

    def others() -> None:
        world.append()
        world.time += 1000

    world.others = others
    with pytest.raises(ValidationError, match="evaluated 2 times in 2000 s"):
        world.run()


def test_a_conflict_on_a_table_nobody_changed_is_the_statements_own() -> None:
    world = World(conflict(), 99, lambda: None)
    with pytest.raises(ValidationError, match=r"^Cannot commit$"):
        world.run()
    assert len(world.saw) == 1


def test_another_table_of_the_same_name_is_not_changed() -> None:
    world = World(conflict(), 99)

    def others() -> None:
        world.catalog.drop_table(IDENTIFIER)
        make_table(world.catalog)
        world.append()

    world.others = others
    with pytest.raises(ValidationError, match=r"^Cannot commit$"):
        world.run()


@pytest.mark.parametrize("error", [CommitStateUnknownError("?"), CommitFailedError("gave up")], ids=lambda e: e.code)
def test_other_errors_are_raised_at_once(error: IcebergOpsError) -> None:
    world = World(error, 99)
    with pytest.raises(type(error)):
        world.run()
    assert len(world.saw) == 1


def test_the_branch_is_what_must_have_moved() -> None:
    world = World(conflict(), 99)
    table = commit(world.catalog, world.table, AppendFiles(added=(data_file("a"),), branch="dev")).table
    with pytest.raises(ValidationError, match=r"^Cannot commit$"):
        evaluate_until_committed(world.catalog, table, "dev", world.evaluate)
