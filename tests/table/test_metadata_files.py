"""Metadata files: their names, their locations, and which one of a folder is current."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from iceberg_ops.errors import CorruptTableError, NoSuchTableError, UnsupportedError
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.serde.json.metadata_json import metadata_to_json
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.metadata_files import (
    data_folder,
    is_metadata_file,
    metadata_folder,
    new_metadata_location,
    parse_version,
    read_metadata,
    table_from_path,
    write_metadata,
)
from tests.builders import make_catalog, make_table

METADATA = make_table(make_catalog("names")).metadata


def of(**properties: str) -> TableMetadata:
    return replace(METADATA, location="/wh/t", properties=properties)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("/t/metadata/v3.metadata.json", 3),
        ("/t/v12.gz.metadata.json", 12),
        ("/t/v12.metadata.json.gz", 12),
        ("00017-0a1b.metadata.json", 17),
        ("00017-0a1b.gz.metadata.json", 17),
        ("/t/abc.metadata.json", None),
        ("12345678-8d3a-4d94-9bd2-a4d2fff7ee23.metadata.json", None),
        ("12345678-12345678-8d3a-4d94-9bd2-a4d2fff7ee23.metadata.json", 12345678),
    ],
)
def test_a_name_tells_the_version(name: str, version: int | None) -> None:
    """META-36, COMMIT-20, COMMIT-21."""
    assert is_metadata_file(name)
    assert parse_version(name) == version


def test_other_names_are_no_metadata_files() -> None:
    assert not any(is_metadata_file(n) for n in ("a.json", "snap-1.avro", "version-hint.text", "x.metadata.json.crc"))


def test_folders_follow_the_tables_properties() -> None:
    """COMMIT-22."""
    assert (metadata_folder(of()), data_folder(of())) == ("/wh/t/metadata", "/wh/t/data")
    moved = of(**{"write.metadata.path": "s3://m/x/", "write.data.path": "files"})
    assert (metadata_folder(moved), data_folder(moved)) == ("s3://m/x", "/wh/t/files")
    assert new_metadata_location(moved, 3).startswith("s3://m/x/00003-")


@pytest.mark.parametrize(("codec", "suffix"), [("none", ".metadata.json"), ("gzip", ".gz.metadata.json")])
def test_metadata_is_compressed_as_its_name_says(codec: str, suffix: str) -> None:
    """META-36."""
    io = MemoryFileIO(f"compressed-{codec}")
    metadata = of(**{"write.metadata.compression-codec": codec})
    location = new_metadata_location(metadata, 0)
    write_metadata(io, location, metadata)
    assert location.removesuffix(suffix).count(".") == 0
    assert (io.read(location)[:2] == b"\x1f\x8b") == (codec == "gzip")
    assert read_metadata(io, location) == metadata
    with pytest.raises(FileExistsError):
        write_metadata(io, location, metadata)


FOLDERS: Mapping[str, tuple[dict[str, int], str | None, str]] = {
    "the highest version": ({"v1.metadata.json": 1, "v10.metadata.json": 2, "v9.metadata.json": 3}, None, "v10.metadata.json"),
    "a hint below a gap": ({"v1.metadata.json": 1, "v2.metadata.json": 2, "v9.metadata.json": 3}, "1", "v9.metadata.json"),
    "a stale hint moves on": ({"v1.metadata.json": 1, "v2.metadata.json": 2, "v3.metadata.json": 2}, "1\n", "v3.metadata.json"),
    "a hint by name": ({"00001-a.metadata.json": 1, "00002-b.metadata.json": 2}, "00001-a", "00001-a.metadata.json"),
    "the newest among equals": ({"00001-a.metadata.json": 9, "00001-b.metadata.json": 5}, None, "00001-a.metadata.json"),
    "gzipped": ({"v1.metadata.json": 1, "v2.gz.metadata.json": 2}, "1", "v2.gz.metadata.json"),
    "a hint of 5000 digits": ({"00001-a.metadata.json": 1, "00002-b.metadata.json": 2}, "9" * 5000, "00002-b.metadata.json"),
    "a hint of digits that are none": ({"v1.metadata.json": 1, "v2.metadata.json": 2}, "²", "v2.metadata.json"),
    "an empty hint": ({"00001-a.metadata.json": 1, "00002-b.metadata.json": 2}, "", "00002-b.metadata.json"),
}


def test_a_hint_above_every_version_is_an_error() -> None:
    io = MemoryFileIO("folder-lost")
    for version in (1, 3):
        write_metadata(io, f"/wh/t/metadata/v{version}.metadata.json", replace(METADATA, location="/wh/t"))
    io.write("/wh/t/metadata/version-hint.text", b"4")
    with pytest.raises(
        CorruptTableError, match="says version 4, but the highest version there is 3: the metadata file of version 4 is"
    ):
        table_from_path("/wh/t", io)
    assert table_from_path("/wh/t/metadata/v3.metadata.json", io).metadata_location.endswith("/v3.metadata.json")


@pytest.mark.parametrize("case", FOLDERS)
@pytest.mark.parametrize("path", ["/wh/t", "/wh/t/", "/wh/t/metadata"])
def test_the_current_file_of_a_folder(case: str, path: str) -> None:
    files, hint, expected = FOLDERS[case]
    io = MemoryFileIO(f"folder-{case}-{path}")
    for name, updated in files.items():
        write_metadata(io, f"/wh/t/metadata/{name}", replace(METADATA, location="/wh/t", last_updated_ms=updated))
    if hint is not None:
        io.write("/wh/t/metadata/version-hint.text", hint.encode())
    table = table_from_path(path, io)
    assert table.metadata_location == f"/wh/t/metadata/{expected}"
    assert (table.name, table.location) == ("path.t", "/wh/t")


@pytest.mark.parametrize("path", ["/wh/t/metadata/final.json", "/wh/x.json", "/wh/x.json.gz"])
def test_a_metadata_file_of_any_name_is_read(path: str) -> None:
    io = MemoryFileIO(f"any-name-{path}")
    io.write(path, metadata_to_json(METADATA, compress=path.endswith("gz")))
    assert table_from_path(path, io).metadata == METADATA


def test_a_folder_that_is_called_like_a_file_is_a_folder() -> None:
    io = MemoryFileIO("called-like-a-file")
    io.write("/wh/t.json/metadata/v1.metadata.json", metadata_to_json(METADATA))
    assert table_from_path("/wh/t.json", io).metadata_location == "/wh/t.json/metadata/v1.metadata.json"


def test_a_table_opened_by_path_can_not_be_written() -> None:
    io = MemoryFileIO("by-path")
    io.write("/wh/t/metadata/v1.metadata.json", metadata_to_json(METADATA))
    table = table_from_path("/wh/t/metadata/v1.metadata.json", io)
    with pytest.raises(UnsupportedError):
        table.io.write("/wh/t/x", b"")


@pytest.mark.parametrize("path", ["/wh/nothing", "/wh/nothing/metadata/v1.metadata.json"])
def test_a_path_without_a_table_is_named(path: str) -> None:
    with pytest.raises(NoSuchTableError, match="/wh/nothing"):
        table_from_path(path, MemoryFileIO("nothing"))


def test_missing_and_broken_metadata_is_named() -> None:
    io = MemoryFileIO("broken-metadata")
    with pytest.raises(CorruptTableError, match=r"/t/v1\.metadata\.json does not exist"):
        read_metadata(io, "/t/v1.metadata.json")
    io.write("/t/v1.metadata.json", b"{", overwrite=True)
    with pytest.raises(CorruptTableError, match=r"/t/v1\.metadata\.json"):
        read_metadata(io, "/t/v1.metadata.json")
