"""Locations of one file are the same file however they are written (SCAN-10, with paths compared after mapping)."""

from __future__ import annotations

import pytest

from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.locations import identity_under, location_identity
from iceberg_ops.io.mapped import MappedFileIO
from iceberg_ops.io.read_only import ReadOnlyFileIO

SAME = [
    ("hdfs://localhost:20500/wh/t/f.parquet", "/wh/t/f.parquet"),
    ("file:/wh/t/f.parquet", "/wh/t/f.parquet"),
    ("file:///wh/t/f.parquet", "file:/wh/t/f.parquet"),
    ("s3a://b/f.parquet", "s3://b/f.parquet"),
    ("./t/f.parquet", "t/f.parquet"),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_writings_of_one_file_are_the_same(a: str, b: str) -> None:
    assert location_identity(a) == location_identity(b)


@pytest.mark.parametrize(("a", "b"), [("s3://a/f", "s3://b/f"), ("/a/f", "/b/f"), ("s3://a/f", "gs://a/f"), ("/a/f", "a/f")])
def test_different_files_stay_different(a: str, b: str) -> None:
    assert location_identity(a) != location_identity(b)


def test_paths_are_compared_after_the_mapping_through_any_wrapping() -> None:
    io = ReadOnlyFileIO(MappedFileIO(LocalFileIO(), [("hdfs://h:1/wh/t", "/copy/t"), ("s3://b/wh/t", "/copy/t")]))
    identity = identity_under(io)
    assert identity("hdfs://h:1/wh/t/f") == identity("s3://b/wh/t/f") == identity("/copy/t/f")
    assert identity("/elsewhere/f") == "/elsewhere/f"
