"""A store in which manifests are written behind: whichever write fails, no commit refers to a file that is not there."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from itertools import count
from typing import BinaryIO

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.errors import CatalogUnavailableError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.wrapped import WrappedFileIO
from iceberg_ops.table.manifests import manifests_of
from tests.builders import IDENTIFIER, copied, data_file, live_paths, make_catalog, make_table, position_deletes

FILES = 4


class Refusing(WrappedFileIO):
    """A store far away that does not answer write number ``refused`` (from 0)."""

    def __init__(self, inner: FileIO, refused: int) -> None:
        super().__init__(inner)
        self._left = refused
        self.has_refused = False

    def is_far(self, location: str) -> bool:
        return True

    def open_far(self, location: str, size: int) -> Callable[[], BinaryIO]:
        content = self.read(location)
        return lambda: BytesIO(content)

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        self._left -= 1
        if self._left == -1:
            self.has_refused = True
            raise CatalogUnavailableError(f"{location}: the store gives no answer")
        super().write(location, data, overwrite=overwrite)


def operations(start: int | None) -> dict[str, Operation]:
    data = [data_file(f"/d{n}", ids=(n, n)) for n in range(FILES)]
    deletes = [position_deletes(f"/p{n}", f"/d{n}") for n in range(FILES)]
    return {
        "delete": DeleteFiles(paths=("/d0", "/d2")),
        "delete all": DeleteFiles(paths=tuple(f.file_path for f in data)),
        "rewrite": RewriteFiles(removed_data=tuple(data), added_data=(data_file("/new", rows=40),), starting_snapshot_id=start),
        "rewrite with deletes": RewriteFiles(
            removed_data=(data[0],), removed_deletes=(deletes[0],), added_data=(data_file("/new"),), starting_snapshot_id=start
        ),
        "replace deletes": RowDelta(
            added_deletes=(position_deletes("/p", "/d0", "/d3"),), removed_deletes=tuple(deletes), starting_snapshot_id=start
        ),
    }


@pytest.mark.parametrize("merges", [True, False])
@pytest.mark.parametrize("name", list(operations(None)))
def test_whichever_write_fails_the_table_refers_to_stored_manifests_only(name: str, merges: bool) -> None:
    filled = make_catalog()
    properties = {"commit.manifest-merge.enabled": str(merges).lower(), "commit.manifest.min-count-to-merge": "3"}
    table = make_table(filled, properties=properties)
    for n in range(FILES):
        table = commit(filled, table, AppendFiles(added=(data_file(f"/d{n}", ids=(n, n)),), merge=False)).table
    for n in range(FILES):
        deletes = (position_deletes(f"/p{n}", f"/d{n}"),)
        now = table.metadata.current_snapshot_id
        table = commit(filled, table, RowDelta(added_deletes=deletes, starting_snapshot_id=now)).table
    outcomes = set()
    for refused in count():
        catalog = copied(filled)
        catalog._io = io = Refusing(catalog.io, refused)
        before = catalog.load_table(IDENTIFIER)
        operation = operations(before.metadata.current_snapshot_id)[name]
        after = commit(catalog, before, operation, sleep=lambda _: None).table
        stored = [io.exists(m.manifest_path) for m in manifests_of(after, after.metadata.current_snapshot)]
        assert all(stored), f"after write {refused} was refused"
        outcomes.add(frozenset(live_paths(after)))
        if not io.has_refused:
            break
    assert refused > FILES / 2
    assert len(outcomes) == 1
