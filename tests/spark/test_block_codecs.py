"""Text compressed by Snappy and LZ4: Hadoop's blocks are read, and other forms, in which the reader might find no text at all, are
refused."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from iceberg_ops.config.job_spec import Source
from iceberg_ops.errors import DataError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

FLAT = Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", STRING))
TEXTS = {"csv": b"id,v\n1,a\n", "json": b'{"id": 1, "v": "a"}\n'}
MAGIC = b"\xff\x06\x00\x00sNaPpY"
LZ4_OF_OLD = b"\x02\x21\x4c\x18" + b"\x00\x01\x00\x00" + b"\x00" * (1 << 16)
"""Its first part has 256 bytes, which Hadoop takes for 65536: so many are there."""


def in_blocks(text: bytes, codec: str) -> bytes:
    part = pa.compress(text, codec, asbytes=True)
    return struct.pack(">II", len(text), len(part)) + part


@pytest.mark.parametrize("form", TEXTS)
@pytest.mark.parametrize(("ending", "codec"), [("snappy", "snappy"), ("lz4", "lz4_raw")])
def test_blocks_are_read_and_other_forms_are_refused(place: Place, form: str, ending: str, codec: str) -> None:
    place.create("t", FLAT)
    path = place.folder / f"ü 1.{form}.{ending}"
    source = Source(format=form, paths=[str(path)])  # type: ignore[arg-type]
    path.write_bytes(in_blocks(TEXTS[form], codec))
    place.run("append", "t", source=source)
    assert place.rows("t") == [{"id": 1, "v": "a"}]
    for other in (
        pa.compress(TEXTS[form], codec, asbytes=True),
        MAGIC + b"\x00" * 20,
        pa.compress(TEXTS[form], "lz4", asbytes=True),
        LZ4_OF_OLD,
    ):
        path.write_bytes(other)
        with pytest.raises(DataError, match=r"ü 1\.\w+\.\w+ is not in the form that Hadoop gives files of that name"):
            place.run("append", "t", source=source)
    assert len(place.rows("t")) == 1


def test_a_file_without_text_has_no_rows(place: Place) -> None:
    place.create("t", FLAT)
    path = place.folder / "none.csv.snappy"
    for empty in (b"", b"\x00" * 4, b"\x00" * 8, b"\x00" * 12):
        path.write_bytes(empty)
        report = place.run("append", "t", source=Source(format="csv", paths=[str(path)]))
        assert report.status == "nothing-to-do"
