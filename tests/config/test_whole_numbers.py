"""Text becomes an int by one rule, wherever it comes from; text that is not a number gives a defined answer or a typed error, never
a ValueError."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from iceberg_ops.config.option_parsing import at_least, duration_ms, moment, numbers
from iceberg_ops.config.properties import COMMIT_NUM_RETRIES, PARQUET_COMPRESSION_LEVEL, TARGET_FILE_SIZE_BYTES
from iceberg_ops.config.whole_numbers import LONG_MAX, parse_count, whole_number
from iceberg_ops.data.columns.file_columns import ColumnIds
from iceberg_ops.errors import CorruptTableError, OptionError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.metrics_config import parse_mode
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from iceberg_ops.table.metadata_files import table_from_path
from tests.actions.lake import make_lake, numbered
from tests.actions.rows_place import RowsPlace
from tests.actions.summaries import with_summary

ODD = pytest.mark.parametrize("text", ["²", "٣", "9" * 5000, "1_000", "0x10", "", " ", "1.0", "--1", str(2**63)])


@ODD
def test_odd_text_is_no_whole_number(text: str) -> None:
    assert whole_number(text) is None
    assert parse_count(text) is None


def test_numbers_of_64_bits_are_whole_numbers() -> None:
    assert [whole_number(t) for t in ("0", "-1", "+5", "007", str(LONG_MAX))] == [0, -1, 5, 7, LONG_MAX]
    assert whole_number(str(-LONG_MAX - 1)) == -LONG_MAX - 1
    assert parse_count("-1") is None
    assert parse_count(None) is None


@ODD
def test_an_option_with_odd_text_is_refused_with_the_rule(text: str) -> None:
    for parse in (at_least(-(2**63)), numbers):
        with pytest.raises(ValueError, match=r"^must be"):
            parse(text)
    with pytest.raises(ValueError, match=r"^must be"):
        duration_ms(f"{text}d")
    with pytest.raises(ValueError, match=r"^must be"):
        moment(0)("9" * 5000)


@ODD
def test_a_property_with_odd_text_is_refused_by_name(text: str) -> None:
    for property in (COMMIT_NUM_RETRIES, TARGET_FILE_SIZE_BYTES, PARQUET_COMPRESSION_LEVEL):
        with pytest.raises(OptionError, match=f"table property {property.name} = .*: must be"):
            property.of({property.name: text})
    with pytest.raises(OptionError, match="truncate"):
        parse_mode(f"truncate({text})")


@ODD
def test_odd_totals_of_a_foreign_snapshot_are_counted_afresh(text: str) -> None:
    lake = make_lake()
    with with_summary(lake.catalog, {"total-records": text, "total-data-files": text}):
        lake.append(numbered(1, 3))
    report = lake.run("rewrite_data_files", rewrite_all="true")
    assert report.before is not None
    assert (report.before.records, report.before.data_files) == (3, 1)
    assert lake.run("remove_orphan_files").status == "nothing-to-do"
    lake.append(numbered(10, 3))
    lake.run("expire_snapshots", older_than="2100-01-01T00:00:00Z", retain_last=1)
    assert len(lake.rows()) == 6


@ODD
def test_an_odd_total_is_not_counted_on(text: str) -> None:
    lake = make_lake()
    with with_summary(lake.catalog, {"total-records": text}):
        lake.append(numbered(1, 3))
    head = lake.append(numbered(10, 3)).metadata.current_snapshot
    assert head is not None
    assert "total-records" not in head.summary
    assert head.summary["total-data-files"] == "2"


@pytest.mark.parametrize("key", [b"PARQUET:field_id", b"iceberg.id"])
@pytest.mark.parametrize("text", ["²", "9" * 5000, "", "x"])
def test_a_field_id_that_is_no_number_is_a_corrupt_file(key: bytes, text: str) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), metadata={key: text.encode()})])
    with pytest.raises(CorruptTableError, match="column 'a' has the field id"):
        ColumnIds().columns(schema)


@pytest.mark.parametrize("hint", ["²", "9" * 5000])
def test_an_odd_version_hint_names_no_version(tmp_path: Path, hint: str) -> None:
    place = RowsPlace.at(tmp_path)
    place.create(Schema.of(NestedField(1, "id", LONG)))
    location = place.table().location.removeprefix("file:")
    Path(location, "metadata", "version-hint.text").write_text(hint)
    found = table_from_path(location, LocalFileIO())
    assert found.metadata.table_uuid == place.table().metadata.table_uuid
