"""User columns with the names of v3's row lineage columns: they cannot be created, are read as user columns, and are never
written."""

from __future__ import annotations

import pytest

from iceberg_ops.errors import SchemaError, UnsupportedError
from iceberg_ops.spec.metadata_builder import apply_updates
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.types import LONG, NestedField, StructType
from iceberg_ops.spec.updates import UpgradeFormatVersion
from tests.builders import make_catalog
from tests.data.files import new_io, read, write, write_context

NAMES = ["_row_id", "_last_updated_sequence_number", "_ROW_ID"]
ID = NestedField(1, "id", LONG)


@pytest.mark.parametrize("name", NAMES)
def test_a_v3_table_gets_no_column_of_a_lineage_columns_name(name: str) -> None:
    catalog = make_catalog()
    taken = Schema.of(ID, NestedField(2, name, LONG))
    with pytest.raises(SchemaError, match=f"column '{name}'"):
        catalog.create_table(("ns", "t"), taken, properties={"format-version": "3"})
    with pytest.raises(SchemaError, match=f"column '{name}'"):
        SchemaEvolution(Schema.of(ID), 1, format_version=3).add_column(name, LONG).apply()
    with pytest.raises(SchemaError, match=f"column '{name}'"):
        SchemaEvolution(Schema.of(ID), 1, format_version=3).rename_column("id", name).apply()
    inside = StructType((NestedField(3, name, LONG),))
    SchemaEvolution(Schema.of(ID), 1, format_version=3).add_column("s", inside).apply()
    SchemaEvolution(taken, 2, format_version=3).add_column("x", LONG).rename_column(name, "own").apply()
    SchemaEvolution(taken, 2, format_version=3).add_column("x", LONG).apply()


@pytest.mark.parametrize("name", NAMES)
def test_a_v2_table_with_such_a_column_is_not_upgraded_until_it_is_renamed(name: str) -> None:
    catalog = make_catalog()
    catalog.create_table(("ns", "t"), Schema.of(ID, NestedField(2, name, LONG)), properties={"format-version": "2"})
    metadata = catalog.load_table(("ns", "t")).metadata
    with pytest.raises(SchemaError, match=f"column '{name}'"):
        apply_updates(metadata, [UpgradeFormatVersion(3)], now_ms=metadata.last_updated_ms)
    renamed = SchemaEvolution.of_table(metadata).rename_column(name, "own").updates()
    assert apply_updates(metadata, [*renamed, UpgradeFormatVersion(3)], now_ms=metadata.last_updated_ms).format_version == 3


def test_files_of_such_a_table_are_read_and_none_is_written() -> None:
    schema = Schema.of(ID, NestedField(2, "_row_id", LONG))
    io = new_io()
    files = write(write_context(schema, version=2), io, [(1, 700), (2, None)])
    assert read(files, schema, io) == [(1, 700), (2, None)]
    write_context(schema, version=2).check_format()
    with pytest.raises(UnsupportedError, match="column named '_row_id'"):
        write_context(schema, version=3).check_format()
