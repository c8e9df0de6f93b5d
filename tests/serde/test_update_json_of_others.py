"""Updates and requirements in JSON: every one is read back unchanged, and pyiceberg reads and writes the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.serde.json.update_json import requirement_from_dict, requirement_to_dict, update_from_dict, update_to_dict
from iceberg_ops.spec import requirements as r
from iceberg_ops.spec import updates as u
from iceberg_ops.spec.snapshots import Snapshot, SnapshotRef
from iceberg_ops.spec.statistics import BlobMetadata, PartitionStatisticsFile, StatisticsFile
from tests.strategies import partition_specs, schemas, sort_orders

_IDS = st.integers(-(2**31), 2**31 - 1)
_LONGS = st.integers(-(2**63), 2**63 - 1)
_SNAPSHOT_IDS = st.integers(1, 2**63 - 1)
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
_PROPERTIES = st.dictionaries(_TEXTS, _TEXTS, max_size=3)
_ABOVE_ZERO = st.none() | st.integers(1, 2**31 - 1)


@st.composite
def _snapshots(draw: st.DrawFn) -> Snapshot:
    has_row_ids = draw(st.booleans())
    return Snapshot(
        snapshot_id=draw(_SNAPSHOT_IDS),
        parent_snapshot_id=draw(st.none() | _SNAPSHOT_IDS),
        sequence_number=draw(st.integers(0, 2**63 - 1)),
        timestamp_ms=draw(st.integers(0, 2**52)),
        manifest_list=draw(_TEXTS),
        summary={"operation": draw(st.sampled_from(["append", "replace", "overwrite", "delete"])), **draw(_PROPERTIES)},
        schema_id=draw(st.none() | st.integers(0, 100)),
        first_row_id=draw(st.integers(0, 2**63 - 1)) if has_row_ids else None,
        added_rows=draw(st.integers(0, 2**63 - 1)) if has_row_ids else None,
    )


_REFS = st.one_of(
    st.builds(
        SnapshotRef,
        snapshot_id=_SNAPSHOT_IDS,
        type=st.just("branch"),
        min_snapshots_to_keep=_ABOVE_ZERO,
        max_snapshot_age_ms=_ABOVE_ZERO,
        max_ref_age_ms=_ABOVE_ZERO,
    ),
    st.builds(SnapshotRef, snapshot_id=_SNAPSHOT_IDS, type=st.just("tag"), max_ref_age_ms=_ABOVE_ZERO),
)
_BLOBS = st.builds(
    BlobMetadata,
    type=st.sampled_from(["apache-datasketches-theta-v1", "deletion-vector-v1"]),
    snapshot_id=_SNAPSHOT_IDS,
    sequence_number=st.integers(0, 2**63 - 1),
    fields=st.lists(st.integers(1, 100), max_size=3).map(tuple),
    properties=_PROPERTIES,
)
_STATISTICS = st.builds(
    StatisticsFile,
    snapshot_id=_SNAPSHOT_IDS,
    statistics_path=_TEXTS,
    file_size_in_bytes=st.integers(0, 2**63 - 1),
    file_footer_size_in_bytes=st.integers(0, 2**31 - 1),
    key_metadata=st.none() | _TEXTS,
    blob_metadata=st.lists(_BLOBS, max_size=2).map(tuple),
)
_PARTITION_STATISTICS = st.builds(
    PartitionStatisticsFile, snapshot_id=_SNAPSHOT_IDS, statistics_path=_TEXTS, file_size_in_bytes=st.integers(0, 2**63 - 1)
)
_KEYS = st.builds(
    lambda key_id, by: {"key-id": key_id, "encrypted-key-metadata": "AA==", **({"encrypted-by-id": by} if by else {})},
    _TEXTS,
    _TEXTS,
)
_KNOWN_TO_PYICEBERG = {
    u.AssignUUID: st.builds(u.AssignUUID, st.uuids().map(str)),
    u.UpgradeFormatVersion: st.builds(u.UpgradeFormatVersion, st.integers(1, 3)),
    u.AddSchema: st.builds(u.AddSchema, schemas()),
    u.SetCurrentSchema: st.builds(u.SetCurrentSchema, _IDS),
    u.AddPartitionSpec: st.builds(u.AddPartitionSpec, schemas().flatmap(partition_specs)),
    u.SetDefaultSpec: st.builds(u.SetDefaultSpec, _IDS),
    u.AddSortOrder: st.builds(u.AddSortOrder, schemas().flatmap(sort_orders)),
    u.SetDefaultSortOrder: st.builds(u.SetDefaultSortOrder, _IDS),
    u.AddSnapshot: st.builds(u.AddSnapshot, _snapshots()),
    u.SetSnapshotRef: st.builds(u.SetSnapshotRef, _TEXTS, _REFS),
    u.RemoveSnapshots: st.builds(u.RemoveSnapshots, st.lists(_LONGS, max_size=3).map(tuple)),
    u.RemoveSnapshotRef: st.builds(u.RemoveSnapshotRef, _TEXTS),
    u.SetLocation: st.builds(u.SetLocation, _TEXTS),
    u.SetProperties: st.builds(u.SetProperties, _PROPERTIES),
    u.RemoveProperties: st.builds(u.RemoveProperties, st.lists(_TEXTS, max_size=3).map(tuple)),
    u.SetStatistics: st.builds(u.SetStatistics, _STATISTICS),
    u.RemoveStatistics: st.builds(u.RemoveStatistics, _SNAPSHOT_IDS),
    u.SetPartitionStatistics: st.builds(u.SetPartitionStatistics, _PARTITION_STATISTICS),
    u.RemovePartitionStatistics: st.builds(u.RemovePartitionStatistics, _SNAPSHOT_IDS),
    u.RemovePartitionSpecs: st.builds(u.RemovePartitionSpecs, st.lists(_IDS, max_size=3).map(tuple)),
    u.RemoveSchemas: st.builds(u.RemoveSchemas, st.lists(_IDS, max_size=3).map(tuple)),
}
_UPDATES = {
    **_KNOWN_TO_PYICEBERG,
    u.AddEncryptionKey: st.builds(u.AddEncryptionKey, _KEYS),
    u.RemoveEncryptionKey: st.builds(u.RemoveEncryptionKey, _TEXTS),
}
_REQUIREMENTS = st.one_of(
    st.builds(r.AssertCreate),
    st.builds(r.AssertTableUUID, st.uuids().map(str)),
    st.builds(r.AssertRefSnapshotId, _TEXTS, st.none() | _SNAPSHOT_IDS),
    st.builds(r.AssertLastAssignedFieldId, _IDS),
    st.builds(r.AssertCurrentSchemaId, _IDS),
    st.builds(r.AssertLastAssignedPartitionId, _IDS),
    st.builds(r.AssertDefaultSpecId, _IDS),
    st.builds(r.AssertDefaultSortOrderId, _IDS),
)


def _sent(document: Any) -> bytes:
    return msgspec.json.encode(document)


def test_every_update_is_drawn() -> None:
    """REST-03"""
    assert {known.__name__ for known in _UPDATES} == {known.__name__ for known in u.TableUpdate.__subclasses__()}


@given(st.one_of(*_UPDATES.values()))
def test_every_update_comes_back(update: u.TableUpdate) -> None:
    """REST-03"""
    again = update_from_dict(msgspec.json.decode(_sent(update_to_dict(update))))
    assert again == update
    assert update_to_dict(again) == update_to_dict(update)


@given(_REQUIREMENTS)
def test_every_requirement_comes_back(requirement: r.TableRequirement) -> None:
    """REST-02"""
    assert requirement_from_dict(msgspec.json.decode(_sent(requirement_to_dict(requirement)))) == requirement


@pytest.mark.oracle
@given(st.one_of(*_KNOWN_TO_PYICEBERG.values()))
def test_pyiceberg_reads_and_writes_every_update_as_it_is(update: u.TableUpdate) -> None:
    """REST-03"""
    from pydantic import TypeAdapter
    from pyiceberg.table.update import TableUpdate

    theirs: Any = TypeAdapter(TableUpdate)
    read = theirs.validate_json(_sent(update_to_dict(update)))
    assert update_from_dict(msgspec.json.decode(read.model_dump_json())) == update


@pytest.mark.oracle
@given(_REQUIREMENTS)
def test_pyiceberg_reads_and_writes_every_requirement_as_it_is(requirement: r.TableRequirement) -> None:
    """REST-02"""
    from pydantic import TypeAdapter
    from pyiceberg.table.update import TableRequirement

    theirs: Any = TypeAdapter(TableRequirement)
    read = theirs.validate_json(_sent(requirement_to_dict(requirement)))
    assert requirement_from_dict(msgspec.json.decode(read.model_dump_json())) == requirement
