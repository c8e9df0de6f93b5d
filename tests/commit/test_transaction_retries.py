"""Transactions have the meaning of their operations one after another.

Transactions that are refused and staged again: each file gets the numbers of the snapshot that added it, as if there had been one
attempt. Files of an earlier attempt have the numbers of that attempt, if one operation uses another's manifests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.refs import SetRef
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.errors import ValidationError
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import EntryStatus
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table
from tests.actions.lake import make_lake
from tests.builders import IDENTIFIER, data_file, live_files, make_catalog, make_table, position_deletes
from tests.catalog.wrappers import Meddles

BRANCHES = ("main", "audit")
MERGE_TWO = {"commit.manifest.min-count-to-merge": "2"}
Step = tuple[str, str]
"""What an operation of a transaction does, and on which branch."""


def _operation(step: Step, name: str, gone: DataFile, head: int | None) -> Operation:
    kind, branch = step
    new: Any = {"added": (data_file(name),), "branch": branch}
    return {
        "append": lambda: AppendFiles(merge=False, **new),
        "append that merges": lambda: AppendFiles(**new),
        "delete": lambda: DeleteFiles(paths=(gone.file_path,), branch=branch),
        "overwrite": lambda: OverwriteFiles(removed=(gone,), isolation=None, **new),
        "compaction": lambda: RewriteFiles(
            removed_data=(gone,), added_data=(data_file(name),), starting_snapshot_id=head, branch=branch
        ),
        "row delta": lambda: RowDelta(removed_data=(gone,), added_data=(data_file(name),), isolation=None, branch=branch),
        "rewrite of manifests": lambda: RewriteManifests(branch=branch),
    }[kind]()


KINDS = ["append", "append that merges", "delete", "overwrite", "compaction", "row delta", "rewrite of manifests"]
steps = st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(BRANCHES)), min_size=2, max_size=4)


@given(steps=steps, version=st.sampled_from([1, 2, 3]), merges=st.booleans(), refusals=st.integers(1, 3))
def test_every_file_has_the_numbers_of_the_snapshot_that_added_it(
    steps: list[Step], version: int, merges: bool, refusals: int
) -> None:
    catalog = make_catalog()
    table = make_table(catalog, version=version, properties=MERGE_TWO if merges else {})
    gone = [data_file(f"gone{n}") for n in range(len(steps))]
    for f in gone:
        table = commit(catalog, table, AppendFiles(added=(f,))).table
    head = table.metadata.current_snapshot_id
    table = commit(catalog, table, SetRef(ref="audit", snapshot_id=head or 0)).table
    operations = tuple(_operation(step, f"new{n}", gone[n], head) for n, step in enumerate(steps))
    others = [_foreign(catalog, f"foreign{n}", branch) for n in range(refusals) for branch in BRANCHES]
    now = commit(Meddles(catalog, *others), table, Transaction(operations=operations), sleep=lambda _: None).table
    for branch in BRANCHES:
        _check_numbers(now, branch)


def _foreign(catalog: Any, name: str, branch: str) -> Callable[[], object]:
    appending = AppendFiles(added=(data_file(f"{name}-{branch}"),), merge=False, branch=branch)
    return lambda: commit(catalog, catalog.load_table(IDENTIFIER), appending)


def _check_numbers(table: Table, branch: str) -> None:
    added: dict[str, int] = {}
    for snapshot in table.metadata.snapshots:
        for manifest in manifests_of(table, snapshot):
            for entry in entries_of(table, manifest):
                if entry.status is EntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id:
                    added[entry.data_file.file_path] = snapshot.sequence_number
    found = live_files(table, branch)
    assert found == {path: (added[path], added[path]) for path in found}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("second", ["append that merges", "delete", "rewrite of manifests"])
def test_rows_of_a_transaction_outlive_an_equality_delete_that_was_committed_before_it(second: str, version: int) -> None:
    lake = make_lake(version=version, properties=MERGE_TWO if second == "append that merges" else {})
    lake.append([(1, "old", "a")])
    gone = lake.written([(99, "gone", "a")])
    table = commit(lake.catalog, lake.table, AppendFiles(added=gone)).table
    new, more = lake.written([(1, "new", "a")]), lake.written([(5, "five", "a")])
    operations: dict[str, Operation] = {
        "append that merges": AppendFiles(added=more),
        "delete": DeleteFiles(paths=(gone[0].file_path,)),
        "rewrite of manifests": RewriteManifests(),
    }
    both = Transaction(operations=(AppendFiles(added=new, merge=False), operations[second]))
    meddling = Meddles(lake.catalog, lambda: (lake.delete_ids(777), lake.delete_ids(1)))
    commit(meddling, table, both, sleep=lambda _: None)
    assert (1, "new", "a") in lake.rows()


VALIDATED = ["append", "delete", "overwrite", "compaction", "row delta", "deletes by position", "update", "pick"]
validated = st.lists(st.tuples(st.sampled_from(VALIDATED), st.integers(0, 1)), min_size=2, max_size=3)


def _validated(step: tuple[str, int], name: str, head: int | None, staged: int) -> Operation:
    kind, number = step
    gone = data_file(f"gone{number}")
    new: Any = {"added": (data_file(name),), "starting_snapshot_id": head}
    changed: Any = {"added_deletes": (position_deletes(f"{name}-deletes", gone.file_path),), "starting_snapshot_id": head}
    kinds: dict[str, Callable[[], Operation]] = {
        "append": lambda: AppendFiles(merge=False, **new),
        "delete": lambda: DeleteFiles(files=(gone,), must_exist=True),
        "overwrite": lambda: OverwriteFiles(removed=(gone,), isolation="snapshot", **new),
        "compaction": lambda: RewriteFiles(
            removed_data=(gone,), added_data=(data_file(name),), data_sequence_number=2, starting_snapshot_id=head
        ),
        "row delta": lambda: RowDelta(removed_data=(gone,), added_data=(data_file(name),), starting_snapshot_id=head),
        "deletes by position": lambda: RowDelta(referenced_data_files=(gone.file_path,), isolation="snapshot", **changed),
        "update": lambda: RowDelta(
            added_data=(data_file(name),), referenced_data_files=(gone.file_path,), isolation="snapshot", **changed
        ),
        "pick": lambda: CherryPick(snapshot_id=staged),
    }
    return kinds[kind]()


def _outcome(steps: list[tuple[str, int]], together: bool) -> dict[str, Any] | None:
    """The live files after the operations, in one transaction or one after another; None where they are refused."""
    catalog = make_catalog()
    table = commit(catalog, make_table(catalog), AppendFiles(added=(data_file("gone0"),), merge=False)).table
    table = commit(catalog, table, AppendFiles(added=(data_file("gone1"),), merge=False)).table
    head = table.metadata.current_snapshot_id
    staged = commit(catalog, table, AppendFiles(added=(data_file("staged"),), staged=True)).snapshot
    assert staged is not None
    table = catalog.load_table(IDENTIFIER)
    operations = tuple(_validated(step, f"new{n}", head, staged.snapshot_id) for n, step in enumerate(steps))
    try:
        for operation in (Transaction(operations=operations),) if together else operations:
            commit(catalog, table, operation, sleep=lambda _: None)
    except ValidationError:
        return None
    return live_files(catalog.load_table(IDENTIFIER))


@given(steps=validated)
@example(steps=[("pick", 0), ("pick", 0)])
@example(steps=[("compaction", 0), ("deletes by position", 0)])
@example(steps=[("deletes by position", 0), ("compaction", 0)])
def test_a_transaction_does_what_its_operations_do_one_after_another_or_is_refused_where_one_of_them_is(
    steps: list[tuple[str, int]],
) -> None:
    assert _outcome(steps, together=True) == _outcome(steps, together=False)
