"""Hadoop's mount tables (``viewfs``): a table names its files by them, and by their places in HDFS."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.io.load import load_file_io
from tests.actions.lake import Lake, numbered
from tests.actions.test_orphan_spellings import clean
from tests.builders import make_table
from tests.servers.stores import Store


def _included(folder: Path, settings: dict[str, str]) -> dict[str, str]:
    """The settings in a file of their own, which ``core-site.xml`` includes, as in Hadoop's guide."""
    begin, end = '<configuration xmlns:xi="http://www.w3.org/2001/XInclude">', "</configuration>"
    listed = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    (folder / "mountTable.xml").write_text(f"{begin}{listed}{end}")
    (folder / "core-site.xml").write_text(f'{begin}<xi:include href="mountTable.xml"/>{end}')
    return {"hdfs.conf-dir": str(folder)}


def _properties(_folder: Path, settings: dict[str, str]) -> dict[str, str]:
    return {f"hadoop.{name}": value for name, value in settings.items()}


@pytest.mark.parametrize("configured", [_properties, _included], ids=["properties", "an included file"])
@pytest.mark.parametrize("mounted", ["location", "data path"])
def test_orphan_removal_knows_the_files_that_are_recorded_in_the_other_way(
    object_store: Callable[[str], Store], tmp_path: Path, mounted: str, configured: Callable[[Path, dict[str, str]], dict[str, str]]
) -> None:
    root = object_store("hdfs").root
    real, by_table = f"{root}/{uuid.uuid4().hex}/warehouse", "viewfs://all/wh"
    mounts = {"link./wh": real, "linkFallback": f"{root}/"}
    io = load_file_io(configured(tmp_path, {f"fs.viewfs.mounttable.all.{name}": value for name, value in mounts.items()}))
    first, second = (by_table, real) if mounted == "location" else (real, by_table)
    catalog = SqlCatalog("c", f"sqlite:///{tmp_path}/c.db", io, warehouse=first)
    catalog.create_namespace(("ns",))
    make_table(catalog, properties={"write.data.path": f"{second}/ns/t/data"})
    lake = Lake(catalog)
    lake.append(numbered(0, 5))
    io.write(f"{real}/ns/t/data/stray.parquet", b"x")
    assert [file.rpartition("/")[2] for file in clean(lake).files] == ["stray.parquet"]
    assert len(lake.rows()) == 5
