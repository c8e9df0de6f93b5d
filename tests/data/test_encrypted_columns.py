"""Parquet with encrypted columns under a plain footer is refused by name: Arrow ended the process when it read such a column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from iceberg_ops.actions.import_folder import import_folder
from iceberg_ops.config.job_spec import MergeClause, RowChange, Source
from iceberg_ops.data.columns.file_columns import ColumnIds
from iceberg_ops.data.formats.parquet_encryption import file_has_encrypted_columns
from iceberg_ops.data.formats.parquet_reader import ParquetDataFile
from iceberg_ops.errors import DataError, UnsupportedError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from tests.actions.rows_place import RowsPlace

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
JOBS: dict[str, dict[str, Any]] = {
    "append": {},
    "overwrite": {},
    "upsert": {"options": {"upsert-keys": "id"}},
    "merge": {"change": RowChange(on="target.id = source.id", clauses=[MergeClause(when="not-matched", action="insert")])},
}


class Keys(pe.KmsClient):  # type: ignore[misc]
    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return key_bytes

    def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
        return wrapped_key


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of one such file."""
    (tmp_path / "in").mkdir()
    how = pe.EncryptionConfiguration(footer_key="f", column_keys={"c": ["id"]}, plaintext_footer=True)
    properties = pe.CryptoFactory(lambda _: Keys()).file_encryption_properties(pe.KmsConnectionConfig(), how)
    with pq.ParquetWriter(tmp_path / "in" / "a.parquet", ROWS.schema, encryption_properties=properties) as writer:
        writer.write_table(ROWS)
    return tmp_path / "in"


@pytest.fixture
def place(tmp_path: Path) -> RowsPlace:
    found = RowsPlace.at(tmp_path)
    found.create(Schema.of(NestedField(1, "id", LONG)))
    return found


@pytest.mark.parametrize("job", JOBS)
def test_it_is_no_source(place: RowsPlace, folder: Path, job: str) -> None:
    with pytest.raises(DataError, match=r"a\.parquet cannot be read: columns of it are encrypted"):
        place.run(job, source=Source(format="parquet", paths=[str(folder)]), **JOBS[job])


def test_it_is_not_imported(place: RowsPlace, folder: Path) -> None:
    with pytest.raises(DataError, match=r"a\.parquet has columns that are encrypted"):
        place.run("add_files", options={"source-path": str(folder)})
    with pytest.raises(DataError, match=r"a\.parquet has columns that are encrypted"):
        import_folder(place.catalog, place.config, "test.db.new", str(folder))


@pytest.mark.parametrize("io", [LocalFileIO(), MemoryFileIO("encrypted")])
def test_it_cannot_be_read_as_a_file_of_a_table(folder: Path, io: FileIO) -> None:
    location = str(folder / "a.parquet")
    if isinstance(io, MemoryFileIO):
        io.write(location, Path(location).read_bytes())
    with pytest.raises(UnsupportedError, match=r"reading file .*a\.parquet, because columns of it are encrypted"):
        ParquetDataFile(io, location, ColumnIds())


@pytest.mark.parametrize("options", [{}, {"version": "1.0"}, {"write_page_index": True}, {"store_schema": False}])
def test_other_files_are_told_from_it(tmp_path: Path, options: dict[str, Any]) -> None:
    path = str(tmp_path / "b.parquet")
    pq.write_table(ROWS, path, **options)
    assert not file_has_encrypted_columns(pq.read_metadata(path), path)
