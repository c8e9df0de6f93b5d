"""A table's file that the system cannot read (its name is a folder or a loop of links) is a finding of the check, which continues,
and a corrupt table for every other reader of the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from iceberg_ops.data.reading.deep_check import file_findings
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from iceberg_ops.table.integrity import IntegrityCheck
from iceberg_ops.table.manifests import CACHE
from iceberg_ops.table.metadata_files import read_metadata
from iceberg_ops.table.table import Table
from tests.actions.rows_place import RowsPlace
from tests.unreadable_places import HOW

SCHEMA = Schema.of(NestedField(1, "id", LONG))


@pytest.fixture
def place(tmp_path: Path) -> RowsPlace:
    """A table of three commits, whose first data file is missing."""
    place = RowsPlace.at(tmp_path)
    place.create(SCHEMA)
    for i in range(3):
        place.run("append", source=place.source([{"id": i}], pa.schema({"id": pa.int64()})))
    Path(plan(place.table(), Scan()).tasks[-1].file_path).unlink()
    CACHE.clear()
    return place


def files(table: Table, pattern: str) -> list[Path]:
    return sorted(Path(table.location.removeprefix("file:")).glob(pattern), key=lambda p: p.stat().st_mtime_ns)


@HOW
@pytest.mark.parametrize(
    ("pattern", "rule"),
    [
        ("metadata/*-m0.avro", "manifest-reads"),
        ("metadata/snap-*.avro", "manifest-list-reads"),
        ("data/*.parquet", "data-file-exists"),
        ("metadata/v2.metadata.json", "previous-metadata-file-exists"),
    ],
)
def test_the_check_names_it_and_goes_on(place: RowsPlace, pattern: str, rule: str, how: Callable[[Path], None]) -> None:
    table = place.table()
    bad = files(table, pattern)[-1]
    how(bad)
    check = IntegrityCheck(table)
    found = list(check.findings())
    assert {f.location.removeprefix("file:") for f in found if f.rule == rule} >= {str(bad)}
    assert any(f.rule == "data-file-exists" and f.detail == "does not exist" for f in found), "the file that is missing besides"
    assert check.checked.snapshots == 3
    assert file_findings(table.io, check.live_files.values()) == []


@HOW
@pytest.mark.parametrize("pattern", ["metadata/*-m0.avro", "metadata/snap-*.avro"])
def test_what_needs_it_says_that_the_table_is_corrupt(place: RowsPlace, pattern: str, how: Callable[[Path], None]) -> None:
    table = place.table()
    bad = files(table, pattern)[-1]
    how(bad)
    with pytest.raises(CorruptTableError, match=rf"manifest.* {bad} (cannot be read: Is a directory|does not exist)"):
        plan(table, Scan())
    with pytest.raises(CorruptTableError, match=str(bad)):
        place.run("rewrite_data_files", options={"rewrite-all": "true"})


@HOW
def test_metadata_that_can_not_be_read_is_a_corrupt_table(place: RowsPlace, how: Callable[[Path], None]) -> None:
    table = place.table()
    location = table.metadata_location
    how(Path(location.removeprefix("file:")))
    with pytest.raises(CorruptTableError, match=r"metadata file .* (cannot be read|does not exist)"):
        read_metadata(table.io, location)


def test_a_length_that_can_not_be_told_is_a_finding(place: RowsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    table = place.table()

    def length(self: object, location: str) -> int:
        raise PermissionError(13, "Permission denied", location)

    monkeypatch.setattr(type(table.io), "length", length)
    found = [f for f in IntegrityCheck(table).findings() if f.rule in ("manifest-length", "file-length")]
    assert len(found) == 5
    assert {f.detail for f in found} == {"its length is not known: cannot be read: Permission denied"}
