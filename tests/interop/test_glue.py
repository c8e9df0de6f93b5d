"""Iceberg Java's GlueCatalog and this package on one AWS Glue (moto's), in turns and at the same time."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.glue.glue_catalog import GlueCatalog
from iceberg_ops.catalog.glue.glue_client import Glue
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.types import INT
from tests.catalog.watched import GLUE_KEYS
from tests.interop import at_once
from tests.interop.conftest import aws_jars
from tests.interop.lake import Java, Lake
from tests.interop.test_nessie import ByItsMetadata
from tests.servers.process import missing

pytestmark = [pytest.mark.oracle, pytest.mark.java]


@pytest.fixture
def lake(java_lake: tuple[Java, SqlCatalog], glue_endpoint: str, tmp_path: Path) -> Lake:
    """A table's name in a Glue of the test's own (``glue.id``), for both sides."""
    if not aws_jars():
        missing("Iceberg Java's bundle for AWS", "make jars")
    name, warehouse = f"glue_{uuid.uuid4().hex[:8]}", f"file:{tmp_path}/wh"
    ours = GlueCatalog(name, Glue(name, {"glue.endpoint": glue_endpoint, **GLUE_KEYS}), LocalFileIO(), warehouse=warehouse)
    properties = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "glue",
        ".glue.endpoint": glue_endpoint,
        ".client.region": "us-east-1",
        ".io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        ".warehouse": warehouse,
        ".cache-enabled": "false",
    }
    for key, value in properties.items():
        java_lake[0](f"SET `spark.sql.catalog.{name}{key}`=`{value}`")
    if ours._namespace_exists(("ns",)):
        for table in ours._tables_in("ns"):
            ours._glue.change("DeleteTable", DatabaseName="ns", Name=table["Name"])
        ours.drop_namespace(("ns",))
    ours.create_namespace(("ns",), {"location": f"{warehouse}/ns"})
    return Lake(java_lake[0], ours, "t")  # type: ignore[arg-type]


def test_a_table_that_either_made_is_read_and_written_by_the_other(lake: Lake) -> None:
    """And renamed and dropped."""
    lake.run_java(f"CREATE TABLE {{T}} (id BIGINT, who STRING) TBLPROPERTIES ({at_once.PROPERTIES})")
    ours = Lake(lake.java, lake.catalog, "u")
    ours.create(lake.table.schema)
    for found in (lake, ours):
        for n in range(2):
            found.run_java(f"INSERT INTO {{T}} VALUES ({n}, 'java')")
            found.append([(10 + n, "we")])
            found.agree(2 * (n + 1))
        found.run_java("DELETE FROM {T} WHERE id = 0")
        assert found.maintain("rewrite_data_files", rewrite_all="true").status == "committed"
        found.agree(3)
    assert lake.catalog.list_tables(("ns",)) == [("ns", "t"), ("ns", "u")]
    listed = lake.java.rows(f"SHOW TABLES IN {lake.catalog.name}.ns").column("tableName").to_pylist()
    assert sorted(listed) == ["t", "u"]
    ours.run_java("ALTER TABLE {T} RENAME TO ns.u2")
    lake.catalog.rename_table(("ns", "t"), ("ns", "t2"))
    assert lake.catalog.list_tables(("ns",)) == [("ns", "t2"), ("ns", "u2")]
    Lake(lake.java, lake.catalog, "t2").agree(3)
    Lake(lake.java, lake.catalog, "u2").agree(3)
    lake.java(f"DROP TABLE {lake.catalog.name}.ns.t2")
    lake.catalog.drop_table(("ns", "u2"))
    assert lake.catalog.list_tables(("ns",)) == []
    assert lake.java.rows(f"SHOW TABLES IN {lake.catalog.name}.ns").num_rows == 0


def test_glue_records_of_our_commits_what_it_records_of_javas(lake: Lake) -> None:
    """One table is made, filled, evolved and given properties by Java, one by us: the records differ in locations only."""
    lake.run_java(
        "CREATE TABLE {T} (id BIGINT NOT NULL COMMENT 'the key', m MAP<STRING, ARRAY<INT>>, "
        "s STRUCT<a: DECIMAL(9,2), b: TIMESTAMP>, region STRING) PARTITIONED BY (region) "
        "TBLPROPERTIES ('owner.team'='us', 'comment'='orders', 'write.data.path'='file:/tmp/elsewhere')"
    )
    made = lake.table
    ours = Lake(lake.java, lake.catalog, "u")
    ours.catalog.create_table(("ns", "u"), made.schema, spec=made.metadata.spec, properties=made.properties)
    assert _record(ours) == _record(lake)
    lake.run_java(
        "ALTER TABLE {T} ADD COLUMN more INT",
        "ALTER TABLE {T} DROP COLUMN m",
        "ALTER TABLE {T} SET TBLPROPERTIES ('a' = 'b', 'comment' = 'all orders')",
        "ALTER TABLE {T} UNSET TBLPROPERTIES ('write.data.path')",
    )
    ours.evolve(lambda schema: schema.add_column("more", INT))
    ours.evolve(lambda schema: schema.drop_column("m"))
    ours.commit(UpdateProperties(updates={"a": "b", "comment": "all orders"}))
    ours.commit(UpdateProperties(removals=("write.data.path",)))
    assert _record(ours) == _record(lake)


def _record(lake: Lake) -> dict[str, Any]:
    """Glue's record without what differs between two tables."""
    record = lake.catalog._record(("ns", lake.name))  # type: ignore[attr-defined]
    found = {
        key: value for key, value in record.items() if key not in ("Name", "CreateTime", "UpdateTime", "VersionId", "CatalogId")
    }
    places = {key: key in found["Parameters"] for key in ("metadata_location", "previous_metadata_location")}
    location = record["StorageDescriptor"]["Location"]
    assert record["Parameters"]["metadata_location"].startswith(f"{location}/metadata/")
    assert location.endswith(f"/{lake.name}")
    return {
        **found,
        "Parameters": {**record["Parameters"], **places},
        "StorageDescriptor": {**record["StorageDescriptor"], "Location": ""},
    }


def test_writers_at_once_on_one_table_lose_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_once, "COMMITS", 10)
    lake.run_java(f"CREATE TABLE {{T}} (id BIGINT, who STRING) TBLPROPERTIES ({at_once.PROPERTIES})")
    at_once.all_at_once(lake, lambda: ByItsMetadata(lake), with_pyiceberg=False)
