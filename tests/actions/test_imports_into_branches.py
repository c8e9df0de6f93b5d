"""One folder and two branches: the imports that ``check-duplicate-files`` refuses, and the files that are kept if it is false."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations import cherry_pick
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.metadata_updates import UpdateSpec
from iceberg_ops.commit.operations.refs import RemoveRef, RollBack, SetRef
from iceberg_ops.commit.protocol import changed_entries
from iceberg_ops.commit.protocol.history import base_snapshot
from iceberg_ops.errors import CommitFailedError, DataError, NotPublishableError, ValidationError
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.manifests import ManifestEntry, ManifestFile
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.requirements import AssertRefSnapshotId
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table
from tests.actions.lake import Lake, Row, make_lake
from tests.actions.test_imports_at_once import place
from tests.catalog.wrappers import Meddles

BOTH = [(0, "x", "eu"), (1, "x", "eu"), (9, "x", "eu")]
ANY = {"check_duplicate_files": "false"}


@pytest.fixture
def lake() -> Lake:
    lake = make_lake(properties={"iceberg-ops.owns-imported-files": "true"})
    lake.append([(9, "x", "eu")])
    commit(lake.catalog, lake.table, SetRef(ref="b"))
    return lake


def rows(lake: Lake, branch: str) -> list[Row]:
    return lake.rows(Scan(ref=branch))


def test_imports_into_two_branches_at_once_are_refused_as_one_after_the_other_are(lake: Lake) -> None:
    folder = place(lake, "memory://import")
    other = Meddles(lake.catalog, lambda: lake.run("add_files", source_path=folder))
    with pytest.raises(
        ValidationError, match=r"Cannot add a file that was added concurrently: memory://import/0\.parquet \(snapshot"
    ):
        lake.run("add_files", catalog=other, source_path=folder, branch="b")
    with pytest.raises(DataError, match=r"memory://import/0\.parquet is in table .* already"):
        lake.run("add_files", source_path=folder, branch="b")
    assert rows(lake, "main") == BOTH
    assert rows(lake, "b") == [(9, "x", "eu")]


def test_an_import_requires_that_no_other_branch_has_moved(lake: Lake) -> None:
    """A catalog's server puts a commit on what others have made of other branches."""
    before, operation = lake.table, AppendFiles(added=lake.written([(1, "x", "eu")]), only_new=True, branch="b")
    requirements = operation.stage(operation.prepare(before), before).requirements
    for requirement in requirements:
        requirement.check(before.metadata)
    lake.append([(2, "x", "eu")])
    moved = [r for r in requirements if isinstance(r, AssertRefSnapshotId) and r.ref == "main"]
    with pytest.raises(CommitFailedError, match="main"):
        moved[0].check(lake.table.metadata)


def test_an_import_goes_on_beside_other_files_in_another_branch(lake: Lake) -> None:
    first, second = place(lake, "memory://import"), place(lake, "memory://second")
    other = Meddles(lake.catalog, lambda: lake.run("add_files", source_path=second))
    assert lake.run("add_files", catalog=other, source_path=first, branch="b").status == "committed"
    assert (rows(lake, "main"), rows(lake, "b")) == (BOTH, BOTH)


@pytest.fixture
def in_both(lake: Lake) -> Lake:
    """A folder that was imported into each of two branches."""
    folder = place(lake, "memory://import")
    lake.run("add_files", source_path=folder)
    lake.run("add_files", source_path=folder, branch="b", **ANY)
    assert (rows(lake, "main"), rows(lake, "b")) == (BOTH, BOTH)
    return lake


def test_a_snapshot_of_a_branch_is_not_picked_to_one_that_has_its_files(in_both: Lake) -> None:
    for branch, target in (("b", "main"), ("main", "b")):
        ref = in_both.table.metadata.ref(branch)
        assert ref is not None
        with pytest.raises(NotPublishableError, match=rf"0\.parquet is live on {target} already, and its rows"):
            commit(in_both.catalog, in_both.table, CherryPick(snapshot_id=ref.snapshot_id, branch=target))
    assert (rows(in_both, "main"), rows(in_both, "b")) == (BOTH, BOTH)


def test_nor_where_they_have_another_partition_spec_in_each(lake: Lake) -> None:
    (file,) = lake.written([(1, "x", "eu")])
    commit(lake.catalog, lake.table, AppendFiles(added=(file,), branch="b"))
    picked = lake.table.metadata.snapshots[-1].snapshot_id
    by_region = PartitionSpec(1, (PartitionField((3,), 1000, IDENTITY, "region"),))
    commit(lake.catalog, lake.table, UpdateSpec(spec=by_region))
    commit(lake.catalog, lake.table, AppendFiles(added=(replace(file, spec_id=1, partition=("eu",)),)))
    with pytest.raises(NotPublishableError, match="is live on main already"):
        commit(lake.catalog, lake.table, CherryPick(snapshot_id=picked))


def test_a_publication_reads_of_the_branch_what_came_since_it_was_staged(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Manifests that both have could show nothing, and are most of a large table's."""
    for i in range(5):
        lake.append([(i, "x", "eu")])
    before = {m.manifest_path for m in manifests_of(lake.table, base_snapshot(lake.table.metadata, "main"))}
    commit(lake.catalog, lake.table, AppendFiles(added=lake.written([(20, "x", "eu")]), staged=True, summary={"wap.id": "w"}))
    lake.append([(21, "x", "eu")])
    read: set[str] = set()

    def reading(table: Table, manifest: ManifestFile, *, live_only: bool = False) -> list[ManifestEntry]:
        read.add(manifest.manifest_path)
        return entries_of(table, manifest, live_only=live_only)

    for module in (cherry_pick, changed_entries):
        monkeypatch.setattr(module, "entries_of", reading)
    commit(lake.catalog, lake.table, CherryPick(wap_id="w"))
    assert len(before) == 6
    assert len(read) == 2  # the staged one, and the one that came since
    assert not read & before
    assert len(rows(lake, "main")) == 8


def rolled_back(lake: Lake) -> None:
    commit(lake.catalog, lake.table, RollBack(snapshot_id=lake.table.metadata.snapshots[0].snapshot_id))


def deleted(lake: Lake) -> None:
    assert lake.run("delete", where="id < 5").status == "committed"


def dropped(lake: Lake) -> None:
    commit(lake.catalog, lake.table, RemoveRef(ref="b"))


@pytest.mark.parametrize(
    ("steps", "kept"), [([rolled_back], "b"), ([deleted], "b"), ([dropped], "main"), ([rolled_back, dropped], None)]
)
def test_a_file_stays_while_one_branch_has_it(in_both: Lake, steps: list[Callable[[Lake], None]], kept: str | None) -> None:
    for step in steps:
        step(in_both)
    in_both.run("expire_snapshots", older_than="0s", retain_last=1)
    in_both.run("remove_orphan_files", now=lambda: 2**41)
    assert in_both.table.io.exists("memory://import/0.parquet") is (kept is not None)
    if kept is not None:
        assert rows(in_both, kept) == BOTH
