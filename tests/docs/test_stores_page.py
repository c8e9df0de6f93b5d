"""The blocks of docs/stores.md are catalogs: each is run against a store of this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from iceberg_ops.cli.main import run
from iceberg_ops.io.resolving import STORES as SCHEMES
from tests.docs.markdown import ROOT, blocks
from tests.servers.stores import Store

PAGE = ROOT / "docs" / "stores.md"
SERVERS = {"s3": "versitygw", "gcs": "gcs", "azure": "azurite", "hdfs": "hdfs"}
NAME_NODE = "hdfs://127.0.0.1:8020"
"""On the page; the test's server has its own port."""


@pytest.mark.parametrize("number", range(5))
def test_a_block_is_a_catalog_that_works(
    number: int,
    object_store: Callable[[str], Store],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    document = yaml.safe_load(blocks(PAGE, "yaml")[number])
    properties = document["catalogs"][0]["properties"]
    store = object_store(SERVERS[SCHEMES[properties["warehouse"].partition("://")[0]]])
    properties["warehouse"] = properties["warehouse"].replace(NAME_NODE, store.root)
    assert properties["warehouse"].startswith(store.root)
    properties.update(store.properties)  # the addresses and keys of this machine
    if "uri" in properties:
        properties["uri"] = f"sqlite:///{tmp_path}/catalog.db"
    properties["warehouse"] += f"/{tmp_path.name}-{number}"
    (tmp_path / "catalogs.yml").write_text(yaml.safe_dump(document))
    monkeypatch.setenv("ICEBERG_OPS_CATALOGS", str(tmp_path / "catalogs.yml"))
    (tmp_path / "rows.csv").write_text("id\n1\n")
    assert run(["create", "lake.ns.t", "id bigint", "--create-namespace"]) == 0
    assert run(["append", "lake.ns.t", "--from", str(tmp_path / "rows.csv"), "--lane", "local"]) == 0
    capfd.readouterr()
    assert run(["scan", "lake.ns.t"]) == 0
    assert capfd.readouterr().out == '{"id": 1}\n'


def test_every_block_of_the_page_is_run() -> None:
    assert len(blocks(PAGE, "yaml")) == 5


def test_every_scheme_is_on_the_page() -> None:
    text = PAGE.read_text()
    assert all(f"{scheme}://" in text.replace("[s]://", "://") or f"{scheme[:-1]}[s]://" in text for scheme in SCHEMES)
