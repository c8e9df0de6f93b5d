"""Theta sketches of columns, computed from the reader's batches; a share of a table's files is one task for any worker."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_ops.data.arrow.arrow_values import values_of
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task
from iceberg_ops.errors import SchemaError
from iceberg_ops.io.load import load_file_io
from iceberg_ops.scan.tasks import FileScanTask, task_from_json, task_to_json
from iceberg_ops.serde.puffins.theta_sketch import ThetaSketch
from iceberg_ops.spec.schema import Schema, not_of_table
from iceberg_ops.spec.types import DATE, DOUBLE, FLOAT, INT, LONG, TIME, TIMESTAMP, TIMESTAMPTZ, NestedField, PrimitiveType
from iceberg_ops.spec.values import to_bytes

_WORDS = {INT: np.int32, DATE: np.int32, FLOAT: np.int32, LONG: np.int64, DOUBLE: np.int64, TIME: np.int64}
_WORDS |= {TIMESTAMP: np.int64, TIMESTAMPTZ: np.int64}
_WITHOUT = frozenset({"variant", "geometry", "geography", "unknown"})


def sketched_columns(schema: Schema, names: Sequence[str]) -> list[NestedField]:
    """Top-level columns that can be sketched: ``names``, or all that are not nested. Raises SchemaError."""
    if not names:
        return [f for f in schema.fields if _can_be_sketched(f)]
    columns = []
    for name in names:
        f = schema.find(name, case_sensitive=False)
        if f is None:
            raise SchemaError(f"columns: {not_of_table(name, schema.fields)}")
        if schema.parents[f.field_id] is not None or not _can_be_sketched(f):
            raise SchemaError(f"columns: {name!r} of type {f.type} has no sketch: it must be a top-level, single value")
        columns.append(f)
    return columns


def _can_be_sketched(f: NestedField) -> bool:
    return isinstance(f.type, PrimitiveType) and f.type.name not in _WITHOUT


def add_values(sketch: ThetaSketch, f: NestedField, column: pa.Array) -> None:
    """Add a batch's values of a column; nulls do not count."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    column = pc.unique(column.drop_null())
    if not len(column):
        return
    assert isinstance(f.type, PrimitiveType)
    word = _WORDS.get(f.type)
    if word is None:
        sketch.update_bytes(to_bytes(f.type, value) for value in values_of(f.type, column))
    elif pa.types.is_floating(column.type):
        sketch.update_words(column.to_numpy(zero_copy_only=False).view(word))
    else:
        width = pa.int32() if word is np.int32 else pa.int64()
        sketch.update_words(column.view(width).to_numpy(zero_copy_only=False).astype(word, copy=False))


def share_text(tasks: Sequence[FileScanTask], context: ReadContext, io_properties: Mapping[str, str]) -> str:
    """The text of a ``sketch_share``: these files, with the columns to sketch in ``context``."""
    request = {"read": context.to_json(), "io": dict(io_properties), "tasks": [task_to_json(task).decode() for task in tasks]}
    return json.dumps(request)


def sketch_share(text: str) -> str:
    """Sketch the columns of a share's live rows. Raises CorruptTableError. The answer is read by ``merge_share``."""
    request = json.loads(text)
    context, io = ReadContext.from_json(request["read"]), load_file_io(request["io"])
    columns = context.projected.fields
    sketches = [ThetaSketch() for _ in columns]
    tasks = [task_from_json(task.encode()) for task in request["tasks"]]
    rows = 0
    for task in tasks:
        for batch in read_task(task, context, io):
            rows += batch.num_rows
            for sketch, f, column in zip(sketches, columns, batch.columns, strict=True):
                add_values(sketch, f, column)
    answer: dict[str, Any] = {
        "rows": rows,
        "files": len(tasks),
        "bytes": sum(task.data_file.file_size_in_bytes for task in tasks),
        "sketches": [base64.b64encode(sketch.to_bytes()).decode() for sketch in sketches],
    }
    return json.dumps(answer)


def merge_share(sketches: Sequence[ThetaSketch], answer: str) -> tuple[int, int, int]:
    """Merge a share's answer into ``sketches``; returns its number of rows, files and bytes."""
    document = json.loads(answer)
    for sketch, text in zip(sketches, document["sketches"], strict=True):
        sketch.merge(ThetaSketch.from_bytes(base64.b64decode(text)))
    return document["rows"], document["files"], document["bytes"]
