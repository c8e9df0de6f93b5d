"""Tables that Iceberg Java writes beyond plain rows: newer types, delete files of every format, files without ids, statistics."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import INT, STRING, TIME, TIMESTAMP_NS, TIMESTAMPTZ_NS, IcebergType, NestedField
from tests.interop.lake import JavaError, Lake
from tests.interop.test_java_reads_ours import numbered
from tests.interop.test_we_read_java import create, modes

pytestmark = [pytest.mark.oracle, pytest.mark.java]


def formats_of_deletes(lake: Lake) -> set[str]:
    return {d.data_file.file_format.value for task in plan(lake.table, Scan()).tasks for d in task.deletes}


@pytest.mark.parametrize("format_", ["parquet", "avro", "orc"])
@pytest.mark.parametrize(
    ("type_", "kind", "text", "ours"),
    [
        (TIME, "time", "01:02:03.000004", "datetime.time(1, 2, 3, 4)"),
        (TIMESTAMP_NS, "timestamp", "2020-01-01T00:00:00.000000001", "Timestamp('2020-01-01 00:00:00.000000001')"),
        (
            TIMESTAMPTZ_NS, "timestamptz", "2020-01-01T00:00:00.000000001Z",
            "Timestamp('2020-01-01 00:00:00.000000001+0000', tz='UTC')",
        ),
    ],
)  # fmt: skip
def test_values_that_spark_has_no_type_for(lake: Lake, type_: IcebergType, kind: str, text: str, ours: str, format_: str) -> None:
    lake.create(Schema.of(NestedField(1, "id", INT, True), NestedField(2, "v", type_)), version=3)
    lake.java.generics("append", lake.sql_name, format_, [{"id": ["int", "1"], "v": [kind, text]}, {"id": ["int", "2"], "v": None}])
    assert lake.our_rows() == [f"{{'id': 1, 'v': {ours}}}", "{'id': 2, 'v': None}"]


def test_columns_of_unknown_type(lake: Lake) -> None:
    lake.run_java("CREATE TABLE {T} USING iceberg TBLPROPERTIES ('format-version' = '3') AS SELECT id, NULL AS v FROM range(3)")
    assert str(lake.table.schema.fields[1].type) == "unknown"
    lake.agree(3)
    lake.append([(3, None)])
    lake.agree(4)


def test_variants(lake: Lake) -> None:
    create(lake, 3, "id BIGINT, v VARIANT")
    lake.run_java(
        'INSERT INTO {T} SELECT id, parse_json(concat(\'{"a": [1.5, null, "x"], "id": \', id, \'}\')) FROM range(3)',
        "INSERT INTO {T} VALUES (3, NULL)",
    )
    theirs = [eval(row) for row in lake.java_rows(columns="id, to_json(v) v")]
    ours = lake.our_rows()
    assert len(ours) == 4
    assert [row["v"] for row in theirs] == [*(f'{{"a":[1.5,null,"x"],"id":{i}}}' for i in range(3)), None]
    lake.maintain("rewrite_data_files", rewrite_all="true")
    assert lake.our_rows() == ours
    assert [eval(row) for row in lake.java_rows(columns="id, to_json(v) v")] == theirs


def test_spark_writes_no_geometries(lake: Lake) -> None:
    with pytest.raises(JavaError, match="Geospatial feature is disabled"):
        create(lake, 3, "id BIGINT, v GEOMETRY(4326)")


def test_spark_gives_columns_no_defaults(lake: Lake) -> None:
    create(lake, 3)
    with pytest.raises(JavaError, match="default values in Spark is currently unsupported"):
        lake.run_java("ALTER TABLE {T} ADD COLUMN n INT DEFAULT 7")


@pytest.mark.parametrize("format_", ["parquet", "avro", "orc"])
def test_position_deletes_in_every_format(lake: Lake, format_: str) -> None:
    create(lake, 2, more="PARTITIONED BY (part)", **modes("merge-on-read"), write_delete_format_default=format_)
    lake.run_java("INSERT INTO {T} SELECT id, 'x', CAST(id % 2 AS STRING) FROM range(20)", "DELETE FROM {T} WHERE id < 3")
    lake.agree(17)
    assert formats_of_deletes(lake) == {format_}
    lake.run_java("ALTER TABLE {T} SET TBLPROPERTIES ('write.delete.format.default' = 'parquet')")  # ORC is not written here
    lake.maintain("rewrite_position_delete_files", rewrite_all="true")
    assert formats_of_deletes(lake) == {"parquet"}
    lake.agree(17)


@pytest.mark.parametrize("format_", ["parquet", "avro", "orc"])
def test_equality_deletes_in_every_format(lake: Lake, format_: str) -> None:
    lake.create(Schema.of(NestedField(1, "id", INT, True), NestedField(2, "v", STRING)))
    lake.append([*((i, f"v{i}") for i in range(5)), (9, None)])
    lake.java.generics("delete", lake.sql_name, format_, ["v"], [{"v": ["string", "v1"]}, {"v": None}])
    lake.append([(10, "v1")])
    lake.java.generics("delete", lake.sql_name, format_, ["id"], [{"id": ["int", "3"]}])
    lake.agree(4)
    assert formats_of_deletes(lake) == {format_}
    lake.maintain("convert_equality_deletes")
    assert lake.agree(4) == lake.java_rows()


def test_upgrades(lake: Lake) -> None:
    create(lake, 1, **modes("merge-on-read"))
    lake.run_java("INSERT INTO {T} SELECT id, 'x', 'y' FROM range(10)")
    for version, row in ((2, 3), (3, 5)):
        lake.run_java(
            f"ALTER TABLE {{T}} SET TBLPROPERTIES ('format-version' = '{version}')", f"DELETE FROM {{T}} WHERE id = {row}"
        )
    lake.run_java("UPDATE {T} SET data = 'z' WHERE id = 7")
    lake.agree(8)
    columns = ["id", "_row_id", "_last_updated_sequence_number"]
    assert lake.java_rows(columns=", ".join(columns)) == lake.our_rows(columns=columns)


def test_files_added_without_ids(lake: Lake, tmp_path: Path) -> None:
    create(lake, 2)
    lake.java(f"INSERT OVERWRITE DIRECTORY '{tmp_path}/x' USING parquet SELECT id, 'x' AS data, 'y' AS part FROM range(3)")
    lake.run_java(f"CALL lake.system.add_files(table => '{{N}}', source_table => '`parquet`.`{tmp_path}/x`')")
    assert "schema.name-mapping.default" in lake.table.properties
    lake.run_java("ALTER TABLE {T} RENAME COLUMN data TO text", "ALTER TABLE {T} ADD COLUMN more INT")
    lake.agree(3)


def test_gzipped_metadata_and_statistics_are_kept(lake: Lake) -> None:
    create(lake, 2, more="PARTITIONED BY (part)", write_metadata_compression__codec="gzip")
    lake.run_java(
        "INSERT INTO {T} SELECT id, 'x', 'y' FROM range(10)",
        "CALL lake.system.compute_table_stats('{N}')",
        "CALL lake.system.compute_partition_stats('{N}')",
    )
    assert lake.table.metadata_location.endswith(".gz.metadata.json")
    found = lake.table.metadata
    assert (len(found.statistics), len(found.partition_statistics)) == (1, 1)
    lake.append(numbered(20))
    lake.maintain("rewrite_data_files", rewrite_all="true")
    lake.run_java("INSERT INTO {T} VALUES (30, 'x', 'y')")
    kept = lake.table.metadata
    assert (kept.statistics, kept.partition_statistics) == (found.statistics, found.partition_statistics)
    assert all(lake.table.io.exists(s.statistics_path) for s in kept.statistics)
    lake.agree(12)
