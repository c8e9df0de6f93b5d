"""Deletion vectors beside position delete files that another commit added for the same data files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from iceberg_ops.commit.protocol.history import History, conflict
from iceberg_ops.commit.validation.checks import new_deletes_for
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.table.table import Table


def no_positions_left_out(table: Table, history: History, added: Iterable[DataFile]) -> None:
    """Prevents bringing back rows: a deletion vector takes the place of all position deletes of its data file, and another commit
    added some that it does not include. In v3 tables such files are added by engines that know no vectors (Iceberg before 1.8), or
    whose commit began before the upgrade (Java has no such check)."""
    vectors = (f for f in added if f.is_deletion_vector)
    files = [replace(f, content=FileContent.DATA, file_path=f.referenced_data_file or "", content_offset=None) for f in vectors]
    new_deletes = new_deletes_for(
        table, history, files, lambda f: f.content is FileContent.POSITION_DELETES and not f.is_deletion_vector
    )
    if new_deletes:
        file, (snapshot, delete) = new_deletes[0]
        message = f"Cannot commit, found new position delete for data file with a new deletion vector: {file.file_path}"
        raise conflict(f"{message}: {delete.file_path}", snapshot, delete, tuple(f.file_path for f, _ in new_deletes))
