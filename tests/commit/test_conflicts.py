from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from iceberg_ops.commit.manifests import manifest_filter, snapshot_draft
from iceberg_ops.commit.manifests.removals import RowFilter
from iceberg_ops.commit.operations import cherry_pick
from iceberg_ops.commit.validation import checks as validation
from iceberg_ops.commit.validation import imported_again, schema_conflicts
from iceberg_ops.errors import BadInputError, IcebergOpsError, ValidationError
from iceberg_ops.serde.manifests.manifest_avro import ManifestEncoder
from iceberg_ops.spec.manifests import ManifestEntry
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.updates import AddSnapshot
from iceberg_ops.table.manifests import manifests_of, read_entries, write_manifest_list
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER
from tests.commit.scenarios import (
    ADDED_AGAIN,
    ADDED_MEANWHILE,
    CONCURRENT_DV,
    EU,
    GONE,
    LEFT_BEHIND,
    MISSING,
    NEW_CONFLICTING,
    NEW_DELETE,
    NEW_POSITION_DELETE,
    NOT_COPIED,
    OTHER_IDS,
    SCENARIOS,
    UNSEEN,
    US,
    VANISHED,
    Scenario,
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


@pytest.mark.parametrize("operation", [None, "upsert", "OVERWRITE", "Delete"])
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


Made = dict[str, int | None]


def with_the_adder(entry: ManifestEntry, made: Made) -> ManifestEntry:
    """As pyiceberg up to 0.11 enters a removed file: under the snapshot that had added it."""
    return replace(entry, snapshot_id=made[entry.data_file.file_path])


def left_out(entry: ManifestEntry, made: Made) -> None:
    """As some engines do, against the spec."""


@pytest.mark.parametrize("as_others_do", [with_the_adder, left_out])
@pytest.mark.parametrize(
    ("scenario", "version"),
    [(s, v) for s, v in CASES if s.refused is not None and s.others],
    ids=lambda x: x.name if isinstance(x, Scenario) else f"v{x}",
)
def test_a_conflict_is_found_however_the_other_commit_enters_its_removals(
    scenario: Scenario, version: int, as_others_do: Callable[[ManifestEntry, Made], ManifestEntry | None]
) -> None:
    def enters_them(catalog: Any) -> None:
        commit_table = catalog.commit_table

        def committed(table: Table, needed: Any, updates: Any) -> Table:
            for update in updates:
                if isinstance(update, AddSnapshot):
                    _enter(table, update.snapshot, as_others_do)
            return commit_table(table, needed, updates)  # type: ignore[no-any-return]

        catalog.commit_table = committed

    with pytest.raises((ValidationError, BadInputError)) as refused:
        run(scenario, version, enters_them)
    begins = str(refused.value).startswith
    assert begins(scenario.refused or "") or (as_others_do is left_out and begins("Cannot determine which data files snapshot"))


def _enter(table: Table, snapshot: Snapshot, as_others_do: Callable[[ManifestEntry, Made], ManifestEntry | None]) -> None:
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
            listed[i] = replace(manifest, deleted_files_count=written.deleted_files_count)
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


@pytest.mark.parametrize("owner_and_name", SWITCHED_OFF, ids=lambda x: x[1])
def test_switching_a_validation_off_is_noticed(owner_and_name: tuple[object, str], monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name = owner_and_name
    concerned = [(s, v) for s, v in CASES if s.refused is not None]
    monkeypatch.setattr(owner, name, lambda *a, **k: None)
    missed = 0
    for scenario, version in concerned:
        try:
            run(scenario, version)
        except IcebergOpsError as e:
            missed += not str(e).startswith(scenario.refused or "")
        else:
            missed += 1
    assert missed, f"nothing fails without {name}"
