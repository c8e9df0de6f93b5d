"""CSV and JSON on lane local: what the reader does beyond the rules of the text, which tests.generated and tests.data.text
check."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.actions.local import text_source
from iceberg_ops.actions.local.text_source import _Files
from iceberg_ops.config.job_spec import MergeClause, Source
from iceberg_ops.data.sources.source_parts import source_io
from iceberg_ops.data.sources.text.text_options import CsvOptions
from iceberg_ops.errors import DataError, IcebergOpsError, NeedsSparkError, OptionError, SchemaError, UnsupportedError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    INT,
    LONG,
    STRING,
    UUID,
    VARIANT,
    DecimalType,
    FixedType,
    IcebergType,
    NestedField,
    StructType,
)
from tests.actions.rows_place import RowsPlace

TABLE = Schema.of(
    NestedField(1, "id", LONG, required=True), NestedField(2, "v", STRING), NestedField(3, "price", DecimalType(5, 2))
)


@pytest.fixture
def place(tmp_path: Path) -> RowsPlace:
    found = RowsPlace.at(tmp_path)
    found.create(TABLE)
    return found


def text(place: RowsPlace, content: str | bytes, name: str = "a.csv", **options: str) -> Source:
    path = place.folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    form: Any = "json" if ".json" in name else "csv"
    return Source(format=form, paths=[str(path)], options=options)


def rows(place: RowsPlace) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in place.rows(columns=["id", "v"])]


@pytest.mark.parametrize(
    ("name", "pack", "by"),
    [("a.csv.xz", lzma.compress, "xz"), ("a.csv", gzip.compress, "gzip"), ("a.json.txt", bz2.compress, "bzip2")],
)
@pytest.mark.parametrize("options", [{}, {"mode": "DROPMALFORMED"}])
def test_a_packed_file_whose_name_does_not_say_so_is_told_as_packed(
    place: RowsPlace, name: str, pack: Any, by: str, options: dict[str, str]
) -> None:
    """Its lines are not bad records that might be left out."""
    packed = pack(b"id,v\n1,a\n" if "csv" in name else b'{"id": 1}\n')
    with pytest.raises(DataError, match=rf"{name}.*: is packed by {by}, and files are unpacked by their names"):
        place.run("append", source=text(place, packed, name, **options))


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_lines_are_the_same_wherever_blocks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, end: str, last: bool
) -> None:
    monkeypatch.setattr(text_source, "_BLOCK", block)
    lines = ["\ufeffid,v", "", "1,ä", "2,b", "", "3,"]
    (tmp_path / "a.csv").write_bytes((end.join(lines) + (end if last else "")).encode())
    chunks = list(_Files([str(tmp_path / "a.csv")], source_io(), CsvOptions()).chunks())
    assert [line for c in chunks for line in c.texts] == [line.removeprefix("\ufeff").encode() for line in lines]
    assert [c.line for c in chunks] == [1 + sum(len(c.texts) for c in chunks[:i]) for i in range(len(chunks))]
    assert [c.begins for c in chunks] == [True] + [False] * (len(chunks) - 1)


@pytest.mark.parametrize(
    ("content", "name", "options", "wrong"),
    [
        ("id,price\n1,2\n\n2,x\n", "a.csv", {}, "a.csv, line 4: column 'price': 'x' is not a valid decimal(5, 2): 2,x"),
        ("id,price\n1,2.555\n", "a.csv", {}, "a.csv, line 2: column 'price': '2.555' is not a valid decimal(5, 2): 1,2.555"),
        ("id,v\n1,a\n,b\n3,c\n", "a.csv", {}, "a.csv, line 3: column id is required"),
        ('{"id": 1}\n\n{"id": 2, "v": "x"}{"id": 3}\n', "a.json", {}, "a.json, line 3: "),
        ('{"id": 1}\n{"v": "x"}\n{"v": "y"}\n', "a.json", {}, "a.json, line 2: column id is required"),
        ('id,v\n1,"a\nb"\n2\n', "a.csv", {"multiLine": "true"}, "a.csv: has 1 field, not 2: 2"),
    ],
)
def test_the_first_bad_record_is_named_by_line_column_and_value(
    place: RowsPlace, content: str, name: str, options: dict[str, str], wrong: str
) -> None:
    with pytest.raises(DataError) as e:
        place.run("append", source=text(place, content, name, **options))
    assert wrong in str(e.value)
    assert place.table().metadata.current_snapshot_id is None
    assert not list(place.folder.rglob("data/*.parquet"))


@pytest.mark.parametrize("seen", range(9))
def test_a_row_that_the_table_does_not_take_is_found_among_others(place: RowsPlace, seen: int) -> None:
    lines = [f"{i},x" for i in range(9)]
    lines[seen] = ",x"
    with pytest.raises(DataError, match=f"line {seen + 2}: column id is required"):
        place.run("append", source=text(place, "\n".join(["id,v", *lines])))


def test_columns_are_found_by_the_names_in_each_file_and_by_position_only_where_that_is_said(place: RowsPlace) -> None:
    folder = place.folder / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("v,ID\na,1\n")
    (folder / "b.csv").write_text("id\n2\n")
    (folder / "c.csv").write_text("")
    place.run("append", source=Source(format="csv", paths=[str(folder)]))
    place.run("append", source=text(place, "3,c,1.5\n", header="false"))
    assert rows(place) == [(1, "a"), (2, None), (3, "c")]


@pytest.mark.parametrize(
    ("content", "error", "said"),
    [
        ("1,x,2.5\n", DataError, "its first line names no column of the table: 1, x, 2.5"),
        ("1,1,2\n", DataError, "has column '1' twice in its header"),
        ("1,x,\n", DataError, "column 3 of the header has no name"),
        ("id,nmae\n1,x\n", SchemaError, "column 'nmae' is not a column of the table"),
        ("v\nx\n", SchemaError, "required column 'id' is not in the source"),
    ],
)
def test_a_file_without_its_header_is_told_so(place: RowsPlace, content: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as e:
        place.run("append", source=text(place, content))
    assert said in str(e.value)
    assert ("header = false" in str(e.value)) is (error is DataError)


def test_records_that_are_malformed_are_left_out_where_the_mode_says_so(place: RowsPlace) -> None:
    place.run("append", source=text(place, "id,price\n1,x\n2,1\n3\n4,2\n", mode="DROPMALFORMED"))
    assert [row[0] for row in rows(place)] == [2, 4]
    with pytest.raises(DataError, match="line 4: column id is required"):
        place.run("append", source=text(place, "id,price\n1,x\n2,1\n,2\n", mode="DROPMALFORMED"))


def test_a_compressed_file_that_is_cut_off_is_bad(place: RowsPlace) -> None:
    whole = gzip.compress(b"id\n1\n2\n")
    place.run("append", source=text(place, whole, "a.csv.gz"))
    for content in (whole[:-9], b"id\n1\n", whole[:-4] + b"0000"):
        with pytest.raises(DataError, match=r"source .*/b\.csv\.gz"):
            place.run("append", source=text(place, content, "b.csv.gz"))
    assert [row[0] for row in rows(place)] == [1, 2]


def test_bzip2_streams_behind_each_other_are_read_and_a_damaged_one_is_never_passed_by(
    place: RowsPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = bz2.compress(b"id\n1\n"), bz2.compress(b"2\n")
    for block in (1, 7, 4 << 20):
        monkeypatch.setattr(text_source, "_BLOCK", block)
        for content in (first + b"X" + second[1:], first + second[:-1], first + b"BZ", b"\0" + first):
            with pytest.raises(DataError, match=r"source .*/b\.csv\.bz2"):
                place.run("append", source=text(place, content, "b.csv.bz2"))
    for content in (b"", first + second):
        place.run("append", source=text(place, content, "a.csv.bz2"))
    assert [row[0] for row in rows(place)] == [1, 2]


@pytest.mark.parametrize("content", ["", "\n \n", "\ufeff", "#1\n"])
@pytest.mark.parametrize("header", ["true", "false"])
def test_a_file_without_records_is_a_source_without_rows(place: RowsPlace, content: str, header: str) -> None:
    source = text(place, content, header=header, comment="#")
    place.run("append", source=source)
    place.run("upsert", source=source, options={"upsert-keys": "id"})
    assert rows(place) == []


@pytest.mark.parametrize(
    ("form", "content", "options", "wanted"),
    [
        ("a.csv.zst", "x", {}, "compressed as .zst"),
        ("a.csv", "id\n1\n", {"pathGlobFilter": "*.csv"}, "pathGlobFilter"),
        ("a.csv", "id\n" + "1" * 3000, {}, "a record of more than"),
        ("a.json", "[" + " " * 3000 + "]", {"multiLine": "true"}, "a file that is read as a whole of more than"),
    ],
)
def test_what_only_spark_reads_is_named(
    place: RowsPlace, monkeypatch: pytest.MonkeyPatch, form: str, content: str, options: dict[str, str], wanted: str
) -> None:
    monkeypatch.setattr(text_source, "MOST_BYTES_IN_MEMORY", 2048)
    with pytest.raises(NeedsSparkError) as e:
        place.run("append", source=text(place, content, form, **options))
    assert wanted in str(e.value)


def of_type(type_: IcebergType) -> Schema:
    return Schema.of(NestedField(1, "id", LONG), NestedField(2, "x", type_))


@pytest.mark.parametrize(
    ("type_", "name", "content", "error", "said"),
    [
        (VARIANT, "a.csv", "id,x\n1,2\n", UnsupportedError, "column 'x' of type variant in a source of format csv"),
        (VARIANT, "a.json", '{"id": 1, "x": 2}\n', UnsupportedError, "column 'x' of type variant"),
        (StructType((NestedField(3, "a", INT),)), "a.csv", "id,x\n1,{}\n", SchemaError, "x"),
        (StructType((NestedField(3, "a", INT),)), "a.json", '{"x": {"b": 1}}\n', SchemaError, "'x.b' is not in the table"),
    ],
)
def test_a_column_that_does_not_fit_is_refused_whatever_is_in_it(
    tmp_path: Path, type_: IcebergType, name: str, content: str, error: type[IcebergOpsError], said: str
) -> None:
    place = RowsPlace.at(tmp_path)
    place.catalog.create_table(("db", "t"), of_type(type_), properties={"format-version": "3"})
    with pytest.raises(error, match=said):
        place.run("append", source=text(place, content, name))


@pytest.mark.parametrize("name", ["a.csv", "a.json"])
def test_the_values_of_a_merge_and_an_upsert_are_those_of_the_text(place: RowsPlace, name: str) -> None:
    form = {
        "a.csv": ("id,v,op\n1,a,\n2,b,\n", "id,v,op\n1,A,\n2,,D\n3,c,\n"),
        "a.json": (
            '{"id": 1, "v": "a"}\n{"id": 2, "v": "b"}\n',
            '{"id": 1, "v": "A"}\n{"id": 2, "op": "D"}\n{"id": 3, "v": "c"}\n',
        ),
    }[name]
    options = {"upsert-keys": "id"}
    place.run("upsert", source=text(place, form[0].replace(",op", "").replace(",\n", "\n"), name), options=options)
    assert rows(place) == [(1, "a"), (2, "b")]
    clauses = [
        MergeClause(when="matched", action="delete", condition="source.op = 'D'"),
        MergeClause(when="matched", action="update", assignments={"v": "source.v"}),
        MergeClause(when="not-matched", action="insert", assignments={"id": "source.id", "v": "source.v"}),
    ]
    place.merge("copy-on-write", text(place, form[1], name), "target.id = source.id", *clauses)
    assert rows(place) == [(1, "A"), (3, "c")]
    more = {**options, "delete-when": "op = 'D'", "source-only-columns": "op"}
    place.run("upsert", source=text(place, form[1].replace("A", "B"), name), options=more)
    assert rows(place) == [(1, "B"), (3, "c")]


@pytest.mark.parametrize("condition", ["n > 5", "n = true", "n >= DATE '2026-01-01'", "n IN (1, 2)"])
def test_text_beside_another_type_is_compared_by_spark(place: RowsPlace, condition: str) -> None:
    """Columns of CSV that the table does not have are text, which Spark converts."""
    source = text(place, "id,v,n\n1,x,10\n")
    for on_either_side in (f"source.{condition}", "target.v > 5"):
        clause = MergeClause(when="matched", action="delete", condition=on_either_side)
        with pytest.raises(NeedsSparkError, match="a comparison of different types in merge WHEN clause 1"):
            place.merge("copy-on-write", source, "target.id = source.id", clause)
    options = {"upsert-keys": "id", "source-only-columns": "n", "delete-when": condition}
    with pytest.raises(NeedsSparkError, match="a comparison of different types in upsert delete-when"):
        place.run("upsert", source=source, options=options)


@pytest.mark.parametrize("type_", [UUID, FixedType(2)])
def test_a_uuid_of_text_is_compared_by_spark(tmp_path: Path, type_: IcebergType) -> None:
    """Which compares it as the text it is; an append stores it as the table's type."""
    place = RowsPlace.at(tmp_path)
    place.create(of_type(type_))
    value = "F79C3E09-677C-4BBD-A479-3F349CB785E7" if type_ == UUID else "ab"
    place.run("append", source=text(place, f"id,x\n1,{value}\n"))
    assert len(place.rows()) == 1
    with pytest.raises(NeedsSparkError, match="csv column x of type"):
        place.run("upsert", source=text(place, f"id,x\n1,{value}\n"), options={"upsert-keys": "id"})


def test_columns_that_differ_only_in_case_are_not_told_apart_by_text(tmp_path: Path) -> None:
    place = RowsPlace.at(tmp_path)
    place.create(Schema.of(NestedField(1, "a", LONG), NestedField(2, "A", LONG)))
    with pytest.raises(UnsupportedError, match="differ only in case"):
        place.run("append", source=text(place, "a\n1\n"))


def test_an_unknown_reader_option_is_named_with_those_that_are_near(place: RowsPlace) -> None:
    with pytest.raises(OptionError, match="did you mean 'header'"):
        place.run("append", source=text(place, "id\n1\n", haeder="true"))
