"""The SQL catalog and pyiceberg's on one database, both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.io.local import LocalFileIO
from tests.builders import IDENTIFIER, data_file, live_paths, make_table

pytestmark = pytest.mark.oracle


@pytest.fixture
def both(tmp_path: Path) -> tuple[SqlCatalog, Any]:
    from pyiceberg.catalog.sql import SqlCatalog as Theirs

    uri, warehouse = f"sqlite:///{tmp_path / 'c.db'}", f"file://{tmp_path / 'wh'}"
    ours = SqlCatalog("lake", uri, LocalFileIO(), warehouse=warehouse)
    return ours, Theirs("lake", uri=uri, warehouse=warehouse)


@pytest.mark.parametrize("version", [1, 2])
def test_pyiceberg_reads_what_we_commit(both: tuple[SqlCatalog, Any], version: int) -> None:
    ours, theirs = both
    ours.create_namespace(("ns",), {"owner": "me"})
    table = make_table(ours, version=version, partitioned=True)
    table = commit(ours, table, AppendFiles(added=(data_file("/a", partition=("eu",)), data_file("/b", partition=("us",))))).table
    commit(ours, table, RewriteManifests())
    seen = theirs.load_table("ns.t")
    assert {t.file.file_path for t in seen.scan().plan_files()} == {"/a", "/b"}
    assert {t.file.file_path for t in seen.scan("region = 'eu'").plan_files()} == {"/a"}
    assert theirs.load_namespace_properties("ns")["owner"] == "me"
    assert [s.summary.operation.value for s in seen.snapshots()] == ["append", "replace"]


def test_we_go_on_with_what_pyiceberg_began_and_it_with_ours(both: tuple[SqlCatalog, Any]) -> None:
    import pyarrow as pa

    ours, theirs = both
    theirs.create_namespace("ns")
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    theirs.create_table("ns.t", rows.schema).append(rows)
    table = ours.load_table(IDENTIFIER)
    assert len(live_paths(table)) == 1
    commit(ours, table, AppendFiles(added=(data_file("/a"),)))
    commit(ours, table, UpdateProperties(updates={"from": "ours"}))
    seen = theirs.load_table("ns.t")
    assert seen.properties["from"] == "ours"
    seen.append(rows)
    assert len(live_paths(ours.load_table(IDENTIFIER))) == 3


def test_a_stale_writer_of_either_side_is_refused_by_the_pointer(both: tuple[SqlCatalog, Any]) -> None:
    from pyiceberg.exceptions import CommitFailedException

    ours, theirs = both
    ours.create_namespace(("ns",))
    table = make_table(ours)
    seen = theirs.load_table("ns.t")
    commit(ours, table, UpdateProperties(updates={"a": "1"}))
    with seen.update_schema() as change:
        change.make_column_optional("id")
    assert ours.load_table(IDENTIFIER).properties["a"] == "1"
    stale = theirs.load_table("ns.t")
    with theirs.load_table("ns.t").update_schema() as change:
        change.update_column("id", doc="ours")
    with pytest.raises(CommitFailedException), stale.update_schema() as change:
        change.update_column("id", doc="theirs")
