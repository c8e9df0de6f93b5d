"""The command line on tables in object stores: made, changed, compacted, expired, cleaned and dropped."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from iceberg_ops.io.load import load_file_io
from tests.cli.conftest import Cli
from tests.servers.stores import STORES, Store

pytestmark = pytest.mark.slow
ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
KINDS = [("sql", "versitygw"), *(("filesystem", name) for name in STORES)]


@pytest.mark.parametrize(("kind", "name"), KINDS, ids=[" on ".join(pair) for pair in KINDS])
def test_a_table_lives_in_an_object_store(
    kind: str, name: str, object_store: Callable[[str], Store], cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = object_store(name)
    warehouse = f"{store.root}/{uuid.uuid4().hex}"
    properties = {"warehouse": warehouse, **store.properties}
    if kind == "sql":
        properties["uri"] = f"sqlite:///{tmp_path}/catalog.db"
    (tmp_path / "catalogs.yml").write_text(json.dumps({"catalogs": [{"name": "far", "type": kind, "properties": properties}]}))
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    secrets = [value for key, value in properties.items() if key.rpartition(".")[2] in ("secret-access-key", "account-key")]

    def done(*arguments: str) -> str:
        ran = cli(*arguments)
        assert ran.code == 0, ran.err
        assert not any(secret in ran.out + ran.err for secret in secrets)
        return ran.out

    table = "far.ns.t"
    done("create", table, "id bigint, name string", "--partitioned-by", "truncate(1, name)", "--create-namespace")
    for _ in range(3):
        done("append", table, "--from", str(tmp_path / "rows.jsonl"), "--format", "json", "--lane", "local")
    assert {"type": "table", "name": table} in json.loads(done("ls", "-r", "far", "--json"))
    compacted = json.loads(done("run", "rewrite_data_files", table, "--option", "min-input-files=2", "--lane", "local", "--json"))
    assert compacted["status"] == "committed"
    done("delete", table, "--where", "id = 1", "--lane", "local")
    assert [json.loads(line) for line in done("scan", table).splitlines()] == [ROWS[1]] * 3
    done("check", table)
    expired = json.loads(done("run", "expire_snapshots", table, "--option", "older-than=0s", "--option", "retain-last=1", "--json"))
    assert expired["status"] == "committed"
    io = load_file_io(store.properties)
    io.write(f"{warehouse}/ns/t/data/left.parquet", b"nobody's")
    unsafe = ("--option", "older-than=0s", "--option", "unsafe-allow-recent=true")
    time.sleep(1.1)  # stores note whole seconds
    done("run", "remove_orphan_files", table, *unsafe)
    assert not io.exists(f"{warehouse}/ns/t/data/left.parquet")
    done("check", table)
    assert [json.loads(line) for line in done("scan", table).splitlines()] == [ROWS[1]] * 3
    done("drop", table, "--purge", "--yes")
    left = [info.location for info in io.list_prefix(f"{warehouse}/ns")]
    assert [location for location in left if not location.endswith(".namespace")] == []


@pytest.mark.oracle
def test_pyiceberg_and_this_package_share_a_table_on_s3(object_store: Callable[[str], Store], cli: Cli, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog

    store = object_store("versitygw")
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"{store.root}/{uuid.uuid4().hex}", **store.properties}
    (tmp_path / "catalogs.yml").write_text(json.dumps({"catalogs": [{"name": "far", "type": "sql", "properties": properties}]}))
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    assert cli("create", "far.ns.t", "id bigint, name string", "--create-namespace").code == 0
    assert cli("append", "far.ns.t", "--from", str(tmp_path / "rows.jsonl"), "--format", "json", "--lane", "local").code == 0
    theirs = SqlCatalog("far", **{**properties, "s3.region": "us-east-1"})
    table = theirs.load_table("ns.t")
    assert table.scan().to_arrow().to_pylist() == ROWS
    table.append(pa.table({"id": pa.array([3], pa.int64()), "name": ["c"]}))
    assert cli("run", "rewrite_data_files", "far.ns.t", "--option", "min-input-files=2", "--lane", "local").code == 0
    expected = [*ROWS, {"id": 3, "name": "c"}]
    assert sorted(cli("scan", "far.ns.t").rows, key=lambda row: row["id"]) == expected
    assert theirs.load_table("ns.t").scan().to_arrow().sort_by("id").to_pylist() == expected
