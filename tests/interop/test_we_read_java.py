"""This package reads tables written by Iceberg Java through Spark with equal rows, at every snapshot; commits of both alternate."""

from __future__ import annotations

import pytest

from iceberg_ops.scan.planning import Scan, plan
from tests.interop.lake import Lake
from tests.interop.test_java_reads_ours import numbered

pytestmark = [pytest.mark.oracle, pytest.mark.java]

COLUMNS = "id BIGINT NOT NULL, data STRING, part STRING"
TYPES = """
id BIGINT, flag BOOLEAN, n INT, f FLOAT, d DOUBLE, small DECIMAL(9, 2), mid DECIMAL(18, 4), big DECIMAL(38, 10), day DATE,
at TIMESTAMP_NTZ, instant TIMESTAMP, name STRING, raw BINARY, point STRUCT<x: INT, label: STRING>,
points ARRAY<STRUCT<x: INT, tags: ARRAY<STRING>>>, scores MAP<STRING, STRUCT<v: DOUBLE>>
"""
EVERYTHING = """
SELECT id, id % 2 = 0, CAST(-id AS INT), CAST(CASE id % 4 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0.0' WHEN 2 THEN 'Infinity' ELSE '0.5' END
AS FLOAT), CAST(CASE id % 4 WHEN 1 THEN 'NaN' WHEN 2 THEN '-0.0' WHEN 3 THEN '-Infinity' ELSE '0.1' END AS DOUBLE),
CAST(id - 5 AS DECIMAL(9, 2)), CAST(id * 1.2345 AS DECIMAL(18, 4)), CAST(-id * 12345678901234.5 AS DECIMAL(38, 10)),
date_add(DATE '1969-12-25', CAST(id AS INT)), TIMESTAMP_NTZ '1969-12-31 23:59:59.999999' + make_interval(0, 0, 0, 0, id, 0, 1),
TIMESTAMP '1969-12-31 23:00:00.000001' + make_interval(0, 0, 0, id), concat('näme ', id), CAST(concat('b', id) AS BINARY),
named_struct('x', CAST(id AS INT), 'label', CAST(NULL AS STRING)),
array(named_struct('x', CAST(id AS INT), 'tags', array('t', NULL)), NULL), map('a', named_struct('v', id / 4), 'b', NULL)
FROM range(20)
"""


def create(lake: Lake, version: int, columns: str = COLUMNS, more: str = "", **properties: str) -> None:
    named = {"format-version": str(version), **{k.replace("__", "-").replace("_", "."): v for k, v in properties.items()}}
    listed = ", ".join(f"'{k}' = '{v}'" for k, v in named.items())
    lake.run_java(f"CREATE TABLE {{T}} ({columns}) USING iceberg {more} TBLPROPERTIES ({listed})")


def modes(mode: str) -> dict[str, str]:
    return {f"write_{operation}_mode": mode for operation in ("delete", "update", "merge")}


@pytest.mark.parametrize(("version", "format_"), [(1, "parquet"), (2, "parquet"), (3, "parquet"), (2, "avro"), (2, "orc")])
def test_every_type_in_every_format(lake: Lake, version: int, format_: str) -> None:
    create(lake, version, TYPES, write_format_default=format_)
    lake.run_java(f"INSERT INTO {{T}} {EVERYTHING}", "INSERT INTO {T} (id) VALUES (100)")
    lake.agree(21)


@pytest.mark.parametrize(
    "transform",
    ["part", "bucket(4, id)", "truncate(2, name)", "years(day)", "months(instant)", "days(at)", "hours(instant)", "bucket(3, big)"],
)
def test_every_transform(lake: Lake, transform: str) -> None:
    create(lake, 2, TYPES + ", part STRING", f"PARTITIONED BY ({transform})")
    lake.run_java(f"INSERT INTO {{T}} SELECT *, CAST(id % 3 AS STRING) || ' /=' FROM ({EVERYTHING})")
    lake.run_java("DELETE FROM {T} WHERE id = 3")
    lake.agree(19)


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("version", [2, 3])
def test_delete_update_and_merge(lake: Lake, version: int, mode: str, partitioned: bool) -> None:
    more = "PARTITIONED BY (part)" if partitioned else ""
    create(lake, version, COLUMNS, more, **modes(mode), write_delete_granularity="partition")
    for start in (0, 50):
        lake.run_java(f"INSERT INTO {{T}} SELECT id, concat('row ', id), CAST(id % 3 AS STRING) FROM range({start}, {start + 50})")
    lake.run_java(
        "DELETE FROM {T} WHERE id IN (1, 2, 51)",
        "UPDATE {T} SET data = 'updated', part = '9' WHERE id BETWEEN 10 AND 14",
        "MERGE INTO {T} t USING (SELECT id FROM range(45, 105)) s ON t.id = s.id WHEN MATCHED AND t.id < 50 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET data = 'merged' WHEN NOT MATCHED THEN INSERT (id, data, part) VALUES (s.id, 'new', '7')",
    )
    # 100 - 3 deleted - 5 matched and deleted, 51 (deleted before) and 100..104 inserted
    lake.agree(100 - 3 - 5 + 6)
    if version == 3:
        columns = ["id", "_row_id", "_last_updated_sequence_number"]
        assert lake.java_rows(columns=", ".join(columns)) == lake.our_rows(columns=columns)
    lake.maintain("rewrite_data_files", rewrite_all="true")
    lake.agree(98)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_alter_table(lake: Lake, version: int) -> None:
    create(lake, version, "id INT, f FLOAT, m DECIMAL(6, 2), gone STRING, s STRUCT<a: INT, b: STRING>, part STRING")
    values = (
        "SELECT id, id / 2, id / 4, 'g', named_struct('a', CAST(id AS INT), 'b', 'x'), 'p' FROM (SELECT INT(id) id FROM range(5))"
    )
    lake.run_java(
        f"INSERT INTO {{T}} {values}",
        "ALTER TABLE {T} ALTER COLUMN id TYPE BIGINT",
        "ALTER TABLE {T} ALTER COLUMN f TYPE DOUBLE",
        "ALTER TABLE {T} ALTER COLUMN m TYPE DECIMAL(20, 2)",
        "ALTER TABLE {T} ALTER COLUMN s.a TYPE BIGINT",
        "ALTER TABLE {T} DROP COLUMN gone",
        "ALTER TABLE {T} RENAME COLUMN f TO g",
        "ALTER TABLE {T} ADD COLUMN s.c INT FIRST",
        "ALTER TABLE {T} ADD COLUMN gone INT AFTER id",
        "ALTER TABLE {T} ADD PARTITION FIELD bucket(2, id)",
        "INSERT INTO {T} VALUES (5000000000, 1, 0.1, 12345678901234567.89, named_struct('c', 1, 'a', 5000000000, 'b', 'y'), 'q')",
        "ALTER TABLE {T} DROP PARTITION FIELD bucket(2, id)",
        "ALTER TABLE {T} ADD PARTITION FIELD part",
        "ALTER TABLE {T} DROP COLUMN s.b",
        "INSERT INTO {T} VALUES (7, NULL, NULL, NULL, NULL, NULL)",
        "ALTER TABLE {T} WRITE ORDERED BY id DESC",
    )
    lake.agree(7)
    lake.maintain("rewrite_data_files", rewrite_all="true")
    lake.agree(7)


@pytest.mark.parametrize("version", [2, 3])
def test_java_maintains_and_we_read_on(lake: Lake, version: int) -> None:
    create(lake, version, **modes("merge-on-read"))
    for start in range(0, 50, 10):
        lake.run_java(f"INSERT INTO {{T}} SELECT id, 'x', 'y' FROM range({start}, {start + 10})")
    lake.run_java("DELETE FROM {T} WHERE id % 10 = 3")
    before = lake.agree(45)
    lake.run_java(
        "CALL lake.system.rewrite_data_files(table => '{N}', options => map('rewrite-all', 'true'))",
        "CALL lake.system.rewrite_manifests('{N}')",
        "INSERT INTO {T} VALUES (100, 'x', 'y')",
    )
    assert len(lake.agree(46)) == len(before) + 1
    lake.run_java("CALL lake.system.expire_snapshots(table => '{N}', older_than => TIMESTAMP '2999-01-01', retain_last => 1)")
    assert len(lake.table.metadata.snapshots) == 1
    lake.agree(46)


def test_branches_and_tags(lake: Lake) -> None:
    create(lake, 2)
    lake.run_java(
        "INSERT INTO {T} VALUES (1, 'a', 'b')",
        "ALTER TABLE {T} CREATE TAG t1",
        "ALTER TABLE {T} CREATE BRANCH dev",
        "INSERT INTO {T} VALUES (2, 'a', 'b')",
        "INSERT INTO {T}.branch_dev VALUES (3, 'a', 'b')",
        "ALTER TABLE {T} ADD COLUMN later INT",
    )
    lake.agree(2)
    for ref in ("t1", "dev", "main"):
        assert lake.java_rows(ref) == lake.our_rows(Scan(ref=ref)), ref


@pytest.mark.parametrize("version", [1, 2, 3])
def test_commits_alternate(lake: Lake, version: int) -> None:
    create(lake, version, COLUMNS, "PARTITIONED BY (part)", **modes("copy-on-write" if version == 1 else "merge-on-read"))
    for turn in range(3):
        base = 100 * turn
        lake.run_java(f"INSERT INTO {{T}} SELECT id, 'java', 'a' FROM range({base}, {base + 5})")
        lake.append(numbered(*range(base + 10, base + 15)))
        lake.run_java(f"DELETE FROM {{T}} WHERE id IN ({base}, {base + 10})")
        if version > 1:
            lake.delete_positions({base + 1, base + 11})
            lake.run_java(f"UPDATE {{T}} SET data = 'both' WHERE id IN ({base + 2}, {base + 12})")
        if turn == 1:
            lake.maintain("rewrite_data_files", rewrite_all="true")
            lake.run_java("CALL lake.system.rewrite_manifests('{N}')")
    lake.agree(24 if version == 1 else 18)


def test_a_table_of_ours_renamed_columns_and_java_deletes_by_the_new_name(lake: Lake) -> None:
    create(lake, 2, **modes("merge-on-read"))
    lake.run_java("INSERT INTO {T} VALUES (1, 'a', 'b'), (2, 'c', 'd')")
    lake.evolve(lambda e: e.rename_column("data", "text").update_doc("part", "where"))
    lake.run_java("DELETE FROM {T} WHERE text = 'a'", "ALTER TABLE {T} RENAME COLUMN text TO data")
    lake.append(numbered(5))
    lake.agree(2)


def test_two_vectors_of_one_file_by_both_sides_in_turn(lake: Lake) -> None:
    create(lake, 3, **modes("merge-on-read"))
    lake.run_java("INSERT INTO {T} SELECT id, 'x', 'y' FROM range(50)", "DELETE FROM {T} WHERE id < 3")
    lake.delete_positions({10, 11})
    lake.run_java("DELETE FROM {T} WHERE id = 20")
    lake.delete_positions({30})
    lake.agree(43)
    assert len([t for t in plan(lake.table, Scan()).tasks for d in t.deletes if d.is_deletion_vector]) == len(
        plan(lake.table, Scan()).tasks
    )


def test_columns_beside_a_variant(lake: Lake) -> None:
    create(lake, 3, "id BIGINT, v VARIANT")
    lake.run_java('INSERT INTO {T} VALUES (1, parse_json(\'{"a": [1, null, "x"]}\')), (2, NULL)')
    assert lake.java_rows(columns="id") == lake.our_rows(columns=["id"])
