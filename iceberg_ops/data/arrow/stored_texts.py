"""Checks that the text in a table's files is UTF-8, as the spec requires.

Other engines can store any bytes as text (for example Spark's ``CAST(binary AS STRING)``), and read them back. Files written here
never contain such text, so rows are checked before they are rewritten, while their source file is known.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from iceberg_ops.data.arrow.nested_nulls import map_entries
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.spec.types import STRING, MapType, NestedField, StructType, child_fields


def with_checked_texts(batch: pa.RecordBatch, fields: Sequence[NestedField], location: str) -> pa.RecordBatch:
    """The rows of a table's file; ``fields`` are its first columns. If a dictionary contains such a text, but no remaining row uses
    it (deletes removed them), it becomes a plain column. Raises CorruptTableError that names file and column."""
    for place, f in enumerate(fields):
        column = batch.column(place)
        if isinstance(column, pa.DictionaryArray) and column_without_utf8(f, column):
            column = column.dictionary_decode()
            batch = batch.set_column(place, batch.schema.field(place).with_type(column.type), column)
        if name := column_without_utf8(f, column):
            raise CorruptTableError(
                f"file {location}: column {name} holds text that is not UTF-8. Give these rows another text, or delete them; with"
                " the engine that wrote them, where this one cannot"
            )
    return batch


def column_without_utf8(f: NestedField, array: pa.Array, path: str = "") -> str | None:
    """The name of the column, or of the part of it below ``path``, that contains text which is not UTF-8; None if there is none.
    All values of a dictionary count."""
    if not _holds_text(f):
        return None
    name = path + f.name
    if f.type == STRING:
        return None if _is_utf8(array.dictionary if isinstance(array, pa.DictionaryArray) else array) else name
    if isinstance(f.type, MapType):
        entries = map_entries(array)
        parts = [entries.field(0), entries.field(1)]
    else:
        parts = array.flatten() if isinstance(f.type, StructType) else [array.flatten()]
    columns = (column_without_utf8(child, part, f"{name}.") for child, part in zip(child_fields(f.type), parts, strict=True))
    return next(filter(None, columns), None)


def _is_utf8(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _holds_text(f: NestedField) -> bool:
    return f.type == STRING or any(map(_holds_text, child_fields(f.type)))
