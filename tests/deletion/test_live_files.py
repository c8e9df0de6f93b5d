"""Expiry deletes no file that a retained snapshot needs, however manifests, specs, paths and tables share files."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import expire, resume_expiry, write_intent
from iceberg_ops.commit.operations.metadata_updates import UpdateSpec
from iceberg_ops.commit.operations.refs import RollBack
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.errors import IncompleteError, ValidationError
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import ManifestContent
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.table.manifests import manifests_of
from iceberg_ops.table.reachable import reachable_files
from iceberg_ops.table.table import Table
from tests.actions.lake import make_lake
from tests.builders import IDENTIFIER, data_file, deletion_vector, make_catalog, make_table, sql_catalog
from tests.catalog.wrappers import Wrapped

ALL = ExpireSnapshots(older_than_ms=2**60, retain_last=1)
EU = ("eu",)


def missing(table: Table) -> list[str]:
    """Files that the table refers to and that are gone."""
    return [path for path in reachable_files(table) if not table.io.exists(path)]


class Files:
    """A table whose data files are one byte each: what is deleted can be seen."""

    def __init__(self, version: int, *, partitioned: bool = True, **properties: str) -> None:
        self.catalog = make_catalog()
        self.table = make_table(self.catalog, version=version, partitioned=partitioned, properties=properties)

    def path(self, name: str) -> str:
        path = f"{self.table.location}/data/{name}"
        if not self.catalog.io.exists(path):
            self.catalog.io.write(path, b"x")
        return path

    def commit(self, operation: Any) -> Table:
        self.table = commit(self.catalog, self.table, operation).table
        return self.table

    def append(self, *files: DataFile) -> None:
        self.commit(AppendFiles(added=files))

    def delete_rows(self, added: tuple[DataFile, ...], removed: tuple[DataFile, ...] = ()) -> None:
        start = self.table.metadata.current_snapshot_id
        self.commit(RowDelta(added_deletes=added, removed_deletes=removed, isolation=None, starting_snapshot_id=start))

    def expire(self) -> set[str]:
        """Names of the deleted content files."""
        result = expire(self.catalog, self.table, ALL)
        self.table = self.catalog.load_table(IDENTIFIER)
        return {path.rpartition("/")[2] for path in result.deletion.deleted if "/data/" in path}


def vectors(files: Files, name: str, *data: DataFile) -> tuple[DataFile, ...]:
    """Vectors of several data files in one Puffin file."""
    return tuple(
        deletion_vector(files.path(name), f.file_path, offset=4 + 40 * i, partition=f.partition, spec_id=f.spec_id)
        for i, f in enumerate(data)
    )


def test_a_puffin_file_stays_while_the_vectors_of_another_spec_live_in_it() -> None:
    files = Files(3)
    old = data_file(files.path("old"), partition=EU)
    files.append(old)
    files.commit(UpdateSpec(spec=PartitionSpec(1, ())))
    new = data_file(files.path("new"), spec_id=1)
    files.append(new)
    shared = vectors(files, "shared.puffin", old, new)
    files.delete_rows(shared)
    (later,) = vectors(files, "later.puffin", old)
    files.delete_rows((later,), (shared[0],))
    assert files.expire() == set()
    assert files.catalog.io.exists(shared[0].file_path)


def test_a_puffin_file_stays_while_a_rolled_delete_manifest_has_a_vector_of_it() -> None:
    files = Files(3, **{"commit.manifest.target-size-bytes": "1", "commit.manifest-merge.enabled": "false"})
    data = [data_file(files.path(f"{'long' * 40}{i}"), partition=EU) for i in range(600)]
    files.append(*data)
    shared = vectors(files, "shared.puffin", *data)
    files.delete_rows(shared)
    listed = manifests_of(files.table, files.table.metadata.current_snapshot)
    first, *others = (m.added_files_count or 0 for m in listed if m.content is ManifestContent.DELETES)
    assert others, "the manifest was rolled"
    files.delete_rows(vectors(files, "later.puffin", *data[:first]), shared[:first])
    assert files.expire() == set()
    files.delete_rows(vectors(files, "last.puffin", *data[first:]), shared[first:])
    assert files.expire() == {"shared.puffin"}, "with its last vector the file goes"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_file_that_was_added_twice_stays_while_one_of_its_entries_is_live(version: int) -> None:
    files = Files(version, **{"commit.manifest-merge.enabled": "false"})
    twice = data_file(files.path("twice"), partition=EU)
    files.append(twice)
    first = files.table.metadata.current_snapshot_id
    files.append(twice)
    files.commit(RollBack(snapshot_id=first))
    files.append(data_file(files.path("other"), partition=EU))
    assert files.expire() == set()


def test_a_folder_that_was_imported_twice_and_rolled_back_keeps_its_files(tmp_path: Path) -> None:
    lake = make_lake()
    for number in range(2):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": [number], "data": ["x"], "region": ["eu"]}), sink)
        lake.table.io.write(f"memory://import/{number}.parquet", bytes(sink.getvalue()))
    lake.run("add_files", source_path="memory://import")
    first = lake.table.metadata.current_snapshot_id
    lake.run("add_files", source_path="memory://import", check_duplicate_files="false")
    commit(lake.catalog, lake.table, RollBack(snapshot_id=first))
    rows = lake.rows()
    lake.run("expire_snapshots", older_than="0s", retain_last=1)
    assert lake.rows() == rows
    assert missing(lake.table) == []


def test_one_spelling_of_a_file_keeps_the_other(tmp_path: Path) -> None:
    catalog = sql_catalog(tmp_path)
    catalog.create_namespace(("ns",))
    table = make_table(catalog)
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    (tmp_path / "data" / "f").write_bytes(b"x")
    for spelled in (f"{tmp_path}/data/f", f"file://{tmp_path}//data/./f", f"file:{tmp_path}/link/../link/f"):
        table = commit(catalog, table, AppendFiles(added=(data_file(spelled),), merge=False)).table
    keep = table.metadata.current_snapshot_id
    table = commit(catalog, table, DeleteFiles(paths=(f"{tmp_path}/data/f",))).table
    table = commit(catalog, table, RollBack(snapshot_id=keep)).table
    assert expire(catalog, table, ALL).files.data == ()
    assert (tmp_path / "data" / "f").exists()


class Swaps(Wrapped):
    """Two tables swap their names at the n-th load of ``ns.t``."""

    def __init__(self, inner: Any, at: int) -> None:
        super().__init__(inner)
        self.left = at

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        self.left -= 1
        if self.left == 0:
            for old, new in ((IDENTIFIER, ("ns", "x")), (("ns", "u"), IDENTIFIER), (("ns", "x"), ("ns", "u"))):
                self.inner.rename_table(old, new)
        return self.inner.load_table(identifier)  # type: ignore[no-any-return]


@pytest.mark.parametrize("at", range(1, 9))
def test_two_tables_that_swap_names_during_expiry_keep_their_files(at: int) -> None:
    catalog = make_catalog()
    tables = {name: make_table(catalog, identifier=("ns", name), partitioned=True) for name in ("t", "u")}
    for name, table in tables.items():
        for number in range(3):
            path = f"{table.location}/data/{number}"
            catalog.io.write(path, b"x")
            table = commit(catalog, table, AppendFiles(added=(data_file(path, partition=EU),))).table
        tables[name] = commit(catalog, table, DeleteFiles(paths=(f"{table.location}/data/0",))).table
    with suppress(ValidationError, IncompleteError):
        expire(Swaps(catalog, at), tables["t"], ALL)
    for name in ("t", "u"):
        assert missing(catalog.load_table(("ns", name))) == []


def test_two_tables_that_swapped_names_after_a_crash_keep_their_files_when_it_is_finished() -> None:
    catalog = make_catalog()
    t, u = (make_table(catalog, identifier=("ns", name), partitioned=True) for name in ("t", "u"))
    for number in range(2):
        catalog.io.write(f"{t.location}/data/{number}", b"x")
        t = commit(catalog, t, AppendFiles(added=(data_file(f"{t.location}/data/{number}", partition=EU),))).table
    write_intent(t, ALL)
    commit(catalog, t, ALL)
    for old, new in ((IDENTIFIER, ("ns", "x")), (("ns", "u"), IDENTIFIER), (("ns", "x"), ("ns", "u"))):
        catalog.rename_table(old, new)
    with pytest.raises(ValidationError, match="is now a different table"):
        resume_expiry(catalog, t)
    assert missing(catalog.load_table(("ns", "u"))) == []
    assert u.metadata.table_uuid == catalog.load_table(IDENTIFIER).metadata.table_uuid
