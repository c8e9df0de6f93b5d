"""Generated histories of staging, picking, moving and expiring: no change is on a branch twice, and no run key is forgotten.

Only numbers are drawn; each step maps them to the operations that the table allows at that moment."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import expire
from iceberg_ops.commit.operations.refs import FastForward, RemoveRef, RenameBranch, SetCurrentSnapshot, SetRef
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.protocol import ledger
from iceberg_ops.commit.protocol.run_keys import WAP_ID, RunIdentity, find_run
from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.spec.requirements import AssertTableUUID
from iceberg_ops.spec.snapshots import MAIN_BRANCH, Snapshot
from iceberg_ops.spec.updates import RemoveSnapshots
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, make_catalog, make_table

BRANCHES, TAGS = ("main", "x", "y"), ("one", "two")
KINDS = (
    "append",
    "stage",
    "stage",
    "pick",
    "pick",
    "pick",
    "pick by another",
    "branch",
    "tag",
    "move",
    "forward",
    "rename",
    "remove",
    "expire",
    "hole",
    "compact",
)
Step = tuple[str, int, int]
steps = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 11), st.integers(0, 11)), min_size=6, max_size=24)


def paths_of(table: Table, snapshot: Snapshot | None) -> list[str]:
    return [e.data_file.file_path for m in manifests_of(table, snapshot) for e in entries_of(table, m, live_only=True)]


@dataclass
class Story:
    """A table, and what is known of it besides: the WAP id of each file, the runs that were done, and which files each compacted
    one has the rows of.

    What another engine expires in the middle of a history is known by its files alone: either that happens, or compactions."""

    version: int
    wap_ids: dict[str, str] = field(default_factory=dict)
    done: list[RunIdentity] = field(default_factory=list)
    compacted: dict[str, list[str]] = field(default_factory=dict)
    has_hole: bool = False
    files: int = 0

    def __post_init__(self) -> None:
        self.catalog = make_catalog()
        self.table = make_table(self.catalog, version=self.version)

    def take(self, step: Step) -> None:
        """One step. What is refused changes nothing."""
        kind, one, two = step
        snapshots = self.table.metadata.snapshots
        branch = BRANCHES[one % len(BRANCHES)]
        if kind in ("append", "stage") or not snapshots:
            self._append(branch, staged=kind == "stage" and bool(snapshots), wap_id=f"w{two % 2}" if two < 6 else None)
            return
        snapshot_id = snapshots[-1 - two % len(snapshots)].snapshot_id
        if kind == "pick by another":
            self._pick_by_another(branch, self.table.metadata.snapshots_by_id[snapshot_id])
            return
        if kind == "compact":
            self._compact(branch)
            return
        before = self._wap_ids(branch)
        operations: dict[str, Any] = {
            "pick": CherryPick(snapshot_id=snapshot_id, branch=branch, run_key=f"pick-{one}-{two}" if two % 2 else None),
            "branch": SetRef(ref=branch, snapshot_id=snapshot_id, replace_existing=True),
            "tag": SetRef(ref=TAGS[one % 2], snapshot_id=snapshot_id, type="tag", replace_existing=True),
            "move": SetCurrentSnapshot(snapshot_id=snapshot_id, branch=branch),
            "forward": FastForward(branch=branch, to=BRANCHES[two % len(BRANCHES)]),
            "rename": RenameBranch(old=branch, new=BRANCHES[two % len(BRANCHES)]),
            "remove": RemoveRef(ref=(*BRANCHES, *TAGS)[two % 5]),
        }
        try:
            if kind in ("expire", "hole"):
                self._expire(one, snapshot_id, by_another=kind == "hole")
            else:
                self.table = commit(self.catalog, self.table, operations[kind]).table
        except IcebergOpsError:
            return
        if kind == "pick":
            after = self._wap_ids(branch)
            assert not [w for w in after if after[w] > max(1, before[w])], "a WAP id was published twice"

    def _append(self, branch: str, *, staged: bool, wap_id: str | None) -> None:
        self.files += 1
        path, key = f"f{self.files}", f"k{self.files}"
        summary = {WAP_ID: wap_id} if staged and wap_id else {}
        append = AppendFiles(added=(data_file(path),), merge=False, branch=branch, staged=staged, run_key=key, summary=summary)
        self.table = commit(self.catalog, self.table, append).table
        if summary:
            self.wap_ids[path] = summary[WAP_ID]
        if not staged:
            self.done.append(RunIdentity(key=key, action="append", branch=branch))

    def _pick_by_another(self, branch: str, picked: Snapshot) -> None:
        """Another engine records the direct source only. It is left out where it would publish something twice by itself, or make a
        copy of a publication, which would not say its WAP id."""
        head = self.table.metadata.branch_head(branch)
        files = [
            e.data_file.file_path
            for m in manifests_of(self.table, picked)
            for e in entries_of(self.table, m, live_only=True)
            if e.snapshot_id == picked.snapshot_id
        ]
        wap_ids = {self.wap_ids[path] for path in files if path in self.wap_ids}
        if (
            head is None
            or picked.operation != "append"
            or {*files} & {*self._paths(branch)}
            or wap_ids & self._wap_ids(branch).keys()
        ):
            return
        if "published-wap-id" in picked.summary:
            return
        summary = {"source-snapshot-id": str(picked.snapshot_id)}
        if WAP_ID in picked.summary:
            summary["published-wap-id"] = picked.summary[WAP_ID]
        append = AppendFiles(added=tuple(map(data_file, files)), merge=False, branch=branch, summary=summary)
        self.table = commit(self.catalog, self.table, append).table

    def _expire(self, keep: int, snapshot_id: int, *, by_another: bool) -> None:
        """Another engine enters nothing in the ledger: it takes plain appends in the middle of a history, and their keys."""
        metadata = self.table.metadata
        if not by_another:
            chosen = {"snapshot_ids": (snapshot_id,), "older_than_ms": 0} if keep % 2 else {"older_than_ms": 2**60}
            expire(self.catalog, self.table, ExpireSnapshots(retain_last=1 + keep % 3, **chosen))
        elif (
            not self.compacted
            and snapshot_id not in {r.snapshot_id for r in metadata.refs.values()}
            and not _publishes(metadata.snapshots_by_id[snapshot_id])
        ):
            self.has_hole = True
            self.catalog.commit_table(self.table, [AssertTableUUID(metadata.table_uuid)], [RemoveSnapshots((snapshot_id,))])
            self.done = [run for run in self.done if find_run(self.catalog.load_table(IDENTIFIER), run) is not None]
        self.table = self.catalog.load_table(IDENTIFIER)

    def _compact(self, branch: str) -> None:
        paths = paths_of(self.table, self.table.metadata.branch_head(branch))
        if not paths or self.has_hole:
            return
        self.files += 1
        path = f"c{self.files}"
        self.compacted[path] = self._paths(branch)
        rewrite = RewriteFiles(removed_data=tuple(map(data_file, paths)), added_data=(data_file(path, rows=1),), branch=branch)
        self.table = commit(self.catalog, self.table, rewrite).table

    def _paths(self, branch: str) -> list[str]:
        """Live files of the branch, as they were before compactions."""
        paths = paths_of(self.table, self.table.metadata.branch_head(branch))
        return [former for path in paths for former in self.compacted.get(path, [path])]

    def _wap_ids(self, branch: str) -> Counter[str]:
        return Counter(self.wap_ids[path] for path in self._paths(branch) if path in self.wap_ids)

    def check(self) -> None:
        metadata = self.table.metadata
        for branch in {MAIN_BRANCH, *(name for name, ref in metadata.refs.items() if ref.is_branch)}:
            paths = self._paths(branch)
            assert len(paths) == len(set(paths)), f"{branch} has a file twice: {sorted(paths)}"
        assert [run for run in self.done if find_run(self.table, run) is None] == [], "a run key was forgotten"


def _publishes(snapshot: Snapshot) -> bool:
    return "source-snapshot-id" in snapshot.summary or WAP_ID in snapshot.summary or "iceberg-ops.staged" in snapshot.summary


@pytest.mark.parametrize("size", [2, 64])
@given(steps=steps, version=st.sampled_from([1, 2, 3]))
@example(steps=[("append", 0, 0), ("branch", 1, 0), ("append", 0, 0), ("append", 1, 0), ("pick", 1, 1), ("pick", 0, 0)], version=2)
@example(steps=[("append", 0, 0), ("append", 0, 0), ("append", 0, 0), ("hole", 0, 1), ("pick", 0, 1)], version=2)
@example(
    steps=[
        *(
            ("append", 0, 0),
            ("branch", 1, 0),
            ("branch", 2, 0),
            ("append", 0, 0),
            ("append", 1, 0),
            ("append", 2, 0),
            ("pick", 1, 2),
        ),
        *(("pick by another", 2, 0), ("remove", 0, 1), ("expire", 1, 1), ("compact", 2, 0), ("pick", 2, 4)),
    ],
    version=2,
)
def test_nothing_is_published_twice_and_no_run_key_is_forgotten(size: int, steps: list[Step], version: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ledger, "LEDGER_SIZE", size)
        story = Story(version)
        for step in steps:
            story.take(step)
            story.check()
