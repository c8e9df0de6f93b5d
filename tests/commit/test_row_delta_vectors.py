"""Two writers, one data file, one vector: the union of both, or for an update a conflict on the same row."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.manifests.staged_files import commit_staged
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.commit.validation import checks as validation
from iceberg_ops.data.writing.row_deletes import write_row_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.errors import BadInputError, CommitFailedError, ValidationError
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.table.table import Table
from tests.actions.lake import Lake, numbered
from tests.builders import data_file, deletion_vector, make_catalog, make_table, position_deletes
from tests.catalog.wrappers import FailsNTimes, Meddles


@dataclass
class World:
    """Two files, of ids 0..9 and 10..19, one a row."""

    lake: Lake
    names: Any = field(default_factory=itertools.count)

    @classmethod
    def make(cls) -> World:
        lake = Lake(make_catalog())
        make_table(lake.catalog, version=3, properties={"commit.retry.min-wait-ms": "1", "commit.retry.num-retries": "3"})
        lake.append(numbered(0, 10), numbered(10, 10))
        return cls(lake)

    def delta(self, *ids: int, **fields: Any) -> RowDelta:
        """A row delta for these ids, planned now."""
        table = self.lake.table
        found = self.vectors(table, ids)
        made = {"added_deletes": found[0], "removed_deletes": found[1], "merges_vectors": True, **fields}
        return RowDelta(starting_snapshot_id=table.metadata.current_snapshot_id, **made)

    def vectors(self, table: Table, ids: Sequence[int]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        chosen = []
        for task in sorted(plan(table, Scan()).tasks, key=lambda t: t.file_path):
            first = 0 if task.file_path == min(t.file_path for t in plan(table, Scan()).tasks) else 10
            if mine := [i - first for i in ids if first <= i < first + 10]:
                chosen.append((task, np.array(mine, np.int64)))
        found = write_row_deletes(
            table.io, WriteContext.for_table(table.metadata), chosen, operation_id=f"delta-{next(self.names)}"
        )
        return found.added, found.replaced

    def commit(self, operation: RowDelta, catalog: Catalog | None = None) -> Table:
        return commit(catalog or self.lake.catalog, self.lake.table, operation, sleep=lambda _: None).table

    @property
    def ids(self) -> list[int]:
        return [row[0] for row in self.lake.rows()]

    @property
    def puffins(self) -> set[str]:
        return {p for p in self.lake.paths() if p.endswith(".puffin")}

    @property
    def live(self) -> list[tuple[str, int]]:
        """(data file, rows) of the live vectors; every one is in a file of its own or shares one that is there."""
        vectors = [d.data_file for t in plan(self.lake.table, Scan()).tasks for d in t.deletes]
        assert {v.file_path for v in vectors} <= self.puffins
        return sorted((v.referenced_data_file or "", v.record_count) for v in vectors)


def all_but(*gone: int) -> list[int]:
    return [i for i in range(20) if i not in gone]


@pytest.mark.parametrize("isolation", ["serializable", "snapshot", None])
def test_deletes_that_meet_are_united(isolation: Any) -> None:
    world = World.make()
    world.commit(world.delta(1))
    mine = world.delta(2, 12, isolation=isolation)
    world.commit(world.delta(2, 3))
    world.commit(mine)
    assert world.ids == all_but(1, 2, 3, 12)
    assert [rows for _, rows in world.live] == [3, 1]


def test_the_vector_that_meets_none_stays_as_it_was_written() -> None:
    world = World.make()
    mine = world.delta(2, 12)
    world.commit(world.delta(3))
    mine_paths = {f.file_path for f in mine.added_deletes}
    world.commit(mine)
    assert mine_paths <= world.puffins
    assert world.ids == all_but(2, 3, 12)


@pytest.mark.parametrize("in_a_transaction", [False, True])
def test_a_puffin_file_of_which_nothing_is_used_is_named_and_deleted_by_its_maker(in_a_transaction: bool) -> None:
    world = World.make()
    mine = world.delta(2)
    world.commit(world.delta(3))
    paths = [f.file_path for f in mine.added_deletes]
    operation = Transaction(operations=(mine,)) if in_a_transaction else mine
    done = commit_staged(world.lake.catalog, world.lake.table, operation, paths)
    assert done.unused == set(paths)
    assert not done.unused & world.puffins
    assert world.ids == all_but(2, 3)


def test_attempts_that_lost_leave_no_vectors_behind() -> None:
    world = World.make()
    mine = world.delta(2)
    others = [lambda i=i: world.commit(world.delta(i)) for i in (3, 4, 5)]
    world.commit(mine, Meddles(world.lake.catalog, *others))
    assert world.ids == all_but(2, 3, 4, 5)
    used = {d.file_path for t in plan(world.lake.table, Scan()).tasks for d in t.deletes}
    committed = {p for p in world.puffins if "/data/00000-delta-" in p}
    assert world.puffins - committed == used


def test_a_commit_that_gives_up_leaves_no_vectors_behind() -> None:
    world = World.make()
    mine = world.delta(2)
    world.commit(world.delta(3))
    before = world.puffins
    with pytest.raises(CommitFailedError):
        world.commit(mine, FailsNTimes(world.lake.catalog, 9))
    assert world.puffins <= before
    assert world.ids == all_but(3)


def test_two_vectors_for_one_file_in_one_commit_are_united() -> None:
    world = World.make()
    table = world.lake.table
    twice = (*world.vectors(table, [1])[0], *world.vectors(table, [2, 11])[0])
    world.commit(RowDelta(added_deletes=twice, merges_vectors=True, starting_snapshot_id=table.metadata.current_snapshot_id))
    assert world.ids == all_but(1, 2, 11)
    with pytest.raises(BadInputError, match=r"a deletion vector for .* is added twice"):
        RowDelta(added_deletes=twice)


def update(world: World, *ids: int) -> RowDelta:
    """An update of these rows to themselves, as far as the commit can tell."""
    return world.delta(*ids, added_data=(data_file(f"new-{next(world.names)}", rows=len(ids)),), isolation="snapshot")


def test_an_update_is_refused_where_the_very_row_was_deleted_and_only_there() -> None:
    world = World.make()
    world.commit(world.delta(1))
    mine, other = update(world, 2), update(world, 2, 3)
    world.commit(world.delta(3))
    world.commit(mine)
    with pytest.raises(
        ValidationError, match=r"^Found concurrently added DV for .* deletes row 2, which this commit rewrites"
    ) as no:
        world.commit(other)
    head = world.lake.table.metadata.current_snapshot
    assert head is not None
    assert (no.value.snapshot_id, no.value.operation, no.value.partition) == (head.snapshot_id, "overwrite", "()")
    assert str(no.value.file_path) in str(no.value)
    assert no.value.file_paths == (other.added_deletes[0].referenced_data_file,)


def test_without_that_check_an_update_would_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.make()
    mine, other = update(world, 2), update(world, 2)
    world.commit(mine)
    monkeypatch.setattr(validation, "no_row_changed_twice", lambda *a: None)
    world.commit(other)
    added = [s.summary.get("added-records") for s in world.lake.table.metadata.snapshots[1:]]
    assert added == ["1", "1"], "row 2 is there twice now"


def test_an_update_whose_file_was_rewritten_is_still_refused() -> None:
    world = World.make()
    mine = update(world, 2)
    world.lake.run("rewrite_data_files", rewrite_all=True)
    with pytest.raises(ValidationError, match="missing data files"):
        world.commit(mine)


def with_delete_files(world: World, *data_paths: str) -> Table:
    """Another engine, which knows no vectors, deletes a row of each of these files in a v3 table."""
    table = world.lake.table
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validation, "no_wrong_delete_format", lambda *_: None)
        for number, path in enumerate(data_paths):
            delta = RowDelta(added_deletes=(position_deletes(f"positions-{number}", path),), isolation=None)
            table = commit(world.lake.catalog, table, delta).table
    return table


LEFT_OUT = "found new position delete for data file with a new deletion vector"


@pytest.mark.parametrize("isolation", ["serializable", "snapshot", None])
@pytest.mark.parametrize("merges", [True, False])
def test_a_vector_does_not_leave_out_positions_that_a_delete_file_deleted_meanwhile(merges: bool, isolation: Any) -> None:
    """It would take the place of that file, and the row would be back."""
    world = World.make()
    delta = world.delta(1, merges_vectors=merges, isolation=isolation)
    (path,) = {f.referenced_data_file or "" for f in delta.added_deletes}
    table = with_delete_files(world, "another.parquet", path)
    with pytest.raises(ValidationError, match=LEFT_OUT) as refused:
        commit(world.lake.catalog, table, delta)
    assert refused.value.file_paths == (path,)


def test_positions_of_other_files_are_none_of_a_vector() -> None:
    world = World.make()
    delta = world.delta(1)
    table = with_delete_files(world, "another.parquet")
    assert commit(world.lake.catalog, table, delta).snapshot is not None


def test_a_conversion_to_vectors_does_not_leave_them_out_either() -> None:
    world = World.make()
    first = plan(world.lake.table, Scan()).tasks[0].file_path
    table = with_delete_files(world, first)
    converted = RewriteFiles(
        removed_deletes=(position_deletes("positions-0", first),),
        added_deletes=(deletion_vector("v", first),),
        starting_snapshot_id=table.metadata.current_snapshot_id,
    )
    with pytest.raises(ValidationError, match=LEFT_OUT):
        commit(world.lake.catalog, with_delete_files(world, first), converted)
