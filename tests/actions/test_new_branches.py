"""A statement on a branch that does not exist yet starts from main's head, as its commit does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.deletion.leases import Lease, active_leases
from iceberg_ops.errors import UnsupportedError, ValidationError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import truncate
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.actions.rows_place import RowsPlace
from tests.actions.test_wrapped_truncate import KEYED, LEAST, OF_K, place_by, promote

ROWS = pa.schema({"k": pa.int64(), "v": pa.string()})


@pytest.fixture
def place(tmp_path: Path) -> RowsPlace:
    found = RowsPlace.at(tmp_path)
    found.create(Schema.of(NestedField(1, "k", LONG), NestedField(2, "v", STRING)), format__version="2")
    for i in range(2):
        found.run("append", source=found.source([{"k": i, "v": "old"}], ROWS))
    return found


def overwrite(place: RowsPlace, *others: Any, **parts: Any) -> Any:
    return place.run("overwrite", *others, source=place.source([{"k": 1, "v": "new"}], ROWS), branch="new", **parts)


@pytest.mark.parametrize("history", ["appends", "an overwrite", "an expiry"])
@pytest.mark.parametrize("where", [None, "k < 10"])
@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_what_main_had_before_is_no_conflict(place: RowsPlace, isolation: str, where: str | None, history: str) -> None:
    if history == "an overwrite":
        place.run("overwrite", source=place.source([{"k": 7, "v": "old"}], ROWS))
    if history == "an expiry":
        place.run("expire_snapshots", options={"older-than": "2100-01-01T00:00:00Z", "retain-last": "1"})
    before = place.rows()
    report = overwrite(place, where=where, options={"isolation-level": isolation})
    assert (report.status, report.metrics["evaluations-count"]) == ("committed", 1)
    assert place.rows() == before
    assert place.table().metadata.branch_head("new") != place.table().metadata.current_snapshot


def test_what_main_gets_meanwhile_is_a_conflict(place: RowsPlace) -> None:
    def append() -> None:
        place.run("append", source=place.source([{"k": 3, "v": "other"}], ROWS))

    with pytest.raises(ValidationError):
        overwrite(place, *[append] * 20, where="k < 10", options={"isolation-level": "serializable"})


def test_a_dry_run_counts_the_files_of_main(place: RowsPlace) -> None:
    for branch in ("main", "new"):
        source = place.source([{"k": 1, "v": "new"}], ROWS)
        report = place.run("overwrite", source=source, where="k < 1", branch=branch, dry_run=True)
        assert report.metrics["planned-data-files-count"] == 1


@pytest.mark.parametrize("branch", ["main", "new"])
@pytest.mark.parametrize("dry_run", [True, False])
def test_an_upsert_is_planned_on_the_rows_of_main(tmp_path: Path, branch: str, dry_run: bool) -> None:
    place = place_by(tmp_path, truncate(10))
    promote(place)
    source = place.source([{"k": LEAST, "v": "new"}], KEYED)
    with pytest.raises(UnsupportedError, match="can put older rows of a key into a partition that its delete does not reach"):
        place.run("upsert", source=source, options=OF_K, dry_run=dry_run, branch=branch)


@pytest.mark.parametrize("job", ["append", "overwrite", "upsert"])
def test_the_lease_holds_the_head_of_main(place: RowsPlace, job: str) -> None:
    held: list[Lease] = []
    main = place.table().metadata.current_snapshot_id

    def look() -> None:
        held.extend(active_leases(place.table(), round(time.time() * 1000)))

    options = {"upsert-keys": "k"} if job == "upsert" else {}
    place.run(job, look, source=place.source([{"k": 1, "v": "new"}], ROWS), branch="new", options=options)
    assert [lease.snapshot_id for lease in held] == [main]
