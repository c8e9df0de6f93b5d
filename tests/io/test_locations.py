"""Locations of one file are equal, however they are written (SCAN-10, with paths compared after mapping)."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_ops.errors import UnsupportedError
from iceberg_ops.io.hadoop_settings import HadoopSettings
from iceberg_ops.io.hdfs.places import parse_place
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.locations import absolute_under, below, identity_under, is_absolute, location_identity, on_one_file_system
from iceberg_ops.io.mapped import MappedFileIO
from iceberg_ops.io.read_only import ReadOnlyFileIO

SAME = [
    ("hdfs://localhost:20500/wh/t/f.parquet", "/wh/t/f.parquet"),
    ("file:/wh/t/f.parquet", "/wh/t/f.parquet"),
    ("file:///wh/t/f.parquet", "file:/wh/t/f.parquet"),
    ("s3a://b/f.parquet", "s3://b/f.parquet"),
    ("./t/f.parquet", "t/f.parquet"),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_writings_of_one_file_are_the_same(a: str, b: str) -> None:
    assert location_identity(a) == location_identity(b)


@pytest.mark.parametrize(("a", "b"), [("s3://a/f", "s3://b/f"), ("/a/f", "/b/f"), ("s3://a/f", "gs://a/f"), ("/a/f", "a/f")])
def test_different_files_stay_different(a: str, b: str) -> None:
    assert location_identity(a) != location_identity(b)


def test_paths_are_compared_after_the_mapping_through_any_wrapping() -> None:
    io = ReadOnlyFileIO(MappedFileIO(LocalFileIO(), [("hdfs://h:1/wh/t", "/copy/t"), ("s3://b/wh/t", "/copy/t")]))
    identity = identity_under(io)
    assert identity("hdfs://h:1/wh/t/f") == identity("s3://b/wh/t/f") == identity("/copy/t/f")
    assert identity("/elsewhere/f") == "/elsewhere/f"


@pytest.mark.parametrize("location", ["/a", "s3://b/k", "file:/a", "file:///a", "FILE:/a", "hdfs:/a", "hdfs://h:1/a", "memory://x"])
def test_paths_from_the_root_and_uris_are_absolute(location: str) -> None:
    assert is_absolute(location)
    assert below("/t", location) == location


@pytest.mark.parametrize("location", ["a", "a:b", "day=10:30/x", "bk:1/f", "file:a", "data:/x", "a_b://c", "./a://b", ""])
def test_a_colon_alone_makes_no_location_absolute(location: str) -> None:
    assert not is_absolute(location)
    assert not location or below("/t", location).startswith("/t/")
    assert not location or is_absolute(absolute_under(LocalFileIO(), location))


def test_two_writings_of_a_relative_path_with_a_colon_are_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    identity = identity_under(LocalFileIO())
    assert identity("bk:1/f") == identity(f"{tmp_path}/bk:1/f") == identity("file:bk:1/f")


CLUSTERS = [
    ("hdfs://nn/t", "hdfs://nn:8020/t", True),
    ("HDFS://NN/t", "hdfs://nn:08020/t", True),
    ("hdfs://nn/t", "hdfs://nn:9000/t", False),
    ("hdfs://nn/t", "hdfs://other/t", False),
    ("hdfs://lake/t", "hdfs://one:8020/t", True),
    ("hdfs://one/t", "hdfs://two:9000/t", True),
    ("hdfs://one/t", "hdfs://two/t", False),
    ("hdfs:/t", "hdfs://lake/t", True),
    ("hdfs:///t", "hdfs://nn/t", False),
    ("viewfs://lake/t", "hdfs://lake/t", False),
    ("hdfs://lake/t", "webhdfs://lake/t", False),
    ("/t", "file:/t", True),
    ("file://localhost/t", "file:///t", True),
    ("/t", "hdfs://lake/t", False),
    ("s3://b/t", "s3a://b/t", True),
]
SETTINGS = {
    "hadoop.fs.defaultFS": "hdfs://lake",
    "hadoop.dfs.ha.namenodes.lake": "a, b",
    "hadoop.dfs.namenode.rpc-address.lake.a": "one:8020",
    "hadoop.dfs.namenode.rpc-address.lake.b": "two:9000",
}


@pytest.mark.parametrize(("one", "other", "same"), CLUSTERS)
def test_what_is_one_file_system_is_shown_by_hadoops_settings_or_not_at_all(one: str, other: str, same: bool) -> None:
    """Identities are equal, so that nothing is deleted that may be the other's; that is not a proof that it is."""
    io = load_file_io(SETTINGS)
    assert identity_under(io)(one).lower() == identity_under(io)(other).lower()
    assert on_one_file_system(io, one, other) is on_one_file_system(io, other, one) is same


def test_in_hdfs_alone_a_path_is_a_path_there() -> None:
    io = load_file_io({**SETTINGS, "io-impl": "hdfs"})
    assert on_one_file_system(io, "/t", "hdfs://two:9000/t")
    assert not on_one_file_system(io, "/t", "file:/t")


MOUNTS = {
    "hadoop.fs.defaultFS": "viewfs://all",
    "hadoop.fs.viewfs.mounttable.all.link./wh": "hdfs://nn/user/hive/warehouse",
    "hadoop.fs.viewfs.mounttable.all.link./wh/old/": "hdfs://other:9000/archive/",
    "hadoop.fs.viewfs.mounttable.all.linkFallback": "hdfs://nn/",
}
MOUNTED = {
    "viewfs://all/wh/t/f": "hdfs://nn:8020/user/hive/warehouse/t/f",
    "VIEWFS://all//wh/./t/f": "hdfs://nn:8020/user/hive/warehouse/t/f",
    "viewfs:/wh/t/f": "hdfs://nn:8020/user/hive/warehouse/t/f",
    "viewfs://all/wh": "hdfs://nn/user/hive/warehouse",
    "viewfs://all/wh/old/t/f": "hdfs://other:9000/archive/t/f",
    "viewfs://all/who/f": "hdfs://nn/who/f",
    "viewfs://all/": "hdfs://nn/",
}
NAMELESS = {"hadoop.fs.viewfs.mounttable.default.link./wh": "hdfs://nn/user/hive/warehouse"}


@pytest.mark.parametrize("io_impl", ["resolving", "hdfs"])
@pytest.mark.parametrize(("mounted", "real"), MOUNTED.items())
def test_a_folder_of_a_mount_table_is_the_one_in_hdfs(mounted: str, real: str, io_impl: str) -> None:
    io = load_file_io({**MOUNTS, "io-impl": io_impl})
    assert identity_under(io)(mounted) == identity_under(io)(real)
    assert on_one_file_system(io, mounted, real)


def test_of_a_mount_table_that_the_settings_do_not_have_the_path_counts() -> None:
    io = load_file_io({**MOUNTS, "io-impl": "hdfs"})
    assert identity_under(io)("viewfs://unknown/wh/t/f") == "/wh/t/f"
    assert identity_under(io)("/wh/t/f") == "/user/hive/warehouse/t/f"
    assert identity_under(load_file_io(MOUNTS))("/wh/t/f") == "/wh/t/f", "a file of this machine"
    with pytest.raises(UnsupportedError, match="do not show where the mount table unknown has it: let the job have"):
        identity_under(io, deletes=True)("viewfs://unknown/wh/t/f")
    assert identity_under(io, deletes=True)("viewfs://all/wh/t/f") == "/user/hive/warehouse/t/f"
    mapped = load_file_io({**MOUNTS, "location-mapping": '[["s3://b", "viewfs://all/wh"]]'})
    assert identity_under(mapped)("s3://b/t/f") == "/user/hive/warehouse/t/f"


@pytest.mark.parametrize(
    "entries",
    [
        {"link./tmp": "hdfs://nn/tmp"},
        {"link./wh/another": "hdfs://nn/another"},
        {"linkRegex.replaceresolveddstpath:_:-#.^/wh/(?<t>\\w+)": "hdfs://nn/wh-${t}", "linkFallback": "hdfs://nn/"},
        {"linkNfly.minReplication=2./wh": "hdfs://nn/wh,hdfs://mm/wh", "linkFallback": "hdfs://nn/"},
    ],
    ids=["another folder", "a folder further in", "a pattern", "several places"],
)
def test_a_folder_that_the_mount_table_does_not_show_may_be_any(entries: dict[str, str]) -> None:
    """The settings of this job may be older than those of the engine that wrote the file."""
    io = load_file_io({f"hadoop.fs.viewfs.mounttable.all.{key}": value for key, value in entries.items()})
    assert identity_under(io)("viewfs://all/wh/t/f") == "/wh/t/f"
    with pytest.raises(UnsupportedError, match="do not show where the mount table all has it"):
        identity_under(io, deletes=True)("viewfs://all/wh/t/f")


def test_a_mount_table_is_looked_at_once_for_all_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have thousands of entries, and a table millions of files."""
    looked: list[str] = []
    has = HadoopSettings.has_unread_mounts
    monkeypatch.setattr(HadoopSettings, "has_unread_mounts", lambda self, cluster: looked.append(cluster) or has(self, cluster))
    identity = identity_under(load_file_io(MOUNTS), deletes=True)
    assert {identity(f"viewfs://all/wh/t/{n}").rpartition("/")[0] for n in range(100)} == {"/user/hive/warehouse/t"}
    assert looked == ["all"]


@pytest.mark.parametrize("default", ["viewfs:///", "viewfs://default", "hdfs://nn", "file:///"])
def test_the_mount_table_of_locations_that_name_none_is_default(default: str) -> None:
    properties = {**NAMELESS, "hadoop.fs.defaultFS": default, "io-impl": "hdfs"}
    real = "hdfs://nn/user/hive/warehouse/t/f"
    named = ["viewfs:/wh/t/f", "viewfs:///wh/t/f", *(["/wh/t/f"] if default.startswith("viewfs") else [])]
    for io in map(load_file_io, (properties, {**properties, "hadoop.fs.viewfs.mounttable.default.name.key": "default"})):
        for mounted in named:
            assert identity_under(io, deletes=True)(mounted) == identity_under(io)(real)
            assert on_one_file_system(io, mounted, real)
            assert parse_place(mounted, HadoopSettings.of(io.properties)).url == "viewfs://default"
