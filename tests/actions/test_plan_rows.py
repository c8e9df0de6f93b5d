"""The dry run of a row operation counts files, reads and writes nothing, and refuses an invalid statement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.config.job_spec import JobSpec, MergeClause, RowChange, Source
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import DataError, IcebergOpsError, NoSuchSnapshotError, OptionError, UnsupportedError, WhereError
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.actions.rows_place import RowsPlace

SCHEMA = Schema.of(NestedField(1, "id", LONG, required=True), NestedField(2, "city", STRING))
BY_CITY = PartitionSpec(1, (PartitionField((2,), 1000, IDENTITY, "city"),))
ARROW = pa.schema([("id", pa.int64()), ("city", pa.string())])
UPDATE = MergeClause(when="matched", action="update")


@pytest.fixture
def place(tmp_path: Path) -> RowsPlace:
    """Oslo has ids 0 to 2 and 10 to 12 in a file each, Rome 0 to 2."""
    found = RowsPlace.at(tmp_path)
    found.create(SCHEMA, BY_CITY)
    for first, city in ((0, "Oslo"), (10, "Oslo"), (0, "Rome")):
        found.run("append", source=found.source([{"id": first + i, "city": city} for i in range(3)], ARROW))
    return found


def planned(place: RowsPlace, job: str, **parts: Any) -> ActionReport:
    """The report of a dry run, after which everything on disk is unchanged."""
    before = {p: p.stat().st_mtime_ns for p in place.folder.rglob("*")}
    report = run_job(JobSpec(job=job, table="test.db.t", catalog=place.config, dry_run=True, **parts), catalog=place.catalog)
    assert {p: p.stat().st_mtime_ns for p in place.folder.rglob("*")} == before
    assert (report.dry_run, report.snapshot_ids) == (True, [])
    return report


def files_and_rows(report: ActionReport) -> tuple[int, int]:
    assert len(report.files) == report.metrics["planned-data-files-count"]
    return report.metrics["planned-data-files-count"], report.metrics["planned-records-count"]


@pytest.mark.parametrize("job", ["delete", "update"])
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("city = 'Rome'", (1, 3)),
        ("id > 5", (1, 3)),
        ("target.id = 1 AND city = 'Oslo'", (1, 3)),
        ("length(city) > 1", (3, 9)),
        ("id IN (SELECT 1)", (3, 9)),
        ("id > 99", (0, 0)),
    ],
)
def test_files_that_may_hold_matching_rows_are_counted(place: RowsPlace, job: str, where: str, expected: tuple[int, int]) -> None:
    change = RowChange(set={"city": "upper(city)"}) if job == "update" else None
    report = planned(place, job, where=where, change=change)
    assert files_and_rows(report) == expected
    assert report.status == ("planned" if expected[0] else "nothing-to-do")


@pytest.mark.parametrize(
    ("where", "values", "expected"),
    [
        ("length(city) > 1", None, 9),
        ("city = 'Rome' AND id + 1 > 2", None, 3),
        ("id < 99 AND city LIKE '%o%'", None, None),
        ("city = 'Rome'", {"id": "id + 1"}, 3),
        ("city = 'Rome'", {"id": "7", "city": "DEFAULT"}, None),
        ("city = 'Rome'", {"city": "'a' 'b' c"}, None),
    ],
)
def test_rows_are_counted_from_which_something_is_computed(
    place: RowsPlace, where: str, values: dict[str, str] | None, expected: int | None
) -> None:
    report = planned(place, "update" if values else "delete", where=where, change=RowChange(set=values) if values else None)
    assert report.metrics.get("planned-computed-records-count") == expected


def test_a_delete_of_whole_files_is_known_to_be_one_of_metadata(place: RowsPlace) -> None:
    assert planned(place, "delete", where="city = 'Rome'").metrics["metadata-only"] == 1
    assert "metadata-only" not in planned(place, "delete", where="city = 'Rome' AND id = 1").metrics
    place.run("delete", where="city = 'Rome' AND id = 1", change=RowChange(mode="merge-on-read"))
    assert planned(place, "delete", where="id < 5").metrics["planned-delete-files-count"] == 1


def test_a_merge_may_touch_every_file_and_an_overwrite_what_its_filter_selects(place: RowsPlace) -> None:
    source = place.source([{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Oslo"}], ARROW)
    size = Path(source.paths[0]).stat().st_size
    merge = planned(place, "merge", source=source, change=RowChange(on="target.id = source.id", clauses=[UPDATE]))
    assert files_and_rows(merge) == (3, 9)
    assert merge.metrics["planned-source-bytes-count"] == size
    assert files_and_rows(planned(place, "overwrite", source=source, where="city = 'Oslo'")) == (2, 6)
    dynamic = planned(place, "overwrite", source=source)
    assert (dynamic.status, dynamic.metrics) == ("planned", {"planned-source-files-count": 1, "planned-source-bytes-count": size})
    assert planned(place, "append", source=source).metrics == dynamic.metrics


def test_sources_of_every_kind_are_planned(place: RowsPlace) -> None:
    place.create(SCHEMA, name="other")
    place.run("append", name="other", source=place.source([{"id": 1, "city": "Oslo"}], ARROW))
    table = planned(place, "append", source=Source(format="table", table="test.db.other"))
    assert table.metrics["planned-source-records-count"] == 1
    folder = place.folder / "landing" / "city=Oslo"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), folder / "a.parquet")
    (folder / "b.csv").write_text("1\n")
    for format_ in ("parquet", "csv", "json"):
        found = planned(place, "append", source=Source(format=format_, paths=[str(folder.parent)]))
        assert found.metrics["planned-source-files-count"] == 2
    for source in (
        Source(format="sql", query="SELECT 1L AS id, 'x' AS city"),
        Source(format="parquet", paths=[f"{folder}/*.parquet"]),
        Source(format="parquet", paths=["s3://lake-[12]/in", "hdfs://[::1]:8020/in", "s3://[a/in"]),
        Source(format="parquet", paths=["hdfs://somewhere/rows"]),
    ):
        report = planned(place, "append", source=source)
        assert (report.status, report.metrics) == ("planned", {})


def test_an_upsert_is_planned_by_its_keys(place: RowsPlace) -> None:
    source = place.source([{"id": 1, "city": "Oslo"}], ARROW)
    assert planned(place, "upsert", source=source, options={"upsert-keys": "id,city"}).status == "planned"
    with pytest.raises(OptionError, match="which is not a key"):
        planned(place, "upsert", source=source, options={"upsert-keys": "id"})


MERGE = RowChange(on="target.id = source.id", clauses=[UPDATE])


def _of_text(**options: str) -> Source:
    return Source(format="csv", paths=["/nowhere/a.csv"], options=options)


WRONG: dict[str, tuple[str, dict[str, Any], type[IcebergOpsError], str]] = {
    "a reader option of text": ("append", {"source": _of_text(headers="true")}, OptionError, "source option 'headers'"),
    "a reader option's value": ("append", {"source": _of_text(header="1")}, OptionError, "header = '1': must be true or false"),
    "an unknown column": ("delete", {"where": "nope = 1"}, WhereError, "nope"),
    "no SQL": ("delete", {"where": "id = = 1"}, WhereError, "id = = 1"),
    "no SET": ("update", {"where": "id = 1"}, OptionError, "at least one SET"),
    "SET of an unknown column": ("update", {"change": RowChange(set={"nope": "1"})}, OptionError, "SET 'nope' is not a column"),
    "no source": ("append", {}, OptionError, "append needs a source"),
    "a source that is not there": ("append", {"source": Source(format="csv", paths=["/no/such"])}, DataError, "no such path"),
    "the target as a source": (
        "append",
        {"source": Source(format="table", table="test.db.t")},
        OptionError,
        "is the target table, which already has these rows",
    ),
    "no ON": ("merge", {"source": Source(format="sql", query="SELECT 1")}, OptionError, "needs an ON"),
    "a field it does not read": ("append", {"where": "id = 1"}, OptionError, "takes no where"),
    "an unknown option": ("delete", {"where": "true", "options": {"nope": "1"}}, OptionError, "nope"),
    "an unknown branch": ("delete", {"where": "true", "branch": "nope"}, NoSuchSnapshotError, "nope"),
}


@pytest.mark.parametrize(("job", "parts", "error", "says"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrongly_said_is_refused(
    place: RowsPlace, job: str, parts: dict[str, Any], error: type[IcebergOpsError], says: str
) -> None:
    with pytest.raises(error, match=says):
        planned(place, job, **parts)


def test_a_format_that_is_not_written_is_refused(place: RowsPlace) -> None:
    place.create(SCHEMA, name="orc", write_format_default="orc")
    job = JobSpec(job="update", table="test.db.orc", catalog=place.config, dry_run=True, change=RowChange(set={"id": "1"}))
    with pytest.raises(UnsupportedError, match="orc"):
        run_job(job, catalog=place.catalog)
