"""Variants: read, written and shown as JSON (TYPE-21, TYPE-38); shredded ones are in ``test_variant_shredding``."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from iceberg_ops.data.reader import scan_table
from iceberg_ops.data.variant_values import Variant, decode, variant_to_json
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.mapped import MappedFileIO
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import INT, VARIANT, NestedField
from iceberg_ops.table.metadata_files import table_from_path
from tests.data.files import new_io, read, write, write_context
from tests.fixture_paths import FIXTURES, requires_fixtures

SCHEMA = Schema.of(NestedField(1, "id", INT), NestedField(2, "var", VARIANT))
NO_NAMES = b"\x01\x00\x00"
NAMES = b"\x11\x02\x00\x01\x02ab"
CASES = [
    (NO_NAMES, b"\x00", None),
    (NO_NAMES, b"\x04", True),
    (NO_NAMES, b"\x08", False),
    (NO_NAMES, b"\x0c\xff", -1),
    (NO_NAMES, b"\x14\x00\x00\x00\x80", -(2**31)),
    (NO_NAMES, b"\x20\x02\x3a\x01\x00\x00", Decimal("3.14")),
    (NO_NAMES, b"\x0dabc", "abc"),
    (NO_NAMES, b"\x03\x02\x00\x02\x04\x0c\x01\x0c\x02", [1, 2]),
    (NAMES, b"\x02\x02\x00\x01\x00\x02\x03\x0c\x01\x00", {"a": 1, "b": None}),
]


@pytest.mark.parametrize(("metadata", "value", "shown"), CASES)
def test_values_are_decoded(metadata: bytes, value: bytes, shown: object) -> None:
    assert decode(Variant(metadata, value)) == shown


@pytest.mark.parametrize("value", [b"", b"\x14\x00", b"\x0dab"[:2], b"\x02\x7f\x00", b"\x03\xff\x00", b"\xfc"])
def test_damaged_values_are_corrupt(value: bytes) -> None:
    with pytest.raises(CorruptTableError):
        variant_to_json(Variant(NO_NAMES, value))


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_variants_come_back_byte_for_byte(form: str) -> None:
    io = new_io()
    rows = [(i, Variant(m, v)) for i, (m, v, _) in enumerate(CASES)] + [(99, None)]
    files = write(write_context(SCHEMA, properties={"write.format.default": form}), io, rows)
    assert read(files, SCHEMA, io) == rows


@requires_fixtures
def test_trinos_variants_are_all_decoded() -> None:
    assert FIXTURES is not None
    (metadata,) = sorted((FIXTURES / "impala-trino_variant" / "table" / "metadata").glob("*.metadata.json"))[-1:]
    table = table_from_path(str(metadata), _mapped(FIXTURES / "impala-trino_variant"))
    found = scan_table(table).to_pylist()
    name = next(f.name for f in table.schema.fields if f.type == VARIANT)
    shown = {r["descr"]: variant_to_json(Variant(**r[name])) for r in found if r[name] is not None}
    assert shown["int32 42"] == 42
    assert shown["str Alice"] == "Alice"
    assert shown["array [1,2,3]"] == [1, 2, 3]
    assert shown["decimal4 3.14"] == "3.14"


def _mapped(case: Path) -> MappedFileIO:
    recorded = json.loads((case / "expected.json").read_text())
    return MappedFileIO(LocalFileIO(), [(m["recorded_prefix"], str(case / m["local"])) for m in recorded["path_mapping"]])
