"""A filesystem catalog on HDFS, where one folder has several spellings, and where equal paths may lie in two clusters."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.errors import OptionError, UnsupportedError
from iceberg_ops.io.load import load_file_io
from tests.builders import IDENTIFIER, append_file, live_paths, make_table
from tests.servers.stores import Store


def _catalog(warehouse: str, **settings: str) -> FileSystemCatalog:
    properties = {f"hadoop.{key.replace('__', '-')}": value for key, value in settings.items()}
    return FileSystemCatalog("fs", load_file_io(properties), warehouse=warehouse, sleep=lambda _: None)


@pytest.fixture
def spelled(object_store: Callable[[str], Store]) -> tuple[str, str]:
    """Two spellings of one warehouse, in the first of which a table was made. Nothing shows that they are one: the second may as
    well be a copy in another cluster."""
    root = f"{object_store('hdfs').root}/{uuid.uuid4().hex}"
    made = _catalog(root)
    made.create_namespace(("ns",))
    make_table(made)
    append_file(made, "a")
    return root, root.replace("127.0.0.1", "localhost")


def test_a_copy_in_another_cluster_is_read_but_neither_changed_nor_cleaned(spelled: tuple[str, str]) -> None:
    """Its metadata names the files of the original, which an expiry or an orphan removal would delete."""
    catalog = _catalog(spelled[1])
    table = catalog.load_table(IDENTIFIER)
    assert len(live_paths(table)) == 1
    with pytest.raises(UnsupportedError, match=r"changing table ns\.t, because it was copied: .*HADOOP_CONF_DIR"):
        append_file(catalog, "b")
    for action in ("expire_snapshots", "remove_orphan_files", "rewrite_data_files"):
        job = JobSpec(job=action, table="fs.ns.t", catalog=CatalogConfig(name="fs", type="filesystem"))
        with pytest.raises(UnsupportedError, match="because it was copied"):
            run_job(job, catalog=catalog)


def test_spellings_that_the_settings_show_to_be_one_are_one(spelled: tuple[str, str]) -> None:
    port = spelled[0].split("/")[2].rpartition(":")[2]
    services = {
        "dfs.ha.namenodes.lake": "a,b",
        "dfs.namenode.rpc__address.lake.a": f"127.0.0.1:{port}",
        "dfs.namenode.rpc__address.lake.b": f"localhost:{port}",
    }
    path = spelled[0].split("/", 3)[3]
    for warehouse, more in ((spelled[1], {}), (f"hdfs://lake/{path}", {}), (f"hdfs:/{path}", {"fs.defaultFS": "hdfs://lake"})):
        append_file(_catalog(warehouse, **services, **more), uuid.uuid4().hex)
    assert len(live_paths(_catalog(spelled[0]).load_table(IDENTIFIER))) == 4


def test_orphans_are_not_looked_for_in_the_same_folder_of_another_cluster(spelled: tuple[str, str]) -> None:
    catalog = _catalog(spelled[0])
    catalog.io.write(f"{spelled[1]}/ns/t/data/live-of-another.parquet", b"rows")
    options = {
        "location": f"{spelled[1]}/ns/t",
        "older-than": "0s",
        "unsafe-allow-recent": "true",
        "prefix-mismatch-mode": "delete",
    }
    job = JobSpec(job="remove_orphan_files", table="fs.ns.t", catalog=CatalogConfig(name="fs", type="filesystem"), options=options)
    with pytest.raises(OptionError, match="is in another HDFS than the folders of table"):
        run_job(job, catalog=catalog)
    assert catalog.io.exists(f"{spelled[0]}/ns/t/data/live-of-another.parquet")


def test_a_dropped_table_leaves_no_folders(spelled: tuple[str, str]) -> None:
    catalog = _catalog(spelled[0])
    catalog.drop_table(IDENTIFIER, purge=True)
    folders, _ = catalog.io.list_folder(f"{spelled[0]}/ns")  # type: ignore[attr-defined]
    assert (folders, catalog.list_namespaces()) == ([], [("ns",)])


def test_a_table_below_a_mount_point_in_the_warehouse_is_dropped_by_its_name(object_store: Callable[[str], Store]) -> None:
    """Its folder lies elsewhere, as that of a link does; it has no other name in the warehouse."""
    root = f"{object_store('hdfs').root}/{uuid.uuid4().hex}"
    table = "fs.viewfs.mounttable.all"
    io = load_file_io({f"hadoop.{table}.link./wh/ns": f"{root}/elsewhere", f"hadoop.{table}.linkFallback": f"{root}/base"})
    catalog = FileSystemCatalog("fs", io, warehouse="viewfs://all/wh", sleep=lambda _: None)
    io.write(f"{root}/elsewhere/more", b"")  # the client does not list mount points, so an empty one is no namespace
    make_table(catalog)
    append_file(catalog, "a")
    assert catalog.io.exists(f"{root}/elsewhere/t/data/a.parquet")
    catalog.drop_table(IDENTIFIER, purge=True)
    assert [info.location for info in io.list_prefix(f"{root}/elsewhere")] == [f"{root}/elsewhere/more"]
