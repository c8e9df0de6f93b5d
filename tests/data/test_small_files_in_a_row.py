"""Small files read one after the other, with several schemas, formats and deletes, give the same rows as each file alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_ops.data.columns import file_columns, projection
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.formats import parquet_reader
from iceberg_ops.data.reading.reader import ReadCounts, read_task
from iceberg_ops.data.rewriting.group_work import GroupWork
from iceberg_ops.data.rewriting.rewrite import read_live_rows
from iceberg_ops.data.writing.delete_files import write_equality_deletes
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import INT, LONG, STRING, ListType, NestedField, StructType
from tests.data import files
from tests.data.files import new_io, write, write_context

CITY, TAGS = NestedField(3, "city", STRING), NestedField(4, "tags", ListType(NestedField(5, "element", STRING)))
PLACE = NestedField(6, "place", StructType((NestedField(7, "x", INT), NestedField(8, "name", STRING))))
FIRST = Schema.of(NestedField(1, "id", INT, True), NestedField(3, "town", STRING), schema_id=0)
SECOND = Schema.of(NestedField(1, "id", LONG, True), CITY, TAGS, schema_id=1)
LAST = Schema.of(
    TAGS, NestedField(1, "id", LONG, True), PLACE, CITY,
    NestedField(9, "level", INT, initial_default=7, write_default=7), schema_id=2,
)  # fmt: skip
SCHEMAS = (FIRST, SECOND, LAST)
WORK = GroupWork(group_id="", tasks=(), read={}, write={}, io_properties={}, target_file_size=0, operation_id="")
COUNT = 1_200
"""Rows of a file: enough for a dictionary to stay one."""

FILES = st.tuples(st.integers(0, 2), st.booleans(), st.sampled_from(["parquet", "parquet", "parquet", "avro"]), st.booleans())


def row(schema: Schema, n: int, repeats: bool) -> tuple[Any, ...]:
    city = None if n % 11 == 0 else f"c{n % 3}" if repeats else f"city number {n}"
    values = {1: n, 3: city, 4: None if n % 5 == 0 else [f"t{n % 2}", None], 6: (n, None), 9: n}
    if n % 4 == 0:
        values[6] = None
    return tuple(values[f.field_id] for f in schema.fields)


def task_of(io: MemoryFileIO, number: int, file: tuple[int, bool, str, bool]) -> FileScanTask:
    version, repeats, form, deleted = file
    schema = SCHEMAS[version]
    context = write_context(schema, properties={"write.format.default": form})
    (written,) = write(context, io, [row(schema, n, repeats) for n in range(number, number + COUNT)], operation_id=f"f{number}")
    written = replace(written, first_row_id=number * COUNT)
    if not deleted:
        return FileScanTask(written, 1, 1)
    keys = files.batch_of(Schema.of(schema.fields_by_id[1]), [(n,) for n in range(number, number + COUNT, 3)])
    deletes = write_equality_deletes(io, write_context(schema), [1], [keys], operation_id=f"d{number}")
    return FileScanTask(written, 1, 1, deletes=tuple(DeleteFile(d, 2) for d in deletes))


def forget() -> None:
    """As in a process that has read nothing yet."""
    for kept in (file_columns._SEEN, parquet_reader._LAST, parquet_reader._TEXT, projection._LAST, projection._NEEDED):
        kept.clear()


@settings(max_examples=25, deadline=None)
@given(st.lists(FILES, min_size=1, max_size=7), st.booleans())
def test_every_row_of_files_in_a_row_is_what_its_file_alone_gives(chosen: list[tuple[int, bool, str, bool]], lineage: bool) -> None:
    io = new_io()
    tasks = [task_of(io, number, file) for number, file in enumerate(chosen)]
    context = ReadContext(table_schema=LAST, projected=LAST, schemas=SCHEMAS)
    if lineage:
        context = context.select([*(f.name for f in LAST.fields), "_row_id", "_last_updated_sequence_number"])
    alone, counted, expected = [], ReadCounts(), ReadCounts()
    for task in tasks:
        forget()
        alone += [b.to_pylist() for b in read_task(task, context, io, counts=expected)]
    forget()
    together = [b.to_pylist() for b in read_live_rows(tasks, WORK, context, io, counted)]
    assert [r for rows in together for r in rows] == [r for rows in alone for r in rows]
    assert counted == expected


def test_contexts_in_turn_read_their_own_columns_of_the_same_files() -> None:
    """What is kept of the last file holds for its columns and what was asked of them, and for nothing else."""
    io = new_io()
    tasks = [task_of(io, n, (n % 3, True, "parquet", False)) for n in range(6)]
    whole = ReadContext(table_schema=LAST, projected=LAST, schemas=SCHEMAS)
    contexts = [whole, whole.select(["id"]), whole.select(["city", "level"]), whole.select(["place", "_row_id"]), whole]
    for task in tasks:
        for context in contexts:
            found = [r for b in read_task(task, context, io) for r in b.to_pylist()]
            forget()
            assert found == [r for b in read_task(task, context, io) for r in b.to_pylist()]
            assert list(found[0]) == [f.name for f in context.projected.fields]
        for context in contexts:
            assert [b.num_rows for b in read_task(task, context, io)] == [COUNT]
