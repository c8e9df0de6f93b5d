"""A rewrite swaps right after an expected delete, and waits for no unexpected one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.manifests.quiet_moment import wait_for_a_quiet_moment
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.spec.content_files import FileContent
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, make_catalog, make_table
from tests.catalog.wrappers import IsDown, Wrapped

START = 4_000_000_000_000


class World:
    """A table and a clock; at given times since the start something is committed to it."""

    def __init__(self, commits: Sequence[tuple[int, str]]) -> None:
        self.catalog: Catalog = make_catalog()
        self.table: Table = make_table(self.catalog, version=2)
        self.waiting = sorted(commits)
        self.now = START
        self.set_back_ms = 0
        """How far the machine's clock was set back in the meantime."""

    def go_to(self, ms: float) -> None:
        self.now = round(START + ms)
        while self.waiting and START + self.waiting[0][0] <= self.now:
            at, kind = self.waiting.pop(0)
            file = data_file(f"f{at}")
            if kind == "append":
                operation: AppendFiles | RowDelta = AppendFiles(added=(file,), timestamp_ms=START + at)
            else:
                deletes = replace(file, content=FileContent.POSITION_DELETES)
                operation = RowDelta(added_deletes=(deletes,), isolation="snapshot", timestamp_ms=START + at)
            commit(self.catalog, self.table, operation)

    def wait(self, catalog: Catalog | None = None) -> int:
        return wait_for_a_quiet_moment(
            catalog or self.catalog,
            self.catalog.load_table(IDENTIFIER),
            "main",
            sleep=lambda seconds: self.go_to(self.now - START + seconds * 1000),
            now_ms=lambda: self.now - self.set_back_ms,
            clock=lambda: self.now / 1000,
        )


@pytest.mark.parametrize(
    ("commits", "begin", "expected"),
    [
        pytest.param([(0, "delete"), (1000, "delete"), (2000, "delete"), (3000, "delete")], 2600, (400, 425), id="the next is due"),
        pytest.param([(0, "delete"), (1000, "delete"), (2000, "delete"), (2900, "append"), (3000, "delete")], 2600, (400, 425),
                     id="an append is no delete"),
        pytest.param([(0, "delete"), (1000, "delete"), (2000, "delete"), (3000, "delete")], 2090, (0, 0), id="one just came"),
        pytest.param([(0, "delete"), (1000, "delete")], 1500, (2000, 2025), id="the rhythm stops"),
        pytest.param([(0, "delete"), (1000, "delete")], 9000, (0, 0), id="the rhythm stopped long ago"),
        pytest.param([(0, "delete"), (60_000, "delete")], 90_000, (0, 0), id="too slow to wait for"),
        pytest.param([(0, "delete")], 600, (0, 0), id="one is no rhythm"),
        pytest.param([(0, "append"), (1000, "append")], 1600, (0, 0), id="no deletes"),
    ],
)  # fmt: skip
def test_it_waits_for_a_delete_that_is_due(commits: list[tuple[int, str]], begin: int, expected: tuple[int, int]) -> None:
    world = World(commits)
    world.go_to(begin)
    assert expected[0] <= world.wait() <= expected[1]


def test_a_catalog_that_does_not_answer_ends_the_wait() -> None:
    world = World([(0, "delete"), (1000, "delete"), (2000, "delete")])
    world.go_to(1600)
    assert world.wait(IsDown(world.catalog, 1)) == 0


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_a_clock_that_is_set_meanwhile_does_not_change_the_wait(jump_ms: int) -> None:
    world = World([(0, "delete"), (1000, "delete")])
    world.go_to(1500)
    catalog = Wrapped(world.catalog)
    loads = iter(range(1000))

    def load_table(identifier: tuple[str, ...]) -> Table:
        world.set_back_ms = jump_ms if next(loads) > 3 else 0
        return world.catalog.load_table(identifier)

    catalog.load_table = load_table  # type: ignore[attr-defined]
    assert 2000 <= world.wait(catalog) <= 2025  # type: ignore[arg-type]
