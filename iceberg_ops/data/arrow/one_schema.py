"""Converts batches with plain text in some and dictionaries in others to one schema.

A column becomes a dictionary if it is one in any batch: encoding plain text takes no more memory than before, while decoding a
dictionary can take any amount.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def one_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The common schema of batches with any of ``schemas``."""
    first = schemas[0]
    if all(schema.equals(first) for schema in schemas):
        return first
    fields = []
    for i, f in enumerate(first):
        encoded = next((t for s in schemas if isinstance(t := s.field(i).type, pa.DictionaryType)), None)
        fields.append(f if encoded is None else f.with_type(encoded))
    return pa.schema(fields)


def with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch under a schema of ``one_schema``."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        c.dictionary_encode() if isinstance(f.type, pa.DictionaryType) and not isinstance(c, pa.DictionaryArray) else c
        for c, f in zip(batch.columns, schema, strict=True)
    ]
    columns = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def one_table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """The batches as one table, with one chunk per batch."""
    schema = one_schema([batch.schema for batch in batches])
    return pa.Table.from_batches([with_schema(batch, schema) for batch in batches], schema)
