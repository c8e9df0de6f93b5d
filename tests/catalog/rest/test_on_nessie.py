"""Nessie's Iceberg REST endpoint: what docs/catalogs.md says of it, on the server itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_ops.catalog.nessie.nessie_catalog import NessieCatalog
from iceberg_ops.catalog.nessie.nessie_client import Nessie
from iceberg_ops.catalog.rest.rest_catalog import RestCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
from iceberg_ops.commit.operations.refs import SetRef
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.errors import GcDisabledError, UnsupportedError, ValidationError
from iceberg_ops.io.load import load_file_io
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import STRING, NestedField
from tests.builders import IDENTIFIER, SCHEMA, data_file, live_paths, make_table
from tests.servers.nessie.server import NessieServer
from tests.servers.stores import Store

pytestmark = pytest.mark.oracle


@pytest.fixture
def branch(nessie_server: NessieServer) -> str:
    return nessie_server.new_branch("main")


@pytest.fixture
def catalog(nessie_server: NessieServer, branch: str, object_store: Callable[[str], Store]) -> RestCatalog:
    """On a branch of Nessie that ``prefix`` names."""
    io = load_file_io(object_store("versitygw").properties)
    made = RestCatalog("rest", {"uri": nessie_server.rest_uri, "prefix": branch}, io, sleep=lambda _: None)
    made.create_namespace(("ns",))
    return made


def append(catalog: Any, path: str, **options: Any) -> None:
    commit(catalog, catalog.load_table(IDENTIFIER), AppendFiles(added=(data_file(path),), **options), sleep=lambda _: None)


def test_rows_and_schemas_are_written_on_the_branch_that_the_prefix_names(
    catalog: RestCatalog, nessie_server: NessieServer, branch: str
) -> None:
    table = make_table(catalog)
    append(catalog, "a")
    wider = Schema.of(*SCHEMA.fields, NestedField(4, "more", STRING))
    commit(catalog, catalog.load_table(IDENTIFIER), UpdateSchema(schema=wider))
    table = catalog.load_table(IDENTIFIER)
    commit(catalog, table, RewriteFiles(removed_data=(data_file("a"),), added_data=(data_file("c"),)))
    now = catalog.load_table(IDENTIFIER)
    assert live_paths(now) == {"c"}
    assert [field.name for field in now.schema.fields] == ["id", "data", "region", "more"]
    assert len(nessie_server.history(branch)) > len(nessie_server.history("main"))
    assert not RestCatalog("rest", {"uri": nessie_server.rest_uri}, catalog.io).table_exists(IDENTIFIER)


def test_one_snapshot_is_kept_and_a_run_key_with_it(catalog: RestCatalog) -> None:
    make_table(catalog)
    append(catalog, "a", run_key="one")
    append(catalog, "again", run_key="one")
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}, "the key is in the snapshot"
    append(catalog, "b", run_key="two")
    append(catalog, "a2", run_key="one")
    now = catalog.load_table(IDENTIFIER)
    assert live_paths(now) == {"a", "b", "a2"}, "the key went with its snapshot, so the work was done twice"
    assert len(now.metadata.snapshots) == 1


def test_nothing_is_deleted(catalog: RestCatalog) -> None:
    make_table(catalog)
    append(catalog, "a")
    with pytest.raises(GcDisabledError):
        commit(catalog, catalog.load_table(IDENTIFIER), ExpireSnapshots(retain_last=1, older_than_ms=2**62))
    with pytest.raises(GcDisabledError):
        catalog.drop_table(IDENTIFIER, purge=True)


def test_branches_and_tags_of_the_table_are_refused(catalog: RestCatalog) -> None:
    make_table(catalog)
    append(catalog, "a")
    operations = (
        AppendFiles(added=(data_file("b"),), branch="other"),
        AppendFiles(added=(data_file("b"),), staged=True),
        SetRef(ref="t1", type="tag"),
    )
    for operation in operations:
        with pytest.raises(UnsupportedError, match="because its server is Nessie"):
            commit(catalog, catalog.load_table(IDENTIFIER), operation)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}


def test_a_rewrite_that_others_overtake_is_refused(catalog: RestCatalog) -> None:
    make_table(catalog)
    append(catalog, "a")
    stale = catalog.load_table(IDENTIFIER)
    append(catalog, "x")
    operation = RewriteFiles(
        removed_data=(data_file("a"),), added_data=(data_file("c"),), starting_snapshot_id=stale.metadata.current_snapshot_id
    )
    with pytest.raises(ValidationError, match="Cannot determine history between starting snapshot"):
        commit(catalog, stale, operation, sleep=lambda _: None)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a", "x"}


def test_the_same_table_is_written_by_nessies_own_api(catalog: RestCatalog, nessie_server: NessieServer, branch: str) -> None:
    """There each commit keeps its history, until one by the REST endpoint drops it."""
    make_table(catalog)
    append(catalog, "a")
    own = NessieCatalog("nessie", Nessie("nessie", {"uri": nessie_server.uri, "ref": branch}), catalog.io)
    append(own, "b")
    append(own, "c")
    assert len(own.load_table(IDENTIFIER).metadata.snapshots) == 3
    append(catalog, "d")
    assert live_paths(own.load_table(IDENTIFIER)) == live_paths(catalog.load_table(IDENTIFIER)) == {"a", "b", "c", "d"}
    assert len(own.load_table(IDENTIFIER).metadata.snapshots) == 1
