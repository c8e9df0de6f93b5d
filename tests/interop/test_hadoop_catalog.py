"""A filesystem catalog beside Iceberg Java's HadoopCatalog, in one warehouse."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.versions import HINT
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.load import load_file_io
from tests.builders import IDENTIFIER
from tests.interop.conftest import jars
from tests.interop.hadoop_java import HadoopJava, HadoopJavaError, hadoop_lake
from tests.interop.lake import Lake
from tests.servers.stores import Store

pytestmark = [pytest.mark.oracle, pytest.mark.java]


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HadoopJava]:
    made = HadoopJava(jars()[0], tmp_path_factory.mktemp("hadoop") / "java.log")
    yield made
    made.close()


@pytest.fixture
def warehouse(object_store: Callable[[str], Store]) -> str:
    return f"{object_store('hdfs').root}/{uuid.uuid4().hex}"


def _rows(texts: list[str]) -> list[str]:
    """Ours, as ``HadoopTables`` prints rows."""
    return sorted(text.replace("{'id': ", "").replace(", 'who': '", " ").replace("'}", "") for text in texts)


# version-hint.text


@pytest.fixture
def six_versions(java: HadoopJava, warehouse: str) -> Lake:
    """Alternately by Java and us."""
    java("create", warehouse)
    lake = hadoop_lake(warehouse)
    for n in range(5):
        if n % 2:
            java("append", warehouse, n, 1, "java")
        else:
            lake.append([(n, "we")])
    return lake


STATES: dict[str, tuple[bytes | None, tuple[int, ...], str, str]] = {
    "right": (b"6", (), "v6", "v6"),
    "missing": (None, (), "v6", "v6"),
    "empty": (b"", (), "v6", "v6"),
    "garbage": (b"abc", (), "v6", "v6"),
    "behind": (b"1", (), "v6", "v6"),
    "with a newline": (b"6\n", (), "v6", "v6"),
    "ahead": (b"9999", (), "Metadata file for version 9999 is missing", "the metadata file of version 9999 is missing"),
    "behind, its file gone": (b"1", (1,), "Metadata file for version 1 is missing", "v6"),
    "behind, a later file gone": (b"3", (5,), "v4", "v6"),
    "missing, a file gone": (None, (5,), "v6", "v6"),
}
"""What the hint holds (None: there is none), which versions are gone, and what Java and we make of it."""


@pytest.mark.parametrize(("hint", "gone", "theirs", "ours"), STATES.values(), ids=STATES)
def test_states_of_the_hint(
    java: HadoopJava, six_versions: Lake, hint: bytes | None, gone: tuple[int, ...], theirs: str, ours: str
) -> None:
    io, folder = six_versions.table.io, f"{six_versions.table.location}/metadata"
    warehouse = six_versions.table.location.removesuffix("/ns/t")
    io.delete(f"{folder}/{HINT}")
    if hint is not None:
        io.write(f"{folder}/{HINT}", hint)
    for version in gone:
        io.delete(f"{folder}/v{version}.metadata.json")
    try:
        found = java("load", warehouse)[0]
    except HadoopJavaError as e:
        found = str(e)
    assert (f"{folder}/{theirs}.metadata.json" == found) if theirs in ("v4", "v6") else (theirs in found)
    try:
        found = six_versions.table.metadata_location or ""
    except CorruptTableError as e:
        found = str(e)
    assert (found == f"{folder}/{ours}.metadata.json") if ours == "v6" else (ours in found)


def test_a_later_commit_of_ours_leads_java_past_a_gap(java: HadoopJava, six_versions: Lake) -> None:
    """Java stops below the gap until the hint is above it; it commits nothing there, because the number after the gap is taken."""
    folder, warehouse = f"{six_versions.table.location}/metadata", six_versions.table.location.removesuffix("/ns/t")
    six_versions.table.io.delete(f"{folder}/v5.metadata.json")
    six_versions.table.io.write(f"{folder}/{HINT}", b"3", overwrite=True)
    assert java("load", warehouse)[0] == f"{folder}/v4.metadata.json"
    six_versions.append([(6, "we")])
    assert java("load", warehouse)[0] == f"{folder}/v7.metadata.json"


@pytest.mark.parametrize("codec", ["gzip", "none"])
def test_names_of_compressed_metadata_are_understood(java: HadoopJava, warehouse: str, codec: str) -> None:
    java("create", warehouse, f"write.metadata.compression-codec={codec}")
    lake = hadoop_lake(warehouse)
    lake.append([(1, "we")])
    (location, _) = java("append", warehouse, 2, 1, "java")
    ending = ".gz.metadata.json" if codec == "gzip" else ".metadata.json"
    assert location == lake.table.metadata_location == f"{warehouse}/ns/t/metadata/v3{ending}"
    if codec == "gzip":  # Java's name of old
        io = lake.table.io
        io.write(location.replace("v3.gz.metadata.json", "v3.metadata.json.gz"), io.read(location))
        io.delete(location)
        assert java("load", warehouse)[0] == lake.table.metadata_location == f"{warehouse}/ns/t/metadata/v3.metadata.json.gz"
        lake.append([(3, "we")])
        assert java("append", warehouse, 4, 1, "java")[0] == lake.table.metadata_location
    assert sorted(java("rows", warehouse)) == _rows(lake.our_rows())


# namespaces and drops


def test_namespaces_and_drops_of_one_are_seen_by_the_other(java: HadoopJava, warehouse: str) -> None:
    catalog = FileSystemCatalog("fs", load_file_io(), warehouse=warehouse)
    java("namespace", warehouse, "theirs")
    catalog.create_namespace(("ours",))
    assert sorted(java("namespaces", warehouse)) == ["ours", "theirs"]
    assert catalog.list_namespaces() == [("ours",), ("theirs",)]
    catalog.drop_namespace(("theirs",))
    assert java("drop-namespace", warehouse, "ours") == ["true"]
    assert catalog.list_namespaces() == []
    java("create", warehouse)
    hadoop_lake(warehouse).append([(1, "we")])
    catalog.drop_table(IDENTIFIER, purge=True)
    assert (java("tables", warehouse), catalog.list_namespaces(("ns",))) == (["[]"], [])
    java("create", warehouse)
    assert java("append", warehouse, 2, 1, "java")[0] == catalog.load_table(IDENTIFIER).metadata_location
    assert java("drop", warehouse) == ["true"]
    assert catalog.list_tables(("ns",)) == []


# where Java's commits are not exclusive


def test_a_commit_onto_a_snapshot_of_java_warns_on_local_files_but_not_in_hdfs(
    java: HadoopJava, warehouse: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each still reads what the other has written, also where Hadoop keeps checksums beside its files."""
    for place in (warehouse, f"file:{tmp_path}/warehouse"):
        caplog.clear()
        java("create", place)
        java("append", place, 1, 1, "java")
        lake = hadoop_lake(place)
        lake.append([(2, "we")])
        lake.append([(3, "we")])
        location, _ = java("append", place, 4, 1, "java")
        assert location.endswith("/v5.metadata.json")
        assert sorted(java("rows", place)) == _rows(lake.our_rows()) == ["1 java", "2 we", "3 we", "4 java"]
        told = [record.getMessage() for record in caplog.records if "may overwrite commits" in record.getMessage()]
        assert len(told) == (0 if place == warehouse else 1)
        lake.append([(5, "we")])
        assert sorted(java("rows", place)) == _rows(lake.our_rows())


def test_java_renames_over_a_version_on_local_files_but_not_in_hdfs(java: HadoopJava, warehouse: str, tmp_path: Path) -> None:
    """Why docs/catalogs.md forbids writers of Java's HadoopCatalog beside others on a local disk."""
    for place in (warehouse, f"file:{tmp_path}"):
        io = load_file_io()
        io.write(f"{place}/new", b"theirs")
        io.write(f"{place}/v2.metadata.json", b"ours")
        said = java("rename", place, f"{place}/new", f"{place}/v2.metadata.json")
        kept = io.read(f"{place}/v2.metadata.json")
        assert (said, kept) == ((["false"], b"ours") if place == warehouse else (["true"], b"theirs"))
