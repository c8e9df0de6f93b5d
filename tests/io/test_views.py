"""Mapped and read-only views, memory stores, and building a FileIO from properties."""

from __future__ import annotations

import pytest

from iceberg_ops.errors import OptionError, UnsupportedError
from iceberg_ops.io.changing_files import ChangingFilesIO
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.mapped import MappedFileIO
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.io.read_only import ReadOnlyFileIO

MAPPING = [("s3://b", "/x"), ("s3://b/t", "/y"), ("data/t/", "/z/"), ("file:", "")]
MAPPED = {
    "s3://b/a": "/x/a",
    "s3://b/t/a": "/y/a",
    "s3://b/t": "/y",
    "s3://b/table/a": "/x/table/a",
    "s3://bucket/a": "s3://bucket/a",
    "data/t/a": "/z/a",
    "file:/p": "/p",
    "/p": "/p",
}


@pytest.mark.parametrize(("recorded", "actual"), MAPPED.items())
def test_the_longest_prefix_that_ends_at_a_separator_wins(recorded: str, actual: str) -> None:
    assert MappedFileIO(MemoryFileIO("mapping"), MAPPING).map(recorded) == actual


def test_a_mapped_failure_names_the_recorded_location() -> None:
    class Stubborn(MemoryFileIO):
        def delete_many(self, locations):  # type: ignore[no-untyped-def]
            from iceberg_ops.io.file_io import DeleteFailure

            return [DeleteFailure(location, "refused") for location in locations]

    (failure,) = MappedFileIO(Stubborn("stubborn"), MAPPING).delete_many(["s3://b/a"])
    assert failure.location == "s3://b/a"


def test_nothing_can_be_changed_through_a_read_only_view() -> None:
    inner = MemoryFileIO("read-only")
    inner.clear()
    inner.write("/a", b"1")
    io = ReadOnlyFileIO(inner)
    for change in (
        lambda: io.write("/b", b""),
        lambda: io.write("/a", b"", overwrite=True),
        lambda: io.open_output("/b"),
        lambda: io.delete("/a"),
        lambda: io.delete_many(["/a"]),
    ):
        with pytest.raises(UnsupportedError, match="read-only"):
            change()
    assert io.delete_many([]) == []
    assert [f.location for f in io.list_prefix("/")] == ["/a"]
    assert io.read("/a") == io.open_input("/a").read() == b"1"
    assert (io.exists("/a"), io.length("/a"), io.local_path("/a")) == (True, 1, None)


def test_views_are_rebuilt_from_properties() -> None:
    inner = MemoryFileIO("views")
    inner.write("/x/a", b"1", overwrite=True)
    io = load_file_io(ReadOnlyFileIO(MappedFileIO(inner, MAPPING)).properties)
    assert io.read("s3://b/a") == b"1"
    with pytest.raises(UnsupportedError):
        io.delete("s3://b/a")


def test_stores_in_memory_are_told_apart_by_name() -> None:
    first, second = MemoryFileIO("one", clock=lambda: 5.0), MemoryFileIO("two")
    first.write("/a", b"", overwrite=True)
    assert MemoryFileIO("one").exists("/a")
    assert not second.exists("/a")
    assert next(iter(first.list_prefix("/"))).modified_ms == 5000
    first.set_modified_ms("/a", 7)
    assert next(iter(first.list_prefix("/"))).modified_ms == 7


def test_unknown_stores_and_bad_mappings_are_refused_by_name() -> None:
    with pytest.raises(
        OptionError, match="io-impl 'ftp' is not known: must be one of azure, gcs, hdfs, local, memory, resolving, s3"
    ):
        load_file_io({"io-impl": "ftp"})
    with pytest.raises(OptionError, match="location-mapping"):
        load_file_io({"location-mapping": "{"})
    assert load_file_io().properties["io-impl"] == "resolving"


def test_files_that_may_change_are_not_written_and_another_process_is_told_so() -> None:
    io = ChangingFilesIO(MappedFileIO(MemoryFileIO("changing"), MAPPING))
    again = load_file_io(io.properties)
    assert isinstance(again, ChangingFilesIO)
    assert again.properties == io.properties
    with pytest.raises(UnsupportedError, match="read-only"):
        again.write("s3://b/a", b"x")
