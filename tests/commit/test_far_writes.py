"""A store in which manifests are written behind: whichever write fails, no commit refers to a file that is not there."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.errors import CatalogUnavailableError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.table.manifests import manifests_of
from iceberg_ops.table.reachable import reachable_files
from tests.builders import IDENTIFIER, copied, data_file, live_paths, make_catalog, make_table, position_deletes
from tests.io.test_far_files import Far

FILES = 4
DELETED = 6


class Refusing(Far):
    """A far store that does not answer the writes of locations that are ``refused``."""

    def __init__(self, inner: FileIO, refused: Callable[[str], bool]) -> None:
        super().__init__(inner)
        self._refused = refused

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        if self._refused(location):
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
        catalog, writes = copied(filled), count()
        catalog._io = io = Refusing(catalog.io, lambda _, writes=writes, refused=refused: next(writes) == refused)
        before = catalog.load_table(IDENTIFIER)
        operation = operations(before.metadata.current_snapshot_id)[name]
        after = commit(catalog, before, operation, sleep=lambda _: None).table
        stored = [io.exists(m.manifest_path) for m in manifests_of(after, after.metadata.current_snapshot)]
        assert all(stored), f"after write {refused} was refused"
        outcomes.add(frozenset(live_paths(after)))
        if next(writes) <= refused:
            break
    assert refused > FILES / 2
    assert len(outcomes) == 1


@pytest.mark.parametrize("failing", [(0,), (DELETED - 1,), (1, 3), range(DELETED)], ids=str)
def test_a_commit_names_no_manifest_whose_write_failed(failing: tuple[int, ...]) -> None:
    """Several manifests are under way at a time; the first write of each of these fails."""
    catalog = make_catalog()
    make_table(catalog)
    for n in range(DELETED):
        added = (data_file(f"{n}/goes"), data_file(f"{n}/stays"))
        commit(catalog, catalog.load_table(IDENTIFIER), AppendFiles(added=added, merge=False))
    left = {f"-m{n}.avro" for n in failing}

    def is_first(location: str) -> bool:
        ending = re.search(r"-m\d+\.avro$", location)
        if ending is None or ending[0] not in left:
            return False
        left.remove(ending[0])
        return True

    catalog._io = io = Refusing(catalog.io, is_first)
    delete = DeleteFiles(paths=tuple(f"{n}/goes" for n in range(DELETED)))
    commit(catalog, catalog.load_table(IDENTIFIER), delete, sleep=lambda _: None)
    now = catalog.load_table(IDENTIFIER)
    assert left == set()
    missing = [path for path in reachable_files(now) if path.endswith(".avro") and not io.exists(path)]
    assert missing == []
    assert live_paths(now) == {f"{n}/stays" for n in range(DELETED)}
