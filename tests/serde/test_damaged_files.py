"""Damaged bytes of any kind give a CorruptTableError that names the file, or values: never another exception or a hang."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.serde.manifests.manifest_avro import read_manifest, read_manifest_header, read_table_schema
from iceberg_ops.serde.manifests.manifest_list_avro import read_manifest_list, write_manifest_list
from iceberg_ops.serde.puffins.deletion_vector import bitmap_from_portable, deserialize, serialize
from iceberg_ops.serde.puffins.puffin import BlobToWrite, read_blob, read_footer, write_puffin
from tests.serde.manifest_cases import encoded, read_entries
from tests.serde.test_manifest_columnar import BY_P, many

RAW, MANIFEST = encoded(many(40), BY_P, version=2, compression="null")
PACKED, _ = encoded(many(40), BY_P, version=2)
ZSTD, _ = encoded(many(40), BY_P, version=2, compression="zstandard")
SNAPPY, _ = encoded(many(40), BY_P, version=2, compression="snappy")
LISTED = replace(MANIFEST, sequence_number=4, manifest_path="the-file")
LIST = write_manifest_list(
    [LISTED] * 3, snapshot_id=5, parent_snapshot_id=4, sequence_number=9, format_version=2, compression="null"
)
VECTOR = serialize(BitMap64([1, 5, 2**33, *range(70_000, 80_000), *range(2**40, 2**40 + 9000, 2)]))
PUFFIN, _, _ = write_puffin(
    [BlobToWrite(type="deletion-vector-v1", data=VECTOR, properties={"cardinality": "3"}), BlobToWrite(type="x", data=b"y" * 99,
     compression_codec="zstd")],
    {"created-by": "test"},
)  # fmt: skip


def _manifest(data: bytes) -> object:
    return read_manifest(data, LISTED, BY_P[2])


def _columns(data: bytes) -> object:
    return [dict(e.data_file.value_counts or {}) for e in read_entries(data, LISTED, BY_P[2])]


def _puffin(data: bytes) -> object:
    footer = read_footer(io.BytesIO(data), "the-file")
    return [read_blob(io.BytesIO(data), blob, "the-file") for blob in footer.blobs]


READERS: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "manifest": (RAW, _manifest),
    "deflated manifest": (PACKED, _manifest),
    "zstd manifest": (ZSTD, _manifest),
    "snappy manifest": (SNAPPY, _manifest),
    "manifest by columns": (RAW, _columns),
    "manifest header": (RAW, lambda data: read_manifest_header(data, "the-file")),
    "schema of a manifest": (RAW, lambda data: read_table_schema(data, "the-file")),
    "manifest list": (LIST, lambda data: read_manifest_list(data, "the-file")),
    "puffin": (PUFFIN, _puffin),
    "deletion vector": (VECTOR, lambda data: deserialize(data, "the-file")),
    "roaring bitmap": (VECTOR[8:-4], lambda data: bitmap_from_portable(data, "the-file")),
}


def _read(name: str, data: bytes) -> None:
    raised = None
    try:
        READERS[name][1](data)
    except (CorruptTableError, UnsupportedError) as e:
        raised = str(e)
    assert raised is None or "the-file" in raised


@pytest.mark.parametrize("name", READERS)
def test_the_whole_file_reads(name: str) -> None:
    data, read = READERS[name]
    read(data)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_changed_bytes(name: str, data: st.DataObject) -> None:
    whole = bytearray(READERS[name][0])
    header = min(len(whole), 600)
    positions = st.integers(0, len(whole) - 1) | st.integers(0, header - 1) | st.integers(len(whole) - 60, len(whole) - 1)
    for position, byte in data.draw(st.lists(st.tuples(positions, st.integers(0, 255)), min_size=1, max_size=4)):
        whole[position] = byte
    _read(name, bytes(whole))


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_cut_off_files(name: str, data: st.DataObject) -> None:
    whole, read = READERS[name]
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    _read(name, cut)
    if name not in ("manifest header",) and not name.startswith("roaring"):
        found = None
        try:
            found = read(cut)
        except (CorruptTableError, UnsupportedError):
            return
        assert "manifest" in name, f"{name} read {found!r} from a cut file"


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=200), offset=st.integers(0, 60))
def test_any_bytes_at_all(name: str, data: bytes, offset: int) -> None:
    _read(name, data)
    _read(name, READERS[name][0][:offset] + data)


@pytest.mark.parametrize(
    ("data", "what"),
    [(b"", "not an Avro file"), (b"PAR1" * 8, "not an Avro file"), (RAW[:30], "cut off|does not fit"), (RAW[:-3], "does not fit")],
)
def test_the_message_says_what_is_wrong(data: bytes, what: str) -> None:
    with pytest.raises(CorruptTableError, match=f"the-file: .*({what})"):
        _manifest(data)
