from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_ops.deletion.bulk import delete_files
from iceberg_ops.io.local import LocalFileIO


@pytest.mark.parametrize("most_at_once", [None, 1, 2])
def test_a_location_of_another_store_fails_alone(tmp_path: Path, most_at_once: int | None) -> None:
    (tmp_path / "a").write_bytes(b"x")
    failures = delete_files(LocalFileIO(), ["s3://bucket/b", f"{tmp_path}/a"], most_at_once)
    assert [f.location for f in failures] == ["s3://bucket/b"]
    assert not (tmp_path / "a").exists()
