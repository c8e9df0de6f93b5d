"""A compaction in one process while another keeps deleting rows of the same partition: no row is lost, none reappears.

Files here hold no rows: a data file's path shows its rows (``a7`` holds row 7 of partition eu), which is all that matters.
"""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.errors import ValidationError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import ManifestContent
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, make_table, position_deletes, sql_catalog

EU = ("eu",)
FILES = 24


def open_catalog(kind: str, folder: str) -> Any:
    io = LocalFileIO()
    if kind == "filesystem":
        return FileSystemCatalog("c", io, warehouse=f"{folder}/wh")
    return sql_catalog(folder, io)


def rows_of(path: str) -> set[int]:
    """Files are named after their rows: ``3+7+9``."""
    return {int(part) for part in path.rpartition("/")[2].split("+")}


def live(table: Table) -> tuple[dict[str, DataFile], dict[str, set[str]]]:
    """(data files by path, delete files by the data file they name)."""
    data: dict[str, DataFile] = {}
    deletes: dict[str, set[str]] = {}
    for manifest in manifests_of(table, table.metadata.current_snapshot):
        for entry in entries_of(table, manifest, live_only=True):
            f = entry.data_file
            if manifest.content is ManifestContent.DATA:
                assert f.file_path not in data
                data[f.file_path] = f
            else:
                deletes.setdefault(f.referenced_data_file or "", set()).add(f.file_path)
    return data, deletes


def visible(table: Table) -> list[int]:
    """Rows a reader sees; a delete file is named ``<row>.del``."""
    data, deletes = live(table)
    found: list[int] = []
    for path in data:
        gone = {int(d.rpartition("/")[2].split(".")[0]) for d in deletes.get(path, ())}
        found += sorted(rows_of(path) - gone)
    return sorted(found)


def delete_rows(kind: str, folder: str, rows: list[int], report: Any) -> None:
    """The deleter: finds each row where it is now, and deletes it there. A refused delete is planned again."""
    catalog = open_catalog(kind, folder)
    for row in rows:
        while True:
            table = catalog.load_table(IDENTIFIER)
            data, _ = live(table)
            path = next(p for p in data if row in rows_of(p))
            delete = _named(position_deletes(f"{row}.del", path, partition=EU), path)
            operation = RowDelta(
                added_deletes=(delete,), referenced_data_files=(path,), isolation="snapshot", starting_snapshot_id=_head(table)
            )
            try:
                commit(catalog, table, operation)
            except ValidationError:
                continue
            break
    report.put("deleter done")


def compact(kind: str, folder: str, report: Any) -> None:
    """The compactor: replaces pairs of files by one with the rows that are live, again and again."""
    catalog = open_catalog(kind, folder)
    committed = refused = 0
    while committed < FILES - 1 and committed + refused < 400:
        table = catalog.load_table(IDENTIFIER)
        data, deletes = live(table)
        if len(data) < 2:
            break
        first, second = sorted(data.values(), key=lambda f: (len(f.file_path), f.file_path))[:2]
        gone = {int(d.rpartition("/")[2].split(".")[0]) for f in (first, second) for d in deletes.get(f.file_path, ())}
        rows = sorted((rows_of(first.file_path) | rows_of(second.file_path)) - gone)
        added = (data_file("+".join(map(str, rows)), rows=len(rows), partition=EU),) if rows else ()
        operation = RewriteFiles(removed_data=(first, second), added_data=added, starting_snapshot_id=_head(table))
        try:
            commit(catalog, table, operation)
            committed += 1
        except ValidationError:
            refused += 1
    report.put(f"compactor done: {committed} committed, {refused} refused")


def append_rows(kind: str, folder: str, worker: int, n: int, report: Any) -> None:
    catalog = open_catalog(kind, folder)
    for i in range(n):
        table = catalog.load_table(IDENTIFIER)
        commit(
            catalog, table, AppendFiles(added=(data_file(str(worker * 100 + i), rows=1, partition=EU),), run_key=f"{worker}/{i}")
        )
    report.put(worker)


def _named(delete: DataFile, path: str) -> DataFile:
    from dataclasses import replace

    return replace(delete, referenced_data_file=path)


def _head(table: Table) -> int | None:
    return table.metadata.current_snapshot_id


@pytest.mark.parametrize("kind", ["filesystem", "sql"])
def test_no_row_is_lost_and_none_comes_back(kind: str, tmp_path: Path) -> None:
    catalog = open_catalog(kind, str(tmp_path))
    catalog.create_namespace(("ns",))
    table = make_table(catalog, partitioned=True)
    table = commit(catalog, table, AppendFiles(added=tuple(data_file(str(i), rows=1, partition=EU) for i in range(FILES)))).table
    deleted = list(range(0, FILES, 3))
    context = multiprocessing.get_context("fork")
    report = context.Queue()
    workers = [
        context.Process(target=delete_rows, args=(kind, str(tmp_path), deleted, report)),
        context.Process(target=compact, args=(kind, str(tmp_path), report)),
    ]
    for worker in workers:
        worker.start()
    said = sorted(report.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join(timeout=30)
    assert [w.exitcode for w in workers] == [0, 0]
    assert said[1] == "deleter done"
    final = catalog.load_table(IDENTIFIER)
    assert visible(final) == [i for i in range(FILES) if i not in deleted]
    replaced = [s for s in final.metadata.snapshots if s.operation == "replace"]
    assert replaced, "the compactor never got through"


@pytest.mark.parametrize("kind", ["filesystem", "sql"])
def test_every_append_of_four_processes_is_there_once(kind: str, tmp_path: Path) -> None:
    catalog = open_catalog(kind, str(tmp_path))
    catalog.create_namespace(("ns",))
    make_table(catalog, partitioned=True)
    context = multiprocessing.get_context("fork")
    report = context.Queue()
    workers = [context.Process(target=append_rows, args=(kind, str(tmp_path), w, 6, report)) for w in range(4)]
    for worker in workers:
        worker.start()
    assert sorted(report.get(timeout=120) for _ in workers) == [0, 1, 2, 3]
    for worker in workers:
        worker.join(timeout=30)
    final = catalog.load_table(IDENTIFIER)
    assert visible(final) == sorted(w * 100 + i for w in range(4) for i in range(6))
    assert len(final.metadata.snapshots) == 24
    assert [s.sequence_number for s in final.metadata.snapshots] == list(range(1, 25))
