"""The results of random evolutions can be stored, and are read by this package and by PyIceberg. Iceberg Java reads the same tables
in ``tests/interop/test_java_loads_evolved_tables.py``."""

from __future__ import annotations

import itertools
import json
import re

from pyiceberg.table.metadata import TableMetadataUtil

from iceberg_ops.serde.json.metadata_json import metadata_from_json, metadata_to_json
from iceberg_ops.serde.json.stored_form import check_can_be_stored
from iceberg_ops.spec.partition_names import name_clashes
from iceberg_ops.spec.table_metadata import TableMetadata
from tests.generated.drawing import Draw, for_each_seed, missing
from tests.generated.evolutions import evolved

KIND = "evolutions"
WANTED = {
    "accepted", "refused SchemaError", "name of a partition field", "type for a partition field", "null default", "ADD PARTITION",
    "RENAME COLUMN", "ADD PARTITION FIELD of a renamed column", "WRITE ORDERED BY of a renamed column",
}  # fmt: skip
NAMED = re.compile(r"(ADD PARTITION FIELD|WRITE ORDERED BY) (?:\w+\((?:\d+, )?)?([\w.]+)")


def check_names(draw: Draw, before: TableMetadata, steps: list[str], after: TableMetadata) -> None:
    """Partition and sort steps mean the columns that have the names before the call; of several orders the last one counts."""
    orders = [step for step in steps if step.startswith("WRITE ORDERED BY")]
    for step in (step for step in steps if step not in orders[:-1]):
        named = NAMED.match(step)
        column = None if named is None else before.schema.find(named[2], case_sensitive=False)
        if named is None or column is None or column.field_id not in after.schema.fields_by_id:
            continue
        ordered = named[1] == "WRITE ORDERED BY"
        found = [f.source_ids[0] for f in after.sort_order.fields] if ordered else [f.source_id for f in after.spec.fields]
        assert column.field_id in found, (step, steps)
        draw.note(*([f"{named[1]} of a renamed column"] if after.schema.names_by_id[column.field_id] != named[2] else []))


def check(draw: Draw) -> None:
    made = evolved(draw)
    for (_, before), (steps, after) in itertools.pairwise(made):
        check_names(draw, before, steps, after)
    for steps, metadata in made:
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
