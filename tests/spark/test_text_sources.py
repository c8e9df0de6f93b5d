"""CSV and JSON text that would be stored with other characters, and JSON objects with a duplicate name: bad records, per file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.config.job_spec import MergeClause, Source
from iceberg_ops.errors import DataError, OptionError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, ListType, MapType, NestedField, StructType
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(
    NestedField(1, "id", LONG),
    NestedField(2, "v", STRING),
    NestedField(3, "s", StructType((NestedField(31, "a", LONG), NestedField(32, "b", STRING)))),
    NestedField(4, "l", ListType(NestedField(41, "element", StructType((NestedField(42, "a", LONG),)), required=False))),
    NestedField(5, "m", MapType(NestedField(51, "key", STRING, required=True), NestedField(52, "value", LONG))),
)
FLAT = Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", STRING))
GOOD = [
    rb'{"id": 1, "v": "caf\u00e9 \ud83d\ude00 \\ud800 \\\ud83d\ude00"}',
    '{"id": 2, "v": "caf\u00e9 \U0001f600 \ufffd", "s": {"a": 1, "b": "x"}, "m": {"k": 1, "K": 2}}'.encode(),
    rb"{'id': 3, 'v': 'single', 's': {'a': 1, 'b': '{}'}, 'l': [{'a': 1}, {'a': 2}]}",
]
BAD = {
    "latin-1": b'{"id": 9, "v": "caf\xe9"}',
    "latin-1 in a name": b'{"id": 9, "caf\xe9": "v"}',
    "a surrogate in bytes": b'{"id": 9, "v": "\xed\xa0\x80"}',
    "the first half of a pair": rb'{"id": 9, "v": "a\ud800"}',
    "the second half of a pair": rb'{"id": 9, "v": "\\ud83d\ude00"}',
    "two first halves": rb'{"id": 9, "v": "\ud83d\uD83D"}',
    "a name twice": b'{"id": 9, "v": "a", "v": "a"}',
    "a name twice, once NULL": b'{"id": 9, "v": "a", "v": null}',
    "a name twice in a struct": b'{"id": 9, "s": {"a": 1, "b": "x", "a": 2}}',
    "a name twice in a list": b'{"id": 9, "l": [{"a": 1}, {"a": 1, "a": 2}]}',
    "a key twice in a map": b'{"id": 9, "m": {"k": 1, "k": 2}}',
    "a name twice in single quotes": b"{'id': 9, 'v': 'a', 'v': 'b'}",
    "a name twice in a list, in single quotes": b"{'id': 9, 'l': [{'a': 1}, {'a': 1, 'a': 2}]}",
    "a key twice in a map, in single quotes": b"{'id': 9, 'm': {'k': 1, 'k': 2}}",
    "a name twice in an array of records": b"[{'id': 9}, {'id': 9, 'v': 'a', 'v': 'b'}]",
}


def diverted(place: Place) -> list[dict[str, Any]]:
    files = sorted(p for p in (place.folder / "quarantine").rglob("*") if p.is_file())
    return [json.loads(line) for p in files for line in p.read_text().splitlines()]


def to_quarantine(place: Place) -> dict[str, str]:
    return {"bad-records": "quarantine", "quarantine-path": str(place.folder / "quarantine")}


def test_json_whose_text_would_change_goes_to_the_quarantine_and_all_else_is_stored(place: Place) -> None:
    place.create("t", SCHEMA)
    (place.folder / "a.json").write_bytes(b"\n".join([*GOOD, *BAD.values()]) + b"\n")
    source = Source(format="json", paths=[str(place.folder / "a.json")])
    place.run("append", "t", source=source, options=to_quarantine(place))
    rows = place.rows("t")
    assert [r["id"] for r in rows] == [1, 2, 3]
    assert [r["v"] for r in rows] == ["caf\u00e9 \U0001f600 \\ud800 \\\U0001f600", "caf\u00e9 \U0001f600 \ufffd", "single"]
    found = diverted(place)
    known = sorted(line.decode(errors="replace").replace("\ufffd", "") for line in BAD.values())
    assert sorted(r["record"].replace("\ufffd", "") for r in found) == known
    assert {Path(r["file"]).name for r in found} == {"a.json"}


@pytest.mark.parametrize("form", ["csv", "json"])
def test_text_in_another_encoding_fails_by_file_whatever_reads_it(place: Place, form: str) -> None:
    place.create("t", FLAT)
    place.fill("t", pa.table({"id": [7], "v": ["old"]}))
    file = place.folder / f"a.{form}"
    file.write_bytes(b'{"id":1,"v":"caf\xe9"}\n' if form == "json" else b"id,v\n1,caf\xe9\n")
    options = {"header": "true"} if form == "csv" else {}
    source = Source(format=form, paths=[str(file)], options=options)  # type: ignore[arg-type]
    for job in ("append", "overwrite"):
        with pytest.raises(DataError, match=rf"a\.{form}: is not text in the source's encoding \(utf-8\)"):
            place.run(job, "t", source=source)
    update = [MergeClause(when="not-matched", action="insert", assignments={"id": "bigint(source.id)", "v": "source.v"})]
    with pytest.raises(DataError, match=rf"a\.{form}: is not text in the source's encoding"):
        place.merge("t", source, "target.id = bigint(source.id)", update, "merge-on-read")
    assert [r["v"] for r in place.rows("t")] == ["old"]
    told = Source(format=form, paths=[str(file)], options={**options, "encoding": "ISO-8859-1"})  # type: ignore[arg-type]
    place.run("append", "t", source=told)
    assert [r["v"] for r in place.rows("t")] == ["caf\u00e9", "old"]


def test_only_the_records_of_csv_that_are_not_utf8_go_to_the_quarantine(place: Place) -> None:
    place.create("t", FLAT)
    (place.folder / "a.csv").write_bytes("id,v\n1,caf\u00e9\n".encode() + b"2,caf\xe9\n3,c\n")
    (place.folder / "b.csv").write_bytes("id,v\n4,\ufffd\n".encode())
    source = Source(format="csv", paths=[str(place.folder / "a.csv")], options={"header": "true"})
    place.run("append", "t", source=source, options=to_quarantine(place))
    assert [(r["id"], r["v"]) for r in place.rows("t")] == [(1, "caf\u00e9"), (3, "c")]
    assert [(r["record"], r["reason"]) for r in diverted(place)] == [
        ("2,caf\ufffd", "is not text in the source's encoding (utf-8)")
    ]
    place.run("append", "t", source=Source(format="csv", paths=[str(place.folder / "b.csv")], options={"header": "true"}))
    assert (4, "\ufffd") in [(r["id"], r["v"]) for r in place.rows("t")]


@pytest.mark.parametrize("separator", ["\t", "\\t"])
def test_a_tab_is_one_separator_however_it_is_written(place: Place, separator: str) -> None:
    place.create("t", FLAT)
    source = Source(format="csv", paths=[str(place.folder / "a.tsv")], options={"header": "true", "sep": separator})
    (place.folder / "a.tsv").write_text('id\tv\n"1"\t"a b"\n')
    place.run("append", "t", source=source)
    assert place.rows("t") == [{"id": 1, "v": "a b"}]
    (place.folder / "a.tsv").write_text('id\tv\n1\t"unclosed\n')
    with pytest.raises(DataError, match="quotes do not pair up"):
        place.run("append", "t", source=source)


def test_a_separator_that_spark_does_not_take_is_refused_by_its_option(place: Place) -> None:
    place.create("t", FLAT)
    (place.folder / "a.csv").write_text("id,v\n1,a\n")
    for separator in ("\\", "\\q", ""):
        with pytest.raises(OptionError, match="source option sep"):
            place.run("append", "t", source=Source(format="csv", paths=[str(place.folder / "a.csv")], options={"sep": separator}))


def test_a_bad_record_of_several_lines_is_said_on_one(place: Place) -> None:
    place.create("t", FLAT)
    (place.folder / "a.json").write_text('{"id": "no number",\n "v": "a"}')
    source = Source(format="json", paths=[str(place.folder / "a.json")], options={"multiLine": "true"})
    with pytest.raises(DataError, match=r"column 'id': 'no number' is not a valid long: \{"):
        place.run("append", "t", source=source)
    report = place.run("append", "t", source=source, options=to_quarantine(place))
    assert [f.reason for f in report.failures if "\n" in f.reason] == []
    assert len(report.failures) == 1
