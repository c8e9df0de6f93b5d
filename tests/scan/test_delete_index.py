"""Deletes apply to data by the spec's rules: SCAN-09, SCAN-10, SCAN-11, SCAN-12, SCAN-13, PART-15, SEQ-07, PART-10."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.locations import location_identity
from iceberg_ops.scan.delete_index import DeleteIndex, scoped_path
from iceberg_ops.scan.tasks import DeleteFile
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.metadata_columns import DELETE_FILE_PATH_ID
from iceberg_ops.spec.partition_keys import partition_key
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.transforms import IDENTITY, VOID
from iceberg_ops.spec.types import DOUBLE, LONG, STRING, IcebergType, NestedField
from iceberg_ops.spec.values import to_bytes

SPECS = {
    0: PartitionSpec(0),
    1: PartitionSpec(1, (PartitionField((1,), 1000, IDENTITY, "k"),)),
    2: PartitionSpec(2, (PartitionField((1,), 1000, VOID, "k"),)),
}
FIELDS = {1: NestedField(1, "k", STRING), 2: NestedField(2, "id", LONG), 3: NestedField(3, "x", DOUBLE)}


def data(path: str = "/t/a.parquet", spec_id: int = 1, partition: tuple[Any, ...] = ("p",), **more: Any) -> DataFile:
    if spec_id == 0:
        partition = ()
    return DataFile(
        file_path=path,
        file_format=FileFormat.PARQUET,
        spec_id=spec_id,
        partition=partition,
        record_count=more.pop("record_count", 10),
        file_size_in_bytes=100,
        **more,
    )


def positions(seq: int, path: str = "/t/d.parquet", *, bounds: tuple[str, str] | None = None, **more: Any) -> DeleteFile:
    if bounds:
        more["lower_bounds"] = {DELETE_FILE_PATH_ID: bounds[0].encode()}
        more["upper_bounds"] = {DELETE_FILE_PATH_ID: bounds[1].encode()}
    return DeleteFile(data(path, content=FileContent.POSITION_DELETES, **more), seq)


def equality(seq: int, path: str = "/t/e.parquet", **more: Any) -> DeleteFile:
    return DeleteFile(data(path, content=FileContent.EQUALITY_DELETES, equality_ids=more.pop("equality_ids", (2,)), **more), seq)


def vector(seq: int, referenced: str | None = "/t/a.parquet", path: str = "/t/v.puffin", **more: Any) -> DeleteFile:
    d = data(path, **more)
    return DeleteFile(
        DataFile(
            content=FileContent.POSITION_DELETES, file_path=path, file_format=FileFormat.PUFFIN, spec_id=d.spec_id,
            partition=d.partition,
            record_count=1, file_size_in_bytes=50, referenced_data_file=referenced, content_offset=4, content_size_in_bytes=40,
        ),
        seq,
    )  # fmt: skip


def index(*deletes: DeleteFile) -> DeleteIndex:
    return DeleteIndex(deletes, specs_by_id=SPECS, fields_by_id=FIELDS)


A, B = "/t/a.parquet", "/t/b.parquet"
CASES = [
    ("a position delete of the same sequence number applies", positions(5), data(), 5, True),
    ("an older position delete does not", positions(4), data(), 5, False),
    ("a later equality delete applies", equality(6), data(), 5, True),
    ("an equality delete of the same sequence number does not", equality(5), data(), 5, False),
    ("a position delete of another partition does not", positions(9, partition=("q",)), data(), 5, False),
    ("nor one of another spec with an equal tuple", positions(9, spec_id=2), data(), 5, False),
    ("an unpartitioned position delete is not global", positions(9, spec_id=0), data(), 5, False),
    ("an unpartitioned equality delete is", equality(9, spec_id=0), data(), 5, True),
    ("one whose spec has only void fields too", equality(9, spec_id=2), data(), 5, True),
    ("an equality delete of another partition does not", equality(9, partition=("q",)), data(), 5, False),
    ("a null partition equals a null partition", equality(9, partition=(None,)), data(partition=(None,)), 5, True),
    ("a delete that references the file applies", positions(5, referenced_data_file=A), data(), 5, True),
    ("one that references another does not", positions(5, referenced_data_file=B), data(), 5, False),
    ("a reference does not override the partition", positions(5, referenced_data_file=A, partition=("q",)), data(), 5, False),
    ("the reference may be spelled otherwise", positions(5, referenced_data_file="hdfs://n:1" + A), data(), 5, True),
    ("equal path bounds name one file", positions(5, bounds=(A, A)), data(), 5, True),
    ("equal path bounds spare another", positions(5, bounds=(B, B)), data(), 5, False),
    ("equal path bounds spelled otherwise", positions(5, bounds=("file://" + A, "file://" + A)), data(), 5, True),
    ("path bounds cut short name a prefix", positions(5, bounds=("/t/a", "/t/a")), data(), 5, True),
    ("a path within the bounds", positions(5, bounds=("/t/a", "/t/c")), data(B), 5, True),
    ("a path beyond the bounds", positions(5, bounds=("/t/c", "/t/d")), data(B), 5, False),
    ("an upper bound cut short still admits", positions(5, bounds=("/t/a", "/t/b")), data(B), 5, True),
    ("bounds spelled otherwise prune nothing", positions(5, bounds=("hdfs://n/t/c", "hdfs://n/t/d")), data(B), 5, True),
    ("bounds of a folder above prune nothing", positions(5, bounds=("/s/c", "/u/d")), data(B), 5, True),
    ("bounds that may hold doubled slashes prune nothing", positions(5, bounds=("/t//b", "/t/a")), data(B), 5, True),
    ("bounds that share no folder prune nothing", positions(5, bounds=("/c", "s3://z/d")), data(B), 5, True),
    (
        "equal bounds that are cut and spelled otherwise prune nothing",
        positions(5, bounds=("hdfs://n/t/a", "hdfs://n/t/a")),
        data(),
        5,
        True,
    ),
    ("a vector of the same sequence number applies", vector(5), data(), 5, True),
    ("an older vector does not", vector(4), data(), 5, False),
    ("a vector of another partition does not", vector(5, partition=("q",)), data(), 5, False),
    ("a vector of another file does not", vector(5, referenced=B), data(), 5, False),
]


@pytest.mark.parametrize(("delete", "file", "seq", "applies"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_delete_applies(delete: DeleteFile, file: DataFile, seq: int, applies: bool) -> None:
    assert index(delete).for_data_file(file, seq) == ((delete,) if applies else ())


def test_a_vector_replaces_position_deletes_and_leaves_equality_deletes() -> None:
    dv, by_path, by_partition, eq = vector(7), positions(9, "/t/1", referenced_data_file=A), positions(9, "/t/2"), equality(9)
    assert index(by_path, dv, by_partition, eq).for_data_file(data(), 5) == (eq, dv)


def test_a_vector_that_does_not_apply_replaces_nothing() -> None:
    by_partition = positions(9)
    assert index(vector(4), by_partition).for_data_file(data(), 5) == (by_partition,)


def test_two_vectors_of_one_file_are_a_corrupt_table_and_both_are_named() -> None:
    with pytest.raises(
        CorruptTableError, match=r"/t/a.parquet has two deletion vectors, in /t/v1.puffin at offset 4 and /t/v2.puffin"
    ):
        index(vector(5, path="/t/v1.puffin"), vector(6, path="/t/v2.puffin", referenced="file:" + A))


def test_a_vector_without_its_data_file_is_a_corrupt_table() -> None:
    with pytest.raises(CorruptTableError, match=r"/t/v.puffin does not name its data file"):
        index(vector(5, referenced=None))


def test_path_bounds_prune_nothing_once_prefixes_are_mapped() -> None:
    moved = DeleteIndex(
        [positions(5, bounds=("/old/a", "/old/b"))],
        specs_by_id=SPECS,
        fields_by_id=FIELDS,
        identity=lambda p: location_identity(p.replace("/old", "/new")),
    )
    assert moved.for_data_file(data("/new/a"), 5)


def test_later_deletes_come_in_order_of_sequence_number() -> None:
    found = index(equality(9, "/e9"), equality(7, "/e7", spec_id=0), positions(8, "/p8"), positions(6, "/p6")).for_data_file(
        data(), 6
    )
    assert [d.file_path for d in found] == ["/e7", "/e9", "/p6", "/p8"]


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ((0.0,), (-0.0,), False),
        ((math.nan,), (-math.nan,), True),
        ((1.0,), (1.0,), True),
        ((None,), (None,), True),
        ((None,), (0.0,), False),
    ],
)
def test_partitions_of_floats_are_equal_by_their_bits(a: tuple[Any, ...], b: tuple[Any, ...], same: bool) -> None:
    assert (partition_key(1, a) == partition_key(1, b)) is same


def test_the_spec_is_part_of_a_partition() -> None:
    assert partition_key(1, ("a",)) != partition_key(2, ("a",))


def test_a_file_scoped_delete_is_told_by_reference_or_by_equal_bounds() -> None:
    assert scoped_path(positions(1, referenced_data_file=A).data_file) == A
    assert scoped_path(positions(1, bounds=(A, A)).data_file) == A
    assert scoped_path(positions(1, bounds=(A, B)).data_file) is None
    assert scoped_path(positions(1).data_file) is None
    assert scoped_path(equality(1).data_file) is None


# Equality deletes that cannot meet the file, by metrics (SCAN-13)


def metrics(
    type_: IcebergType, low: Any, high: Any, *, field_id: int = 2, nulls: int | None = 0, nans: int | None = 0
) -> dict[str, Any]:
    return {
        "value_counts": {field_id: 10},
        "null_value_counts": {} if nulls is None else {field_id: nulls},
        "nan_value_counts": {} if nans is None else {field_id: nans},
        "lower_bounds": {} if low is None else {field_id: to_bytes(type_, low)},
        "upper_bounds": {} if high is None else {field_id: to_bytes(type_, high)},
    }


OVERLAPS = [
    ("ranges apart", metrics(LONG, 1, 5), metrics(LONG, 6, 9), (2,), False),
    ("ranges that touch", metrics(LONG, 1, 5), metrics(LONG, 5, 9), (2,), True),
    ("ranges apart but nulls on both sides", metrics(LONG, 1, 5, nulls=1), metrics(LONG, 6, 9, nulls=1), (2,), True),
    ("nulls on one side only", metrics(LONG, 1, 5, nulls=1), metrics(LONG, 6, 9), (2,), False),
    ("unknown null counts", metrics(LONG, 1, 5, nulls=None), metrics(LONG, 6, 9, nulls=1), (2,), True),
    ("all deleted values null, data without nulls", metrics(LONG, 1, 5), metrics(LONG, None, None, nulls=10), (2,), False),
    ("no metrics at all", {}, metrics(LONG, 6, 9), (2,), True),
    ("missing bounds", metrics(LONG, None, None), metrics(LONG, 6, 9), (2,), True),
    ("one column of two apart", metrics(LONG, 1, 5), metrics(LONG, 6, 9), (2, 1), False),
    ("NaN on both sides", metrics(DOUBLE, 1.0, 2.0, field_id=3, nans=1), metrics(DOUBLE, 5.0, 6.0, field_id=3, nans=1), (3,), True),
    (
        "unknown NaN counts",
        metrics(DOUBLE, 1.0, 2.0, field_id=3, nans=None),
        metrics(DOUBLE, 5.0, 6.0, field_id=3, nans=None),
        (3,),
        True,
    ),
    ("NaN on one side", metrics(DOUBLE, 1.0, 2.0, field_id=3, nans=1), metrics(DOUBLE, 5.0, 6.0, field_id=3), (3,), False),
    ("a NaN bound is unknown", metrics(DOUBLE, 1.0, math.nan, field_id=3), metrics(DOUBLE, 5.0, 6.0, field_id=3), (3,), True),
    (
        "rows of null parents are in no count",
        metrics(LONG, 1, 5) | {"value_counts": {2: 8}},
        metrics(LONG, 6, 9, nulls=1),
        (2,),
        True,
    ),
    ("no count of values", metrics(LONG, 1, 5) | {"value_counts": None}, metrics(LONG, 6, 9, nulls=1), (2,), True),
    ("a column no schema knows", metrics(LONG, 1, 5, field_id=99), metrics(LONG, 6, 9, field_id=99), (99,), True),
]


@pytest.mark.parametrize(("mine", "deleted", "ids", "applies"), [c[1:] for c in OVERLAPS], ids=[c[0] for c in OVERLAPS])
def test_an_equality_delete_is_spared_by_metrics(
    mine: dict[str, Any], deleted: dict[str, Any], ids: tuple[int, ...], applies: bool
) -> None:
    assert bool(index(equality(9, equality_ids=ids, **deleted)).for_data_file(data(**mine), 5)) is applies


def test_bounds_of_another_width_are_compared_as_values() -> None:
    """SCHEMA-10: the data file was written when the column was an int."""
    mine = metrics(LONG, 1, 5)
    mine["lower_bounds"], mine["upper_bounds"] = {2: b"\x01\0\0\0"}, {2: b"\x05\0\0\0"}
    assert not index(equality(9, **metrics(LONG, 6, 9))).for_data_file(data(**mine), 5)
    assert index(equality(9, **metrics(LONG, 5, 9))).for_data_file(data(**mine), 5)


def test_a_bound_that_can_not_be_read_prunes_nothing() -> None:
    mine = metrics(LONG, 1, 5) | {"upper_bounds": {2: b"\x01\x02\x03"}}
    assert index(equality(9, **metrics(LONG, 6, 9))).for_data_file(data(**mine), 5)


values = st.lists(st.one_of(st.none(), st.floats(allow_nan=True)), min_size=1, max_size=4)


@given(values, values, st.booleans())
def test_no_delete_that_shares_a_value_is_ever_spared(mine: list[float | None], deleted: list[float | None], nested: bool) -> None:
    """``nested``: NULL because of a NULL parent, which some writers count nowhere."""

    def of(column: list[float | None]) -> dict[str, Any]:
        plain = [v for v in column if v is not None and not math.isnan(v)]
        low, high = (min(plain), max(plain)) if plain else (None, None)
        nulls, nans = column.count(None), sum(v is not None and math.isnan(v) for v in column)
        found = metrics(DOUBLE, low, high, field_id=3, nulls=0 if nested else nulls, nans=nans)
        return found | {"value_counts": {3: len(column) - nulls * nested}, "record_count": len(column)}

    shared = {partition_key(0, (v,)) for v in mine} & {partition_key(0, (v,)) for v in deleted}
    if shared:
        assert index(equality(9, equality_ids=(3,), **of(deleted))).for_data_file(data(**of(mine)), 5)
