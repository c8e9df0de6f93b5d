"""Iceberg Java's NessieCatalog and this package on one Nessie, in turns."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.nessie.nessie_catalog import NessieCatalog
from iceberg_ops.catalog.nessie.nessie_client import Nessie
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.errors import AlreadyExistsError, BadInputError, GcDisabledError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.types import INT
from tests.interop.at_once import PROPERTIES
from tests.interop.lake import Java, Lake, same
from tests.servers.nessie.server import NessieServer

pytestmark = [pytest.mark.oracle, pytest.mark.java]

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
OpenLake = Callable[[str], Lake]


@pytest.fixture
def open_lake(java_lake: tuple[Java, SqlCatalog], nessie_server: NessieServer, tmp_path: Path) -> OpenLake:
    """A reference of Nessie -> a table's name in it, for both sides."""

    def opened(reference: str) -> Lake:
        name, warehouse = f"nessie_{reference}", f"file:{tmp_path}/wh"
        ours = NessieCatalog(name, Nessie(name, {"uri": nessie_server.uri, "ref": reference}), LocalFileIO(), warehouse=warehouse)
        properties = {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "nessie",
            ".uri": nessie_server.uri,
            ".ref": reference,
            ".warehouse": warehouse,
            ".cache-enabled": "false",
        }
        for key, value in properties.items():
            java_lake[0](f"SET `spark.sql.catalog.{name}{key}`=`{value}`")
        return Lake(java_lake[0], ours, "t")  # type: ignore[arg-type]

    return opened


@pytest.fixture
def lake(open_lake: OpenLake, nessie_server: NessieServer) -> Lake:
    """A table's name on a branch of the test's own."""
    made = open_lake(nessie_server.new_branch())
    made.catalog.create_namespace(("ns",), {"team": "us"})
    return made


def test_nessie_has_of_our_commits_what_it_has_of_javas(lake: Lake, nessie_server: NessieServer) -> None:
    """One table is created, filled, changed, renamed and dropped by Java, one by us."""
    lake.run_java("CREATE TABLE {T} (id BIGINT, region STRING) PARTITIONED BY (region)")
    table = lake.table
    ours = Lake(lake.java, lake.catalog, "u")
    ours.catalog.create_table(("ns", "u"), table.schema, spec=table.metadata.spec)
    name = lake.catalog.name
    lake.run_java(
        "INSERT INTO {T} VALUES (1, 'eu')",
        "ALTER TABLE {T} ADD COLUMN more INT",
        "ALTER TABLE {T} SET TBLPROPERTIES ('a' = 'b')",
        f"ALTER TABLE {{T}} RENAME TO {name}.ns.t2",
        f"DROP TABLE {name}.ns.t2",
    )
    ours.append([(1, "eu")])
    ours.evolve(lambda schema: schema.add_column("more", INT))
    ours.commit(UpdateProperties(updates={"a": "b"}))
    ours.catalog.rename_table(("ns", "u"), ("ns", "u2"))
    ours.catalog.drop_table(("ns", "u2"))
    commits = nessie_server.history(_branch(lake))
    theirs, found = _of_table(commits, "t"), _of_table(commits, "u")
    assert len(theirs) == 6
    assert theirs == found


def _branch(lake: Lake) -> str:
    return lake.catalog.name.removeprefix("nessie_")


def _of_table(commits: list[dict[str, Any]], name: str) -> list[Any]:
    """Messages, properties and operations of the commits to a table, without what differs from one to the next."""
    ids: dict[str, str] = {}
    found: list[Any] = []
    for commit in reversed(commits):
        done = [_plain(one, name, ids) for one in commit["operations"] if one["key"]["elements"][-1].startswith(name)]
        if done:
            meta = commit["commitMeta"]
            properties = {key: value for key, value in meta["allProperties"].items() if key not in ("iceberg-ops.commit", "app-id")}
            text = re.sub(rf"(ns\.){name}(2?\b)", r"\1NAME\2", meta["message"])
            found.append((text, properties, meta["authors"], done))
    return found


def _plain(operation: dict[str, Any], name: str, ids: dict[str, str]) -> dict[str, Any]:
    content = dict(operation.get("content") or {})
    if content:
        content["id"] = ids.setdefault(content["id"], str(len(ids)))
        content["snapshotId"] = content["snapshotId"] == -1
        content["metadataLocation"] = _UUID.sub("ID", content["metadataLocation"]).replace(f"/{name}_ID", "/NAME_ID")
    elements = [level.replace(name, "NAME", 1) for level in operation["key"]["elements"][1:]]
    return {"type": operation["type"], "key": elements, "content": content}


def test_a_branch_is_maintained_and_merged(lake: Lake, open_lake: OpenLake, nessie_server: NessieServer) -> None:
    """A branch made in Nessie is compacted here, read by Java under the table's name with the branch, and merged."""
    lake.run_java(f"CREATE TABLE {{T}} (id BIGINT, who STRING) TBLPROPERTIES ({PROPERTIES})")
    for n in range(3):
        lake.run_java(f"INSERT INTO {{T}} VALUES ({n}, 'java')")
    main = _branch(lake)
    branch = nessie_server.new_branch(main)
    other = open_lake(branch)
    other.append([(3, "we")])
    assert other.maintain("rewrite_data_files", min_input_files=2).status == "committed"
    rows = other.agree(4)
    assert len(lake.agree()) == 3
    by_name = Lake(lake.java, lake.catalog, f"`t@{branch}`")
    same(by_name.java_rows(), by_name.our_rows(), "by the branch in the name")
    assert by_name.our_rows() == rows
    nessie_server.merge(branch, main)
    assert lake.agree(4) == rows
    lake.run_java("INSERT INTO {T} VALUES (4, 'java')")
    lake.append([(5, "we")])
    lake.agree(6)


def test_a_branch_made_before_a_compaction_stays_readable(lake: Lake, open_lake: OpenLake, nessie_server: NessieServer) -> None:
    """So does each former commit: expiry and orphan removal on main delete no file, also where the table allows all of it."""
    loose = "'gc.enabled'='true', 'write.metadata.delete-after-commit.enabled'='true', 'write.metadata.previous-versions-max'='1'"
    lake.run_java(f"CREATE TABLE {{T}} (id BIGINT, who STRING) TBLPROPERTIES ({PROPERTIES}, {loose})")
    for n in range(4):
        lake.append([(n, "we")])
    main = _branch(lake)
    branch, tag = nessie_server.new_branch(main), nessie_server.new_branch(main, f"v_{main}", kind="TAG")
    before = nessie_server.hash(main)
    rows = lake.our_rows()
    lake.maintain("rewrite_data_files", min_input_files=2)
    lake.append([(9, "we")])
    files = _files(lake)
    for action in ("expire_snapshots", "remove_orphan_files"):
        with pytest.raises(GcDisabledError, match="nessie-gc"):
            lake.maintain(action, older_than="0s")
    with pytest.raises(GcDisabledError, match="nessie-gc"):
        lake.catalog.drop_table(("ns", "t"), purge=True)
    lake.catalog.drop_table(("ns", "t"))
    assert _files(lake) == files
    for reference in (branch, tag):
        found = open_lake(reference)
        same(found.java_rows(), found.our_rows(), reference)
        assert found.our_rows() == rows
    former = Lake(lake.java, lake.catalog, f"`t@{main}#{before}`")
    same(former.java_rows(), former.our_rows(), "a former commit")
    assert former.our_rows() == rows


def _files(lake: Lake) -> set[str]:
    return {info.location for info in lake.catalog.io.list_prefix(str(lake.catalog._warehouse)) if "/leases/" not in info.location}


def test_java_and_we_take_turns_where_the_log_has_no_commit_of_java(lake: Lake) -> None:
    lake.run_java(f"CREATE TABLE {{T}} (id BIGINT, who STRING) TBLPROPERTIES ({PROPERTIES})")
    for n in range(3):
        lake.run_java(f"INSERT INTO {{T}} VALUES ({n}, 'java')")
        lake.append([(10 + n, "we")])
    lake.maintain("rewrite_data_files", min_input_files=2)
    lake.run_java("DELETE FROM {T} WHERE id = 1")
    lake.agree(5)


def test_what_is_no_table_of_iceberg_is_ignored_and_namespaces_are_the_same(lake: Lake) -> None:
    name = lake.catalog.name
    lake.run_java("CREATE TABLE {T} (id BIGINT)")
    lake.java(f"CREATE VIEW {name}.ns.v AS SELECT id FROM {lake.sql_name}")
    lake.java(f"CREATE NAMESPACE {name}.made WITH PROPERTIES ('team' = 'java')")
    assert lake.catalog.list_tables(("ns",)) == [("ns", "t")]
    assert not lake.catalog.table_exists(("ns", "v"))
    with pytest.raises(AlreadyExistsError, match=r"ns\.v already exists in catalog .*, as ICEBERG_VIEW"):
        lake.catalog.create_table(("ns", "v"), lake.table.schema)
    assert lake.catalog.list_namespaces() == [("made",), ("ns",)]
    assert lake.catalog.namespace_properties(("made",))["team"] == "java"
    assert "us" in str(lake.java.rows(f"DESCRIBE NAMESPACE EXTENDED {name}.ns").to_pylist())
    lake.catalog.drop_table(("ns", "t"))
    with pytest.raises(BadInputError, match="holds a view"):
        lake.catalog.drop_namespace(("ns",))
