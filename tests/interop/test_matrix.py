"""Every feature, written here, in four readers: Iceberg Java in Spark, Iceberg Java's own reader, PyIceberg and DuckDB.

Each gives the same rows as this package, or the stated refusal; docs/conformance.md shows the same as a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.data.test_oracles import by_duckdb, by_pyiceberg
from tests.interop.features import FEATURES
from tests.interop.lake import Lake, Rows, same, texts

pytestmark = [pytest.mark.oracle, pytest.mark.java]

READERS: Mapping[str, Callable[[Lake], Rows]] = {
    "Java in Spark": lambda lake: lake.java_rows(),
    "Java": lambda lake: lake.java.generics("read", lake.sql_name),
    "PyIceberg": lambda lake: texts(by_pyiceberg(lake.table)),
    "DuckDB": lambda lake: texts(by_duckdb(lake.table)),
}
NO_AVRO = {"PyIceberg": "Unsupported file format: FileFormat.AVRO", "DuckDB": "File format 'AVRO' not supported"}
NO_AVRO_DELETES = {"PyIceberg": "Delete file format not supported: FileFormat.AVRO", "DuckDB": "'AVRO' not supported for deletes"}
NO_EQUALITY = "PyIceberg does not yet support equality deletes"
OF_TYPES: Mapping[str, Mapping[str, str]] = {
    "time": {"Java in Spark": "Spark does not support time fields"},
    "timestamp_ns": {"Java in Spark": "Cannot convert unsupported type to Spark: timestamp_ns"},
    "timestamptz_ns": {
        "Java in Spark": "Cannot convert unsupported type to Spark: timestamptz_ns",
        "DuckDB": "Unrecognized primitive type: timestamptz_ns",
    },
    "unknown": {"DuckDB": "Unrecognized primitive type: unknown"},
    "variant": {"PyIceberg": "Unsupported field type: 'variant'", "DuckDB": "Unsupported Arrow type VARIANT"},
    "geometry": {
        "Java in Spark": "Cannot convert unsupported type to Spark: geometry",
        "Java": "Unsupported logical type: GEOMETRY",
        "PyIceberg": "Cannot promote an binary to geometry",
    },
    "geography": {
        "Java in Spark": "Cannot convert unsupported type to Spark: geography",
        "Java": "Unsupported logical type: GEOGRAPHY",
        "PyIceberg": "Cannot promote an binary to geography",
        "DuckDB": "Geography support",
    },
}
BEFORE_AVRO = {
    "timestamptz_ns": ("DuckDB",), "unknown": ("DuckDB",), "geography": ("DuckDB",), "variant": ("PyIceberg",),
}  # fmt: skip
"""Which readers of Avro files stumble over the type first."""


def _avro(name: str) -> dict[str, str]:
    own = OF_TYPES[name]
    kept = {reader: own[reader] for reader in ("Java in Spark", *BEFORE_AVRO.get(name, ())) if reader in own}
    return {**NO_AVRO, **kept}


REFUSALS: Mapping[str, Mapping[str, str]] = {
    **{f"values of {name}": refusals for name, refusals in OF_TYPES.items()},
    **{f"values of {name}, Avro": _avro(name) for name in OF_TYPES},
    "Avro data files": NO_AVRO,
    "position deletes, Avro": NO_AVRO_DELETES,
    "equality deletes": {"PyIceberg": NO_EQUALITY},
    "equality deletes, Avro": {**NO_AVRO_DELETES, "PyIceberg": NO_EQUALITY},
    "equality deletes and renamed columns": {"PyIceberg": NO_EQUALITY},
}
RECORDS: Mapping[str, str] = {
    "time": "01:02:03.000004",
    "timestamp_ns": "2020-01-01T00:00:00.000000001",
    "timestamptz_ns": "2020-01-01T00:00:00.000000001Z",
    "unknown": "null",
    "variant": "Variant(metadata=VariantMetadata(dict={}), value=Variant(type=INT8, value=5))",
    "geometry": "java.nio.HeapByteBuffer[pos=0 lim=21 cap=21]",
    "geography": "java.nio.HeapByteBuffer[pos=0 lim=21 cap=21]",
}
"""How Java shows the value of a type's table."""

EMPTY_FOR_NULL = ("types, v1", "types, v2", "types, v3", "gzipped metadata")
"""Tables with null lists of structs and maps to structs, which PyIceberg shows as empty ones."""

WRITTEN_BY_JAVA: Mapping[str, str] = {
    "types": "test_we_read_java.py::test_every_type_in_every_format",
    "values of time": "test_java_writes_more.py::test_values_that_spark_has_no_type_for",
    "values of timestamp_ns": "test_java_writes_more.py::test_values_that_spark_has_no_type_for",
    "values of timestamptz_ns": "test_java_writes_more.py::test_values_that_spark_has_no_type_for",
    "values of unknown": "test_java_writes_more.py::test_columns_of_unknown_type",
    "values of variant": "test_java_writes_more.py::test_variants",
    "values of geo": "test_java_writes_more.py::test_spark_writes_no_geometries",
    "Avro data files": "test_we_read_java.py::test_every_type_in_every_format",
    "columns evolved": "test_we_read_java.py::test_alter_table",
    "defaults": "test_java_writes_more.py::test_spark_gives_columns_no_defaults",
    "partition specs evolved": "test_we_read_java.py::test_alter_table",
    "sort orders": "test_we_read_java.py::test_alter_table",
    "position deletes": "test_java_writes_more.py::test_position_deletes_in_every_format",
    "equality deletes": "test_java_writes_more.py::test_equality_deletes_in_every_format",
    "deletion vectors": "test_we_read_java.py::test_two_vectors_of_one_file_by_both_sides_in_turn",
    "v1 upgraded to v3": "test_java_writes_more.py::test_upgrades",
    "row lineage": "test_we_read_java.py::test_delete_update_and_merge",
    "branches and tags": "test_we_read_java.py::test_branches_and_tags",
    "name mapping": "test_java_writes_more.py::test_files_added_without_ids",
    "gzipped metadata": "test_java_writes_more.py::test_gzipped_metadata_and_statistics_are_kept",
}
"""The test in which Java writes a feature (longest beginning of its name) and it is read here."""


@pytest.mark.parametrize("feature", FEATURES)
def test_every_reader_gives_our_rows_or_refuses(lake: Lake, feature: str) -> None:
    FEATURES[feature](lake)
    ours = lake.our_rows()
    for reader, read in READERS.items():
        if refusal := REFUSALS.get(feature, {}).get(reader):
            with pytest.raises(Exception, match=re.escape(refusal)):
                read(lake)
        elif reader == "Java" and feature.startswith("values of "):
            name = feature.removeprefix("values of ").removesuffix(", Avro")
            assert read(lake) == [f"Record(1, {RECORDS[name]})", "Record(2, null)"]
        elif reader == "Java":
            assert len(read(lake)) == len(ours)
        elif reader == "Java in Spark" and "variant" in feature:
            # Spark's Arrow export fails on a null variant, not its reader.
            assert lake.java_rows(columns="id, to_json(v) v") == ["{'id': 1, 'v': '5'}", "{'id': 2, 'v': None}"]
        elif reader == "PyIceberg" and feature in EMPTY_FOR_NULL:
            shown = [row.replace("'points': None", "'points': []").replace("'scores': None", "'scores': []") for row in ours]
            same(read(lake), sorted(shown), f"{feature} in {reader}")
        else:
            same(read(lake), ours, f"{feature} in {reader}")


def test_the_document_shows_this_matrix() -> None:
    document = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text("utf-8")
    for line in matrix():
        assert line in document, line


def matrix() -> list[str]:
    """The table's lines."""
    lines = [f"| feature | {' | '.join(READERS)} | Java writes, read here |", "|---" * (len(READERS) + 2) + "|"]
    for feature in FEATURES:
        cells = [f"“{r}”" if (r := REFUSALS.get(feature, {}).get(reader)) else "rows" for reader in READERS]
        if feature in EMPTY_FOR_NULL:
            cells[2] = "rows, null lists and maps of structs as empty ones"
        test = WRITTEN_BY_JAVA[max((b for b in WRITTEN_BY_JAVA if feature.startswith(b)), key=len)]
        lines.append(f"| {feature} | {' | '.join(cells)} | `interop/{test}` |")
    return lines
