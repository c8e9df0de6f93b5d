"""Generated columns of text in every Arrow form that a writer may use, under any name: a scan, a rewrite, a writer and deletes by a
nested field give the rows of the model, or refuse text that is not UTF-8 by file and column.

Generated are views of lists and of text, large lists, extension types over structs and inside them, NULL in some and in all rows
(also over invisible elements), dictionaries with a null among their values, names with quotes and dots, columns of the file's own
before the table's, and bytes that are not UTF-8.
"""

from __future__ import annotations

import io
import itertools
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.data.writing.conform import conform
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import CorruptTableError, DataError
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, UUID, IcebergType, NestedField, StructType, list_of, map_of
from tests.builders import make_catalog
from tests.generated.drawing import Draw, for_each_seed, missing

KIND = "foreign shapes"
NAMES = ["s", "a'b", 'q"x', "a.b", "Größe", "`t`"]
TEXTS = [b"", b"x", b"it's", b'"', b"\xc3\xa9", None]
BAD = [b"\xff", b"a\xc3"]
LIST_FORMS = {"list": pa.list_, "large list": pa.large_list, "list view": pa.list_view, "large list view": pa.large_list_view}
TEXT_FORMS = {"plain": pa.string(), "text view": pa.string_view(), "large text": pa.large_string()}
WANTED = {
    *LIST_FORMS,
    *TEXT_FORMS,
    "views in a struct",
    "dictionary",
    "null entry",
    "struct",
    "extension",
    "map",
    "uuids",
    "some null",
    "all null",
    "no UTF-8",
    "own column",
    "nested key",
}


def texts(draw: Draw, rows: int) -> list[bytes | None]:
    usual = draw.choice([TEXTS, TEXTS, [*TEXTS, *BAD]])
    return [draw.choice(usual) for _ in range(rows)]


def of_text(values: list[bytes | None]) -> pa.Array:
    return pa.array(values, pa.binary()).view(pa.string())


def field(name: str, type_: pa.DataType, field_id: int, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, type_, nullable, {"PARQUET:field_id": str(field_id)})


def offsets(draw: Draw, rows: int) -> list[int]:
    return list(itertools.accumulate((draw.randint(0, 2) for _ in range(rows)), initial=0))


def cut(values: list[Any], at: list[int], hidden: list[bool]) -> list[list[Any] | None]:
    """The elements of each list; None where it is ``hidden``."""
    return [None if h else values[start:end] for (start, end), h in zip(itertools.pairwise(at), hidden, strict=True)]


def hidden_rows(draw: Draw, rows: int, bad: list[bool]) -> list[bool]:
    """Which rows are NULL, none of them ``bad``: what they hold is there all the same, and no row's."""
    share = draw.choice([0.0, 0.0, 0.4, 1.0])
    hidden = [not b and draw.often(share) for b in bad]
    if any(hidden):
        draw.note("all null" if all(hidden) else "some null")
    return hidden


def bad_lists(flat: list[Any], at: list[int]) -> list[bool]:
    return [is_bad(flat[start:end]) for start, end in itertools.pairwise(at)]


def drawn_text(draw: Draw, rows: int) -> tuple[IcebergType, pa.Array, list[Any]]:
    values = texts(draw, rows)
    if draw.often(0.6):
        form = draw.choice(["plain", "text view", "large text"])
        draw.note(form)
        return STRING, of_text(values).cast(TEXT_FORMS[form]), values
    entries = list(dict.fromkeys([*values, *draw.sample([b"x", None, b"unused"], 2)]))
    indices = [entries.index(v) for v in values]
    draw.note("dictionary", *(["null entry"] if None in entries else []))
    return STRING, pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), of_text(entries)), values


def drawn_list(draw: Draw, rows: int) -> tuple[IcebergType, pa.Array, list[Any]]:
    form, at = draw.choice(sorted(LIST_FORMS)), offsets(draw, rows)
    draw.note(form)
    flat = texts(draw, at[-1])
    hidden = hidden_rows(draw, rows, bad_lists(flat, at))
    kind, mask = LIST_FORMS[form](field("element", pa.string(), 3)), pa.array(hidden)
    array: pa.Array
    if "view" in form:
        size = pa.int64() if "large" in form else pa.int32()
        sizes = pa.array([b - a for a, b in itertools.pairwise(at)], size)
        made = pa.LargeListViewArray if "large" in form else pa.ListViewArray
        array = made.from_arrays(pa.array(at[:-1], size), sizes, of_text(flat), type=kind, mask=mask)
    else:
        made = pa.LargeListArray if "large" in form else pa.ListArray
        starts = pa.array(at, pa.int64() if "large" in form else pa.int32())
        array = made.from_arrays(starts, of_text(flat), type=kind, mask=mask)
    return list_of(3, STRING), array, cut(flat, at, hidden)


def drawn_struct(draw: Draw, rows: int) -> tuple[IcebergType, pa.Array, list[Any]]:
    values, numbers = texts(draw, rows), list(range(rows))
    hidden = hidden_rows(draw, rows, list(map(is_bad, values)))
    form = draw.choice([pa.string(), pa.string_view()])
    array = pa.StructArray.from_arrays(
        [of_text(values).cast(form), pa.array(numbers, pa.int64())],
        fields=[field("p", form, 3), field("q", pa.int64(), 4)],
        mask=pa.array(hidden),
    )
    draw.note(*(["views in a struct"] if form == pa.string_view() else []))
    draw.note("struct")
    if draw.often(0.5):
        draw.note("extension")
        array = pa.ExtensionArray.from_storage(pa.opaque(array.type, "x", "y"), array)
    type_ = StructType((NestedField(3, "p", STRING), NestedField(4, "q", LONG)))
    return type_, array, [None if h else {"p": p, "q": q} for p, q, h in zip(values, numbers, hidden, strict=True)]


def drawn_map(draw: Draw, rows: int) -> tuple[IcebergType, pa.Array, list[Any]]:
    at = offsets(draw, rows)
    flat = texts(draw, at[-1])
    keys = [f"k{n}".encode() for n in range(at[-1])]
    kind = pa.map_(field("key", pa.string(), 3, nullable=False), field("value", pa.string(), 4))
    draw.note("map")
    hidden = hidden_rows(draw, rows, bad_lists(flat, at))
    array = pa.MapArray.from_arrays(pa.array(at, pa.int32()), of_text(keys), of_text(flat), type=kind, mask=pa.array(hidden))
    return map_of(3, STRING, 4, STRING), array, cut(list(zip(keys, flat, strict=True)), at, hidden)


def drawn_uuids(draw: Draw, rows: int) -> tuple[IcebergType, pa.Array, list[Any]]:
    """Arrow's uuid type as a value of a map, or in structs in a list."""
    at = offsets(draw, rows)
    flat = [Uuid(draw.choice([None, draw.randbytes(16)])) for _ in range(at[-1])]
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([u.value for u in flat], pa.binary(16)))
    hidden = hidden_rows(draw, rows, [False] * rows)
    starts, mask = pa.array(at, pa.int32()), pa.array(hidden)
    draw.note("uuids")
    if draw.often(0.5):
        keys = [f"k{n}".encode() for n in range(at[-1])]
        kind = pa.map_(field("key", pa.string(), 3, nullable=False), field("value", pa.uuid(), 4))
        array = pa.MapArray.from_arrays(starts, of_text(keys), uuids, type=kind, mask=mask)
        return map_of(3, STRING, 4, UUID), array, cut(list(zip(keys, flat, strict=True)), at, hidden)
    structs = pa.StructArray.from_arrays([uuids], fields=[field("u", pa.uuid(), 4)])
    array = pa.ListArray.from_arrays(starts, structs, type=pa.list_(field("element", structs.type, 3)), mask=mask)
    type_ = list_of(3, StructType((NestedField(4, "u", UUID),)))
    return type_, array, cut([{"u": u} for u in flat], at, hidden)


@dataclass(frozen=True)
class Uuid:
    """Sixteen bytes, which are not text."""

    value: bytes | None


def is_bad(value: Any) -> bool:
    if isinstance(value, Uuid):
        return False
    if isinstance(value, dict):
        return any(map(is_bad, value.values()))
    return any(map(is_bad, value)) if isinstance(value, list | tuple) else value in BAD


def shown(value: Any) -> Any:
    """The model's value as Arrow gives it."""
    if isinstance(value, Uuid):
        return value.value
    if isinstance(value, dict):
        return {k: shown(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(shown, value))
    return value.decode() if isinstance(value, bytes) else value


class Case:
    """A table of columns id and one drawn, and a file of another writer in it."""

    def __init__(self, draw: Draw) -> None:
        rows = draw.randint(1, 6)
        self.name, self.ids = draw.choice(NAMES), list(range(rows))
        self.type, array, self.values = draw.choice([drawn_text, drawn_list, drawn_struct, drawn_map, drawn_uuids])(draw, rows)
        self.is_bad = is_bad(self.values)
        self.catalog = make_catalog()
        schema = Schema.of(NestedField(1, "id", LONG), NestedField(2, self.name, self.type))
        self.table = self.catalog.create_table(("ns", "t"), schema, properties={"format-version": "2"})
        self.batch = pa.RecordBatch.from_arrays([pa.array(self.ids), array], names=["id", self.name])
        if isinstance(array, pa.DictionaryArray):
            array = array.dictionary_decode()  # Arrow writes no dictionary with a null
        columns = [(field("id", pa.int64(), 1), pa.array(self.ids)), (field(self.name, array.type, 2), array)]
        if draw.often(0.5):
            draw.note("own column")
            views = pa.array([[{"u": 1, "v": 2}]] * rows, pa.list_view(pa.struct([("u", pa.int64()), ("v", pa.int64())])))
            columns.insert(0, (field("own", views.type, 50), views))
        self.file = self.put("data/f.parquet", columns, rows)
        self.table = commit(self.catalog, self.table, AppendFiles(added=(self.file,))).table

    def put(self, name: str, columns: list[tuple[pa.Field, pa.Array]], rows: int, **more: Any) -> DataFile:
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_arrays([a for _, a in columns], schema=pa.schema([f for f, _ in columns])), sink)
        path = f"{self.table.location}/{name}"
        self.table.io.write(path, sink.getvalue())
        size = len(sink.getvalue())
        return DataFile(file_path=path, file_format=FileFormat.PARQUET, record_count=rows, file_size_in_bytes=size, **more)

    def rewrite(self) -> None:
        config = CatalogConfig(name="test", type="memory")
        job = JobSpec(job="rewrite_data_files", table="test.ns.t", catalog=config, options={"rewrite-all": "true"})
        run_job(job, catalog=self.catalog, runner=LocalRunner(workers=1))
        self.table = self.catalog.load_table(("ns", "t"))

    def delete_by_p(self, draw: Draw) -> None:
        """Equality deletes by the struct's field p: of one row's value, null too."""
        gone = (draw.choice(self.values) or {"p": None})["p"]
        p = field("p", pa.string(), 3)
        columns = [(field(self.name, pa.struct([p]), 2), pa.StructArray.from_arrays([of_text([gone])], fields=[p]))]
        more = {"content": FileContent.EQUALITY_DELETES, "equality_ids": (3,)}
        head = self.table.metadata.current_snapshot_id
        deletes = self.put("data/d.parquet", columns, 1, **more)
        self.table = commit(self.catalog, self.table, RowDelta(added_deletes=(deletes,), starting_snapshot_id=head)).table
        kept = [(i, v) for i, v in zip(self.ids, self.values, strict=True) if (v or {"p": None})["p"] != gone]
        self.ids, self.values = [i for i, _ in kept], [v for _, v in kept]
        self.is_bad = is_bad(self.values)
        draw.note("nested key")

    def check_rows(self) -> None:
        assert scan_table(self.table, columns=["id"])["id"].to_pylist() == self.ids
        if not self.is_bad:
            for columns in ([self.name], ["id", self.name]):
                found = scan_table(self.table, columns=columns)
                assert found[self.name].to_pylist() == shown(self.values), columns


def check(draw: Draw) -> None:
    made = Case(draw)
    made.check_rows()
    writer = PartitionedWriter(WriteContext.for_table(made.table.metadata), made.table.io, operation_id="op")
    try:
        writer.write(made.batch)
        assert not made.is_bad
        writer.close()
    except DataError as e:
        assert made.is_bad
        assert made.name in str(e)  # noqa: PT017
        writer.abort()
    if made.type == STRING:
        required = Schema.of(NestedField(1, "id", LONG), NestedField(2, made.name, STRING, True))
        try:
            conform(made.batch, required, keep_dictionaries=True)
            assert None not in made.values
        except DataError:
            assert made.is_bad or None in made.values
    if isinstance(made.type, StructType) and draw.often(0.6):
        made.delete_by_p(draw)
        made.check_rows()
    if made.is_bad:
        draw.note("no UTF-8")
    try:
        made.rewrite()
        assert not made.is_bad
    except CorruptTableError as e:
        assert made.is_bad
        assert f"file {made.file.file_path}: column {made.name}" in str(e)  # noqa: PT017
    made.check_rows()


def test_columns_of_any_form_and_name_keep_their_rows_or_are_refused_by_name() -> None:
    for_each_seed(KIND, 250, check)
    assert missing(KIND, WANTED) == set()
