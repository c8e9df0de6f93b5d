"""Avro container files: codecs, headers, numbers."""

from __future__ import annotations

import io

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_ops.errors import CorruptTableError, OptionError
from iceberg_ops.serde.avro.avro_container import CODECS, codec_of_property, read_container, read_header, write_container
from iceberg_ops.serde.avro.avro_encoding import encode_long
from tests.strategies import longs, texts

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}


@settings(deadline=None)
@given(longs)
def test_numbers_are_encoded_as_fastavro_does(value: int) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    assert encode_long(value) == out.getvalue()


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_numbers_beyond_64_bits_are_refused(value: int) -> None:
    with pytest.raises(OverflowError, match="does not fit 64 bits"):
        encode_long(value)


@settings(deadline=None)
@given(
    st.dictionaries(texts, texts, max_size=4), st.lists(st.binary(min_size=1, max_size=300), max_size=3), st.sampled_from(CODECS)
)
def test_what_is_written_is_read_back(metadata: dict[str, str], raw: list[bytes], codec: str) -> None:
    """AVRO-04."""
    metadata = {k: v for k, v in metadata.items() if not k.startswith("avro.")}
    blocks = tuple((len(r), r) for r in raw)
    data = write_container(SCHEMA, metadata, blocks, codec=codec)
    found = read_container(data, "f")
    assert (found.metadata, found.blocks) == (metadata, blocks)
    assert read_header(data, "f") == metadata


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_fastavros_files_read_and_ours_are_read_by_it(codec: str) -> None:
    records = [{"n": n} for n in range(5000)]
    out = io.BytesIO()
    fastavro.writer(out, SCHEMA, records, codec=codec, sync_interval=500)
    found = read_container(out.getvalue(), "f")
    assert found.record_count == 5000
    assert len(found.blocks) > 1
    again = write_container(SCHEMA, {}, found.blocks, codec="snappy" if codec == "null" else "deflate")
    assert read_container(again, "f").blocks == found.blocks
    if codec == "deflate":
        assert list(fastavro.reader(io.BytesIO(again))) == records


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        ("gzip", "deflate"),
        ("GZIP", "deflate"),
        ("zstd", "zstandard"),
        ("snappy", "snappy"),
        ("uncompressed", "null"),
        ("none", "null"),
    ],
)
def test_properties_name_codecs(text: str, codec: str) -> None:
    assert codec_of_property(text) == codec


def test_an_unknown_codec_property_is_refused_by_name() -> None:
    with pytest.raises(OptionError, match="'brotli' for manifests: must be one of gzip, snappy, uncompressed, zstd"):
        codec_of_property("brotli")


def test_a_header_without_schema_is_named() -> None:
    data = write_container(SCHEMA, {}, [], codec="null").replace(b"avro.schema", b"avro.scheme")
    with pytest.raises(CorruptTableError, match=r"f: Avro header has no avro\.schema"):
        read_container(data, "f")
