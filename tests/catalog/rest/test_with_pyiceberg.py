"""The REST catalog and pyiceberg's on one server, both ways, one after the other and against each other."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.catalog.rest.rest_catalog import RestCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties, UpdateSchema
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.errors import AlreadyExistsError, NoSuchTableError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import STRING, NestedField
from tests.builders import IDENTIFIER, data_file, live_paths, make_table
from tests.servers.rest.reference import ReferenceServer

pytestmark = pytest.mark.oracle

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def both(rest_server: ReferenceServer) -> tuple[RestCatalog, Any]:
    from pyiceberg.catalog.rest import RestCatalog as Theirs

    uri = rest_server.uri(rest_server.new_name())
    return RestCatalog("lake", {"uri": uri}), Theirs("lake", uri=uri)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_reads_what_we_commit(both: tuple[RestCatalog, Any], version: int) -> None:
    ours, theirs = both
    ours.create_namespace(("ns",), {"owner": "me"})
    table = make_table(ours, version=version, partitioned=True)
    table = commit(ours, table, AppendFiles(added=(data_file("/a", partition=("eu",)), data_file("/b", partition=("us",))))).table
    commit(ours, table, RewriteManifests())
    seen = theirs.load_table("ns.t")
    assert seen.metadata.format_version == version
    assert {t.file.file_path for t in seen.scan().plan_files()} == {"/a", "/b"}
    assert {t.file.file_path for t in seen.scan("region = 'eu'").plan_files()} == {"/a"}
    assert theirs.load_namespace_properties("ns")["owner"] == "me"
    assert theirs.list_tables("ns") == [("ns", "t")]


def test_both_write_the_same_table_in_turns(both: tuple[RestCatalog, Any]) -> None:
    ours, theirs = both
    theirs.create_namespace("ns")
    seen = theirs.create_table("ns.t", ROWS.schema)
    for turn in range(3):
        seen.refresh()
        seen.append(ROWS)
        commit(ours, ours.load_table(IDENTIFIER), AppendFiles(added=(data_file(f"/{turn}"),)))
        with seen.refresh().transaction() as change:
            change.set_properties({f"theirs-{turn}": "x"})
        commit(ours, ours.load_table(IDENTIFIER), UpdateProperties(updates={f"ours-{turn}": "x"}))
    table = ours.load_table(IDENTIFIER)
    assert len(live_paths(table)) == 6
    assert {k for k in table.properties if "-" in k} >= {f"{who}-{n}" for who in ("ours", "theirs") for n in range(3)}
    assert theirs.load_table("ns.t").metadata.model_dump_json()


def test_whoever_is_stale_is_refused_and_tries_again(both: tuple[RestCatalog, Any]) -> None:
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.types import StringType

    ours, theirs = both
    theirs.create_namespace("ns")
    seen = theirs.create_table("ns.t", ROWS.schema)
    stale, stale_theirs = ours.load_table(IDENTIFIER), theirs.load_table("ns.t")
    seen.append(ROWS)
    commit(ours, stale, AppendFiles(added=(data_file("/a"),)))
    table = ours.load_table(IDENTIFIER)
    wider = Schema.of(*table.schema.fields, NestedField(table.metadata.last_column_id + 1, "c", STRING))
    commit(ours, table, UpdateSchema(schema=wider))
    change = stale_theirs.update_schema()
    change.add_column("d", StringType())
    with pytest.raises(CommitFailedException):
        change.commit()
    now = ours.load_table(IDENTIFIER)
    assert [f.name for f in now.schema.fields] == ["id", "c"]
    assert len(live_paths(now)) == 2


def test_names_of_each_are_those_of_the_other(both: tuple[RestCatalog, Any]) -> None:
    ours, theirs = both
    namespace = ("Ä b", "c+d", "50%")
    for depth in range(1, 4):
        theirs.create_namespace(namespace[:depth])
    table = make_table(ours, identifier=(*namespace, "ta ble"))
    assert theirs.load_table((*namespace, "ta ble")).metadata_location == table.metadata_location
    theirs.rename_table((*namespace, "ta ble"), ("Ä b", "new"))
    with pytest.raises(NoSuchTableError):
        ours.load_table((*namespace, "ta ble"))
    assert ours.list_tables(("Ä b",)) == [("Ä b", "new")]
    with pytest.raises(AlreadyExistsError):
        make_table(ours, identifier=("Ä b", "new"))
    theirs.drop_table(("Ä b", "new"))
    assert ours.register_table(("Ä b", "again"), table.metadata_location).metadata == table.metadata
    assert ours.list_namespaces(namespace[:2]) == [namespace]
