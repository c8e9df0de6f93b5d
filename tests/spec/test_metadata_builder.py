"""From updates to the next metadata: ids, logs, refs, sequence numbers, row ids, and refusals."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.errors import (
    AlreadyExistsError,
    BadInputError,
    CommitFailedError,
    NoSuchSnapshotError,
    OptionError,
    SchemaError,
    UnsupportedError,
)
from iceberg_ops.serde.json.metadata_json import metadata_from_json, metadata_to_json
from iceberg_ops.spec import updates as u
from iceberg_ops.spec.metadata_builder import apply_updates, creation_updates, new_table_metadata
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import Snapshot, SnapshotLogEntry, SnapshotRef
from iceberg_ops.spec.sorting import UNSORTED, NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.statistics import PartitionStatisticsFile, StatisticsFile
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.transforms import IDENTITY, bucket
from iceberg_ops.spec.types import DATE, INT, LONG, STRING, NestedField, StructType, list_of, map_of
from tests.fixture_paths import GOLDEN
from tests.golden import vectors
from tests.strategies import partition_specs, schemas, sort_orders

SCHEMA = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "name", STRING), NestedField(3, "day", DATE))
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


def table(version: int = 2, spec: PartitionSpec = UNPARTITIONED, **properties: str) -> TableMetadata:
    return new_table_metadata(SCHEMA, spec, UNSORTED, "s3://b/t", properties, now_ms=1000, format_version=version)


def snapshot(snapshot_id: int, parent: int | None = None, number: int | None = None, **more: Any) -> Snapshot:
    found: dict[str, Any] = {
        "snapshot_id": snapshot_id,
        "parent_snapshot_id": parent,
        "sequence_number": snapshot_id if number is None else number,
        "timestamp_ms": 1000 + snapshot_id,
        "manifest_list": f"s3://b/t/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema_id": 0,
    }
    return Snapshot(**(found | more))


def on_main(base: TableMetadata, *snapshots: Snapshot, now_ms: int = 5000) -> TableMetadata:
    """Each snapshot is added and made current by a separate commit."""
    for s in snapshots:
        updates = [u.AddSnapshot(s), u.SetSnapshotRef("main", SnapshotRef(snapshot_id=s.snapshot_id))]
        base = apply_updates(base, updates, now_ms=now_ms)
    return base


def history(length: int, version: int = 2) -> TableMetadata:
    more = {"first_row_id": 0, "added_rows": 0} if version == 3 else {}
    numbers = range(1, length + 1)
    return on_main(table(version), *(snapshot(i, i - 1 or None, 0 if version == 1 else i, **more) for i in numbers))


@VERSIONS
def test_a_new_table_gets_fresh_ids_in_javas_order(version: int) -> None:
    """SCHEMA-01 SCHEMA-03 TYPE-30 PART-03 SORT-02 META-24"""
    schema = Schema.of(
        NestedField(50, "s", StructType((NestedField(51, "a", INT, True), NestedField(52, "b", list_of(53, INT)))), True),
        NestedField(60, "m", map_of(61, STRING, 62, StructType((NestedField(63, "x", INT),)))),
        NestedField(70, "z", STRING),
        schema_id=9,
        identifier_field_ids=(51,),
    )
    spec = PartitionSpec(4, (PartitionField((70,), 17, bucket(4), "zb"), PartitionField((51,), 5, IDENTITY, "a")))
    order = SortOrder(7, (SortField((70,), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST),))
    found = new_table_metadata(
        schema, spec, order, "s3://b/t//", {"format-version": "1", "k": "v"}, now_ms=5, format_version=version
    )
    fresh = found.schema
    assert {fresh.name_of(i): i for i in fresh.fields_by_id} == {
        "s": 1, "m": 2, "z": 3, "s.a": 4, "s.b": 5, "s.b.element": 6, "m.key": 7, "m.value": 8, "m.value.x": 9,
    }  # fmt: skip
    assert (fresh.schema_id, fresh.identifier_field_ids, found.last_column_id) == (0, (4,), 9)
    assert [(f.source_id, f.field_id) for f in found.spec.fields] == [(3, 1000), (4, 1001)]
    assert (found.spec.spec_id, found.last_partition_id) == (0, 1001)
    assert (found.sort_order.order_id, found.sort_order.fields[0].source_id) == (1, 3)
    assert (found.location, dict(found.properties), found.format_version) == ("s3://b/t", {"k": "v"}, version)
    assert found.next_row_id == (0 if version == 3 else None)
    assert found.current_snapshot is None


def test_the_format_version_comes_from_the_property_and_else_is_two() -> None:
    assert new_table_metadata(SCHEMA, UNPARTITIONED, UNSORTED, "x", {"format-version": "3"}, now_ms=1).format_version == 3
    assert new_table_metadata(SCHEMA, UNPARTITIONED, UNSORTED, "x", {}, now_ms=1).format_version == 2
    with pytest.raises(UnsupportedError, match="format-version 4"):
        new_table_metadata(SCHEMA, UNPARTITIONED, UNSORTED, "x", {"format-version": "4"}, now_ms=1)


@VERSIONS
def test_creation_updates_make_the_same_table(version: int) -> None:
    """REST-03 REST-04"""
    spec = PartitionSpec(0, (PartitionField((1,), 1000, bucket(4), "b"),))
    found = table(version, spec, a="b")
    assert apply_updates(None, creation_updates(found), now_ms=1000) == found


def test_a_new_table_must_be_whole() -> None:
    for left_out in (u.AddSchema, u.SetDefaultSpec, u.SetDefaultSortOrder, u.SetLocation):
        updates = [x for x in creation_updates(table()) if not isinstance(x, left_out | u.SetCurrentSchema)]
        with pytest.raises((BadInputError, SchemaError)):
            apply_updates(None, updates, now_ms=1)


@given(st.data(), st.integers(1, 3))
def test_every_new_table_comes_back_from_its_file(data: st.DataObject, version: int) -> None:
    """META-01 META-37"""
    schema = data.draw(schemas(v3=version == 3))
    spec, order = data.draw(partition_specs(schema)), data.draw(sort_orders(schema))
    try:
        found = new_table_metadata(schema, spec, order, "s3://b/t", {"a": "b"}, now_ms=3, format_version=version)
    except SchemaError:
        return
    assert metadata_from_json(metadata_to_json(found), "x") == found


RULES = {rule["rule"]: rule["test"] for rule in vectors("table_metadata_rules")} if GOLDEN else {}


def test_reserved_properties_are_refused() -> None:
    """Vectors table_metadata_rules.json: reserved table properties (e.g. uuid) rejected"""
    assert not RULES or "reserved table properties (e.g. uuid) rejected" in RULES
    with pytest.raises(OptionError, match="reserved properties, but got uuid"):
        table(uuid="uuid")
    with pytest.raises(OptionError, match="reserved properties, but got current-snapshot-id"):
        apply_updates(table(), [u.SetProperties({"current-snapshot-id": "1"})], now_ms=1)


def test_a_trailing_slash_of_the_location_is_dropped() -> None:
    """Vectors table_metadata_rules.json: trailing slash in location is removed on write"""
    assert not RULES or "trailing slash in location is removed on write" in RULES
    assert apply_updates(table(), [u.SetLocation("s3://b/u///")], now_ms=1).location == "s3://b/u"
    assert apply_updates(table(), [u.SetLocation("file:///")], now_ms=1).location == "file:///"


def test_v1_partition_field_ids_must_be_in_sequence() -> None:
    """Vectors table_metadata_rules.json: v1 partition spec ids must be sequential"""
    assert not RULES or "v1 partition spec ids must be sequential" in RULES
    spec = PartitionSpec(0, (PartitionField((1,), 1005, bucket(4), "b"),))
    with pytest.raises(SchemaError, match="ids in sequence"):
        apply_updates(table(1), [u.AddPartitionSpec(spec)], now_ms=1)
    assert apply_updates(table(2), [u.AddPartitionSpec(spec)], now_ms=1).last_partition_id == 1005


def test_a_stale_sequence_number_is_a_commit_to_stage_again() -> None:
    """SEQ-01 COMMIT-05; vectors table_metadata_rules.json: adding snapshot with stale sequence number"""
    assert not RULES or "adding snapshot with stale sequence number" in RULES
    base = history(2)
    for number in (0, 1, 2):
        with pytest.raises(CommitFailedError, match="the table is at 2"):
            apply_updates(base, [u.AddSnapshot(snapshot(9, 2, number))], now_ms=1)
    assert apply_updates(base, [u.AddSnapshot(snapshot(9, 2, 3))], now_ms=1).last_sequence_number == 3


def test_a_stale_first_row_id_is_a_commit_to_stage_again() -> None:
    """LINEAGE-09 COMMIT-05; vectors table_metadata_rules.json: adding v3 snapshot with first-row-id < next-row-id"""
    assert not RULES or "adding v3 snapshot with first-row-id < next-row-id" in RULES
    base = on_main(table(3), snapshot(1, first_row_id=0, added_rows=10))
    assert base.next_row_id == 10
    with pytest.raises(CommitFailedError, match="first-row-id 9 is behind"):
        apply_updates(base, [u.AddSnapshot(snapshot(2, 1, first_row_id=9, added_rows=1))], now_ms=1)
    staged = apply_updates(base, [u.AddSnapshot(snapshot(2, 1, first_row_id=10, added_rows=5))], now_ms=1)
    assert (staged.next_row_id, staged.current_snapshot_id) == (15, 1)


@pytest.mark.parametrize("more", [{}, {"first_row_id": 0}, {"added_rows": 3}, {"first_row_id": 0, "added_rows": -1}])
def test_a_v3_snapshot_states_its_row_ids(more: dict[str, int]) -> None:
    """SNAP-09 SNAP-10 LINEAGE-09 LINEAGE-14"""
    with pytest.raises(BadInputError, match=r"first-row-id or added-rows|must be 0 or more"):
        apply_updates(table(3), [u.AddSnapshot(snapshot(1, **more))], now_ms=1)


def test_main_is_never_a_tag() -> None:
    """REFS-03; vectors table_metadata_rules.json: main cannot be a tag"""
    assert not RULES or "main cannot be a tag" in RULES
    with pytest.raises(BadInputError, match="cannot set main to a tag"):
        apply_updates(history(1), [u.SetSnapshotRef("main", SnapshotRef(snapshot_id=1, type="tag"))], now_ms=1)


@pytest.mark.parametrize(
    ("name", "ref", "error"),
    [
        ("x", SnapshotRef(snapshot_id=99), NoSuchSnapshotError),
        ("main", SnapshotRef(snapshot_id=1, max_ref_age_ms=1), BadInputError),
        ("x", SnapshotRef(snapshot_id=1, type="tag", min_snapshots_to_keep=1), BadInputError),
        ("x", SnapshotRef(snapshot_id=1, type="tag", max_snapshot_age_ms=1), BadInputError),
        ("x", SnapshotRef(snapshot_id=1, max_ref_age_ms=0), BadInputError),
    ],
)
def test_a_bad_ref_is_refused(name: str, ref: SnapshotRef, error: type[Exception]) -> None:
    """REFS-01 REFS-09"""
    with pytest.raises(error):
        apply_updates(history(1), [u.SetSnapshotRef(name, ref)], now_ms=1)


@VERSIONS
def test_commits_to_main_keep_the_snapshot_log(version: int) -> None:
    """META-32 META-33 SNAP-02 SEQ-01"""
    found = history(3, version)
    assert found.snapshot_log == tuple(SnapshotLogEntry(1000 + i, i) for i in (1, 2, 3))
    assert (found.current_snapshot_id, found.last_updated_ms) == (3, 1003)
    assert found.last_sequence_number == (0 if version == 1 else 3)


def test_a_snapshot_main_only_passed_through_is_not_in_the_log() -> None:
    """META-33"""
    steps = [[u.AddSnapshot(snapshot(i, i - 1 or None)), u.SetSnapshotRef("main", SnapshotRef(snapshot_id=i))] for i in (1, 2)]
    found = apply_updates(table(), list(itertools.chain(*steps)), now_ms=1)
    assert [e.snapshot_id for e in found.snapshot_log] == [2]


def test_moving_main_back_appends_to_the_log_at_the_time_of_the_commit() -> None:
    """META-33 SNAP-26"""
    found = apply_updates(history(2), [u.SetSnapshotRef("main", SnapshotRef(snapshot_id=1))], now_ms=9000)
    assert found.snapshot_log[-1] == SnapshotLogEntry(9000, 1)
    assert found.last_updated_ms == 9000


def test_a_clock_behind_the_table_does_not_turn_time_back() -> None:
    """META-32"""
    found = apply_updates(history(2), [u.SetProperties({"a": "b"})], now_ms=1)
    assert found.last_updated_ms == 1002
    found = on_main(found, snapshot(3, 2, timestamp_ms=7))
    assert found.last_updated_ms == found.snapshot_log[-1].timestamp_ms == 1002


def test_setting_a_ref_to_what_it_is_changes_nothing() -> None:
    base = history(2)
    same = [
        u.SetSnapshotRef("main", SnapshotRef(snapshot_id=2)),
        u.SetProperties({}),
        u.SetLocation("s3://b/t/"),
        u.RemoveSnapshots((77,)),
    ]
    assert apply_updates(base, same, now_ms=9, previous_metadata_file="f") is base


def test_other_branches_and_staged_snapshots_leave_main_alone() -> None:
    """COMMIT-13 REFS-03"""
    base = history(1)
    branch = [u.AddSnapshot(snapshot(2, 1)), u.SetSnapshotRef("audit", SnapshotRef(snapshot_id=2))]
    found = apply_updates(base, branch, now_ms=5)
    staged = apply_updates(found, [u.AddSnapshot(snapshot(3, 1))], now_ms=5)
    assert (staged.current_snapshot_id, staged.last_sequence_number) == (1, 3)
    assert staged.snapshot_log == base.snapshot_log


def test_removing_a_snapshot_drops_the_log_before_it() -> None:
    """REFS-07: a log with a hole would say that the wrong snapshot was current."""
    found = apply_updates(history(4), [u.RemoveSnapshots((2,))], now_ms=1)
    assert [e.snapshot_id for e in found.snapshot_log] == [3, 4]
    assert [s.snapshot_id for s in found.snapshots] == [1, 3, 4]


def test_removing_a_snapshot_takes_its_refs_and_statistics_along() -> None:
    """STAT-02 STAT-03 REFS-07 REFS-09"""
    base = apply_updates(
        history(2),
        [
            u.SetSnapshotRef("t", SnapshotRef(snapshot_id=1, type="tag")),
            *(
                u.SetStatistics(
                    StatisticsFile(snapshot_id=i, statistics_path="p", file_size_in_bytes=1, file_footer_size_in_bytes=1)
                )
                for i in (1, 2)
            ),
            *(
                u.SetPartitionStatistics(PartitionStatisticsFile(snapshot_id=i, statistics_path="p", file_size_in_bytes=1))
                for i in (1, 2)
            ),
        ],
        now_ms=1,
    )
    found = apply_updates(base, [u.RemoveSnapshots((1,))], now_ms=1)
    assert list(found.refs) == ["main"]
    assert [s.snapshot_id for s in (*found.statistics, *found.partition_statistics)] == [2, 2]
    emptied = apply_updates(base, [u.RemoveSnapshots((1, 2))], now_ms=1)
    assert (emptied.current_snapshot_id, dict(emptied.refs), emptied.snapshot_log) == (None, {}, ())
    metadata_from_json(metadata_to_json(emptied), "x")


def test_removing_main_empties_the_table_and_its_log() -> None:
    found = apply_updates(history(2), [u.RemoveSnapshotRef("main")], now_ms=1)
    assert (found.current_snapshot_id, found.snapshot_log, len(found.snapshots)) == (None, (), 2)


def test_a_statistics_file_replaces_that_of_the_same_snapshot() -> None:
    """STAT-02 STAT-03"""
    base = history(1)
    for path in ("a", "b"):
        statistics = StatisticsFile(snapshot_id=1, statistics_path=path, file_size_in_bytes=1, file_footer_size_in_bytes=1)
        by_partition = PartitionStatisticsFile(snapshot_id=1, statistics_path=path, file_size_in_bytes=1)
        base = apply_updates(base, [u.SetStatistics(statistics), u.SetPartitionStatistics(by_partition)], now_ms=1)
    assert [s.statistics_path for s in (*base.statistics, *base.partition_statistics)] == ["b", "b"]
    gone = apply_updates(base, [u.RemoveStatistics(1), u.RemovePartitionStatistics(1)], now_ms=1)
    assert (gone.statistics, gone.partition_statistics) == ((), ())


def test_a_snapshot_is_added_once() -> None:
    with pytest.raises(AlreadyExistsError, match="snapshot 1"):
        apply_updates(history(1), [u.AddSnapshot(snapshot(1, 1, 5))], now_ms=1)


def test_the_metadata_log_is_cut_to_its_limit() -> None:
    """META-34"""
    base = table(**{"write.metadata.previous-versions-max": "3"})
    for i in range(6):
        base = apply_updates(base, [u.SetProperties({"n": str(i)})], now_ms=2000 + i, previous_metadata_file=f"v{i}")
    assert [(e.timestamp_ms, e.metadata_file) for e in base.metadata_log] == [(2002, "v3"), (2003, "v4"), (2004, "v5")]


@pytest.mark.parametrize("update", [u.SetCurrentSchema(-1), u.SetDefaultSpec(-1), u.SetDefaultSortOrder(-1)])
def test_last_added_needs_something_added(update: u.TableUpdate) -> None:
    """REST-04"""
    with pytest.raises(BadInputError, match="add none"):
        apply_updates(table(), [update], now_ms=1)


@pytest.mark.parametrize(
    "update",
    [
        u.SetCurrentSchema(9), u.SetDefaultSpec(9), u.SetDefaultSortOrder(9), u.RemovePartitionSpecs((0,)), u.RemoveSchemas((0,)),
        u.AssignUUID("another"), u.UpgradeFormatVersion(1), u.UpgradeFormatVersion(4), u.TableUpdate(),
    ],
    ids=lambda update: str(update) if type(update) is not u.TableUpdate else "none at all",
)  # fmt: skip
def test_an_impossible_update_is_refused(update: u.TableUpdate) -> None:
    """UPG-06 META-02 GEN-12"""
    with pytest.raises((BadInputError, UnsupportedError)):
        apply_updates(table(), [update], now_ms=1)


def test_old_schemas_and_specs_can_be_removed() -> None:
    wide = Schema.of(*SCHEMA.fields, NestedField(4, "x", INT))
    spec = PartitionSpec(0, (PartitionField((1,), 1000, bucket(4), "b"),))
    updates = [u.AddSchema(wide), u.SetCurrentSchema(-1), u.AddPartitionSpec(spec), u.SetDefaultSpec(-1)]
    found = apply_updates(
        apply_updates(table(), updates, now_ms=1), [u.RemoveSchemas((0,)), u.RemovePartitionSpecs((0, 5))], now_ms=1
    )
    assert ([s.schema_id for s in found.schemas], [s.spec_id for s in found.partition_specs]) == ([1], [1])


def test_upgrades_go_one_way_and_number_rows_from_zero() -> None:
    """UPG-01 UPG-05 UPG-06 LINEAGE-15 META-24"""
    base = history(2, version=1)
    v2 = apply_updates(base, [u.UpgradeFormatVersion(2)], now_ms=1)
    assert (v2.format_version, v2.last_sequence_number, v2.snapshots) == (2, 0, base.snapshots)
    v3 = apply_updates(v2, [u.SetProperties({"format-version": "3"})], now_ms=1)
    assert (v3.format_version, v3.next_row_id, v3.snapshots) == (3, 0, base.snapshots)
    assert "format-version" not in v3.properties
    found = on_main(v3, snapshot(3, 2, 1, first_row_id=0, added_rows=7))
    assert (found.next_row_id, found.last_sequence_number) == (7, 1)
    assert metadata_from_json(metadata_to_json(found), "x") == found


def test_a_table_without_uuid_gets_one_with_the_next_change() -> None:
    """META-02"""
    base = replace(table(1), table_uuid="")
    assert len(apply_updates(base, [u.SetProperties({"a": "b"})], now_ms=1).table_uuid) == 36


def test_properties_are_set_and_removed() -> None:
    found = apply_updates(table(a="1", b="2"), [u.SetProperties({"a": "3", "c": "4"}), u.RemoveProperties(("b", "z"))], now_ms=1)
    assert found.properties == {"a": "3", "c": "4"}


def test_encryption_keys_are_kept_by_id() -> None:
    """ENC-01"""
    key = {"key-id": "k", "encrypted-key-metadata": "AA=="}
    found = apply_updates(table(3), [u.AddEncryptionKey(key), u.AddEncryptionKey({**key, "x": 1})], now_ms=1)
    assert found.encryption_keys == ({**key, "x": 1},)
    assert apply_updates(found, [u.RemoveEncryptionKey("k")], now_ms=1).encryption_keys == ()


def test_unknown_keys_survive_every_update() -> None:
    """META-37"""
    base = replace(history(2), extra={"x": {"y": [1]}})
    found = apply_updates(base, [u.SetProperties({"a": "b"}), u.RemoveSnapshots((1,))], now_ms=1)
    assert metadata_from_json(metadata_to_json(found), "x").extra == {"x": {"y": [1]}}


@given(
    st.lists(st.tuples(st.sampled_from(["commit", "branch", "rollback", "expire", "tag", "drop"]), st.integers(1, 8)), max_size=12)
)
def test_whatever_happens_the_table_stays_readable(steps: list[tuple[str, int]]) -> None:
    """META-31 META-33 META-38 REFS-02 REFS-07 SEQ-01"""
    base, next_id = table(), itertools.count(1)
    for step, n in steps:
        before = base
        base = _stepped(base, step, n, next_id)
        again = metadata_from_json(metadata_to_json(base), "x")
        assert again == base
        assert base.last_sequence_number >= before.last_sequence_number
        assert base.last_updated_ms >= before.last_updated_ms
        assert [e.timestamp_ms for e in base.snapshot_log] == sorted(e.timestamp_ms for e in base.snapshot_log)
        assert all(e.snapshot_id in base.snapshots_by_id for e in base.snapshot_log)
        if base.current_snapshot_id is not None and base.snapshot_log:
            assert base.snapshot_log[-1].snapshot_id == base.current_snapshot_id


def _stepped(base: TableMetadata, step: str, n: int, next_id: itertools.count[int]) -> TableMetadata:
    known = sorted(base.snapshots_by_id)
    picked = known[n % len(known)] if known else None
    if step in ("commit", "branch") or picked is None:
        i = next(next_id)
        name = "main" if step == "commit" else f"b{n}"
        parent = base.branch_head(name)
        added = snapshot(i, None if parent is None else parent.snapshot_id, base.last_sequence_number + 1)
        updates: list[u.TableUpdate] = [u.AddSnapshot(added), u.SetSnapshotRef(name, SnapshotRef(snapshot_id=i))]
    elif step == "rollback":
        updates = [u.SetSnapshotRef("main", SnapshotRef(snapshot_id=picked))]
    elif step == "expire":
        updates = [u.RemoveSnapshots((picked,))]
    elif step == "tag":
        updates = [u.SetSnapshotRef(f"t{n}", SnapshotRef(snapshot_id=picked, type="tag"))]
    else:
        updates = [u.RemoveSnapshotRef(sorted(base.refs)[n % len(base.refs)])] if base.refs else []
    return apply_updates(base, updates, now_ms=10_000)
