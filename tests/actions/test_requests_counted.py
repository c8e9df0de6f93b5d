"""What work costs in requests to the store and statements to the catalog: upper bounds, by the number of files.

A store that is far away answers each request after 20 or 50 ms. ``docs/stores.md`` has these figures."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.table.manifests import CACHE
from tests.actions.lake import Lake
from tests.builders import IDENTIFIER, make_table
from tests.servers.process import LOOPBACK
from tests.servers.proxy import Before, FaultProxy, Request
from tests.servers.stores import Store

APPENDS = 12
PARTITIONS = ("x", "y", "z")
LATER = "2100-01-01T00:00:00Z"


def kind(request: Request) -> str:
    if request.method == "GET" and "list-type=" in request.path:
        return "LIST"
    return "BULK" if request.method == "POST" and request.path.endswith("?delete") else request.method


@dataclass
class World:
    """A lake in S3 with an SQL catalog, both watched. ``statements`` are those that any SQL catalog was asked since ``asked``
    began."""

    config: CatalogConfig
    proxy: FaultProxy
    statements: list[str] = field(default_factory=list)

    def asked(self, act: Callable[[], Any]) -> Counter[str]:
        """Requests by kind; SQL: statements."""
        CACHE.clear()
        self.proxy.forget()
        self.statements.clear()
        act()
        found = Counter(kind(request) for request in self.proxy.requests)
        return found + Counter({"SQL": len(self.statements)})

    def job(self, name: str, **options: str) -> Counter[str]:
        spec = JobSpec(job=name, table="c.ns.t", catalog=self.config, options={k.replace("_", "-"): v for k, v in options.items()})
        return self.asked(lambda: run_job(spec))


@pytest.fixture
def world(object_store: Callable[[str], Store], tmp_path: Path) -> Iterator[World]:
    store = object_store("versitygw")
    with FaultProxy((LOOPBACK, store.port)) as proxy:
        properties = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"{store.root}/{uuid.uuid4().hex}"}
        config = CatalogConfig(name="c", type="sql", properties={**properties, **store.behind(proxy.endpoint).properties})
        made = World(config, proxy)

        def note(*told: Any) -> None:
            made.statements.append(told[2])

        event.listen(Engine, "before_cursor_execute", note)
        yield made
        event.remove(Engine, "before_cursor_execute", note)


def filled(world: World, **properties: str) -> Lake:
    """A table of ``APPENDS`` snapshots, each with one manifest of one file per partition."""
    catalog = load_catalog(world.config)
    catalog.create_namespace(IDENTIFIER[:-1])
    make_table(catalog, partitioned=True, properties={"commit.manifest-merge.enabled": "false", **properties})
    lake = Lake(catalog)
    for n in range(APPENDS):
        lake.append([(len(PARTITIONS) * n + i, "a", place) for i, place in enumerate(PARTITIONS)])
    return lake


def test_opening_a_catalog_is_one_statement(world: World) -> None:
    load_catalog(world.config)
    assert world.asked(lambda: load_catalog(world.config)) == {"SQL": 1}


def test_loading_a_table_is_one_statement_and_one_read_and_a_look_whether_it_changed_no_read(world: World) -> None:
    lake = filled(world)
    catalog = load_catalog(world.config)
    assert world.asked(lambda: catalog.load_table(IDENTIFIER)) == {"SQL": 1, "GET": 1}
    assert world.asked(lambda: catalog.load_table(IDENTIFIER)) == {"SQL": 1}
    lake.append([(100, "b", "x")])
    assert world.asked(lambda: catalog.load_table(IDENTIFIER)) == {"SQL": 1, "GET": 1}
    assert catalog.load_table(IDENTIFIER).metadata == lake.table.metadata


def test_a_plan_reads_each_manifest_once_and_several_at_a_time(world: World) -> None:
    table = filled(world).table
    assert world.asked(lambda: plan(table, Scan())) == {"GET": 1 + APPENDS}
    together = threading.Barrier(4)
    CACHE.clear()
    world.proxy.spoil(Before(lambda _: together.wait(20)), path="-m0.avro", times=4)
    assert len(plan(table, Scan()).tasks) == APPENDS * len(PARTITIONS)


def test_an_append_writes_its_files_and_three_more(world: World) -> None:
    lake = filled(world)
    assert world.asked(lambda: lake.append([(100, "b", "x"), (101, "b", "y")])) <= Counter({"PUT": 2 + 3, "GET": 2, "SQL": 5})


def test_a_rewrite_reads_each_file_once(world: World) -> None:
    filled(world)
    files, manifests = APPENDS * len(PARTITIONS), APPENDS
    metadata_and_lists, lease = 3, Counter({"PUT": 1, "GET": 1, "LIST": 1, "HEAD": 1, "BULK": 1})
    assert world.job("rewrite_data_files", rewrite_all="true") <= lease + Counter(
        {"GET": files + manifests + metadata_and_lists, "PUT": len(PARTITIONS) + 1 + manifests + 2, "SQL": 6}
    )


def test_an_expiry_reads_each_list_and_manifest_once(world: World) -> None:
    filled(world)
    world.job("rewrite_data_files", rewrite_all="true")
    snapshots, manifests = APPENDS + 1, 2 * APPENDS + 1
    assert world.job("expire_snapshots", older_than=LATER, retain_last="1") <= Counter(
        {"GET": snapshots + manifests + 4, "LIST": 7, "PUT": 4, "BULK": 5, "SQL": 8}
    )


def test_an_orphan_removal_lists_once_and_deletes_in_bulk(world: World) -> None:
    lake = filled(world)
    for n in range(50):
        lake.table.io.write(f"{lake.table.location}/data/orphan-{n}.parquet", b"x")
    found = world.job("remove_orphan_files", older_than=LATER, unsafe_allow_recent="true")
    assert found <= Counter({"GET": 2 * APPENDS + 4, "LIST": 4, "PUT": 1, "BULK": 2, "SQL": 14})
    assert not any("orphan-" in info.location for info in lake.table.io.list_prefix(lake.table.location))
