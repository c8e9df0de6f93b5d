"""Times in Avro files of other writers, in every unit that Avro has a name for."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import fastavro
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, TIMESTAMP, NestedField
from tests.builders import make_catalog


@pytest.mark.parametrize("logical", ["timestamp-millis", "local-timestamp-millis", "timestamp-micros", "local-timestamp-micros"])
def test_a_timestamp_is_read_in_the_unit_of_its_logical_type(logical: str) -> None:
    catalog = make_catalog()
    schema = Schema.of(NestedField(1, "id", LONG), NestedField(2, "ts", TIMESTAMP))
    table = catalog.create_table(("ns", "t"), schema, properties={"format-version": "2"})
    stored: Any = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "id", "type": ["null", "long"], "field-id": 1},
            {"name": "ts", "type": ["null", {"type": "long", "logicalType": logical}], "field-id": 2},
        ],
    }
    moment = datetime(2024, 1, 2, tzinfo=None if logical.startswith("local") else UTC)
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(stored), [{"id": 1, "ts": moment}])
    text = out.getvalue()
    path = table.location + "/data/a.avro"
    table.io.write(path, text)
    file = DataFile(file_path=path, file_format=FileFormat.AVRO, record_count=1, file_size_in_bytes=len(text))
    commit(catalog, table, AppendFiles(added=(file,)))
    assert scan_table(catalog.load_table(("ns", "t"))).to_pylist() == [{"id": 1, "ts": datetime(2024, 1, 2)}]
