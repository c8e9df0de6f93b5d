"""Every conflict rule, as scenarios of two commits in each format version, whatever the other writer enters about its commit."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.manifests import manifest_filter, snapshot_draft
from iceberg_ops.commit.manifests.removals import RowFilter
from iceberg_ops.commit.operations import cherry_pick
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.refs import SetRef
from iceberg_ops.commit.operations.replace_partitions import REPLACE_PARTITIONS
from iceberg_ops.commit.protocol.history import History
from iceberg_ops.commit.validation import checks as validation
from iceberg_ops.commit.validation import imported_again, schema_conflicts
from iceberg_ops.errors import BadInputError, ValidationError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.serde.manifests.manifest_avro import ManifestEncoder
from iceberg_ops.spec import summary_keys
from iceberg_ops.spec.manifests import EntryStatus, ManifestEntry, ManifestFile
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.updates import AddSnapshot
from iceberg_ops.table.manifests import manifests_of, read_entries, write_manifest_list
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, live_paths, make_catalog, make_table
from tests.commit.refusing import Case, is_missed, refusing
from tests.commit.scenarios import (
    A2,
    ADDED_AGAIN,
    ADDED_MEANWHILE,
    CONCURRENT_DV,
    EU,
    GONE,
    IN_EU,
    LATE_US,
    LEFT_BEHIND,
    MISSING,
    NEW,
    NEW_CONFLICTING,
    NEW_DELETE,
    NEW_POSITION_DELETE,
    NOT_COPIED,
    OTHER_IDS,
    SCENARIOS,
    UNSEEN,
    US,
    VANISHED,
    A,
    B,
    Scenario,
    equality,
    overwrite,
    replace_partitions,
    rewrite,
    run,
)

CASES = [(s, v) for s in SCENARIOS for v in s.versions]


@pytest.mark.parametrize(("scenario", "version"), CASES, ids=lambda x: x.name if isinstance(x, Scenario) else f"v{x}")
def test_scenario(scenario: Scenario, version: int) -> None:
    if scenario.refused is None:
        run(scenario, version)
        return
    with pytest.raises((ValidationError, BadInputError)) as refused:
        run(scenario, version)
    assert str(refused.value).startswith(scenario.refused)


INPUT_CHECKS = {
    "no_columns_that_came_back",
    "no_deletes_for_own_removals",
    "no_file_twice",
    "no_files_of_other_columns",
    "no_foreign_rows",
    "no_unknown_columns",
    "no_wrong_delete_format",
}
"""What they refuse is wrong by itself, or came by a commit that made no snapshot: there is none to name."""
CONFLICTS = (
    GONE,
    UNSEEN,
    VANISHED,
    NEW_CONFLICTING,
    MISSING,
    NEW_DELETE,
    NEW_POSITION_DELETE,
    NOT_COPIED,
    CONCURRENT_DV,
    OTHER_IDS,
    LEFT_BEHIND,
    ADDED_AGAIN,
    ADDED_MEANWHILE,
)


@pytest.mark.parametrize(
    ("scenario", "version"),
    [(s, v) for s, v in CASES if s.refused in CONFLICTS and (s.others or s.refused != GONE)],
    ids=lambda x: x.name if isinstance(x, Scenario) else f"v{x}",
)
def test_a_conflict_names_the_other_commit(scenario: Scenario, version: int) -> None:
    catalogs: list[Any] = []
    with pytest.raises(ValidationError) as refused:
        run(scenario, version, catalogs.append)
    found = refused.value
    other = catalogs[0].load_table(IDENTIFIER).metadata.snapshots_by_id[found.snapshot_id]
    assert found.operation == other.operation
    assert found.file_path
    assert found.partition in {str(EU), str(US)}
    for text in (str(found.snapshot_id), other.operation, found.file_path, found.partition):
        assert text in str(found)


@pytest.mark.parametrize("operation", [None, "upsert", "OVERWRITE", "Delete", "delete", "append"])
@pytest.mark.parametrize(
    ("scenario", "version"),
    [(s, v) for s, v in CASES if s.refused in CONFLICTS and s.others],
    ids=lambda x: x.name if isinstance(x, Scenario) else f"v{x}",
)
def test_a_conflict_is_found_whatever_the_other_commit_calls_itself(
    scenario: Scenario, version: int, operation: str | None
) -> None:
    def renamed(update: Any) -> Any:
        if not isinstance(update, AddSnapshot):
            return update
        summary = {**update.snapshot.summary, "operation": operation}
        known = {key: value for key, value in summary.items() if value is not None}
        return replace(update, snapshot=replace(update.snapshot, summary=known))

    def renames(catalog: Any) -> None:
        commit_table = catalog.commit_table
        catalog.commit_table = lambda table, needed, updates: commit_table(table, needed, [renamed(u) for u in updates])

    with pytest.raises(ValidationError) as refused:
        run(scenario, version, renames)
    assert str(refused.value).startswith(scenario.refused or "")


@pytest.mark.parametrize("counts", [(), (summary_keys.TOTAL_DELETE_FILES,)], ids=["nothing", "totals"])
@pytest.mark.parametrize(
    ("scenario", "version"),
    [(s, v) for s, v in CASES if s.refused in CONFLICTS and s.others],
    ids=lambda x: x.name if isinstance(x, Scenario) else f"v{x}",
)
def test_a_conflict_is_found_if_the_other_commit_calls_itself_an_append_and_does_not_count(
    scenario: Scenario, version: int, counts: tuple[str, ...]
) -> None:
    """As a version of iceberg-rust commits delete files."""

    def as_append(table: Table, update: Any) -> Any:
        if not isinstance(update, AddSnapshot):
            return update
        summary = {"operation": "append", **dict.fromkeys(counts, "0")}
        return replace(update, snapshot=replace(update.snapshot, summary=summary))

    with pytest.raises(ValidationError) as refused:
        run(scenario, version, changing(as_append))
    assert str(refused.value).startswith(scenario.refused or "")


def changing(change: Callable[[Table, Any], Any]) -> Callable[[Any], None]:
    """Makes each commit of a catalog change its updates like that."""

    def on(catalog: Any) -> None:
        commit_table = catalog.commit_table
        catalog.commit_table = lambda table, needed, updates: commit_table(table, needed, [change(table, u) for u in updates])

    return on


def in_copies(table: Table, snapshot: Snapshot, *, keeps_id: bool) -> None:
    """As iceberg-rust: new files go into a copy of an older manifest, without entries of removed files, which the list counts. The
    copy has the id of the older one (``keeps_id``, releases before it was mended) or the snapshot's."""
    before = manifests_of(table, table.metadata.snapshots_by_id.get(snapshot.parent_snapshot_id or 0))
    found = manifests_of(table, snapshot)
    mine = [m for m in found if m.added_snapshot_id == snapshot.snapshot_id]
    for content, spec_id in dict.fromkeys((m.content, m.partition_spec_id) for m in mine):
        older = [m for m in before if (m.content, m.partition_spec_id) == (content, spec_id)]
        if not older:
            continue
        own = [m for m in mine if (m.content, m.partition_spec_id) == (content, spec_id)]
        copied = [m for m in found if m in older][:1]
        found = [m for m in found if m not in own and m not in copied]
        snapshot_id = (older[0].added_snapshot_id if keeps_id else None) or snapshot.snapshot_id
        encoder = ManifestEncoder(
            spec=table.metadata.specs_by_id[spec_id],
            schema=table.schema,
            partition_type=table.partition_type(spec_id),
            format_version=table.metadata.format_version,
            content=content,
            snapshot_id=snapshot_id,
        )
        entries = [e for m in (*copied, *own) for e in read_entries(table, m)]
        for e in (e for e in entries if e.is_live):
            is_new = e.status is EntryStatus.ADDED and e.snapshot_id == snapshot.snapshot_id
            encoder.add(replace(e, snapshot_id=snapshot_id) if is_new else replace(e, status=EntryStatus.EXISTING))
        if encoder.entry_count:
            data, copy = encoder.finish(own[0].manifest_path.replace(".avro", "-copy.avro"))
            table.io.write(copy.manifest_path, data)
            gone = len(entries) - encoder.entry_count
            found.append(replace(copy, added_snapshot_id=snapshot_id, deleted_files_count=gone, partitions=None))
    _list(table, snapshot, found)


def copied(keeps_id: bool) -> Callable[[Table, Any], Any]:
    """A change of updates (``changing``) that commits ``in_copies``."""

    def change(table: Table, update: Any) -> Any:
        if isinstance(update, AddSnapshot):
            in_copies(table, update.snapshot, keeps_id=keeps_id)
        return update

    return change


@pytest.mark.parametrize("keeps_id", [True, False])
@pytest.mark.parametrize(
    ("scenario", "version"), [(s, v) for s, v in CASES if s.others], ids=lambda x: x.name if isinstance(x, Scenario) else f"v{x}"
)
def test_what_others_did_counts_where_they_add_to_copies_of_older_manifests(
    scenario: Scenario, version: int, keeps_id: bool
) -> None:
    if scenario.refused is None:
        run(scenario, version, changing(copied(keeps_id)))
        return
    with pytest.raises((ValidationError, BadInputError)) as refused:
        run(scenario, version, changing(copied(keeps_id)))
    assert str(refused.value).startswith(scenario.refused)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("keeps_id", [True, False])
def test_a_rewrite_sees_a_delete_in_a_copy_of_an_older_manifest_of_deletes(keeps_id: bool, version: int) -> None:
    catalog = make_catalog()
    table = make_table(catalog, version=version, partitioned=True)
    table = commit(catalog, table, AppendFiles(added=(A, A2, B))).table
    table = commit(catalog, table, equality(US, name="earlier")(0)).table
    start = table.metadata.current_snapshot_id or 0

    changing(copied(keeps_id))(catalog)
    commit(catalog, table, equality(EU)(start))
    with pytest.raises(ValidationError, match=NEW_DELETE):
        commit(catalog, table, rewrite(A)(start))


def test_an_import_sees_a_file_in_a_copy_of_an_older_manifest_on_another_branch() -> None:
    catalog = make_catalog()
    table = commit(catalog, make_table(catalog), AppendFiles(added=(data_file("old"),))).table
    table = commit(catalog, table, SetRef(ref="audit", snapshot_id=table.metadata.current_snapshot_id)).table
    changing(copied(True))(catalog)
    commit(catalog, table, AppendFiles(added=(data_file("new"),), branch="audit"))
    again = AppendFiles(added=(data_file("new"),), only_new=True, starting_snapshot_id=table.metadata.current_snapshot_id)
    with pytest.raises(ValidationError, match=ADDED_MEANWHILE):
        commit(catalog, table, again)


def test_lists_of_appends_are_read_once_and_none_of_their_manifests() -> None:
    catalog = make_catalog()
    table = make_table(catalog, properties={"commit.manifest-merge.enabled": "false"})
    table = commit(catalog, table, AppendFiles(added=tuple(data_file(f"{i}") for i in range(100)))).table
    start = table.metadata.current_snapshot_id
    for i in range(20):
        table = commit(catalog, table, AppendFiles(added=(data_file(f"late-{i}"),))).table
    read: list[str] = []
    table = replace(table, io=Reads(table.io, read))
    history = History(table, "main", start, callers=table.metadata)
    rows = validation.every_row(table)
    validation.no_lost_update(history, rows)
    validation.no_vanished_rows(history, rows)
    validation.no_resurrected_rows(table, history, [data_file("0")], ignore_equality_deletes=False)
    assert sorted(read) == sorted(s.manifest_list or "" for s in table.metadata.snapshots)


class Reads:
    """A storage that notes what is read."""

    def __init__(self, io: FileIO, read: list[str]) -> None:
        self._io, self._read = io, read

    def __getattr__(self, name: str) -> Any:
        return getattr(self._io, name)

    def read(self, location: str) -> bytes:
        self._read.append(location)
        return self._io.read(location)


Made = dict[str, int | None]
Enters = Callable[[ManifestEntry, Made], ManifestEntry | None]
Summary = Mapping[str, str]
Counts = Callable[[Summary, Summary], Summary]


def with_the_adder(entry: ManifestEntry, made: Made) -> ManifestEntry:
    """As pyiceberg up to 0.11 enters a removed file: under the snapshot that had added it."""
    return replace(entry, snapshot_id=made[entry.data_file.file_path])


def left_out(entry: ManifestEntry, made: Made) -> None:
    """As some engines do, against the spec."""


def left_out_beside_an_older_removal(entry: ManifestEntry, made: Made) -> ManifestEntry:
    """The same by an engine that copies the other entries of the manifest, also the removal of a file by an earlier snapshot."""
    older = replace(entry.data_file, file_path=f"removed-before-{entry.data_file.file_path}")
    return replace(entry, snapshot_id=made[entry.data_file.file_path], data_file=older)


def counts_of_java(summary: Summary, before: Summary) -> Summary:
    return summary


def counts_every_file(summary: Summary, before: Summary) -> Summary:
    """As pyiceberg 0.6 to 0.8 does in the summary of an overwrite, whatever it removed."""
    return {**summary, summary_keys.DELETED_DATA_FILES: before.get(summary_keys.TOTAL_DATA_FILES, "0")}


def counts_nothing(summary: Summary, before: Summary) -> Summary:
    return {"operation": summary["operation"]}


def counts_nothing_but_replaced_partitions(summary: Summary, before: Summary) -> Summary:
    return {key: value for key, value in summary.items() if key in ("operation", REPLACE_PARTITIONS)}


def enters_as(as_others_do: Enters, counts: Counts) -> Callable[[Any], None]:
    """Makes each commit of a catalog enter its removals like that."""

    def on(catalog: Any) -> None:
        commit_table = catalog.commit_table

        def entered(table: Table, update: Any) -> Any:
            if not isinstance(update, AddSnapshot):
                return update
            _enter(table, update.snapshot, as_others_do)
            parent = table.metadata.snapshots_by_id.get(update.snapshot.parent_snapshot_id or 0)
            summary = counts(update.snapshot.summary, {} if parent is None else parent.summary)
            return replace(update, snapshot=replace(update.snapshot, summary=summary))

        catalog.commit_table = lambda table, needed, updates: commit_table(table, needed, [entered(table, u) for u in updates])

    return on


@pytest.mark.parametrize("counts", [counts_of_java, counts_every_file, counts_nothing])
@pytest.mark.parametrize("as_others_do", [with_the_adder, left_out, left_out_beside_an_older_removal])
@pytest.mark.parametrize(
    ("scenario", "version"), [(s, v) for s, v in CASES if s.others], ids=lambda x: x.name if isinstance(x, Scenario) else f"v{x}"
)
def test_a_removal_counts_however_the_other_commit_enters_it_and_nothing_else_does(
    scenario: Scenario, version: int, as_others_do: Enters, counts: Counts
) -> None:
    enters = enters_as(as_others_do, counts)
    if scenario.refused is None:
        run(scenario, version, enters)
        return
    with pytest.raises((ValidationError, BadInputError)) as refused:
        run(scenario, version, enters)
    assert str(refused.value).startswith(scenario.refused)


def embeds(catalog: Any) -> None:
    """Makes each snapshot of a v1 table hold its manifests, without a list and its counts, as old writers did."""
    commit_table = catalog.commit_table

    def embedded(table: Table, update: Any) -> Any:
        if not isinstance(update, AddSnapshot) or table.metadata.format_version > 1:
            return update
        manifests = tuple(m.manifest_path for m in manifests_of(table, update.snapshot))
        return replace(update, snapshot=replace(update.snapshot, manifest_list=None, manifests=manifests))

    catalog.commit_table = lambda table, needed, updates: commit_table(table, needed, [embedded(table, u) for u in updates])


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s.others and 1 in s.versions], ids=lambda s: s.name)
def test_what_others_did_counts_where_snapshots_hold_their_manifests(scenario: Scenario) -> None:
    if scenario.refused is None:
        run(scenario, 1, embeds)
        return
    with pytest.raises((ValidationError, BadInputError)) as refused:
        run(scenario, 1, embeds)
    assert str(refused.value).startswith(scenario.refused)


def test_a_removal_from_before_is_none_of_a_snapshot_that_still_holds_the_manifest_that_enters_it() -> None:
    catalog = make_catalog()
    embeds(catalog)
    table = make_table(catalog, version=1, partitioned=True)
    commit(catalog, table, AppendFiles(added=(A, A2)))
    commit(catalog, table, AppendFiles(added=(B,)))
    table = commit(catalog, table, DeleteFiles(paths=("a",))).table
    commit(catalog, table, OverwriteFiles(added=(LATE_US,), removed=(B,), isolation=None))
    mine = overwrite(overwrite_filter=IN_EU, added=(NEW,), isolation="snapshot")(table.metadata.current_snapshot_id or 0)
    assert live_paths(commit(catalog, table, mine).table) == {"new", "late-us"}


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("as_others_do", [left_out, left_out_beside_an_older_removal])
def test_a_picked_partition_overwrite_also_replaces_files_that_it_did_not_enter(version: int, as_others_do: Enters) -> None:
    catalog = make_catalog()
    enters_as(as_others_do, counts_nothing_but_replaced_partitions)(catalog)
    table = make_table(catalog, version=version, partitioned=True)
    table = commit(catalog, table, AppendFiles(added=(A, A2, B))).table
    staged = replace_partitions(staged=True)(table.metadata.current_snapshot_id or 0)
    made = commit(catalog, table, staged).snapshot
    assert made is not None
    commit(catalog, table, AppendFiles(added=(LATE_US,)))
    assert live_paths(commit(catalog, table, CherryPick(snapshot_id=made.snapshot_id)).table) == {"new", "b", "late-us"}


def _enter(table: Table, snapshot: Snapshot, as_others_do: Enters) -> None:
    parent = table.metadata.snapshots_by_id.get(snapshot.parent_snapshot_id or 0)
    made = {e.data_file.file_path: e.snapshot_id for m in manifests_of(table, parent) for e in read_entries(table, m)}
    listed = manifests_of(table, snapshot)
    for i, manifest in enumerate(listed):
        if manifest.added_snapshot_id == snapshot.snapshot_id and manifest.deleted_files_count:
            encoder = ManifestEncoder(
                spec=table.metadata.specs_by_id[manifest.partition_spec_id],
                schema=table.schema,
                partition_type=table.partition_type(manifest.partition_spec_id),
                format_version=table.metadata.format_version,
                content=manifest.content,
                snapshot_id=snapshot.snapshot_id,
            )
            for entry in read_entries(table, manifest):
                if (entered := entry if entry.is_live else as_others_do(entry, made)) is not None:
                    encoder.add(entered)
            data, written = encoder.finish(manifest.manifest_path)
            table.io.write(manifest.manifest_path, data, overwrite=True)
            counts = (written.deleted_files_count, written.deleted_rows_count)
            listed[i] = replace(manifest, deleted_files_count=counts[0], deleted_rows_count=counts[1])
    _list(table, snapshot, listed)


def _list(table: Table, snapshot: Snapshot, listed: Sequence[ManifestFile]) -> None:
    """Makes these the snapshot's manifests."""
    parent_id, number = snapshot.parent_snapshot_id, snapshot.sequence_number
    again = write_manifest_list(
        table.metadata, table.io, listed, snapshot_id=snapshot.snapshot_id, parent_snapshot_id=parent_id, sequence_number=number
    )
    table.io.write(snapshot.manifest_list or "", table.io.read(again.location), overwrite=True)


VALIDATIONS = {
    name: module
    for module in (validation, schema_conflicts, imported_again)
    for name, f in inspect.getmembers(module, inspect.isfunction)
    if name.startswith("no_") and f.__module__ == module.__name__
}
OTHERS = (
    (manifest_filter, "forbid_missing"),
    (RowFilter, "forbid_partial"),
    (snapshot_draft, "_forbid_new_rows"),
    (snapshot_draft.SnapshotDraft, "_forbid_second_vectors"),
    (cherry_pick, "no_double_publish"),
)
TESTED_ELSEWHERE = {"no_file_twice", "no_row_changed_twice"}
"""Checked when the operation is made (test_operations), or reads the vectors' rows, so that the files must exist
(test_row_delta_vectors, which switches it off as well)."""


def test_every_validation_that_can_meet_another_commit_is_among_the_conflicts() -> None:
    source = "".join(map(inspect.getsource, (validation, schema_conflicts, imported_again)))
    bodies = {name: inspect.getsource(getattr(module, name)) for name, module in VALIDATIONS.items()}
    for name, body in bodies.items():
        assert name in INPUT_CHECKS or "conflict(" in body, f"{name} does not say which commit it conflicts with"
    assert source.count("raise ValidationError(") == sum(
        body.count("raise ValidationError(") for n, body in bodies.items() if n in INPUT_CHECKS
    )


SWITCHED_OFF = [*((module, name) for name, module in VALIDATIONS.items() if name not in TESTED_ELSEWHERE), *OTHERS]


@cache
def refused_by() -> dict[str, list[Case]]:
    return refusing(CASES, SWITCHED_OFF)


@pytest.mark.parametrize("owner_and_name", SWITCHED_OFF, ids=lambda x: x[1])
def test_switching_a_validation_off_is_noticed(owner_and_name: tuple[object, str], monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name = owner_and_name
    concerned = refused_by()[name]
    monkeypatch.setattr(owner, name, lambda *a, **k: None)
    assert any(is_missed(*case) for case in concerned), f"nothing fails without {name}"
