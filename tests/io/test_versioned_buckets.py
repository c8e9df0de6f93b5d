"""A bucket of S3 that keeps former versions: a deletion only adds a marker, and the name is free again."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.errors import CatalogUnavailableError
from iceberg_ops.io.load import load_file_io
from tests.builders import IDENTIFIER, append_file, live_paths, make_table
from tests.servers.stores import Store, versioned_bucket


@pytest.fixture
def root(object_store: Callable[[str], Store]) -> tuple[Store, str]:
    store = object_store("moto")
    return store, f"{versioned_bucket(store)}/{uuid.uuid4().hex}"


def test_a_deleted_name_is_free_and_is_taken_once(root: tuple[Store, str]) -> None:
    io, location = load_file_io(root[0].properties), f"{root[1]}/f"
    for content in (b"1", b"2", b"3"):
        io.write(location, content)
        with pytest.raises(FileExistsError):
            io.write(location, b"another")
        assert io.read(location) == content
        assert io.delete_many([location]) == []
        assert (io.exists(location), list(io.list_prefix(root[1]))) == (False, [])
        with pytest.raises(FileNotFoundError):
            io.read(location)
    io.write(location, b"old")
    io.write(location, b"new", overwrite=True)
    assert (io.read(location), [info.size for info in io.list_prefix(root[1])]) == (b"new", [3])


def test_a_store_that_refuses_deleted_names_is_told_apart(object_store: Callable[[str], Store]) -> None:
    """versitygw refuses ``If-None-Match: *`` where the current version is a marker, which Amazon documents to succeed."""
    store = object_store("versitygw")
    io, location = load_file_io(store.properties), f"{versioned_bucket(store)}/f"
    io.write(location, b"1")
    io.delete(location)
    with pytest.raises(CatalogUnavailableError, match=r"keeps former versions, some stores .* refuse the name of a deleted object"):
        io.write(location, b"2")
    assert not io.exists(location)


def test_a_filesystem_catalog_creates_deletes_and_creates_again(root: tuple[Store, str]) -> None:
    io = load_file_io(root[0].properties)
    catalog = FileSystemCatalog("fs", io, warehouse=root[1], sleep=lambda _: None)
    catalog.create_namespace(("ns",))

    def run(action: str, **options: str) -> str:
        config = CatalogConfig(name="fs", type="filesystem")
        named = {key.replace("_", "-"): value for key, value in options.items()}
        return run_job(JobSpec(job=action, table="fs.ns.t", catalog=config, options=named), catalog=catalog).status

    for _ in range(2):
        make_table(catalog)
        for name in ("a", "b", "c"):
            append_file(catalog, name)
        folder = catalog.load_table(IDENTIFIER).location
        io.write(f"{folder}/data/orphan.parquet", b"")
        assert run("remove_orphan_files", older_than="0s", unsafe_allow_recent="true") == "committed"
        assert not io.exists(f"{folder}/data/orphan.parquet")
        assert run("expire_snapshots", older_than="2100-01-01T00:00:00Z", retain_last="1") == "committed"
        table = catalog.load_table(IDENTIFIER)
        assert (len(table.metadata.snapshots), len(live_paths(table))) == (1, 3)
        catalog.drop_table(IDENTIFIER, purge=True)
        assert list(io.list_prefix(f"{folder}/")) == []
        assert not catalog.table_exists(IDENTIFIER)
