"""Table properties that users set."""

from __future__ import annotations

import pytest

from iceberg_ops.config.known_properties import PROPERTIES, check_values, unread
from iceberg_ops.config.properties import OF_COLUMNS
from iceberg_ops.errors import OptionError


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("write.target-file-size-bytes", "512MB", ": write 536870912 for 512MB"),
        ("history.expire.max-snapshot-age-ms", "7d", ": write 604800000 for 7d"),
        ("commit.retry.num-retries", "-1", "must be a whole number, 0 or more"),
        ("write.parquet.compression-codec", "zsdt", "must be one of zstd, gzip"),
        ("write.avro.compression-codec", "brotli", "must be one of gzip"),
        ("write.manifest.compression-codec", "x", "must be one of gzip"),
        ("write.metadata.metrics.default", "trunc(16)", "must be none, counts, truncate"),
        ("write.metadata.metrics.column.a", "truncate(0)", "must be none, counts, truncate"),
        ("write.parquet.bloom-filter-enabled.column.a", "yes", "must be true or false"),
        ("write.parquet.bloom-filter-fpp.column.a", "1", "must be above 0 and below 1"),
        ("write.delete.mode", "mor", "must be one of copy-on-write, merge-on-read"),
        ("gc.enabled", "0", "must be true or false"),
    ],
)
def test_a_value_that_nothing_reads_is_refused_by_name_value_and_rule(name: str, value: str, said: str) -> None:
    with pytest.raises(OptionError) as e:
        check_values({"owner": "x", name: value})
    assert str(e.value).startswith(f"table property {name} = {value!r}: ")
    assert said in str(e.value)


@pytest.mark.parametrize("name", [name for name, found in PROPERTIES.items() if found.default is not None])
def test_every_default_is_a_value(name: str) -> None:
    check_values({name: PROPERTIES[name].default or ""})


def test_a_key_that_nobody_reads_is_told_with_what_may_be_meant() -> None:
    assert list(unread(["write.target-file-size-byte"], [])) == [
        "table property write.target-file-size-byte is not known to Iceberg (did you mean write.target-file-size-bytes?): it is "
        "stored and has no effect"
    ]
    assert list(unread(["writ.target-file-size-bytes"], [])) != []
    assert list(unread(["write.nothing.like.it.at.all"], [])) == [
        "table property write.nothing.like.it.at.all is not known to Iceberg: it is stored and has no effect"
    ]
    assert list(unread(["write.metadata.metrics.column.pric"], ["id", "price"])) == [
        "table property write.metadata.metrics.column.pric: the table has no column 'pric' (did you mean price?)"
    ]


@pytest.mark.parametrize(
    "name",
    [
        "owner",
        "team.owner",
        "comment",
        "write.wap.enabled",
        "read.split.target-size",
        "flink.watermark",
        "x",
        "write.delete.parquet.page-size-bytes",
    ],
)
def test_keys_of_others_are_their_own_affair(name: str) -> None:
    assert list(unread([name, *PROPERTIES, *(f"{prefix}a" for prefix in OF_COLUMNS)], ["a"])) == []
