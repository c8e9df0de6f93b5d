"""Puffin files: Java's and Go's are read, ours round-trip, broken ones are named."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.serde.puffins import puffin
from iceberg_ops.serde.puffins.deletion_vector import deserialize
from iceberg_ops.serde.puffins.puffin import MAGIC, BlobToWrite, read_blob, read_footer, write_puffin
from tests.fixture_paths import GOLDEN, requires_fixtures
from tests.strategies import texts


def _golden(path: str) -> io.BytesIO:
    assert GOLDEN is not None
    return io.BytesIO((GOLDEN / path).read_bytes())


@requires_fixtures
@pytest.mark.fixtures
@pytest.mark.parametrize(("name", "size"), [("sample-metric-data-uncompressed", 259), ("sample-metric-data-compressed-zstd", 314)])
def test_java_files_read(name: str, size: int) -> None:
    """PUFFIN-01, PUFFIN-03."""
    stream = _golden(f"puffin/{name}.bin")
    footer = read_footer(stream, name)
    assert (footer.size, footer.properties) == (size, {"created-by": "Test 1234"})
    first, second = footer.blobs
    assert (first.type, first.fields, first.snapshot_id, first.sequence_number, first.offset) == ("some-blob", (1,), 2, 1, 4)
    assert read_blob(stream, first, name) == b"abcdefghi"
    assert read_blob(stream, second, name).decode().startswith("some blob \x00 binary data 🤯")


@requires_fixtures
@pytest.mark.fixtures
def test_an_empty_java_file_reads_and_is_written_byte_for_byte() -> None:
    stream = _golden("puffin/empty-puffin-uncompressed.bin")
    footer = read_footer(stream, "empty")
    assert (footer.blobs, footer.size) == ((), 28)
    assert write_puffin([])[0] == stream.getvalue()


@requires_fixtures
@pytest.mark.fixtures
@pytest.mark.parametrize("name", ["go_deletion-vector-v1", "java_single-blob-dv"])
def test_deletion_vectors_in_files_of_others_read(name: str) -> None:
    """DV-05, DV-12."""
    stream = _golden(f"deletion-vectors/{name}.puffin")
    (blob,) = read_footer(stream, name).blobs
    assert (blob.type, blob.properties["cardinality"], blob.compression_codec) == ("deletion-vector-v1", "5", None)
    assert list(deserialize(read_blob(stream, blob, name))) == [1, 3, 5, 7, 9]


blobs = st.builds(
    BlobToWrite,
    type=texts,
    data=st.binary(max_size=200),
    fields=st.lists(st.integers(0, 2**31 - 1), max_size=2).map(tuple),
    snapshot_id=st.integers(-1, 2**63 - 1),
    sequence_number=st.integers(-1, 2**40),
    compression_codec=st.sampled_from([None, "lz4", "zstd"]),
    properties=st.dictionaries(texts, texts, max_size=2),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(blobs, max_size=3), st.dictionaries(texts, texts, max_size=2))
def test_what_is_written_is_read_back(written: list[BlobToWrite], properties: dict[str, str]) -> None:
    data, placed, size = write_puffin(written, properties)
    stream = io.BytesIO(data)
    footer = read_footer(stream, "f")
    assert (footer.blobs, footer.properties, footer.size) == (placed, properties, size)
    assert [read_blob(stream, b, "f") for b in footer.blobs] == [b.data for b in written]


def test_a_compressed_footer_is_read() -> None:
    """PUFFIN-02."""
    import pyarrow

    payload = pyarrow.compress(json.dumps({"blobs": []}).encode(), codec="lz4", asbytes=True)
    data = MAGIC + MAGIC + payload + len(payload).to_bytes(4, "little") + b"\x01\x00\x00\x00" + MAGIC
    assert read_footer(io.BytesIO(data), "f").blobs == ()


def _file(document: Any, *, flags: bytes = bytes(4), size: int | None = None) -> bytes:
    payload = json.dumps(document).encode() if not isinstance(document, bytes) else document
    return MAGIC + MAGIC + payload + (len(payload) if size is None else size).to_bytes(4, "little") + flags + MAGIC


BLOB = {"type": "t", "fields": [], "snapshot-id": 1, "sequence-number": 1, "offset": 4, "length": 0}
BROKEN = {
    "short": (b"PFA1PFA1", "too short"),
    "head": (b"x" + _file({"blobs": []})[1:], "the file has"),
    "end": (_file({"blobs": []})[:-1] + b"x", "the end has"),
    "footer magic": (_file({"blobs": []}, size=9), "the footer has"),
    "footer size": (_file({"blobs": []}, size=999), "does not fit"),
    "not JSON": (_file(b"{"), "malformed"),
    "no blobs": (_file({}), "malformed"),
    "a type": (_file({"blobs": [{**BLOB, "offset": "4"}]}), "malformed"),
    "place": (_file({"blobs": [{**BLOB, "length": 9}]}), "does not lie before the footer"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_say_what_is_wrong(case: str) -> None:
    data, message = BROKEN[case]
    with pytest.raises(CorruptTableError, match=f"f.puffin: .*{message}"):
        read_footer(io.BytesIO(data), "f.puffin")


def test_unknown_flags_and_codecs_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="flags 0x2"):
        read_footer(io.BytesIO(_file({"blobs": []}, flags=b"\x02\x00\x00\x00")), "f")
    data, placed, _ = write_puffin([BlobToWrite(type="t", data=b"abc")])
    from dataclasses import replace

    with pytest.raises(UnsupportedError, match="brotli"):
        read_blob(io.BytesIO(data), replace(placed[0], compression_codec="brotli"), "f")


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_compressed_blob_is_whole_or_refused(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was cut at the most bytes that are read."""
    monkeypatch.setattr(puffin, "_MOST_INFLATED", 5 << 20)
    for size in (0, 1, (1 << 20) + 1, 5 << 20):
        data, (blob,), _ = write_puffin([BlobToWrite(type="t", data=b"x" * size, compression_codec=codec)])
        assert len(read_blob(io.BytesIO(data), blob, "f")) == size
    data, (blob,), _ = write_puffin([BlobToWrite(type="t", data=b"x" * ((5 << 20) + 1), compression_codec=codec)])
    with pytest.raises(UnsupportedError, match=r"f, because its .* data is more than 5242880 bytes"):
        read_blob(io.BytesIO(data), blob, "f")


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_compressed_blob_of_no_bytes_is_damaged(codec: str) -> None:
    """PUFFIN: a compressed blob is one frame, also where it holds nothing. One that was never written read as empty."""
    data, (placed,), _ = write_puffin([BlobToWrite(type="t", data=b"", compression_codec=codec)])
    assert placed.length
    assert read_blob(io.BytesIO(data), placed, "f.puffin") == b""
    with pytest.raises(CorruptTableError, match=f"f.puffin: {codec} data of 0 bytes"):
        read_blob(io.BytesIO(data), replace(placed, length=0), "f.puffin")


def test_a_compressed_footer_of_no_bytes_is_damaged() -> None:
    data = MAGIC + MAGIC + bytes(4) + b"\x01\x00\x00\x00" + MAGIC
    with pytest.raises(CorruptTableError, match=r"f\.puffin: footer: lz4 data of 0 bytes"):
        read_footer(io.BytesIO(data), "f.puffin")
