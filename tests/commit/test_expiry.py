"""Expiry keeps what retained snapshots need, and deletes the rest; which snapshots are retained."""

# ruff: noqa: E501 - the table of retention cases

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import ResumedExpiries, expire, resume_expiry, write_intent
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema, UpdateSpec, UpdateStatistics
from iceberg_ops.commit.operations.refs import RemoveRef, RollBack, SetRef
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.protocol.ledger import LEDGER_SIZE
from iceberg_ops.commit.protocol.retention import expired
from iceberg_ops.config.properties import LEDGER_PREFIX
from iceberg_ops.deletion import expired as expired_module
from iceberg_ops.deletion.leases import Lease, acquire_lease, active_leases, release_lease
from iceberg_ops.errors import BadInputError, CommitFailedError, ValidationError
from iceberg_ops.io.file_io import DeleteFailure
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import Snapshot, SnapshotRef
from iceberg_ops.spec.statistics import StatisticsFile
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.types import INT, NestedField
from iceberg_ops.table.manifests import manifests_of
from iceberg_ops.table.reachable import reachable_files
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, SCHEMA, data_file, live_paths, make_catalog, make_table, position_deletes
from tests.catalog.wrappers import Meddles, Wrapped

EU = ("eu",)
ALL = ExpireSnapshots(older_than_ms=2**60, retain_last=1)


class Setting:
    """A table whose data files exist, so that their deletion can be seen."""

    def __init__(self, version: int = 2, **properties: str) -> None:
        self.catalog = make_catalog()
        self.table = make_table(self.catalog, version=version, partitioned=True, properties=properties)

    def path(self, name: str) -> str:
        return f"{self.table.location}/data/{name}"

    def file(self, name: str) -> Any:
        if not self.catalog.io.exists(self.path(name)):
            self.catalog.io.write(self.path(name), b"x")
        return data_file(self.path(name), partition=EU)

    def commit(self, operation: Any) -> int:
        done = commit(self.catalog, self.table, operation)
        self.table = done.table
        return done.snapshot.snapshot_id if done.snapshot else 0

    def append(self, *names: str, **fields: Any) -> int:
        return self.commit(AppendFiles(added=tuple(self.file(n) for n in names), **fields))

    def remove(self, *names: str, **fields: Any) -> int:
        return self.commit(DeleteFiles(paths=tuple(self.path(n) for n in names), **fields))

    def expire(self, operation: ExpireSnapshots = ALL, **fields: Any) -> Any:
        found = expire(self.catalog, self.table, operation, **fields)
        self.table = self.catalog.load_table(IDENTIFIER)
        return found

    def there(self) -> set[str]:
        return {i.location.rpartition("/")[2] for i in self.catalog.io.list_prefix(f"{self.table.location}/data")}

    def leaked(self) -> list[str]:
        known = set(reachable_files(self.table))
        return [i.location for i in self.catalog.io.list_prefix(self.table.location) if i.location not in known]


def test_an_append_that_expires_keeps_its_data() -> None:
    s = Setting()
    first = s.append("a")
    s.append("b")
    result = s.expire()
    assert first not in s.table.metadata.snapshots_by_id
    assert s.there() == {"a", "b"}
    assert (result.files.data, len(result.files.manifest_lists)) == ((), 1)
    assert s.leaked() == []


def test_a_file_that_an_expired_snapshot_removed_is_deleted_with_its_deletes() -> None:
    s = Setting()
    s.append("a", "b")
    s.catalog.io.write(s.path("d"), b"x")
    s.commit(RowDelta(added_deletes=(position_deletes(s.path("d"), s.path("a"), partition=EU),), isolation=None))
    s.remove("a")
    s.append("c")
    result = s.expire()
    assert result.files.data == (s.path("a"),)
    assert result.files.position_deletes == (s.path("d"),)
    assert s.there() == {"b", "c"}
    assert s.leaked() == []


def test_a_file_removed_by_a_rolled_back_delete_stays_and_one_added_by_a_rolled_back_append_goes() -> None:
    s = Setting()
    keep = s.append("a")
    s.remove("a")
    s.commit(RollBack(snapshot_id=keep))
    s.append("x")
    s.commit(RollBack(snapshot_id=keep))
    s.append("b")
    s.expire()
    assert s.there() == {"a", "b"}
    assert s.leaked() == []


def test_a_file_live_on_another_branch_or_under_a_tag_stays_until_that_goes() -> None:
    s = Setting()
    tagged = s.append("a")
    s.commit(SetRef(ref="v1", type="tag", snapshot_id=tagged))
    s.append("x", branch="audit")
    s.remove("a")
    s.append("b")
    s.expire()
    assert s.there() == {"a", "b", "x"}
    s.commit(RemoveRef(ref="v1"))
    s.commit(RemoveRef(ref="audit"))
    s.expire()
    assert s.there() == {"b"}
    assert s.leaked() == []


def test_a_staged_snapshot_ages_out_with_its_file_and_a_picked_one_leaves_its_file() -> None:
    s = Setting()
    s.append("a")
    s.append("lost", staged=True)
    picked = s.append("picked", staged=True)
    s.append("b")
    s.commit(CherryPick(snapshot_id=picked))
    s.expire()
    assert s.there() == {"a", "b", "picked"}
    assert s.leaked() == []


def test_no_retained_manifest_is_read_once_every_candidate_is_known_to_be_live(monkeypatch: pytest.MonkeyPatch) -> None:
    s = Setting()
    for i in range(6):
        s.append(f"f{i}")
    s.commit(RewriteManifests())
    s.append("last")
    read: list[str] = []
    original = expired_module.live_paths
    monkeypatch.setattr(expired_module, "live_paths", lambda t, m, **k: read.append(m.manifest_path) or original(t, m, **k))
    result = s.expire()
    assert (result.files.data, len(result.files.manifests)) == ((), 6)
    assert len(read) == 6 + 2, "the expired manifests, the one they were merged into, and the latest one"


def test_gc_disabled_refuses_and_deletes_nothing() -> None:
    s = Setting(**{"gc.enabled": "false"})
    s.append("a")
    s.remove("a")
    with pytest.raises(ValidationError, match="GC is disabled"):
        s.expire()
    assert s.there() == {"a"}


@pytest.mark.parametrize(("clean", "left"), [("none", {"a", "b"}), ("metadata-only", {"a", "b"}), ("all", {"b"})])
def test_what_is_cleaned_can_be_chosen(clean: Any, left: set[str]) -> None:
    s = Setting()
    s.append("a")
    s.remove("a")
    s.append("b")
    s.expire(clean=clean)
    assert s.there() == left


def test_a_crash_between_swap_and_deletion_is_finished_by_the_next_run() -> None:
    s = Setting()
    s.append("a")
    s.remove("a")
    s.append("b")
    write_intent(s.table, ALL)
    s.commit(ALL)
    assert s.there() == {"a", "b"}
    assert resume_expiry(s.catalog, s.table).finished == 1
    assert s.there() == {"b"}
    assert s.leaked() == []


def test_a_note_that_another_run_has_just_finished_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one takes it away between the look for it and its reading."""
    s = Setting()
    s.append("a")
    s.remove("a")
    note = write_intent(s.table, ALL)
    s.commit(ALL)
    io = s.catalog.io
    exists = io.exists
    monkeypatch.setattr(io, "exists", lambda place: exists(place) and not (place == note and io.delete(place)))
    assert resume_expiry(s.catalog, s.table) == ResumedExpiries()


@pytest.mark.parametrize("gone", ["manifest_list", "manifests"])
def test_a_clean_up_that_died_half_way_is_finished_with_what_is_left(gone: str) -> None:
    s = Setting()
    s.append("a")
    removed = s.remove("a")
    s.append("b")
    write_intent(s.table, ALL)
    snapshot = s.table.metadata.snapshots_by_id[removed]
    manifests = [m.manifest_path for m in manifests_of(s.table, snapshot)]
    s.commit(ALL)
    s.catalog.io.delete_many([snapshot.manifest_list or ""] if gone == "manifest_list" else manifests)
    assert resume_expiry(s.catalog, s.table).finished == 1
    assert s.there() == {"b"}


def test_expiry_reads_each_gone_list_once(monkeypatch: pytest.MonkeyPatch) -> None:
    s = Setting()
    for i in range(6):
        s.append(f"f{i}")
    lists = {x.manifest_list for x in s.table.metadata.snapshots}
    asked: list[str] = []
    io = s.catalog.io
    read, exists = io.read, io.exists
    monkeypatch.setattr(io, "read", lambda location: asked.append(location) or read(location))
    monkeypatch.setattr(io, "exists", lambda location: asked.append(location) or exists(location))
    s.expire()
    assert sorted(x for x in asked if x in lists) == sorted(lists)


class Lags(Wrapped):
    """A catalog whose loads answer with ``stale`` from its next commit on, as a replica may, or at once."""

    def __init__(self, inner: Any, stale: Table, *, at_once: bool = False) -> None:
        super().__init__(inner)
        self.stale, self.lagging = stale, at_once

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        return self.stale if self.lagging else self.inner.load_table(identifier)  # type: ignore[no-any-return]

    def commit_table(self, *commit: Any) -> Table:
        done = self.inner.commit_table(*commit)
        self.lagging = True
        return done  # type: ignore[no-any-return]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_expiry_that_gets_an_older_answer_after_its_commit_deletes_nothing_that_is_live(version: int) -> None:
    setting = Setting(version)
    setting.append("a")
    stale = setting.table
    time.sleep(0.002)
    setting.append("b")
    found = expire(Lags(setting.catalog, stale), setting.table, ALL)
    assert found.deletion.deleted == ()
    setting.table = setting.catalog.load_table(IDENTIFIER)
    assert setting.there() == {"a", "b"}
    assert all(setting.catalog.io.exists(location) for location in reachable_files(setting.table))


@pytest.mark.parametrize("noted", ["by this release", "by an earlier one"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_note_of_an_expiry_is_not_finished_by_an_older_answer_that_lacks_its_snapshots(version: int, noted: str) -> None:
    setting = Setting(version)
    setting.append("a")
    stale = setting.table
    time.sleep(0.002)
    setting.append("b")
    setting.append("c")
    note = write_intent(setting.table, ALL)
    assert note is not None
    if noted == "by an earlier one":
        text = json.loads(setting.catalog.io.read(note))
        for key in ("last-updated-ms", "last-sequence-number"):
            text.pop(key, None)
        setting.catalog.io.write(note, json.dumps(text).encode(), overwrite=True)
    assert resume_expiry(Lags(setting.catalog, stale, at_once=True), stale).finished == 0
    assert all(setting.catalog.io.exists(location) for location in reachable_files(setting.table))
    assert setting.catalog.io.exists(note)


def test_a_crash_before_the_swap_deletes_nothing_and_the_note_is_thrown_away_after_a_day() -> None:
    s = Setting()
    s.append("a")
    s.remove("a")
    write_intent(s.table, ALL)
    assert resume_expiry(s.catalog, s.table).finished == 0
    assert s.there() == {"a"}
    assert len(s.leaked()) == 1
    resume_expiry(s.catalog, s.table, now_ms=2**60)
    assert s.leaked() == []


def test_a_file_that_can_not_be_deleted_is_reported_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    s = Setting()
    s.append("a")
    s.remove("a")
    s.append("b")
    original = s.catalog.io.delete_many
    monkeypatch.setattr(
        s.catalog.io, "delete_many", lambda p: [DeleteFailure(x, "denied") for x in p if x.endswith("/a")] or original(p)
    )
    result = s.expire()
    assert [(f.location, f.reason) for f in result.deletion.failures] == [(s.path("a"), "denied")]
    monkeypatch.setattr(s.catalog.io, "delete_many", original)
    assert s.expire().resumed.finished == 1
    assert s.there() == {"b"}


def test_a_tag_made_while_expiring_saves_its_snapshot() -> None:
    s = Setting()
    first = s.append("a")
    s.append("b")
    tag = SetRef(ref="v1", type="tag", snapshot_id=first)
    meddling = Meddles(s.catalog, lambda: commit(s.catalog, s.table, tag))
    commit(meddling, s.table, ALL, sleep=lambda _: None)
    assert first in s.catalog.load_table(IDENTIFIER).metadata.snapshots_by_id


def test_the_catalog_never_removes_the_head_of_a_ref() -> None:
    s = Setting()
    first = s.append("a")
    s.append("b")
    staged = ALL.stage(ALL.prepare(s.table), s.table)
    commit(s.catalog, s.table, SetRef(ref="v1", type="tag", snapshot_id=first))
    with pytest.raises(CommitFailedError, match="is the head of v1"):
        s.catalog.commit_table(s.table, [], staged.updates)


def test_a_run_key_is_remembered_after_its_snapshot_expired() -> None:
    s = Setting()
    s.append("a", run_key="job/1")
    s.append("b")
    s.expire()
    again = commit(s.catalog, s.table, AppendFiles(added=(s.file("a"),), run_key="job/1"))
    assert (again.already_committed, again.snapshot) == (True, None)
    assert live_paths(again.table) == {s.path("a"), s.path("b")}


def test_commits_without_a_run_key_do_not_push_others_out_of_the_ledger() -> None:
    s = Setting()
    s.append("a", run_key="e")
    for n in range(LEDGER_SIZE + 3):
        s.append(f"b{n}")
    s.expire()
    assert [k for k in s.table.properties if k.startswith(LEDGER_PREFIX)] == [f"{LEDGER_PREFIX}append@main:e"]


def test_a_lease_keeps_its_snapshot_and_the_way_to_it_until_it_runs_out() -> None:
    s = Setting()
    ids = [s.append(name) for name in ("a", "b", "c", "d")]
    lease = Lease(holder="job/1", snapshot_id=ids[1], expires_at_ms=2**60, marks=("op-7",))
    acquire_lease(s.table, lease)
    s.expire()
    assert [i in s.table.metadata.snapshots_by_id for i in ids] == [False, True, True, True]
    assert lease.covers("/wh/data/op-7-1.parquet", s.catalog.io)
    assert active_leases(s.table, 2**60) == []
    release_lease(s.table, lease)
    s.expire()
    assert [i in s.table.metadata.snapshots_by_id for i in ids] == [False, False, False, True]


def test_a_lease_taken_during_the_swap_still_keeps_the_files() -> None:
    s = Setting()
    first = s.append("a")
    s.remove("a")
    s.append("b")
    lease = Lease(holder="late", snapshot_id=first, expires_at_ms=2**60)
    result = expire(Meddles(s.catalog, lambda: acquire_lease(s.table, lease)), s.table, ALL)
    assert result.files.data == (s.path("a"),)
    assert s.there() == {"a", "b"}
    release_lease(s.table, lease)
    s.table = s.catalog.load_table(IDENTIFIER)
    assert resume_expiry(s.catalog, s.table).finished == 1
    assert s.there() == {"b"}


def test_statistics_go_with_their_snapshot_unless_the_path_is_used_again() -> None:
    s = Setting()
    one, two = s.append("a"), s.append("b")

    def statistics(snapshot_id: int, name: str) -> StatisticsFile:
        if not s.catalog.io.exists(s.path(name)):
            s.catalog.io.write(s.path(name), b"x")
        return StatisticsFile(
            snapshot_id=snapshot_id, statistics_path=s.path(name), file_size_in_bytes=1, file_footer_size_in_bytes=1
        )

    s.commit(UpdateStatistics(added=(statistics(one, "own"), statistics(two, "kept"))))
    assert s.expire().files.statistics == (s.path("own"),)
    assert s.there() == {"a", "b", "kept"}


def test_schemas_and_specs_that_nothing_uses_any_more_are_cleaned_on_request() -> None:
    s = Setting()
    s.append("a")
    s.commit(UpdateSchema(schema=Schema.of(*SCHEMA.fields, NestedField(4, "extra", INT))))
    s.commit(UpdateSpec(spec=PartitionSpec(0, ())))
    s.commit(DeleteFiles(paths=(s.path("a"),)))
    s.commit(AppendFiles(added=(data_file("z", spec_id=1),)))
    s.expire(replace(ALL, clean_expired_metadata=True))
    assert [x.schema_id for x in s.table.metadata.schemas] == [1]
    assert [x.spec_id for x in s.table.metadata.partition_specs] == [1]


def chain(*times: int, refs: dict[str, SnapshotRef] | None = None, properties: dict[str, str] | None = None) -> TableMetadata:
    """Snapshots 1..n with these timestamps, each the parent of the next; main at the last."""
    table: Table = make_table(make_catalog())
    snapshots = tuple(Snapshot(snapshot_id=i + 1, parent_snapshot_id=i or None, timestamp_ms=t) for i, t in enumerate(times))
    last = len(times)
    return replace(
        table.metadata,
        snapshots=snapshots,
        current_snapshot_id=last,
        refs={"main": SnapshotRef(snapshot_id=last), **(refs or {})},
        properties=properties or {},
    )


RETENTION = {
    "older than": (chain(10, 20, 30), {"older_than_ms": 25}, {1, 2}),
    "the head stays however old": (chain(10, 20, 30), {"older_than_ms": 1000}, {1, 2}),
    "retain last": (chain(10, 20, 30), {"older_than_ms": 1000, "retain_last": 2}, {1}),
    "retain more than there are": (chain(10, 20), {"older_than_ms": 1000, "retain_last": 9}, set()),
    "young ones stay beyond retain last": (chain(10, 20, 30), {"older_than_ms": 15, "retain_last": 1}, {1}),
    "an explicit id goes before retain last": (chain(10, 20, 30), {"older_than_ms": 0, "retain_last": 3, "snapshot_ids": (2,)}, {2}),
    "table's age": (chain(10, 20, 30, properties={"history.expire.max-snapshot-age-ms": "15"}), {"now_ms": 36}, {1, 2}),
    "table's count": (chain(10, 20, 30, properties={"history.expire.min-snapshots-to-keep": "2"}), {"older_than_ms": 99}, {1}),
    "a tag keeps its snapshot only": (chain(10, 20, 30, refs={"t": SnapshotRef(snapshot_id=2, type="tag")}), {"older_than_ms": 99}, {1}),
    "a branch keeps by its own settings": (
        chain(10, 20, 30, refs={"b": SnapshotRef(snapshot_id=2, min_snapshots_to_keep=2)}),
        {"older_than_ms": 99},
        set(),
    ),
    "a branch's own age": (
        chain(10, 20, 30, refs={"b": SnapshotRef(snapshot_id=3, max_snapshot_age_ms=25)}),
        {"older_than_ms": 99, "now_ms": 40},
        {1},
    ),
    "an old ref goes": (chain(10, 20, 30, refs={"t": SnapshotRef(snapshot_id=1, type="tag", max_ref_age_ms=5)}), {"older_than_ms": 99, "now_ms": 40}, {1, 2}),
    "a lease keeps all since": (chain(10, 20, 30), {"older_than_ms": 99, "leased": (2,)}, {1}),
}  # fmt: skip


@pytest.mark.parametrize("name", RETENTION)
def test_retention(name: str) -> None:
    metadata, arguments, gone = RETENTION[name]
    assert set(expired(metadata, **{"now_ms": 100, **arguments}).snapshot_ids) == gone


def test_retention_refuses_nonsense() -> None:
    with pytest.raises(BadInputError, match="retain_last 0 must be at least 1"):
        expired(chain(1), now_ms=1, retain_last=0)
    with pytest.raises(BadInputError, match=r"Cannot expire 2\. Still referenced by refs: main"):
        expired(chain(1, 2), now_ms=1, snapshot_ids=(2,))
