"""What random evolutions make of a table can be stored, and is read by this package and by PyIceberg. Iceberg Java reads the same
tables in ``tests/interop/test_java_loads_evolved_tables.py``."""

from __future__ import annotations

import json

from pyiceberg.table.metadata import TableMetadataUtil

from iceberg_ops.serde.metadata_json import metadata_from_json, metadata_to_json
from iceberg_ops.serde.stored_form import check_can_be_stored
from iceberg_ops.spec.partition_names import name_clashes
from tests.generated.drawing import Draw, for_each_seed, missing
from tests.generated.evolutions import evolved

KIND = "evolutions"
WANTED = {
    "accepted", "refused SchemaError", "name of a partition field", "type for a partition field", "null default", "ADD PARTITION",
    "RENAME COLUMN",
}  # fmt: skip


def check(draw: Draw) -> None:
    for steps, metadata in evolved(draw):
        check_can_be_stored(metadata, None, f"after {steps}")
        stored = metadata_to_json(metadata)
        assert metadata_from_json(stored, "t") == metadata, steps
        assert b'-default":null' not in stored, steps
        assert name_clashes(metadata.schema, metadata.partition_specs) == (), steps
        read = TableMetadataUtil.parse_obj(json.loads(stored))
        assert [f.field_id for f in read.schema().fields] == [f.field_id for f in metadata.schema.fields], steps


def test_random_evolutions_leave_tables_that_are_read() -> None:
    for_each_seed(KIND, 60, check)
    assert missing(KIND, WANTED) == set()
