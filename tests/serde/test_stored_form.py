"""Metadata is written and read again before it is published; after a change only the new parts are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.errors import BadInputError
from iceberg_ops.serde.json.metadata_json import metadata_from_json, metadata_to_json
from iceberg_ops.serde.json.stored_form import check_can_be_stored
from iceberg_ops.spec.metadata_builder import apply_updates, new_table_metadata
from iceberg_ops.spec.metadata_columns import lineage_twin
from iceberg_ops.spec.partitioning import UNPARTITIONED
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import Snapshot, SnapshotRef
from iceberg_ops.spec.sorting import UNSORTED
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.types import LONG, NestedField
from iceberg_ops.spec.updates import AddSchema, AddSnapshot, SetCurrentSchema, SetProperties, SetSnapshotRef
from tests.fixture_paths import FIXTURES, requires_fixtures
from tests.strategies import partition_specs, schemas, sort_orders


@given(st.data(), st.sampled_from([1, 2, 3]))
def test_tables_of_any_shape_can_be_stored(data: st.DataObject, version: int) -> None:
    schema = data.draw(schemas(v3=version > 2).filter(lambda s: lineage_twin(s.fields, version) is None))
    spec, order = data.draw(partition_specs(schema)), data.draw(sort_orders(schema))
    metadata = new_table_metadata(schema, spec, order, "/t", {"format-version": str(version), "a": "b"}, now_ms=1)
    check_can_be_stored(metadata, None, "table t")
    check_can_be_stored(metadata_from_json(metadata_to_json(metadata), "t"), None, "table t")


def table(version: int = 2) -> TableMetadata:
    schema = Schema.of(NestedField(1, "k", LONG))
    return new_table_metadata(schema, UNPARTITIONED, UNSORTED, "/t", {"format-version": str(version)}, now_ms=1)


def grown(base: TableMetadata, **odd: object) -> TableMetadata:
    rows = {"first_row_id": base.next_row_id, "added_rows": 1} if base.format_version > 2 else {}
    snapshot = Snapshot(
        snapshot_id=len(base.snapshots) + 1,
        sequence_number=base.last_sequence_number + 1,
        timestamp_ms=base.last_updated_ms + 1,
        manifest_list="/t/m.avro",
        summary={"operation": "append"},
        schema_id=0,
        parent_snapshot_id=base.current_snapshot_id,
        **rows,  # type: ignore[arg-type]
    )
    updates = [AddSnapshot(replace(snapshot, **odd)), SetSnapshotRef("main", SnapshotRef(snapshot_id=snapshot.snapshot_id))]  # type: ignore[arg-type]
    return apply_updates(base, updates, now_ms=1, previous_metadata_file="/t/v1.metadata.json")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_is_new_is_found_and_what_is_old_is_left_alone(version: int) -> None:
    base = grown(grown(table(version)))
    check_can_be_stored(grown(base), base, "table t")
    spoiled = replace(base, properties={"old": "\udcff"}, schemas=(replace(base.schema, extra={"x": {1, 2}}),))
    check_can_be_stored(grown(spoiled), spoiled, "table t")
    for changed in (
        apply_updates(base, [SetProperties({"a": "\udcff"})], now_ms=9),
        grown(base, summary={"operation": "append", "a": "\udcff"}),
        grown(base, schema_id=1.0),
        grown(base, manifest_list=b"/t/m.avro"),
        apply_updates(base, [AddSchema(Schema.of(NestedField(1, "k", LONG, doc="\udcff"))), SetCurrentSchema(-1)], now_ms=9),
        apply_updates(base, [SetSnapshotRef("\udcff", SnapshotRef(snapshot_id=1))], now_ms=9),
        replace(base, location=7),  # type: ignore[arg-type]
        replace(base, last_updated_ms=1.5),  # type: ignore[arg-type]
        replace(base, extra={"x": "\udcff"}),
    ):
        with pytest.raises(BadInputError, match=r"table t: its new metadata cannot be stored: .*; nothing was committed"):
            check_can_be_stored(changed, base, "table t")


def test_what_would_be_read_as_another_value_is_named() -> None:
    base = table()
    changed = replace(base, properties={"a": 1})  # type: ignore[dict-item]
    with pytest.raises(BadInputError, match=r"properties {'a': 1} would be read as {'a': '1'}"):
        check_can_be_stored(changed, base, "table t")


@requires_fixtures
def test_metadata_of_other_engines_can_be_stored_again() -> None:
    found = 0
    assert FIXTURES is not None
    for path in FIXTURES.rglob("*.metadata.json"):
        try:
            metadata = metadata_from_json(path.read_bytes(), str(path))
        except Exception:  # noqa: BLE001 - some fixtures are damaged on purpose
            continue
        check_can_be_stored(metadata, None, str(path))
        found += 1
    assert found > 20
