"""The code of an error comes from the exception, never from text in the data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs
from pyspark.errors import PythonException
from pyspark.errors.exceptions.base import PySparkException

from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, MergeClause, RowChange, Source
from iceberg_ops.errors import CorruptTableError, DataError, IcebergOpsError, OptionError, TerminalError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from spark_jobs import main
from spark_jobs.jobs.spark_errors import spark_error
from tests.spark.conftest import Place

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("call_sites")]
JOB = JobSpec(job="append", table="test.db.t", catalog=CatalogConfig(name="test", type="memory"))
HEAD = "\n  An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
OWN = '  File "/x/iceberg_ops/data/writing/writer.py", line 1, in write\n    go()\n    ^^^^\n'
USERS = '  File "/home/me/functions.py", line 1, in f\n    go()\n'
CHAIN = "\nThe above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (HEAD + OWN + "iceberg_ops.errors.CorruptTableError: broken\n", CorruptTableError),
        (HEAD + OWN + "ValueError: x" + "\n" + CHAIN + OWN + "iceberg_ops.errors.DataError: y\n", DataError),
        (HEAD + OWN + "KeyError: 'x\niceberg_ops.errors.DataError: made up'\n", RuntimeError),
        (HEAD + OWN + "iceberg_ops.errors.annotations: made up\n", RuntimeError),
        (HEAD + USERS + "ValueError: a\niceberg_ops.errors.CommitStateUnknownError: made up\n", DataError),
    ],
)
def test_only_the_end_of_the_traceback_of_a_task_counts(text: str, kind: type[Exception]) -> None:
    found = spark_error(JOB, PythonException(message=text))
    assert type(found) is kind
    assert "made up" not in str(found) or kind is not DataError or isinstance(found, IcebergOpsError)


@pytest.mark.parametrize("name", ["CommitStateUnknownError", "Nope", "annotations", "RetryableError"])
def test_text_of_the_data_does_not_decide_the_code(place: Place, name: str) -> None:
    place.create("t", Schema.of(NestedField(1, "id", LONG)))
    query = f"SELECT cast(v AS bigint) id FROM VALUES ('x\\niceberg_ops.errors.{name}: made up') s(v)"
    with pytest.raises(DataError):
        place.run("append", "t", source=Source(format="sql", query=query))


def damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for i in range(8, len(data) // 2):
        data[i] ^= 0x5A
    path.write_bytes(data)


def test_a_damaged_file_of_the_table_is_not_bad_data(place: Place) -> None:
    place.create("t", Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", STRING)))
    place.fill("t", pa.table({"id": list(range(5000)), "v": [str(i * 7919) for i in range(5000)]}))
    (file,) = [f for f in place.files_on_disk("t") if f.startswith("data/")]
    damaged(Path(place.table("t").location.removeprefix("file://")) / file)
    with pytest.raises(CorruptTableError, match=r"\.parquet"):
        place.run("delete", "t", where="id % 2 = 0")
    with pytest.raises(CorruptTableError, match=r"\.parquet"):
        place.run("update", "t", where="id % 2 = 0", change=RowChange(set={"v": "'x'"}))


@pytest.mark.parametrize("job", ["delete", "update", "append"])
def test_a_file_of_the_table_with_a_name_that_is_no_utf_8_is_damaged(place: Place, job: str) -> None:
    place.create("t", Schema.of(NestedField(1, "id", LONG), NestedField(2, "vv", STRING)))
    place.fill("t", pa.table({"id": [1, 2], "vv": ["a", "b"]}))
    (file,) = [f for f in place.files_on_disk("t") if f.startswith("data/")]
    path = Path(place.table("t").location.removeprefix("file://")) / file
    path.write_bytes(path.read_bytes().replace(b"\x02vv", b"\x02v\xff"))
    parts: dict[str, dict[str, Any]] = {
        "delete": {"where": "id % 2 = 0"},
        "update": {"where": "id % 2 = 0", "change": RowChange(set={"vv": "'x'"})},
        "append": {"source": Source(format="sql", query="SELECT * FROM target")},
    }
    with pytest.raises(CorruptTableError, match=r"\.parquet .*utf-8"):
        place.run(job, "t", **parts[job])


def test_a_file_of_the_source_with_a_name_that_is_no_utf_8_is_bad_data(place: Place) -> None:
    place.create("t", Schema.of(NestedField(1, "id", LONG), NestedField(2, "vv", STRING)))
    (place.folder / "in").mkdir()
    for name in ("a", "b"):
        path = Path(place.parquet(pa.table({"id": [1, 2], "vv": ["a", "b"]}), f"in/{name}.parquet").paths[0])
    path.write_bytes(path.read_bytes().replace(b"\x02vv", b"\x02v\xff"))
    folder = str(place.folder / "in")
    clause = MergeClause(when="not-matched", action="insert", assignments={"id": "source.id"})
    one, merge = Source(format="parquet", paths=[str(path)]), RowChange(on="target.id = source.id", clauses=[clause])
    jobs: list[tuple[str, Source, dict[str, Any]]] = [
        ("append", Source(format="parquet", paths=[folder]), {}),
        ("append", Source(format="sql", query="SELECT id FROM s", views={"s": folder}), {}),
        ("append", Source(format="sql", query="SELECT id FROM s", views={"s": str(path)}), {}),
        ("append", one, {"options": {"merge-schema": "true"}}),
        ("merge", one, {"change": merge}),
    ]
    for job, source, parts in jobs:
        with pytest.raises(DataError, match=r"b\.parquet has a column whose name is not UTF-8"):
            place.run(job, "t", source=source, **parts)
    assert place.rows("t") == []


@pytest.mark.parametrize("options", [{"compression": "brotli"}, {"column_encoding": {"id": "BYTE_STREAM_SPLIT"}}])
def test_a_file_that_only_spark_does_not_read_is_not_damaged(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"id": [1, 2]}), path, use_dictionary=False, **options)
    text = f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file://{path}.  SQLSTATE: KD001"
    found = spark_error(JOB, PySparkException(message=text))
    assert type(found) is TerminalError
    assert re.search(r"f\.parquet, which is not damaged: .* --lane local", str(found))
    damaged(path)
    path.write_bytes(path.read_bytes()[:-1])
    assert type(spark_error(JOB, PySparkException(message=text))) is CorruptTableError


@pytest.mark.parametrize(
    "path", ["in/x.csv.gz", "./in", "in/", "in/*.gz", "sub/../in", "{folder}/in", "{folder}/sub/../in/x.csv.gz", "file:{folder}/in"]
)
def test_a_file_of_the_source_is_known_however_its_path_is_written(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative one counted as a damaged file of the table."""
    monkeypatch.chdir(tmp_path)
    job = structs.replace(JOB, source=Source(format="csv", paths=[path.format(folder=tmp_path)]))
    assert type(spark_error(job, unread(tmp_path / "in" / "x.csv.gz"))) is DataError


@pytest.mark.parametrize("path", ["*.csv", "in/"])
def test_a_file_of_the_table_is_damaged_beside_a_source_by_a_relative_path(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "landing").mkdir()
    monkeypatch.chdir(tmp_path / "landing")
    job = structs.replace(JOB, source=Source(format="csv", paths=[path]))
    assert type(spark_error(job, unread(tmp_path / "warehouse" / "f.parquet"))) is CorruptTableError


def unread(path: Path) -> PySparkException:
    """What Spark says of a file that it could not read."""
    return PySparkException(
        message=f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file://{path}.  SQLSTATE: KD001"
    )


def test_a_damaged_file_of_the_source_is_bad_data(place: Place) -> None:
    place.create("t", Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", STRING)))
    place.parquet(pa.table({"id": list(range(5000)), "v": [str(i * 7919) for i in range(5000)]}), "damaged.parquet")
    damaged(place.folder / "damaged.parquet")
    for query, views in (
        ("SELECT * FROM s", {"s": f"{place.folder}/damaged.parquet"}),
        (f"SELECT * FROM parquet.`{place.folder}/damaged.parquet`", {}),
    ):
        with pytest.raises(DataError):
            place.run("append", "t", source=Source(format="sql", query=query, views=views))


@pytest.mark.parametrize("path", ["/tmp", "a\0b", "x" * 5000])
def test_a_job_spec_that_is_no_file_is_a_bad_option(path: str) -> None:
    with pytest.raises(OptionError, match="job spec"):
        main._job(path)
