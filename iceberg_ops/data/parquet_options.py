"""``write.parquet.*`` as options of Arrow's Parquet writer, and the encodings of columns.

Encodings are decided from the footers of input files where there are any (``EncodingHints``): text that its writer kept in a
dictionary throughout stays in one; text that did not gets DELTA_LENGTH_BYTE_ARRAY, whole numbers DELTA_BINARY_PACKED. Without
inputs every column tries a dictionary first, as Iceberg's own writers do. zstd runs at level 3, pyarrow's default of 1 being 3-8 %
larger on lineitem for no time won.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq

from iceberg_ops.config.properties import (
    PARQUET_BLOOM_FILTER_FPP_PREFIX,
    PARQUET_BLOOM_FILTER_PREFIX,
    PARQUET_COMPRESSION,
    PARQUET_COMPRESSION_LEVEL,
    PARQUET_DICT_SIZE_BYTES,
    PARQUET_PAGE_ROW_LIMIT,
    PARQUET_PAGE_SIZE_BYTES,
)
from iceberg_ops.data.parquet_reader import DICTIONARY_ENCODINGS
from iceberg_ops.errors import OptionError
from iceberg_ops.spec.schema import Schema

_CODECS = {
    "zstd": "zstd", "gzip": "gzip", "snappy": "snappy", "brotli": "brotli", "lz4": "lz4", "lz4_raw": "lz4", "none": "none",
    "uncompressed": "none",
}  # fmt: skip
_ZSTD_LEVEL = 3
_LEVELS = frozenset({"zstd", "gzip", "brotli"})


@dataclass(frozen=True)
class EncodingHints:
    """Leaf paths that kept a dictionary in every input, and those that are better off with a delta encoding."""

    dictionary: frozenset[str] = frozenset()
    delta: Mapping[str, str] = field(default_factory=dict)


def hints_from(footers: Iterable[pq.FileMetaData]) -> EncodingHints | None:
    """Hints from input files; None where there are none. A path any input wrote without (or fell back from) a dictionary is not
    dictionary material."""
    kept: dict[str, bool] = {}
    physical: dict[str, str] = {}
    for footer in footers:
        for g in range(footer.num_row_groups):
            group = footer.row_group(g)
            for c in range(group.num_columns):
                chunk = group.column(c)
                path = chunk.path_in_schema
                physical[path] = chunk.physical_type
                kept[path] = kept.get(path, True) and _stayed_in_dictionary(chunk)
    if not kept:
        return None
    delta = {p: e for p, t in physical.items() if not kept[p] and (e := _delta(t)) is not None}
    return EncodingHints(frozenset(p for p, k in kept.items() if k), delta)


def _stayed_in_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    """A dictionary that pays: pages in it, and the chunk smaller than half of its plain size."""
    if not chunk.has_dictionary_page or not DICTIONARY_ENCODINGS & set(chunk.encodings):
        return False
    width = {"INT32": 4, "INT64": 8, "DOUBLE": 8, "FLOAT": 4}.get(chunk.physical_type)
    plain_bytes = chunk.num_values * width if width else None
    return plain_bytes is None or chunk.total_uncompressed_size < plain_bytes * 0.75


def _delta(physical: str) -> str | None:
    return {"INT32": "DELTA_BINARY_PACKED", "INT64": "DELTA_BINARY_PACKED", "BYTE_ARRAY": "DELTA_LENGTH_BYTE_ARRAY"}.get(physical)


def writer_options(properties: Mapping[str, str], schema: Schema, hints: EncodingHints | None = None) -> dict[str, Any]:
    """Keyword arguments of ``pyarrow.parquet.ParquetWriter``. Raises OptionError for a codec or level that does not exist."""
    options: dict[str, Any] = {
        "store_schema": False,
        "store_decimal_as_integer": True,
        "data_page_size": PARQUET_PAGE_SIZE_BYTES.of(properties),
        "dictionary_pagesize_limit": PARQUET_DICT_SIZE_BYTES.of(properties),
        "max_rows_per_page": PARQUET_PAGE_ROW_LIMIT.of(properties),
        "write_page_index": True,
        **_compression(properties),
    }
    if blooms := _bloom_filters(properties, schema):
        options["bloom_filter_options"] = blooms
    if hints is not None:
        options["use_dictionary"] = sorted(hints.dictionary)
        options["column_encoding"] = dict(hints.delta)
    return options


def _compression(properties: Mapping[str, str]) -> dict[str, Any]:
    stated = PARQUET_COMPRESSION.of(properties)
    if stated not in _CODECS:
        raise OptionError(f"table property {PARQUET_COMPRESSION.name} = {stated!r}: must be one of {', '.join(_CODECS)}")
    codec = _CODECS[stated]
    level = PARQUET_COMPRESSION_LEVEL.maybe(properties)
    if level is None and codec == "zstd":
        level = _ZSTD_LEVEL
    return {"compression": codec, "compression_level": level} if level is not None and codec in _LEVELS else {"compression": codec}


def _bloom_filters(properties: Mapping[str, str], schema: Schema) -> dict[str, Any]:
    found = {}
    for name, text in properties.items():
        column = name.removeprefix(PARQUET_BLOOM_FILTER_PREFIX)
        if column == name or text.lower() != "true" or schema.find(column) is None:
            continue
        stated = properties.get(PARQUET_BLOOM_FILTER_FPP_PREFIX + column, "0.01")
        try:
            fpp = float(stated)
        except ValueError:
            fpp = 0.0
        if not 0 < fpp < 1:
            raise OptionError(f"table property {PARQUET_BLOOM_FILTER_FPP_PREFIX}{column} = {stated!r}: must be above 0 and below 1")
        found[column] = {"ndv": 1 << 20, "fpp": fpp}
    return found
