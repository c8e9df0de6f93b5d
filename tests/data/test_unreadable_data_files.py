"""A data file, delete file or Puffin file that the system cannot read (its name is a folder or a loop of links) is a corrupt table
that names the file, in every job and format."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.data.columns.file_columns import ColumnIds
from iceberg_ops.data.formats.any_format import open_file
from iceberg_ops.errors import CatalogUnavailableError, CorruptTableError, MachineLimitError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.content_files import FileFormat
from iceberg_ops.table.manifests import CACHE
from tests.actions.lake import Lake, numbered
from tests.builders import make_table
from tests.unreadable_places import HOW


def lake_with_deletes(root: Path, version: int) -> Lake:
    """Two data files, an equality delete, and position deletes (v2) or deletion vectors (v3) of both."""
    catalog = MemoryCatalog("test", LocalFileIO(), warehouse=str(root), sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    make_table(catalog, version=version, properties={"commit.retry.num-retries": "0"})
    lake = Lake(catalog)
    lake.append(numbered(1, 5))
    lake.append(numbered(10, 5))
    lake.delete_ids(2)
    for task in lake.tasks():
        lake.delete_positions((task, [3]))
    CACHE.clear()
    return lake


def file_of(lake: Lake, kind: str) -> Path:
    tasks = lake.tasks()
    if kind == "data":
        return Path(tasks[0].file_path)
    deletes = [d for task in tasks for d in task.deletes if d.is_equality == (kind == "equality")]
    return Path(deletes[0].file_path)


@HOW
@pytest.mark.parametrize("kind", ["data", "equality", "positions"])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("job", "options"),
    [
        ("rewrite_data_files", {"rewrite_all": "true"}),
        ("rewrite_data_files", {"rewrite_all": "true", "partial-progress.enabled": "true"}),
        ("compute_table_stats", {}),
        ("delete", {"where": "data IN ('row 4', 'row 11')"}),
    ],
)
def test_a_job_that_reads_it_names_it(
    tmp_path: Path, version: int, kind: str, how: Callable[[Path], None], job: str, options: dict[str, str]
) -> None:
    lake = lake_with_deletes(tmp_path, version)
    bad = file_of(lake, kind)
    how(bad)
    with pytest.raises(CorruptTableError, match=f"{bad.name} (cannot be read|does not exist)"):
        lake.run(job, **options)


@HOW
@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.ORC, FileFormat.AVRO])
def test_a_file_of_any_format_is_named(tmp_path: Path, file_format: FileFormat, how: Callable[[Path], None]) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"")
    how(path)
    with pytest.raises(CorruptTableError, match=f"file {path} (cannot be read|does not exist)"):
        open_file(LocalFileIO(), str(path), file_format, ColumnIds())


class Refusing(LocalFileIO):
    """A store that answers with an error of the system."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def open_input(self, location: str) -> BinaryIO:
        raise OSError(self.number, os.strerror(self.number), location)


@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.ORC, FileFormat.AVRO])
def test_what_the_system_refuses_is_a_typed_error(tmp_path: Path, file_format: FileFormat) -> None:
    with pytest.raises(CorruptTableError, match="Permission denied"):
        open_file(Refusing(errno.EACCES), str(tmp_path / "f"), file_format, ColumnIds())
    with pytest.raises(MachineLimitError, match="open files"):
        open_file(Refusing(errno.EMFILE), str(tmp_path / "f"), file_format, ColumnIds())


def test_what_may_pass_stays_retryable(tmp_path: Path) -> None:
    class Away(LocalFileIO):
        def open_input(self, location: str) -> BinaryIO:
            raise CatalogUnavailableError("the store is away")

    with pytest.raises(CatalogUnavailableError):
        open_file(Away(), str(tmp_path / "f"), FileFormat.PARQUET, ColumnIds())
