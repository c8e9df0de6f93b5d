"""Small tables and files for tests, each made in one call.

Data files here need not exist: the commit package reads only manifests. A file's rows are counted, not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.metadata_columns import DELETE_FILE_PATH_ID
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import LONG, STRING, NestedField
from iceberg_ops.spec.values import to_bytes
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table

SCHEMA = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "data", STRING), NestedField(3, "region", STRING))
BY_REGION = PartitionSpec(0, (PartitionField((3,), 1000, IDENTITY, "region"),))
IDENTIFIER = ("ns", "t")


def make_catalog(name: str = "test", **options: Any) -> MemoryCatalog:
    """A new memory catalog with its own storage and namespace ``ns``."""
    catalog = MemoryCatalog(name, MemoryFileIO(f"{name}-{id(object())}-{next(_COUNTER)}"), sleep=lambda _: None, **options)
    catalog.create_namespace(("ns",))
    return catalog


def copied(catalog: MemoryCatalog) -> MemoryCatalog:
    """Another catalog with the same tables, and storage of its own with the same files: cheaper than to write a table again."""
    made = make_catalog(catalog.name)
    files, theirs = made.io._store.files, catalog.io._store.files  # type: ignore[attr-defined]
    files.update(theirs)
    made._pointers.update(catalog._pointers)
    made._namespaces.update({namespace: dict(properties) for namespace, properties in catalog._namespaces.items()})
    return made


def sql_catalog(folder: Path | str, io: FileIO | None = None, *, name: str = "c", **options: Any) -> SqlCatalog:
    """A catalog in a SQLite file of ``folder``, with its warehouse beside it. Another one of that folder has the same tables."""
    return SqlCatalog(name, f"sqlite:///{folder}/c.db", LocalFileIO() if io is None else io, warehouse=f"{folder}/wh", **options)


def make_table(
    catalog: Any,
    *,
    version: int = 2,
    partitioned: bool = False,
    properties: Mapping[str, str] | None = None,
    identifier: tuple[str, ...] = IDENTIFIER,
) -> Table:
    """An empty table ``ns.t`` of (id long, data string, region string), by region or not."""
    return catalog.create_table(  # type: ignore[no-any-return]
        identifier,
        SCHEMA,
        spec=BY_REGION if partitioned else UNPARTITIONED,
        properties={"format-version": str(version), **(properties or {})},
    )


def append_file(catalog: Any, name: str) -> None:
    """Append to table ``ns.t`` a data file of that name, which is there; its bytes are no rows."""
    table = catalog.load_table(IDENTIFIER)
    added = data_file(f"{table.location}/data/{name}.parquet")
    catalog.io.write(added.file_path, b"rows")
    commit(catalog, table, AppendFiles(added=(added,)), sleep=lambda _: None)


def data_file(
    path: str,
    *,
    rows: int = 10,
    partition: tuple[Any, ...] = (),
    spec_id: int = 0,
    ids: tuple[int, int] | None = None,
    size: int = 1000,
) -> DataFile:
    """A data file; ``ids`` are the lowest and highest value of column id."""
    return DataFile(
        file_path=path,
        file_format=FileFormat.PARQUET,
        spec_id=spec_id,
        partition=partition,
        record_count=rows,
        file_size_in_bytes=size,
        value_counts=None if ids is None else {1: rows},
        null_value_counts=None if ids is None else {1: 0},
        lower_bounds=None if ids is None else {1: to_bytes(LONG, ids[0])},
        upper_bounds=None if ids is None else {1: to_bytes(LONG, ids[1])},
    )


def position_deletes(path: str, *data_paths: str, rows: int = 1, partition: tuple[Any, ...] = (), spec_id: int = 0) -> DataFile:
    """A v2 position delete file that names ``data_paths`` by bounds (one: it names that file; none: no bounds)."""
    lowest = {DELETE_FILE_PATH_ID: min(data_paths).encode()} if data_paths else None
    highest = {DELETE_FILE_PATH_ID: max(data_paths).encode()} if data_paths else None
    return DataFile(
        content=FileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        spec_id=spec_id,
        partition=partition,
        record_count=rows,
        file_size_in_bytes=100,
        lower_bounds=lowest,
        upper_bounds=highest,
        referenced_data_file=data_paths[0] if len(data_paths) == 1 else None,
    )


def equality_deletes(
    path: str,
    *,
    rows: int = 1,
    partition: tuple[Any, ...] = (),
    spec_id: int = 0,
    ids: tuple[int, int] | None = None,
) -> DataFile:
    """An equality delete file by column id."""
    return DataFile(
        content=FileContent.EQUALITY_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        spec_id=spec_id,
        partition=partition,
        record_count=rows,
        file_size_in_bytes=100,
        equality_ids=(1,),
        value_counts=None if ids is None else {1: rows},
        null_value_counts=None if ids is None else {1: 0},
        lower_bounds=None if ids is None else {1: to_bytes(LONG, ids[0])},
        upper_bounds=None if ids is None else {1: to_bytes(LONG, ids[1])},
    )


def deletion_vector(
    path: str, data_path: str, *, rows: int = 1, offset: int = 4, partition: tuple[Any, ...] = (), spec_id: int = 0
) -> DataFile:
    """A deletion vector in Puffin file ``path``."""
    return DataFile(
        content=FileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PUFFIN,
        spec_id=spec_id,
        partition=partition,
        record_count=rows,
        file_size_in_bytes=100,
        referenced_data_file=data_path,
        content_offset=offset,
        content_size_in_bytes=40,
    )


def live_files(table: Table, branch: str = "main") -> dict[str, tuple[int | None, int | None]]:
    """Live data and delete files of a branch: path (``path#offset`` for a deletion vector) -> (data, file) sequence numbers."""
    found: dict[str, tuple[int | None, int | None]] = {}
    for manifest in manifests_of(table, table.metadata.branch_head(branch)):
        for entry in entries_of(table, manifest, live_only=True):
            f = entry.data_file
            name = f"{f.file_path}#{f.content_offset}" if f.is_deletion_vector else f.file_path
            assert name not in found, f"{name} is live twice"
            found[name] = (entry.sequence_number, entry.file_sequence_number)
    return found


def live_paths(table: Table, branch: str = "main") -> set[str]:
    """Paths of live data and delete files."""
    return {name.partition("#")[0] for name in live_files(table, branch)}


def _count() -> Any:
    n = 0
    while True:
        n += 1
        yield n


_COUNTER = _count()
