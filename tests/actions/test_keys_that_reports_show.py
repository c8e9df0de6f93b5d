"""A run without a key makes one up and shows it in its report; repeating the run with that key does no work twice."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from iceberg_ops.config.properties import LEDGER_PREFIX
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from tests.actions.rows_place import RowsPlace

ARROW = pa.schema({"k": pa.int64()})
EXPIRES_ALL = {"older-than": "2100-01-01T00:00:00Z", "retain-last": "1"}


@pytest.fixture
def place(tmp_path: Path) -> RowsPlace:
    made = RowsPlace.at(tmp_path)
    made.create(Schema.of(NestedField(1, "k", LONG)))
    return made


@pytest.mark.parametrize("given", [None, "run-123e4567-e89b-12d3-a456-426614174000"])
def test_a_run_that_comes_back_with_the_key_of_its_report_appends_nothing(place: RowsPlace, given: str | None) -> None:
    source = place.source([{"k": 1}], ARROW)
    key = place.run("append", source=source, run_key=given).run_key
    assert place.run("append", source=source, run_key=key).status == "already-committed"
    place.run("append", source=place.source([{"k": 9}], ARROW))
    place.run("expire_snapshots", options=EXPIRES_ALL)
    assert place.run("append", source=source, run_key=key).status == "already-committed"
    assert place.rows() == [{"k": 1}, {"k": 9}]


def test_nightly_maintenance_without_keys_leaves_nothing_in_the_ledger(place: RowsPlace) -> None:
    place.run("append", source=place.source([{"k": 1}], ARROW), run_key="rows")
    for _ in range(3):
        place.run("rewrite_data_files", options={"rewrite-all": "true"})
        place.run("compute_table_stats")
        place.run("expire_snapshots", options=EXPIRES_ALL)
    assert [name for name in place.table().properties if name.startswith(LEDGER_PREFIX)] == [f"{LEDGER_PREFIX}append@main:rows"]
