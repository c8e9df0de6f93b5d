"""A far store fails while a commit writes several manifests at a time: the retry writes those again that are not there."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import BinaryIO

import pytest

from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.errors import CatalogUnavailableError
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.table.reachable import reachable_files
from tests.builders import IDENTIFIER, data_file, live_paths, make_table

FILES = 6


class _FarAndFailing(MemoryFileIO):
    """The first write of each manifest whose name ends with one of ``fails`` does not happen."""

    fails: frozenset[str] = frozenset()

    def is_far(self, location: str) -> bool:
        return True

    def open_far(self, location: str, size: int) -> Callable[[], BinaryIO]:
        return partial(self.open_input, location)

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        found = re.search(r"-m\d+\.avro$", location)
        if found and found[0] in self.fails:
            self.fails = self.fails - {found[0]}
            raise CatalogUnavailableError(f"{location}: the store gives no answer")
        super().write(location, data, overwrite=overwrite)


@pytest.mark.parametrize("failing", [(0,), (FILES - 1,), (1, 3), range(FILES)], ids=str)
def test_a_commit_names_no_manifest_whose_write_failed(failing: tuple[int, ...]) -> None:
    io = _FarAndFailing(f"far-{failing}")
    catalog = MemoryCatalog("far", io, sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    make_table(catalog)
    for n in range(FILES):
        added = (data_file(f"{n}/goes"), data_file(f"{n}/stays"))
        commit(catalog, catalog.load_table(IDENTIFIER), AppendFiles(added=added, merge=False))
    io.fails = frozenset(f"-m{n}.avro" for n in failing)
    delete = DeleteFiles(paths=tuple(f"{n}/goes" for n in range(FILES)))
    commit(catalog, catalog.load_table(IDENTIFIER), delete, sleep=lambda _: None)
    now = catalog.load_table(IDENTIFIER)
    assert io.fails == frozenset()
    missing = [path for path in reachable_files(now) if path.endswith(".avro") and not io.exists(path)]
    assert missing == []
    assert live_paths(now) == {f"{n}/stays" for n in range(FILES)}
