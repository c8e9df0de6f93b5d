"""The command line on tables of a REST catalog, from the first row to the last file: Iceberg's own server, a warehouse on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli, lake
from tests.servers.proxy import FaultProxy, LostAnswer
from tests.servers.rest.reference import ReferenceServer

pytestmark = pytest.mark.oracle

TABLE = "lake.shop.orders"


def _configure(folder: Path, uri: str) -> None:
    config = f"catalogs:\n  - name: lake\n    type: rest\n    properties: {{uri: '{uri}', token: geheim-1}}\n"
    (folder / "catalogs.yml").write_text(config)


@pytest.fixture
def rest(cli: Cli, tmp_path: Path, rest_server: ReferenceServer) -> Cli:
    _configure(tmp_path, rest_server.uri(rest_server.new_name()))
    return cli


def _rows(cli: Cli, *more: str) -> list[tuple[int, str]]:
    return sorted((row["id"], row["customer"]) for row in cli("scan", TABLE, *more).rows)


def _append(cli: Cli, folder: Path, *rows: tuple[int, str]) -> None:
    path = folder / f"{rows[0][0]}.csv"
    path.write_text("id,customer\n" + "".join(f"{n},{who}\n" for n, who in rows))
    done = cli("append", TABLE, "--from", str(path), "--lane", "local", "--run-key", path.name)
    assert done.code == 0, done.err


def _files(table: str, ending: str) -> list[str]:
    found = lake().load_table(tuple(table.split(".")[1:]))
    return [i.location for i in found.io.list_prefix(found.location) if i.location.endswith(ending)]


@pytest.mark.slow
def test_a_table_is_made_filled_compacted_deleted_from_expired_and_purged(rest: Cli, tmp_path: Path) -> None:
    made = rest("create", TABLE, "id bigint NOT NULL, customer string", "--create-namespace", "--property", "format-version=3")
    assert (made.code, made.err) == (0, "")
    expected = [(n, f"c{n}") for n in range(6)]
    for n, who in expected:
        _append(rest, tmp_path, (n, who))
    assert _rows(rest) == expected
    assert rest("run", "rewrite_data_files", TABLE, "--option", "rewrite-all=true").code == 0
    assert rest("delete", TABLE, "--where", "id = 4", "--lane", "local").code == 0
    assert rest("update", TABLE, "--where", "id = 5", "--set", "customer='other'", "--lane", "local").code == 0
    expected = [(0, "c0"), (1, "c1"), (2, "c2"), (3, "c3"), (5, "other")]
    assert _rows(rest) == expected
    assert rest("tag", TABLE, "before").code == 0
    assert rest("evolve", TABLE, "add column more int").code == 0
    assert (
        rest("run", "expire_snapshots", TABLE, "--option", "older-than=2100-01-01T00:00:00Z", "--option", "retain-last=1").code == 0
    )
    assert rest("run", "remove_orphan_files", TABLE).code in (0, 2)
    assert _rows(rest) == _rows(rest, "--ref", "before") == expected
    assert rest("check", TABLE).code == 0
    assert len(_files(TABLE, ".parquet")) == 1, "what the update wrote"
    assert rest("ls", "-r", "lake", "--json").json == [
        {"type": "namespace", "name": "lake.shop"},
        {"type": "table", "name": TABLE},
    ]
    location = lake().load_table(("shop", "orders")).location
    dropped = rest("drop", TABLE, "--purge", "--yes")
    assert (dropped.code, "deleted" in dropped.out) == (0, True)
    assert [p for p in Path(location.removeprefix("file:")).rglob("*") if p.is_file() and p.suffix != ".crc"] == []
    assert rest("namespace", "lake.shop", "--drop").code == 0


def test_a_folder_of_files_becomes_a_table_in_one_step(rest: Cli, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    (tmp_path / "data").mkdir()
    parquet.write_table(pa.table({"id": [1, 2], "customer": ["a", "b"]}), tmp_path / "data" / "f.parquet")
    assert rest("namespace", "lake.shop", "--create").code == 0
    done = rest("import", TABLE, str(tmp_path / "data"))
    assert done.code == 0, done.err
    assert _rows(rest) == [(1, "a"), (2, "b")]
    assert len(lake().load_table(("shop", "orders")).metadata.snapshots) == 1


def test_a_table_is_dropped_registered_and_renamed(rest: Cli, tmp_path: Path) -> None:
    rest("create", TABLE, "id bigint, customer string", "--create-namespace")
    _append(rest, tmp_path, (1, "a"))
    location = rest("drop", TABLE, "--json").json["metadata-location"]
    assert rest("scan", TABLE).err == "error: NO_SUCH_TABLE: catalog lake has no table shop.orders: namespace shop has no table\n"
    assert rest("register", TABLE, location).code == 0
    assert rest("rename", TABLE, "lake.shop.again").code == 0
    assert rest("rename", "lake.shop.again", TABLE).code == 0
    assert _rows(rest) == [(1, "a")]


def test_an_append_whose_answers_are_lost_is_done_once(rest: Cli, tmp_path: Path, rest_server: ReferenceServer) -> None:
    with FaultProxy(rest_server.address) as proxy:
        _configure(tmp_path, rest_server.uri(rest_server.new_name(), proxy.port))
        rest("create", TABLE, "id bigint, customer string", "--create-namespace")
        proxy.spoil(LostAnswer(), method="POST", path="/tables/orders", times=2)
        _append(rest, tmp_path, (1, "a"))
        _append(rest, tmp_path, (1, "a"))
        assert _rows(rest) == [(1, "a")]
        assert {r.headers["Authorization"] for r in proxy.requests} == {"Bearer geheim-1"}


def test_errors_are_one_line_without_the_token(rest: Cli, tmp_path: Path) -> None:
    _configure(tmp_path, "http://127.0.0.1:1")
    failed = rest("ls", "lake")
    assert failed.code == 1
    assert failed.err.startswith("error: CATALOG_UNAVAILABLE: catalog lake at http://127.0.0.1:1 was not reached: ConnectError")
    assert failed.err.count("\n") == 1
    assert "geheim-1" not in failed.err
