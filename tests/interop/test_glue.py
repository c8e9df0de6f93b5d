"""Iceberg Java's GlueCatalog and this package on one AWS Glue (moto's), in turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.spec.types import INT
from tests.interop.at_once import PROPERTIES
from tests.interop.catalogs import shared_catalog
from tests.interop.lake import Lake

pytestmark = [pytest.mark.oracle, pytest.mark.java]


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """A table's name in Glue, whose database ``ns`` is created again."""
    shared = shared_catalog("glue", request.getfixturevalue, tmp_path)
    return Lake(shared.java, shared.catalog, "t")


def test_a_table_that_either_made_is_read_and_written_by_the_other(lake: Lake) -> None:
    """And renamed and dropped."""
    lake.run_java(f"CREATE TABLE {{T}} (id BIGINT, who STRING) TBLPROPERTIES ({PROPERTIES})")
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
