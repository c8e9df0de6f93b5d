"""Locations of CSV and JSON text: files that are found twice, parts of files, values in folder names, columns of unusual types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pytest

from iceberg_ops.config.job_spec import MergeClause, Source
from iceberg_ops.errors import DataError, SchemaError, UnsupportedError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    DATE,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP_NS,
    VARIANT,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
)
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

Form = Literal["csv", "json"]
HEADER = {"header": "true"}
HEADERLESS = {"header": "false"}
TEXTS = Schema.of(NestedField(1, "id", STRING), NestedField(2, "v", STRING))
FLAT = Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", STRING))
IN_FOLDERS = Schema.of(*FLAT.fields, NestedField(3, "day", DATE))


def files(place: Place, contents: dict[str, bytes]) -> Path:
    for name, content in contents.items():
        path = place.folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return place.folder / "in"


def append(place: Place, folder: Path, form: Form, *, names: tuple[str, ...] = ("",), **parts: Any) -> list[dict[str, Any]]:
    options = parts.pop("reader", HEADER if form == "csv" else {})
    source = Source(format=form, paths=[str(folder / name) for name in names], options=options)
    place.run("append", "t", source=source, **parts)
    return place.rows("t")


def quarantine(place: Place) -> dict[str, str]:
    return {"bad-records": "quarantine", "quarantine-path": str(place.folder / "quarantine")}


def diverted(place: Place) -> list[tuple[str, str]]:
    lines = [line for p in (place.folder / "quarantine").rglob("*.jsonl") for line in p.read_text().splitlines()]
    return sorted((row["record"], row["reason"]) for row in map(json.loads, lines))


@pytest.mark.parametrize("names", [("a.csv", "a.csv"), ("", "a.csv"), ("*.csv", "b.csv")])
def test_a_file_that_two_paths_lead_to_is_refused_by_name(place: Place, names: tuple[str, ...]) -> None:
    place.create("t", TEXTS)
    folder = files(place, {"a.csv": b"id,v\n1,x\n", "b.csv": b"v,id\ny,2\n"})
    twice = "b.csv" if "b.csv" in names else "a.csv"
    with pytest.raises(DataError, match=rf"{twice} would be read twice"):
        append(place, folder, "csv", names=names)
    assert append(place, folder, "csv", names=("a.csv", "b.csv")) == [{"id": "1", "v": "x"}, {"id": "2", "v": "y"}]


@pytest.mark.parametrize("names", [("",), ("a.csv", "link.csv"), ("a.csv", "../other/a.csv")])
def test_a_file_that_a_link_leads_to_as_well_is_refused_by_name(place: Place, names: tuple[str, ...]) -> None:
    place.create("t", TEXTS)
    folder = files(place, {"a.csv": b"id,v\n1,x\n"})
    (folder / "link.csv").symlink_to(folder / "a.csv")
    (place.folder / "other").symlink_to(folder)
    with pytest.raises(DataError, match=r"csv would be read twice"):
        append(place, folder, "csv", names=names)
    assert append(place, folder, "csv", names=("link.csv",)) == [{"id": "1", "v": "x"}]


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("reader", [{"pathGlobFilter": "*.txt"}, {"modifiedBefore": "2000-01-01T00:00:00"}])
def test_a_source_whose_files_are_all_left_out_by_reader_options_replaces_nothing(
    place: Place, form: Form, reader: dict[str, str]
) -> None:
    place.create("t", FLAT)
    content = {"csv": b"id,v\n1,x\n", "json": b'{"id":1,"v":"x"}\n'}[form]
    folder = files(place, {f"a.{form}": content})
    header = HEADER if form == "csv" else {}
    before = append(place, folder, form)
    source = Source(format=form, paths=[str(folder)], options=header | reader)
    with pytest.raises(DataError, match=r"no data file .*pathGlobFilter"):
        place.run("overwrite", "t", source=source, where="true")
    assert place.rows("t") == before == [{"id": 1, "v": "x"}]


@pytest.fixture
def small_parts(place: Place) -> Iterator[None]:
    sizes = {"spark.sql.files.maxPartitionBytes": "40", "spark.sql.files.openCostInBytes": "0"}
    before = {name: place.session.conf.get(name) for name in sizes}
    for name, size in sizes.items():
        place.session.conf.set(name, size)
    yield
    for name, value in before.items():
        place.session.conf.set(name, str(value))


@pytest.mark.usefixtures("small_parts")
def test_a_header_is_no_row_in_whatever_part_of_a_file_it_is(place: Place) -> None:
    place.create("t", TEXTS)
    rows = "".join(f"{i},abcdefghij\n" for i in range(10)).encode()
    folder = files(place, {"a.csv": b"\n#x\nid,v\n" + rows, "b.csv": b"v,id\n", "blank.csv": b"\n" * 100, "c.csv": b""})
    reader = {**HEADER, "comment": "#"}
    found = append(place, folder, "csv", reader=reader)
    assert found == [{"id": str(i), "v": "abcdefghij"} for i in range(10)]
    files(place, {"late.csv": b"\n" * 60 + b"id,v\n" + rows})
    with pytest.raises(DataError, match=r"late\.csv: .* its header is not found"):
        append(place, folder, "csv", reader=reader)
    assert place.rows("t") == found


def test_values_in_names_of_folders_are_written_as_tables_write_them(place: Place) -> None:
    place.create("t", IN_FOLDERS)
    folder = files(place, {"day=2026-07-01/a.csv": b"id,v\n1,x\n", "day=oops/b.csv": b"id,v\n2, y\n"})
    found = append(place, folder, "csv", reader={**HEADER, "dateFormat": "dd.MM.yyyy"}, options=quarantine(place))
    assert found == [{"id": 1, "v": "x", "day": date(2026, 7, 1)}]
    assert diverted(place) == [("2, y", "folder 'day': 'oops' is not a valid date")]


def test_folders_may_have_the_names_of_what_the_reader_needs(place: Place) -> None:
    place.create("t", Schema.of(*FLAT.fields, *(NestedField(9 + i, n, STRING) for i, n in enumerate(("text", "file", "start")))))
    folder = files(place, {"text=1/file=x/start=2/a.csv": b"id,v\n1,a\n"})
    assert append(place, folder, "csv") == [{"id": 1, "v": "a", "text": "1", "file": "x", "start": "2"}]


def test_columns_by_position_are_those_beside_the_folders_or_all(place: Place) -> None:
    place.create("t", IN_FOLDERS)
    for line in (b"1,x\n", b"1,x,2020-02-02\n"):
        folder = files(place, {"day=2026-07-01/a.csv": line})
        assert append(place, folder, "csv", reader=HEADERLESS)[-1] == {"id": 1, "v": "x", "day": date(2026, 7, 1)}
    with pytest.raises(SchemaError, match="has 4 columns, the table 2 beside those in names of folders"):
        append(place, files(place, {"day=2026-07-01/a.csv": b"1,x,y,z\n"}), "csv", reader=HEADERLESS)


def test_a_first_record_that_is_not_readable_is_one_like_others_where_it_is_no_header(place: Place) -> None:
    place.create("t", FLAT)
    folder = files(place, {"a.csv": b"1,\xff\n2,b\n", "b.csv": b"\xff"})
    assert append(place, folder, "csv", reader=HEADERLESS, options=quarantine(place)) == [{"id": 2, "v": "b"}]
    assert diverted(place) == [(text, "is not text in the source's encoding (utf-8)") for text in ("1,\ufffd", "\ufffd")]
    with pytest.raises(DataError, match="is not text in the source's encoding"):
        append(place, files(place, {"b.csv": b"id,\xff\n"}), "csv", options=quarantine(place))


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("type_", [TIME, TIMESTAMP_NS, VARIANT], ids=str)
def test_a_column_of_a_type_that_spark_does_not_have_is_refused_by_name(place: Place, form: Form, type_: IcebergType) -> None:
    place.create("t", Schema.of(*FLAT.fields, NestedField(3, "t", type_)), format__version="3")
    content = b"id,t\n1,1\n" if form == "csv" else b'{"id": 1, "t": "1"}\n'
    with pytest.raises(UnsupportedError, match="column 't' of type"):
        append(place, files(place, {f"a.{form}": content}), form)


def test_a_map_whose_keys_have_no_text_is_refused_where_json_has_it(place: Place) -> None:
    key = NestedField(4, "key", StructType((NestedField(5, "a", INT),)), required=True)
    place.create("t", Schema.of(*FLAT.fields, NestedField(3, "m", MapType(key, NestedField(6, "value", INT)))))
    assert append(place, files(place, {"a.json": b'{"id": 1}'}), "json") == [{"id": 1, "v": None, "m": None}]
    with pytest.raises(UnsupportedError, match=r"column 'm' with a map of struct<.*: a: int> keys"):
        append(place, files(place, {"a.json": b'{"id": 1, "m": {"a": 1}}'}), "json")


def test_a_field_that_json_does_not_have_gets_its_write_default_at_every_level(place: Place) -> None:
    def inner(i: int) -> StructType:
        return StructType((NestedField(i, "a", INT), NestedField(i + 1, "b", STRING, initial_default="b", write_default="b")))

    only = StructType((NestedField(60, "c", INT, initial_default=7, write_default=7),))
    items = ListType(NestedField(40, "element", inner(41)))
    values = MapType(NestedField(50, "key", STRING, required=True), NestedField(51, "value", inner(52)))
    columns = [NestedField(i, n, t) for i, n, t in ((3, "s", inner(31)), (4, "l", items), (5, "m", values), (6, "o", only))]
    place.create("t", Schema.of(NestedField(1, "id", LONG), *columns), format__version="3")
    line = b'{"id": 1, "s": {"a": 1}, "l": [{"a": 2}, null], "m": {"k": {}}, "o": {}}\n{"id": 2}\n'
    found = append(place, files(place, {"a.json": line}), "json")
    given = {"s": {"a": 1, "b": "b"}, "l": [{"a": 2, "b": "b"}, None], "m": [("k", {"a": None, "b": "b"})], "o": {"c": 7}}
    assert found == [{"id": 1, **given}, {"id": 2, "s": None, "l": None, "m": None, "o": None}]


@pytest.mark.parametrize("job", ["append", "overwrite", "upsert", "merge"])
@pytest.mark.parametrize(("form", "content"), [("csv", b""), ("csv", b"\n\n"), ("json", b""), ("json", b"\n[]\n")])
def test_a_source_without_records_is_no_error_and_commits_no_row(place: Place, job: str, form: Form, content: bytes) -> None:
    nested = NestedField(3, "s", StructType((NestedField(4, "a", INT),)))
    place.create("t", Schema.of(NestedField(1, "id", LONG, required=True), NestedField(2, "v", STRING), nested))
    source = Source(format=form, paths=[str(files(place, {f"a.{form}": content}))], options=HEADER if form == "csv" else {})
    if job == "merge":
        insert = [MergeClause(when="not-matched", action="insert", assignments={"id": "source.id"})]
        place.merge("t", source, "target.id = source.id", insert, "merge-on-read")
    else:
        place.run(job, "t", source=source, options={"upsert-keys": "id"} if job == "upsert" else {})
    assert place.rows("t") == []


@pytest.mark.parametrize("job", ["append", "upsert"])
def test_values_that_lie_too_deep_are_a_bad_record(place: Place, job: str) -> None:
    place.create("t", FLAT)
    line = b'{"id": 1, "v": ' + b"[" * 400 + b"]" * 400 + b"}"
    source = Source(format="json", paths=[str(files(place, {"a.json": line}))])
    with pytest.raises(DataError, match="values are nested too deeply"):
        place.run(job, "t", source=source, options={"upsert-keys": "id"} if job == "upsert" else {})


def test_the_quarantine_has_a_record_of_an_array_without_the_others(place: Place) -> None:
    place.create("t", FLAT)
    records = [{"id": i if i % 2 else "x", "v": "y" * 500} for i in range(3000)]
    folder = files(place, {"a.json": json.dumps(records).encode()})
    found = append(place, folder, "json", reader={"multiLine": "true"}, options=quarantine(place))
    assert [row["id"] for row in found] == list(range(1, 3000, 2))
    assert diverted(place) == [('{"id":"x","v":"' + "y" * 500 + '"}', "column 'id': 'x' is not a valid long")] * 1500
