"""Options: defaults, values, and refusals that name option, value and rule."""

from __future__ import annotations

import pytest

from iceberg_ops.config.actions import ACTIONS, MAINTENANCE_ACTIONS, check_options
from iceberg_ops.config.option_parsing import size
from iceberg_ops.config.options import (
    DAY_MS,
    expire_snapshots_options,
    remove_orphan_files_options,
    rewrite_data_files_options,
    rewrite_manifests_options,
)
from iceberg_ops.errors import OptionError, UnsupportedError

BAD_MINIMUM = {"min-file-size-bytes": "70", "target-file-size-bytes": "64"}
BAD_MAXIMUM = {"max-file-size-bytes": "64", "target-file-size-bytes": "64"}
NOW = 1_800_000_000_000


@pytest.mark.parametrize("action", MAINTENANCE_ACTIONS)
def test_no_option_is_needed(action: str) -> None:
    check_options(action, {}, now_ms=NOW)


def test_sizes_default_to_shares_of_the_tables_target() -> None:
    sizes = rewrite_data_files_options({}, {"write.target-file-size-bytes": "1000"}).sizes
    assert (sizes.target_file_size_bytes, sizes.min_file_size_bytes, sizes.max_file_size_bytes) == (1000, 750, 1800)
    assert (sizes.min_input_files, sizes.rewrite_all) == (5, False)


def test_a_sort_order_implies_strategy_sort() -> None:
    assert rewrite_data_files_options({"sort-order": "id"}, {}).strategy == "sort"
    assert rewrite_data_files_options({}, {}).strategy == "binpack"


@pytest.mark.parametrize(
    ("action", "options", "words"),
    [
        ("rewrite_data_files", {"min-input-file": "3"}, ("unknown option min-input-file", "min-input-files", "rewrite-all")),
        ("rewrite_data_files", {"target-file-size-bytes": "64mb/s"}, ("target-file-size-bytes = '64mb/s'", "whole number")),
        ("rewrite_data_files", BAD_MINIMUM, ("min-file-size-bytes 70 must be < target-file-size-bytes 64",)),
        ("rewrite_data_files", BAD_MAXIMUM, ("max-file-size-bytes 64 must be > target-file-size-bytes 64",)),
        ("rewrite_data_files", {"delete-ratio-threshold": "1.5"}, ("delete-ratio-threshold", "'1.5'", "at most 1")),
        ("rewrite_data_files", {"delete-ratio-threshold": "nan"}, ("delete-ratio-threshold", "at most 1")),
        ("rewrite_data_files", {"rewrite-all": "yes"}, ("rewrite-all", "'yes'", "true or false")),
        ("rewrite_data_files", {"strategy": "zorder"}, ("strategy", "binpack, sort")),
        ("rewrite_data_files", {"strategy": "binpack", "sort-order": "id"}, ("sort-order", "strategy sort")),
        ("rewrite_data_files", {"rewrite-job-order": "size"}, ("rewrite-job-order", "bytes-asc")),
        ("rewrite_data_files", {"compression-factor": "-1"}, ("compression-factor", "above 0")),
        ("expire_snapshots", {"older-than": "last week"}, ("older-than", "'last week'", "ISO 8601")),
        ("expire_snapshots", {"snapshot-ids": "1,x"}, ("snapshot-ids", "whole numbers")),
        ("expire_snapshots", {"retain-last": "0"}, ("retain-last", "1 or more")),
        ("remove_orphan_files", {"equal-schemes": "s3"}, ("equal-schemes", "from=to")),
        ("remove_orphan_files", {"prefix-mismatch-mode": "maybe"}, ("prefix-mismatch-mode", "error, ignore, delete")),
        ("rewrite_manifests", {"spec-id": "-1"}, ("spec-id", "0 or more")),
        ("vacuum", {}, ("unknown action 'vacuum'", "expire_snapshots")),
    ],
)  # fmt: skip
def test_a_bad_option_is_refused_with_its_name_value_and_rule(action: str, options: dict[str, str], words: tuple[str, ...]) -> None:
    with pytest.raises(OptionError) as e:
        check_options(action, options, now_ms=NOW)
    for word in words:
        assert word in str(e.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5d", NOW - 5 * DAY_MS),
        ("36h", NOW - 36 * 3_600_000),
        ("1700000000000", 1_700_000_000_000),
        ("2024-01-01", 1_704_067_200_000),
        ("2024-01-01T01:00:00+01:00", 1_704_067_200_000),
    ],
)
def test_older_than_is_a_time_or_an_age(text: str, expected: int) -> None:
    assert expire_snapshots_options({"older-than": text}, {}, now_ms=NOW).older_than_ms == expected


def test_expiry_defaults_to_the_tables_age() -> None:
    assert expire_snapshots_options({}, {}, now_ms=NOW).older_than_ms == NOW - 5 * DAY_MS
    properties = {"history.expire.max-snapshot-age-ms": "1000"}
    assert expire_snapshots_options({}, properties, now_ms=NOW).older_than_ms == NOW - 1000


def test_orphans_younger_than_a_day_need_an_explicit_yes() -> None:
    assert remove_orphan_files_options({}, now_ms=NOW).older_than_ms == NOW - 3 * DAY_MS
    with pytest.raises(OptionError, match="within the last 24 hours"):
        remove_orphan_files_options({"older-than": "23h"}, now_ms=NOW)
    allowed = remove_orphan_files_options({"older-than": "1h", "unsafe-allow-recent": "true"}, now_ms=NOW)
    assert allowed.older_than_ms == NOW - 3_600_000


def test_names_are_split_at_commas() -> None:
    assert rewrite_manifests_options({"sort-by": "day, region"}, {}).sort_by == ("day", "region")


@pytest.mark.parametrize("action", ["rewrite_data_files", "rewrite_position_delete_files"])
@pytest.mark.parametrize(
    ("options", "target"),
    [
        ({"min-file-size-bytes": "900MB"}, 2**30),
        ({"max-file-size-bytes": "30MB"}, 2**24),
        ({"min-file-size-bytes": "900MB", "max-file-size-bytes": "2GB"}, 2**30),
        ({"min-file-size-bytes": "0", "max-file-size-bytes": "3"}, 2),
    ],
    ids=str,
)
def test_a_limit_of_sizes_is_right_where_some_tables_target_fits_it(action: str, options: dict[str, str], target: int) -> None:
    """The target is the table's where no option says it: a policy and a DAG file do not know it."""
    check_options(action, options, now_ms=NOW)
    properties = {"write.target-file-size-bytes": str(target), "write.delete.target-file-size-bytes": str(target)}
    ACTIONS[action].parse(options, properties, NOW)


@pytest.mark.parametrize(
    "options",
    [
        {"min-file-size-bytes": "2GB", "max-file-size-bytes": "1GB"},
        {"min-file-size-bytes": "900MB", "target-file-size-bytes": "512MB"},
        {"min-file-size-bytes": "900MB", "max-file-size-bytes": "much"},
        {"min-file-size-bytes": "much"},
        {"min-file-size-bytes": "900MB", "rewrite-all": "yes"},
    ],
    ids=str,
)
def test_limits_of_sizes_that_fit_no_table_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        check_options("rewrite_data_files", options, now_ms=NOW)


@pytest.mark.parametrize(
    ("action", "name", "default", "other"),
    [
        ("rewrite_data_files", "shuffle-partitions-per-file", "1", "2"),
        ("rewrite_data_files", "var-length-contribution", "8", "16"),
        ("rewrite_data_files", "max-output-size", "2147483647", "16"),
        ("rewrite_manifests", "use-caching", "false", "true"),
    ],
)
def test_what_could_take_no_effect_is_refused_by_name(action: str, name: str, default: str, other: str) -> None:
    check_options(action, {name: default}, now_ms=NOW)
    with pytest.raises(UnsupportedError, match=f"option {name} = (?i:{other}) of {action}, because"):
        check_options(action, {name: other}, now_ms=NOW)


def test_no_option_is_accepted_without_effect() -> None:
    assert not [o.name for action in ACTIONS.values() for o in action.options if "accepted" in o.meaning or "effect" in o.meaning]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("512", 512),
        ("512B", 512),
        ("1k", 2**10),
        ("512MB", 2**29),
        ("512 MiB", 2**29),
        ("100g", 100 * 2**30),
        ("2TB", 2**41),
    ],
)
def test_a_size_is_bytes_or_has_a_unit(text: str, value: int) -> None:
    assert size(1)(text) == value
    assert rewrite_data_files_options({"target-file-size-bytes": text}, {}).sizes.target_file_size_bytes == value


@pytest.mark.parametrize(
    "text", ["0", "0MB", "-1MB", "1.5GB", "MB", "1 M B", "1PB", "9007199254740992K", "1Mb/s", "\N{SUPERSCRIPT TWO}MB"]
)
def test_what_is_no_size_is_refused_by_its_option(text: str) -> None:
    with pytest.raises(OptionError, match="target-file-size-bytes"):
        rewrite_data_files_options({"target-file-size-bytes": text}, {})
