"""``write.parquet.*`` as options of Arrow's Parquet writer, and the encodings of columns.

Hints say which columns try a dictionary (see ``encoding_hints``). zstd uses level 3;
pyarrow's default of 1 gives files 3-8 % larger on lineitem and saves no time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from iceberg_ops.config.properties import (
    PARQUET_BLOOM_FILTER_FPP_PREFIX,
    PARQUET_BLOOM_FILTER_MAX_BYTES,
    PARQUET_BLOOM_FILTER_NDV_PREFIX,
    PARQUET_BLOOM_FILTER_PREFIX,
    PARQUET_COMPRESSION,
    PARQUET_COMPRESSION_LEVEL,
    PARQUET_DICT_PREFIX,
    PARQUET_DICT_SIZE_BYTES,
    PARQUET_PAGE_ROW_LIMIT,
    PARQUET_PAGE_SIZE_BYTES,
    PARQUET_PAGE_VERSION,
    PARQUET_STATS_PREFIX,
)
from iceberg_ops.data.formats.metrics import leaf_paths
from iceberg_ops.errors import OptionError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import BOOLEAN

_CODECS = {
    "zstd": "zstd", "gzip": "gzip", "snappy": "snappy", "brotli": "brotli", "lz4": "lz4", "lz4_raw": "lz4", "none": "none",
    "uncompressed": "none",
}  # fmt: skip
_ZSTD_LEVEL = 3
_MOST_DISTINCT = 1 << 20
"""The default number of distinct values of a Bloom filter: the rows of a row group."""
_LEVELS = frozenset({"zstd", "gzip", "brotli"})


@dataclass(frozen=True)
class EncodingHints:
    """Leaf paths to write with a dictionary, and leaf paths with another encoding; any other leaf is plain.

    ``undecided`` leaves have neither: the first rows to write decide between a dictionary and the encoding named here (None:
    plain).
    """

    dictionary: frozenset[str] = frozenset()
    encodings: Mapping[str, str] = field(default_factory=dict)
    undecided: Mapping[str, str | None] = field(default_factory=dict)


def writer_options(properties: Mapping[str, str], schema: Schema, hints: EncodingHints | None = None) -> dict[str, Any]:
    """Keyword arguments of ``pyarrow.parquet.ParquetWriter``. Raises OptionError for a codec or level that does not exist."""
    options: dict[str, Any] = {
        "store_schema": False,
        "store_decimal_as_integer": True,
        "data_page_size": PARQUET_PAGE_SIZE_BYTES.of(properties),
        "dictionary_pagesize_limit": PARQUET_DICT_SIZE_BYTES.of(properties),
        "max_rows_per_page": PARQUET_PAGE_ROW_LIMIT.of(properties),
        "write_page_index": True,
        "data_page_version": {"v1": "1.0", "v2": "2.0"}[PARQUET_PAGE_VERSION.of(properties)],
        **_compression(properties),
    }
    if unwanted := {path for path, _ in _leaves_named(properties, PARQUET_STATS_PREFIX, "false", schema)}:
        options["write_statistics"] = [path for path, _, _ in leaf_paths(schema) if path not in unwanted]
    if blooms := _bloom_filters(properties, schema):
        options["bloom_filter_options"] = blooms
    plain = {path for path, _ in _leaves_named(properties, PARQUET_DICT_PREFIX, "false", schema)}
    if hints is not None:
        options["use_dictionary"] = sorted(hints.dictionary - plain)
        options["column_encoding"] = dict(hints.encodings)
    elif plain:
        options["use_dictionary"] = [path for path, _, _ in leaf_paths(schema) if path not in plain]
    return options


def _compression(properties: Mapping[str, str]) -> dict[str, Any]:
    codec = _CODECS[PARQUET_COMPRESSION.of(properties)]
    level = PARQUET_COMPRESSION_LEVEL.maybe(properties)
    if level is None and codec == "zstd":
        level = _ZSTD_LEVEL
    return {"compression": codec, "compression_level": level} if level is not None and codec in _LEVELS else {"compression": codec}


def _bloom_filters(properties: Mapping[str, str], schema: Schema) -> dict[str, Any]:
    """Filters for ``bloom-filter-ndv`` values at the configured rate; without it, and at most, as many as
    ``bloom-filter-max-bytes`` can hold. Booleans have none, nor do columns that the table does not have."""
    most = PARQUET_BLOOM_FILTER_MAX_BYTES.of(properties)
    options = {}
    booleans = {path for path, _, type_ in leaf_paths(schema) if type_ == BOOLEAN}
    for path, name in _leaves_named(properties, PARQUET_BLOOM_FILTER_PREFIX, "true", schema):
        if path in booleans:
            continue
        stated = _number(properties, PARQUET_BLOOM_FILTER_FPP_PREFIX + name, 0.01, float, "above 0 and below 1", 0, 1)
        distinct_values = _number(
            properties, PARQUET_BLOOM_FILTER_NDV_PREFIX + name, _MOST_DISTINCT, int, "a whole number above 0", 0, 1 << 40
        )
        options[path] = {"ndv": max(1, min(int(distinct_values), _distinct_in(most, stated))), "fpp": stated}
    return options


def _distinct_in(size: int, fpp: float) -> int:
    """How many distinct values a split-block filter of at most ``size`` bytes (a power of two) holds at that rate."""
    bits = 8 << max(size.bit_length() - 1, 5)
    return int(bits * -math.log(1 - fpp ** (1 / 8)) / 8)


def _leaves_named(properties: Mapping[str, str], prefix: str, value: str, schema: Schema) -> Iterator[tuple[str, str]]:
    """(path in the file, column name) of the columns for which ``<prefix><column>`` is ``value``."""
    paths = {field_id: path for path, field_id, _ in leaf_paths(schema)}
    for name, text in properties.items():
        column = name.removeprefix(prefix)
        if (
            column == name
            or text.lower() != value
            or (named_field := schema.find(column)) is None
            or named_field.field_id not in paths
        ):
            continue
        yield paths[named_field.field_id], column


def _number(
    properties: Mapping[str, str], name: str, default: float, parse: Callable[[str], float], rule: str, low: float, high: float
) -> float:
    stated = properties.get(name)
    if stated is None:
        return default
    try:
        number = parse(stated)
    except ValueError:
        number = low
    if not low < number < high:
        raise OptionError(f"table property {name} = {stated!r}: must be {rule}")
    return number
