"""Which files are orphans, and the guards that keep everything else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.config.options import remove_orphan_files_options
from iceberg_ops.errors import OptionError, UnsupportedError
from iceberg_ops.io.file_io import FileInfo
from iceberg_ops.io.locations import location_identity
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.planning.file_groups import Skipped
from iceberg_ops.planning.orphan_records import file_name, listed_line, recorded_line
from iceberg_ops.planning.remove_orphan_files import (
    MissingFile,
    OldMetadata,
    Orphan,
    Ownership,
    RecordedElsewhere,
    find_orphans,
    orphans_by_name,
    owned_elsewhere,
    search_location,
)
from iceberg_ops.table.table import Table
from tests.builders import make_catalog, make_table

NOW = 1_800_000_000_000
OLD = NOW - 4 * 86_400_000
IO = MemoryFileIO("orphan-tests")
TABLE = make_table(make_catalog())


def found(
    listed: Mapping[str, int | None], reachable: set[str], options: dict[str, str] | None = None, names: set[str] | None = None
) -> list[Orphan | Skipped | MissingFile | RecordedElsewhere]:
    lines = [listed_line(FileInfo(location, 1, modified), location_identity) for location, modified in listed.items()]
    lines += [recorded_line(location, location_identity) for location in reachable]
    parsed = remove_orphan_files_options(options or {}, now_ms=NOW)
    owned = Ownership(table=TABLE, partition_names=names or set())
    return list(find_orphans(sorted(lines), owned, parsed, "/wh/t", IO))


def orphans(listed: Mapping[str, int | None], reachable: set[str], **more: dict[str, str] | set[str]) -> list[str]:
    return [o.info.location for o in found(listed, reachable, **more) if isinstance(o, Orphan)]  # type: ignore[arg-type]


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
    assert found({"/wh/t/data/new": NOW, "/wh/t/data/_tmp/x": OLD}, set()) == [
        Skipped("/wh/t/data/_tmp/x", "hidden: a name on its path begins with _ or ."),
        Skipped("/wh/t/data/new", "it was changed after older-than"),
    ]


def test_a_path_recorded_under_another_authority_is_the_callers_decision() -> None:
    listed, reachable = {"s3://new/wh/t/x": OLD}, {"s3://old/wh/t/x"}
    with pytest.raises(OptionError, match="recorded under s3://old"):
        found(listed, reachable)
    assert orphans(listed, reachable, options={"prefix-mismatch-mode": "ignore"}) == []
    assert orphans(listed, reachable, options={"prefix-mismatch-mode": "delete"}) == ["s3://new/wh/t/x"]
    assert orphans(listed, reachable, options={"equal-authorities": "new=old"}) == []
    assert orphans({"s3a://b/wh/t/x": OLD}, {"s3://b/wh/t/x"}) == []


def test_a_file_is_elsewhere_only_if_nothing_of_its_path_is_listed() -> None:
    """What happens to another authority's file is decided: its name does not keep the listed one a second time."""
    delete = {"prefix-mismatch-mode": "delete"}
    assert [type(one) for one in found({"s3://new/wh/t/x": OLD}, {"s3://old/wh/t/x"}, delete)] == [Orphan]
    assert found({}, {"s3://old/wh/t/x"}) == [RecordedElsewhere("s3://old/wh/t/x")]
    assert found({}, {"/wh/t/x"}) == [MissingFile("/wh/t/x")]


@pytest.mark.parametrize("are_recorded", [False, True])
def test_files_of_one_name_are_not_gathered(are_recorded: bool) -> None:
    """A table that was imported from Hive has a ``000000_0`` in each partition."""
    read: list[str] = []

    def lines() -> Iterator[str]:
        for n in range(100):
            if are_recorded:
                yield recorded_line(f"/hive/t/day={n:03d}/000000_0", file_name)
        for n in range(100):
            read.append(f"/wh/t/day={n:03d}/000000_0")
            yield listed_line(FileInfo(read[-1], 1, OLD), file_name)

    for one in orphans_by_name(lines()):
        assert isinstance(one, Skipped if are_recorded else Orphan)
        assert (one.info.location if isinstance(one, Orphan) else one.file_path) == read[-1]
    assert len(read) == 100


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
        assert search_location("/wh/t", properties, asked, location_identity)
    else:
        with pytest.raises(OptionError, match="must be at or below the table's own"):
            search_location("/wh/t", properties, asked, location_identity)


def owned_by(table: Table) -> Ownership:
    return Ownership(table=table)


def test_metadata_of_another_table_stops_everything() -> None:
    catalog = make_catalog()
    mine, other = make_table(catalog), make_table(catalog, identifier=("ns", "u"))
    theirs = FileInfo(other.metadata_location, 1, OLD)
    with pytest.raises(UnsupportedError, match=other.metadata.table_uuid):
        OldMetadata(owned_by(mine), mine.io).classify(theirs)
    assert OldMetadata(owned_by(other), mine.io).classify(theirs) is None


def test_metadata_that_does_not_parse_is_kept() -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    broken = f"{table.location}/metadata/00007-x.metadata.json"
    table.io.write(broken, b"{")
    kept = OldMetadata(owned_by(table), table.io).classify(FileInfo(broken, 1, OLD))
    assert isinstance(kept, Skipped)
    assert kept.file_path == broken


def test_a_file_another_table_refers_to_is_its_own() -> None:
    infos = [FileInfo(f"/wh/t/{name}", 1, OLD) for name in ("mine", "theirs")]
    lines = [listed_line(info, location_identity) for info in infos]
    lines += [recorded_line("file:/wh/t/theirs", location_identity, "ns.u"), recorded_line("/wh/t/gone", location_identity, "ns.u")]
    assert list(owned_elsewhere(sorted(lines), IO)) == [
        Orphan(infos[0]),
        Skipped("/wh/t/theirs", "it is stored with the files of table ns.u"),
    ]


@given(st.lists(st.sampled_from(["a", "a b", 'a"', "a\\", "\u00e9", "a,", "~", "a/b", "\x1f"]), max_size=8), st.data())
def test_what_is_listed_meets_what_is_recorded_whatever_the_names(names: list[str], data: st.DataObject) -> None:
    recorded = {name for name in names if data.draw(st.booleans())}
    listed = {f"/wh/t/{name}": OLD for name in names}
    assert orphans(listed, {f"file:/wh/t/{name}" for name in recorded}) == [
        location for location in sorted(listed, key=lambda at: json.dumps([at])) if location[6:] not in recorded
    ]
