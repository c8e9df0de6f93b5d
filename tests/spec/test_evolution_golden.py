"""Evolution against recorded metadata: the same operations as in Java and Spark, from the base to the evolved table."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from iceberg_ops.serde.json.metadata_json import metadata_from_json
from iceberg_ops.spec.metadata_builder import apply_updates
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.snapshots import SnapshotRef
from iceberg_ops.spec.sort_evolution import SortOrderBuilder
from iceberg_ops.spec.sorting import NullOrder
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.transforms import YEAR, bucket, truncate
from iceberg_ops.spec.types import DOUBLE, INT, LONG, STRING, DecimalType, NestedField, StructType, list_of, map_of
from iceberg_ops.spec.updates import AddSnapshot, RemoveSnapshotRef, SetProperties, SetSnapshotRef, TableUpdate
from tests.fixture_paths import GOLDEN, requires_fixtures
from tests.golden import golden_files

pytestmark = requires_fixtures
Change = Callable[[TableMetadata], Sequence[TableUpdate]]
ROOT, HEAD = 3051729675574597004, 3055729675574597004


def _schema(change: Callable[[SchemaEvolution], SchemaEvolution]) -> Change:
    return lambda base: change(SchemaEvolution.of_table(base)).updates()


def _spec(change: Callable[[SpecEvolution], SpecEvolution]) -> Change:
    return lambda base: change(SpecEvolution.of_table(base)).updates()


def _refs(*changes: tuple[str, SnapshotRef]) -> Change:
    return lambda base: [SetSnapshotRef(name, ref) for name, ref in changes]


OPERATIONS: dict[str, Change] = {
    "update_schema/add_top_level_columns": _schema(
        lambda s: (
            s.add_column("count", INT)
            .add_column("note", STRING, doc="a free-text note")
            .add_column("category", STRING, required=True, default="uncategorized")
        )
    ),
    "update_schema/make_optional_and_delete": _schema(lambda s: s.make_optional("name").drop_column("legacy")),
    "update_schema/set_identifier_fields": _schema(lambda s: s.set_identifier_fields(["id", "tenant"])),
    "update_schema/update_type_promotion": _schema(
        lambda s: s.update_type("id", LONG).update_type("measure", DOUBLE).update_type("amount", DecimalType(precision=18, scale=2))
    ),
    "update_partition_spec/add_identity_field": _spec(lambda s: s.add_field("category")),
    "update_partition_spec/add_transform_fields": _spec(
        lambda s: s.add_field("id", bucket(16)).add_field("category", truncate(8)).add_field("event_ts", YEAR)
    ),
    "update_partition_spec/remove_field_v2": _spec(lambda s: s.remove_field("category")),
    "update_partition_spec/rename_field": _spec(lambda s: s.rename_field("category", "cat")),
    "manage_snapshots/create_branch_and_tag": _refs(
        ("audit", SnapshotRef(snapshot_id=ROOT)), ("release-1", SnapshotRef(snapshot_id=HEAD, type="tag"))
    ),
    "manage_snapshots/fast_forward": _refs(("staging", SnapshotRef(snapshot_id=ROOT)), ("staging", SnapshotRef(snapshot_id=HEAD))),
    "manage_snapshots/rollback_to_ancestor": _refs(("main", SnapshotRef(snapshot_id=ROOT))),
    "manage_snapshots/set_current_snapshot": _refs(("main", SnapshotRef(snapshot_id=ROOT))),
}


def _read(path: Path) -> TableMetadata:
    return metadata_from_json(path.read_bytes(), path.name)


def _timeless(metadata: TableMetadata, reference: TableMetadata) -> TableMetadata:
    """``metadata`` with the times and logs of the reference, which depend on when and where the operation ran."""
    log = tuple(replace(e, timestamp_ms=0) for e in metadata.snapshot_log)
    return replace(metadata, last_updated_ms=reference.last_updated_ms, metadata_log=reference.metadata_log, snapshot_log=log)


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_gives_what_java_gave(name: str) -> None:
    """SCHEMA-01 SCHEMA-02 SCHEMA-03 SCHEMA-04 SCHEMA-07 SCHEMA-15 DEFAULT-04 DEFAULT-05 PART-03 PART-06 PART-07
    REFS-01 REFS-03 META-33 META-38"""
    assert GOLDEN is not None
    folder = GOLDEN / "evolution-java" / name
    base, expected = _read(folder / "base.metadata.json"), _read(folder / "java_evolved.metadata.json")
    found = apply_updates(base, OPERATIONS[name](base), now_ms=base.last_updated_ms + 1)
    assert _timeless(found, expected) == _timeless(expected, expected)


def test_every_recorded_operation_is_tried() -> None:
    folders = {str(p.parent.relative_to(p.parents[2])) for p in golden_files("evolution-java", "*/*/java_evolved.metadata.json")}
    assert folders == OPERATIONS.keys()
    ops = json.loads((GOLDEN / "evolution-java" / "ops.json").read_text("utf-8")) if GOLDEN else {}
    assert {f"{kind}/{op}" for kind in ops if kind != "compare" for op in ops[kind]} >= folders


def test_recorded_refs_and_history_read_as_java_lists_them() -> None:
    """REFS-01 META-17 META-18 SNAP-26"""
    inspection, history = (golden_files("evolution-java", f"{name}/*.json") for name in ("inspection", "inspection_history"))
    listed = {p.name: json.loads(p.read_text("utf-8")) for p in (*inspection, *history) if p.name != "base.metadata.json"}
    metadata = _read(next(p for p in inspection if p.name == "base.metadata.json"))
    for row in listed["java_refs.json"]:
        ref = metadata.refs[row["name"]]
        assert (ref.snapshot_id, ref.type.upper(), ref.max_ref_age_ms) == (
            row["snapshot_id"],
            row["type"],
            row["max_reference_age_in_ms"],
        )
        assert (ref.min_snapshots_to_keep, ref.max_snapshot_age_ms) == (row["min_snapshots_to_keep"], row["max_snapshot_age_in_ms"])
    for row in listed["java_snapshots.json"]:
        snapshot = metadata.snapshot(row["snapshot_id"])
        summary = {key: value for key, value in snapshot.summary.items() if key != "operation"}
        assert (snapshot.timestamp_ms * 1000, snapshot.parent_snapshot_id, snapshot.operation, snapshot.manifest_list, summary) == (
            row["committed_at"], row["parent_id"], row["operation"], row["manifest_list"], row["summary"],
        )  # fmt: skip
    metadata = _read(next(p for p in history if p.name == "base.metadata.json"))
    current = {s.snapshot_id for s in metadata.ancestors(metadata.current_snapshot_id)}
    assert [(e.timestamp_ms * 1000, e.snapshot_id, e.snapshot_id in current) for e in metadata.snapshot_log] == [
        (row["made_current_at"], row["snapshot_id"], row["is_current_ancestor"]) for row in listed["java_history.json"]
    ]
    files = [row["file"] for row in listed["java_metadata_log_entries.json"]]
    assert [e.metadata_file for e in metadata.metadata_log] == files[:-1]


SESSION = golden_files("table-metadata-spark-evolution", "0*.metadata.json")


def _step(before: TableMetadata, after: TableMetadata) -> Sequence[TableUpdate]:
    """The updates that one statement of the Spark session made, told from what it left behind."""
    updates: list[TableUpdate] = []
    if after.properties != before.properties:
        updates.append(SetProperties({k: v for k, v in after.properties.items() if before.properties.get(k) != v}))
    if len(after.schemas) > len(before.schemas):
        updates += _schema_step(before, after)
    if after.default_spec_id != before.default_spec_id:
        added = after.spec.fields[-1]
        column = after.schema.name_of(added.source_id)
        named = {"ts_year": None}.get(added.name, added.name)
        updates += SpecEvolution.of_table(before).add_field(column, added.transform, named).updates()
    if after.default_sort_order_id != before.default_sort_order_id:
        order = SortOrderBuilder.of_table(before)
        for f in after.sort_order.fields:
            add = order.asc if f.direction.value == "asc" else order.desc
            add(after.schema.name_of(f.source_id), f.transform, NullOrder(f.null_order))
        updates += order.updates()
    updates += [AddSnapshot(s) for s in after.snapshots if s.snapshot_id not in before.snapshots_by_id]
    updates += [SetSnapshotRef(name, ref) for name, ref in after.refs.items() if before.refs.get(name) != ref]
    updates += [RemoveSnapshotRef(name) for name in before.refs if name not in after.refs]
    return updates


def _schema_step(before: TableMetadata, after: TableMetadata) -> Sequence[TableUpdate]:
    evolution = SchemaEvolution.of_table(before)
    old, new = before.schema, after.schema
    if set(old.identifier_field_ids) != set(new.identifier_field_ids):
        evolution.set_identifier_fields(new.name_of(i) for i in new.identifier_field_ids)
    for f in new.fields_by_id.values():
        parent = new.parents[f.field_id]
        known = old.fields_by_id.get(f.field_id)
        if known is not None and known.name != f.name:
            evolution.rename_column(old.name_of(f.field_id), f.name)
        if known is None and (parent is None or parent in old.fields_by_id):
            evolution.add_column(
                f.name, f.type, parent=None if parent is None else old.name_of(parent), required=f.required, doc=f.doc
            )
    return evolution.updates()


def test_a_spark_session_replayed_gives_the_same_tables() -> None:
    """META-33 META-34 META-38 SCHEMA-03 SCHEMA-04 PART-03 PART-07 SORT-02 SORT-04 SNAP-01

    Twenty consecutive files of one session with hostile names; files of other tables in the folder are left aside.
    """
    tables = [_read(p) for p in SESSION]
    chain = [t for t in tables if t.table_uuid == tables[0].table_uuid]
    steps = 0
    for before, after in itertools.pairwise(chain):
        if len(after.metadata_log) != len(before.metadata_log) + 1:
            continue
        found = apply_updates(before, _step(before, after), now_ms=after.last_updated_ms, previous_metadata_file="x")
        assert replace(found, metadata_log=after.metadata_log, last_updated_ms=0) == replace(after, last_updated_ms=0)
        assert len(found.metadata_log) == len(after.metadata_log)
        steps += 1
    assert steps >= 12


def _evolution(*fields: NestedField, version: int = 2) -> SchemaEvolution:
    schema_fields = fields or (NestedField(1, "id", LONG, True), NestedField(2, "data", STRING))
    schema = Schema.of(*schema_fields)
    return SchemaEvolution(schema, schema.highest_field_id, format_version=version)


def test_a_nested_map_gets_its_ids_level_by_level() -> None:
    """SCHEMA-03 TYPE-30, operation add_nested_struct_and_map: key 3 and value 4, then 5-8, then 9-10."""
    address = StructType(
        (
            NestedField(0, "address", STRING),
            NestedField(0, "city", STRING),
            NestedField(0, "state", STRING, True),
            NestedField(0, "zip", INT, True),
        )
    )
    point = StructType((NestedField(0, "lat", INT, True), NestedField(0, "long", INT)))
    evolution = _evolution(NestedField(1, "id", LONG, True))
    schema = evolution.add_column("locations", map_of(0, address, 0, point)).apply()
    assert {schema.name_of(i): i for i in schema.fields_by_id} == {
        "id": 1, "locations": 2, "locations.key": 3, "locations.value": 4, "locations.key.address": 5, "locations.key.city": 6,
        "locations.key.state": 7, "locations.key.zip": 8, "locations.value.lat": 9, "locations.value.long": 10,
    }  # fmt: skip
    assert evolution.last_column_id == 10


def test_moves_name_columns_as_they_were() -> None:
    """SCHEMA-02 SCHEMA-04, operation rename_and_move"""
    fields = [NestedField(i, name, STRING) for i, name in enumerate(("id", "first_name", "email"), 1)]
    evolution = _evolution(*fields).rename_column("email", "email_address").move_first("email").move_after("id", "first_name")
    assert [(f.field_id, f.name) for f in evolution.apply().fields] == [(3, "email_address"), (2, "first_name"), (1, "id")]


def test_a_required_column_with_a_default_keeps_its_initial_default() -> None:
    """DEFAULT-04 DEFAULT-05, operation add_required_with_default_and_update_default"""
    schema = (
        _evolution(version=3)
        .add_column("status", STRING, required=True, default="active")
        .update_default("status", "pending")
        .apply()
    )
    status = schema.find("status")
    assert status is not None
    assert (status.required, status.initial_default, status.write_default) == (True, "active", "pending")


def test_adding_into_a_list_reaches_its_elements() -> None:
    """SCHEMA-02"""
    element = StructType((NestedField(4, "a", INT),))
    evolution = _evolution(NestedField(1, "l", list_of(3, element)))
    schema = evolution.add_column("b", INT, parent="l").apply()
    assert schema.name_of(evolution.last_column_id) == "l.element.b"
