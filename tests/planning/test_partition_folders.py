"""The partition of a file, derived from folder names."""

from __future__ import annotations

import pytest

from iceberg_ops.errors import DataError
from iceberg_ops.io.file_io import FileInfo
from iceberg_ops.planning.partition_folders import check_spec, data_files, partition_tuple
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY, VOID
from iceberg_ops.spec.types import STRING, NestedField


def test_a_void_field_of_a_dropped_column_is_in_no_folder() -> None:
    schema = Schema.of(NestedField(3, "region", STRING))
    spec = PartitionSpec(1, (PartitionField((9,), 1000, VOID, "gone"), PartitionField((3,), 1001, IDENTITY, "region")))
    check_spec(schema, spec)
    assert partition_tuple("s3://lake/region=eu/a.parquet", (("region", "eu"),), schema, spec) == (None, "eu")


def test_a_file_whose_name_is_no_utf_8_is_refused_by_name() -> None:
    with pytest.raises(DataError, match=r"/in: the name of the file 'k=1/x\\udcff.parquet' in it is not UTF-8"):
        data_files("/in", [FileInfo("/in/k=1/x\udcff.parquet", 1, 1)])
