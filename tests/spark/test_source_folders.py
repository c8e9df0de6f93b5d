"""Files in folders below a source's path: Spark reads them or the job fails; none is skipped silently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.config.job_spec import MergeClause, RowChange, Source
from iceberg_ops.errors import DataError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark
SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "k", STRING))
FORMS = ["parquet", "csv", "json"]
INTO: dict[str, dict[str, Any]] = {
    "append": {},
    "overwrite": {"where": "true"},
    "upsert": {"options": {"upsert-keys": "id"}},
    "merge": {
        "change": RowChange(
            mode="copy-on-write", on="target.id = source.id", clauses=[MergeClause(when="matched", action="delete")]
        )
    },
}


def laid(folder: Path, form: str, *ids: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for i in ids:
        if form == "parquet":
            pq.write_table(pa.table({"id": pa.array([i], pa.int64())}), folder / f"{i}.parquet")
        else:
            (folder / f"{i}.{form}").write_text(f"id\n{i}\n" if form == "csv" else f'{{"id": {i}}}\n')
    return folder


def source(form: str, *paths: Path, **options: str) -> Source:
    header = {"header": "true"} if form == "csv" else {}
    return Source(format=form, paths=[str(p) for p in paths], options=header | options)  # type: ignore[arg-type]


def ids(place: Place) -> list[tuple[int, str | None]]:
    return [(row["id"], row["k"]) for row in place.rows("t")]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("job", INTO)
@pytest.mark.parametrize("beside", [(), (2,)], ids=["nothing-beside", "a-file-beside"])
def test_a_file_in_a_plain_folder_is_never_left_out(place: Place, job: str, form: str, beside: tuple[int, ...]) -> None:
    place.create("t", SCHEMA)
    place.fill("t", pa.table({"id": [1], "k": ["old"]}))
    folder = laid(place.folder / "in", form, *beside)
    laid(folder / "2026" / "07", form, 3)
    with pytest.raises(DataError, match=rf"Spark would leave out 2026/07/3\.{form}"):
        place.run(job, "t", source=source(form, folder), **INTO[job])
    assert ids(place) == [(1, "old")]


@pytest.mark.parametrize("form", FORMS)
def test_the_files_of_all_folders_are_read_where_the_reader_is_told_so(place: Place, form: str) -> None:
    place.create("t", SCHEMA)
    folder = laid(place.folder / "in", form, 1)
    laid(folder / "sub", form, 2)
    place.run("append", "t", source=source(form, folder, recursiveFileLookup="true"))
    place.run("append", "t", source=source(form, folder, pathGlobFilter="1.*"))
    assert ids(place) == [(1, None), (1, None), (2, None)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("job", INTO)
def test_a_file_that_two_paths_lead_to_is_refused_by_name(place: Place, job: str, form: str) -> None:
    place.create("t", SCHEMA)
    folder = laid(place.folder / "in", form, 1, 2)
    (place.folder / "link").symlink_to(folder)
    for second in (folder, folder / f"2.{form}", place.folder / "link" / f"2.{form}"):
        with pytest.raises(DataError, match=rf"[12]\.{form} would be read twice"):
            place.run(job, "t", source=source(form, folder, second), **INTO[job])


@pytest.mark.parametrize("query", ["SELECT * FROM s", "SELECT id FROM parquet.`{path}`", "SELECT id FROM s WHERE id IN (TABLE s)"])
def test_a_file_that_a_link_leads_to_as_well_is_refused_in_a_query(place: Place, query: str) -> None:
    place.create("t", SCHEMA)
    folder = laid(place.folder / "in", "parquet", 1)
    given = Source(format="sql", query=query.format(path=folder), views={"s": str(folder)})
    place.run("append", "t", source=given)
    both = f"SELECT id FROM parquet.`{folder}` UNION ALL SELECT * FROM parquet.`{folder}`"
    place.run("append", "t", source=Source(format="sql", query=both))  # the text says so twice
    (folder / "link.parquet").symlink_to(folder / "1.parquet")
    with pytest.raises(DataError, match=r"\.parquet would be read twice"):
        place.run("append", "t", source=given)
    assert ids(place) == [(1, None)] * 3


@pytest.mark.parametrize("job", ["delete", "update", "merge"])
def test_a_file_that_a_link_leads_to_as_well_is_refused_in_a_subquery(place: Place, job: str) -> None:
    place.create("t", SCHEMA)
    folder = laid(place.folder / "in", "parquet", 1)
    place.run("append", "t", source=source("parquet", folder))
    counted = f"(SELECT count(*) FROM parquet.`{folder}`)"
    clause = MergeClause(when="matched", action="update", assignments={"k": counted})
    parts: dict[str, dict[str, Any]] = {
        "delete": {"where": f"id < {counted}"},
        "update": {"where": "id = 1", "change": RowChange(set={"k": counted})},
        "merge": {
            "source": Source(format="sql", query="SELECT 1L AS id"),
            "change": RowChange(on="target.id = source.id", clauses=[clause]),
        },
    }
    place.run(job, "t", **parts[job])
    before = ids(place)
    (folder / "link.parquet").symlink_to(folder / "1.parquet")
    with pytest.raises(DataError, match=r"\.parquet would be read twice"):
        place.run(job, "t", **parts[job])
    assert ids(place) == before


@pytest.mark.parametrize("form", FORMS)
def test_a_file_beside_folders_that_are_values_is_never_left_out(place: Place, form: str) -> None:
    place.create("t", SCHEMA)
    folder = laid(place.folder / "in", form, 1)
    laid(folder / "k=a" / "plain", form, 2)
    with pytest.raises(DataError, match=rf"Spark would leave out 1\.{form}"):
        place.run("append", "t", source=source(form, folder))
    with pytest.raises(DataError, match=rf"Spark would leave out 1\.{form}"):
        place.run("append", "t", source=source(form, folder / "k=a", folder / f"1.{form}", basePath=str(folder)))
    place.run("append", "t", source=source(form, folder / "k=a", basePath=f"file:{folder}"))
    (folder / f"1.{form}").unlink()
    place.run("append", "t", source=source(form, folder))
    assert ids(place) == [(2, "a"), (2, "a")]


@pytest.mark.parametrize("query", ["SELECT *, 'x' AS k FROM s", "SELECT *, 'x' AS k FROM parquet.`{path}`"])
def test_a_query_reads_all_files_of_a_folder_or_fails(place: Place, query: str) -> None:
    place.create("t", SCHEMA)
    folder = laid(place.folder / "in", "parquet", 1)
    views = {"s": str(folder)}
    given = Source(format="sql", query=query.format(path=folder), views=views)
    place.run("append", "t", source=given)
    laid(folder / "sub", "parquet", 2)
    with pytest.raises(DataError, match=r"Spark would leave out sub/2\.parquet"):
        place.run("append", "t", source=given)
    assert ids(place) == [(1, "x")]
