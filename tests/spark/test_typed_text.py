"""CSV and JSON are read with the table's types and by one rule of quoting, in every job and below folders of any name."""

from __future__ import annotations

import gzip
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.config.job_spec import MergeClause, RowChange, Source
from iceberg_ops.errors import DataError, OptionError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, DecimalType, NestedField
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark
SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", STRING), NestedField(3, "d", DecimalType(30, 5)))
LARGE = "1234567890123456789012.12345"
INTO: dict[str, dict[str, Any]] = {
    "append": {},
    "upsert": {"options": {"upsert-keys": "id"}},
    "merge": {
        "change": RowChange(
            mode="merge-on-read",
            on="target.id = source.id",
            clauses=[MergeClause(when="matched", action="update"), MergeClause(when="not-matched", action="insert")],
        )
    },
}


def text(place: Place, form: str, *lines: str, **options: str) -> Source:
    path = place.folder / f"a.{form}"
    path.write_text("".join(f"{line}\n" for line in lines))
    header = {"header": "true"} if form == "csv" else {}
    return Source(format=form, paths=[str(path)], options=header | options)  # type: ignore[arg-type]


GOOD = {
    "csv": ["id,v,d", f'1,"a ""b"", c",{LARGE}'],
    "json": [f'{{"id": 1, "v": "a \\"b\\", c", "d": {LARGE}}}'],
}
BAD = {
    "csv": {"a type": "x,y,1", "columns": "2,Doe, John,1", "digits": "2,y,1.234567"},
    "json": {
        "a type": '{"id": "x", "v": "y", "d": 1}',
        "two values": '{"id": 2, "v": "y", "d": 1} {"id": 3}',
        "a name twice": '{"id": 2, "v": "y", "v": "z"}',
        "digits": '{"id": 2, "d": 1.234567}',
    },
}
WHY = {
    "a type": "column 'id': 'x' is not a valid long",
    "columns": "has 4 fields, not 3",
    "two values": "is not JSON: Extra data at character 29",
    "a name twice": "name 'v' occurs twice in one object",
    "digits": r"column 'd': '1\.234567' is not a valid decimal\(30, 5\)",
}


@pytest.mark.parametrize("job", INTO)
@pytest.mark.parametrize("form", GOOD)
@pytest.mark.parametrize("options", [{}, {"mode": "DROPMALFORMED"}, {"mode": "failfast"}, {"mode": "PERMISSIVE"}], ids=str)
def test_text_has_the_types_of_the_table_in_every_job(place: Place, job: str, form: str, options: dict[str, str]) -> None:
    place.create("t", SCHEMA)
    report = place.run(job, "t", source=text(place, form, *GOOD[form], **options), **INTO[job])
    assert place.rows("t") == [{"id": 1, "v": 'a "b", c', "d": Decimal(LARGE)}]
    assert "staged-source-records" not in report.metrics


@pytest.mark.parametrize("job", INTO)
@pytest.mark.parametrize(("form", "bad"), [(form, bad) for form, lines in BAD.items() for bad in lines])
def test_a_bad_record_fails_every_job_by_its_record(place: Place, job: str, form: str, bad: str) -> None:
    place.create("t", SCHEMA)
    place.fill("t", pa.table({"id": [7], "v": ["old"]}))
    with pytest.raises(DataError, match=rf"source .*: {WHY[bad]}: "):
        place.run(job, "t", source=text(place, form, *GOOD[form], BAD[form][bad]), **INTO[job])
    assert [row["id"] for row in place.rows("t")] == [7]


@pytest.mark.parametrize("job", INTO)
@pytest.mark.parametrize("form", GOOD)
def test_the_mode_says_what_becomes_of_a_bad_record(place: Place, job: str, form: str) -> None:
    place.create("t", SCHEMA)
    lines = [*GOOD[form], *BAD[form].values()]
    place.run(job, "t", source=text(place, form, *lines, mode="DropMalformed"), **INTO[job])
    assert [row["id"] for row in place.rows("t")] == [1]
    for mode in ("FAILFAST", "permissive"):
        with pytest.raises(DataError, match="|".join(WHY.values())):  # which one comes first is Spark's choice
            place.run(job, "t", source=text(place, form, *lines, mode=mode), **INTO[job])
    with pytest.raises(OptionError, match="mode = 'whatever': must be PERMISSIVE, FAILFAST or DROPMALFORMED"):
        place.run(job, "t", source=text(place, form, *lines, mode="whatever"), **INTO[job])


@pytest.mark.parametrize("job", INTO)
def test_a_packed_file_is_no_file_of_bad_records(place: Place, job: str) -> None:
    place.create("t", SCHEMA)
    source = text(place, "json", *GOOD["json"], mode="DROPMALFORMED")
    for path in map(Path, source.paths):
        path.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(DataError, match="is packed by gzip"):
        place.run(job, "t", source=source, **INTO[job])


def test_a_line_with_too_many_fields_is_bad_also_where_a_column_is_not_stored(place: Place) -> None:
    place.create("t", SCHEMA)
    options = {"upsert-keys": "id", "source-only-columns": "op"}
    for line, fields in (("1,Doe, John,U", 4), ("1,Doe", 2)):
        with pytest.raises(DataError, match=f"has {fields} fields, not 3: {line}"):
            place.run("upsert", "t", source=text(place, "csv", "id,v,op", line), options=options)
    place.run("upsert", "t", source=text(place, "csv", "id,v,op", '1,"Doe, John",U'), options=options)
    assert [row["v"] for row in place.rows("t")] == ["Doe, John"]


def folder_called_value(place: Place, form: str, content: bytes) -> Source:
    folder: Path = place.folder / "in" / "value=x"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / f"a.{form}").write_bytes(content)
    return Source(format=form, paths=[str(folder.parent)], options={"header": "true"} if form == "csv" else {})  # type: ignore[arg-type]


def test_a_folder_may_have_the_name_that_spark_gives_a_line(place: Place) -> None:
    place.create("t", Schema.of(*SCHEMA.fields, NestedField(4, "value", STRING)))
    for content in (b"id,v\n1,a\xff\n", b'id,v\n1,"a"b\n'):
        with pytest.raises(DataError, match=r"is not text in the source's encoding|quotes do not pair up"):
            place.run("append", "t", source=folder_called_value(place, "csv", content))
    with pytest.raises(DataError, match="is not text in the source's encoding"):
        place.run("append", "t", source=folder_called_value(place, "json", b'{"id": 1, "v": "a\xff"}\n'))
    place.run("append", "t", source=folder_called_value(place, "csv", b"id,v\n1,a\n"))
    place.run("append", "t", source=folder_called_value(place, "json", b'{"id": 2, "v": "b"}\n'))
    assert [(row["id"], row["v"], row["value"]) for row in place.rows("t")] == [(1, "a", "x"), (2, "b", "x")]
