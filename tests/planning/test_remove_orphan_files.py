"""Which files are orphans, and the guards that keep everything else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from iceberg_ops.config.options import remove_orphan_files_options
from iceberg_ops.errors import OptionError, UnsupportedError
from iceberg_ops.io.file_io import FileInfo
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.planning.remove_orphan_files import (
    OrphanFiles,
    Ownership,
    find_orphans,
    foreign_metadata,
    search_location,
)
from tests.builders import make_catalog, make_table

NOW = 1_800_000_000_000
OLD = NOW - 4 * 86_400_000
IO = MemoryFileIO("orphan-tests")


def found(
    listed: Mapping[str, int | None], reachable: set[str], options: dict[str, str] | None = None, names: set[str] | None = None
) -> OrphanFiles:
    infos = [FileInfo(location, 1, modified) for location, modified in listed.items()]
    parsed = remove_orphan_files_options(options or {}, now_ms=NOW)
    owned = Ownership(table_uuid="u", reachable=reachable, partition_names=names or set())
    return find_orphans(infos, owned, parsed, "/wh/t", IO)


def orphans(listed: Mapping[str, int | None], reachable: set[str], **more: dict[str, str] | set[str]) -> list[str]:
    return [info.location for info in found(listed, reachable, **more).orphans]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("location", "modified", "expected"),
    [
        ("/wh/t/data/x.parquet", OLD, True),
        ("/wh/t/data/x.parquet", NOW, False),
        ("/wh/t/data/x.parquet", None, False),
        ("/wh/t/data/_x/x.parquet", OLD, False),
        ("/wh/t/data/_day=1/x.parquet", OLD, True),
        ("/wh/t/data/.x.parquet", OLD, False),
        ("/wh/t/data/.x.parquet.crc", OLD, True),
        ("/wh/t/data/.live.parquet.crc", OLD, False),
        ("/wh/t/data/.iceberg-ops-00.tmp", OLD, True),
        ("/wh/t/metadata/version-hint.text", OLD, False),
        ("/wh/t/metadata/.version-hint.text.crc", OLD, False),
        ("/wh/t/data/live.parquet", OLD, False),
        ("file:/wh/t/data/live.parquet", OLD, False),
        ("file:///wh/t/data/live.parquet", OLD, False),
    ],
)
def test_only_old_unowned_visible_files_are_orphans(location: str, modified: int | None, expected: bool) -> None:
    assert orphans({location: modified}, {"/wh/t/data/live.parquet"}, names={"_day"}) == ([location] if expected else [])


def test_a_kept_file_says_why() -> None:
    kept = found({"/wh/t/data/new": NOW, "/wh/t/data/_tmp/x": OLD}, set()).kept
    assert [skipped.reason for skipped in kept] == [
        "it was changed after older-than",
        "hidden: a name on its path begins with _ or .",
    ]


def test_a_path_recorded_under_another_authority_is_the_callers_decision() -> None:
    listed, reachable = {"s3://new/wh/t/x": OLD}, {"s3://old/wh/t/x"}
    with pytest.raises(OptionError, match="recorded under s3://old"):
        found(listed, reachable)
    assert orphans(listed, reachable, options={"prefix-mismatch-mode": "ignore"}) == []
    assert orphans(listed, reachable, options={"prefix-mismatch-mode": "delete"}) == ["s3://new/wh/t/x"]
    assert orphans(listed, reachable, options={"equal-authorities": "new=old"}) == []
    assert orphans({"s3a://b/wh/t/x": OLD}, {"s3://b/wh/t/x"}) == []


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        (None, True), ("/wh/t", True), ("/wh/t/", True), ("/wh/t/data", True), ("file:/wh/t/data", True), ("/elsewhere/x", True),
        ("/wh", False), ("/wh/t_backup", False), ("/wh/t/../u", False), ("s3://b/wh/t", False),
    ],
)  # fmt: skip
def test_the_location_must_be_the_tables_own(asked: str | None, allowed: bool) -> None:
    properties = {"write.data.path": "/elsewhere"}
    if allowed:
        assert search_location("/wh/t", properties, asked)
    else:
        with pytest.raises(OptionError, match="must be at or below the table's own"):
            search_location("/wh/t", properties, asked)


def test_metadata_of_another_table_stops_everything() -> None:
    catalog = make_catalog()
    mine, other = make_table(catalog), make_table(catalog, identifier=("ns", "u"))
    listing = [FileInfo(other.metadata_location, 1, OLD)]
    owned = Ownership(table_uuid=mine.metadata.table_uuid, reachable={mine.metadata_location})
    with pytest.raises(UnsupportedError, match=other.metadata.table_uuid):
        foreign_metadata(listing, owned, mine.io)
    again = Ownership(table_uuid=other.metadata.table_uuid, reachable=set())
    assert foreign_metadata(listing, again, mine.io) == ()


def test_metadata_that_does_not_parse_is_kept() -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    broken = f"{table.location}/metadata/00007-x.metadata.json"
    table.io.write(broken, b"{")
    owned = Ownership(table_uuid=table.metadata.table_uuid, reachable=set())
    (kept,) = foreign_metadata([FileInfo(broken, 1, OLD)], owned, table.io)
    assert kept.file_path == broken
