"""Tables of a REST catalog on S3: the client has no keys, and the server vends those of the table."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, Source
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.io.load import load_file_io
from tests.builders import IDENTIFIER, make_table
from tests.catalog.rest.fake_server import FakeServer
from tests.servers.stores import Store

KEYS = ("s3.access-key-id", "s3.secret-access-key")


def _server(store: Store) -> FakeServer:
    inner = MemoryCatalog(
        "inner", load_file_io(store.properties), warehouse=f"{store.root}/{uuid.uuid4().hex}", sleep=lambda _: None
    )
    inner.create_namespace(("ns",))
    lent = {k: v for k, v in store.properties.items() if k in KEYS}
    server = FakeServer(inner, table_config={k: v for k, v in store.properties.items() if k not in KEYS})
    server.credentials = [
        {"prefix": "s3://nothing", "config": {"s3.access-key-id": "wrong"}},
        {"prefix": store.root, "config": lent},
    ]
    return server


def test_a_job_reads_and_writes_with_what_the_server_lends(object_store: Callable[[str], Store], tmp_path: Path) -> None:
    store = object_store("versitygw")
    server = _server(store)
    catalog = server.catalog(io=None)
    table = make_table(catalog)
    assert {k: table.io.properties[k] for k in KEYS} == {k: store.properties[k] for k in KEYS}
    (tmp_path / "r.csv").write_text("id,data,region\n1,a,eu\n2,b,us\n")
    config = CatalogConfig(name="rest", type="rest", properties={"uri": "http://catalog.test/api"})
    source = Source(format="csv", paths=[str(tmp_path / "r.csv")], options={"header": "true"})
    jobs: list[tuple[str, dict[str, Any]]] = [
        ("append", {"source": source, "run_key": "1"}),
        ("append", {"source": source, "run_key": "2"}),
        ("rewrite_data_files", {"options": {"rewrite-all": "true"}}),
        ("expire_snapshots", {"options": {"older-than": "2100-01-01T00:00:00Z"}}),
    ]
    for job, fields in jobs:
        done = run_job(JobSpec(job=job, table="rest.ns.t", catalog=config, lane="local", **fields), catalog=catalog)
        assert done.status == "committed", done
    assert sorted(scan_table(catalog.load_table(IDENTIFIER))["id"].to_pylist()) == [1, 1, 2, 2]
    catalog.drop_table(IDENTIFIER, purge=True)
    assert list(server.inner.io.list_prefix(table.location)) == []
